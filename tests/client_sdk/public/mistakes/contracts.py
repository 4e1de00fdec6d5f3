"""With contracts."""

from typing import Protocol

import client_sdk
from tests.client_sdk.public.mistakes.world import ECHO, service, unseen, wrong


class Orders(Protocol):
    """A contract."""

    async def create(self, item: str) -> int: ...


class TwoValues(Protocol):
    """None: two values."""

    async def create(self, item: str, pieces: int) -> int: ...


class Untyped(Protocol):
    """None: nobody knows what it gives."""

    async def create(self, item: str): ...  # type: ignore[no-untyped-def]  # the mistake


class NoProtocol:
    """None: a class like others."""

    async def create(self, item: str) -> int:
        return len(item)


class Empty:
    """Implements nothing."""


wrong("an object in place of a contract", lambda world: world.values.of(unseen(Empty()), ECHO))
wrong("a contract that is no Protocol", lambda world: world.values.of(NoProtocol, ECHO))
wrong("a method of two values", lambda world: world.values.of(unseen(TwoValues), ECHO))
wrong("a method without types", lambda world: world.values.of(unseen(Untyped), ECHO))
wrong("a contract without a codec", lambda world: world.client.of(unseen(Orders), ECHO))
wrong("a method's name with a slip", lambda world: unseen(world.values.of(unseen(Orders), ECHO)).crate("a book"))
wrong("the name of a service for `of`", lambda world: world.values.of(unseen(Orders), unseen("echo")))
wrong(
    "`timeout_s=` of a contract's method",
    lambda world: unseen(world.values.of(unseen(Orders), ECHO)).create("a book", timeout_s=3),
)
wrong(
    "`gather` of a method that was called",
    lambda world: client_sdk.gather(unseen(world.values.of(unseen(Orders), ECHO)).create("a book")),
)
wrong("a class in place of an object", lambda world: service().implement(unseen(Orders))(Empty))
wrong("an object without the method", lambda world: service().implement(unseen(Orders))(Empty()))
wrong("both in one call", lambda world: unseen(service()).implement(Orders, Empty()))

"""The answers to a gather: one by one as they come, or all of them.

Decides when there are enough. The words on the wire are `gather_answers`'s.
"""

import dataclasses
import warnings
from collections.abc import AsyncIterator, Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from client_sdk.addresses import Address, check_address
from client_sdk.errors import BadAnswer, DeadlineExceeded, NoHandler, TooLarge
from client_sdk.mistakes.attributes import missing_told
from client_sdk.mistakes.kinds import WHOLE, check_kind
from client_sdk.mistakes.operators import refused, warn_ended
from client_sdk.payload import Payload
from client_sdk.services.gather_answers import Answer, T, read_answer
from client_sdk.streams import Flow

MAX_ANSWERS: Final = 16_384  # in a list; beyond, TooLarge: whoever may get more reads them as they come
_HOW: Final = "write `await client.gather(...)`, or `async for` for one by one"
WINDOW_N: Final = 256  # answers that may be under way


@missing_told(_HOW)
class Gathering(AsyncIterator[Answer[T]]):
    """What services answered: `await` it for a list, or read it with `async for` as they come. Once.

    Which services are there, nobody knows beforehand: it ends when all that the broker asked have answered or left. At
    the deadline it ends, too, without an error: what is missing then is not there, and `is_complete` is False.

    >>> async for answer in client.gather(multicast("stock"), b"book", route="count", timeout_s=5):
    ...     print(answer.service, answer.value if answer.is_ok else answer.error)
    stock b'...'
    stock b'...'
    """

    def __init__(self, flow: Flow[Payload], enough_n: int | None, read: Callable[[Payload], T] | None = None) -> None:
        """`flow`: marked answers; `read` makes values of their data, or raises BadAnswer.

        ValueError for an `enough_n` below 1.
        """
        if enough_n is not None:
            check_kind("enough_n", enough_n, WHOLE)
        if enough_n is not None and enough_n < 1:
            raise ValueError(f"enough_n is {enough_n}, it must be 1 or more")
        self._flow: Final = flow
        flow._say_if_unread("gather", _HOW)
        self._read: Final = read  # None: they stay bytes
        self._missing_n = enough_n  # answers without an error until there are enough; None: all are wanted
        self._is_over = False  # the last answer was read
        self.is_complete = False  # all that were asked have answered, or have left

    def __await__(self) -> Generator[object, None, list[Answer[T]]]:
        return self._all().__await__()

    def __repr__(self) -> str:
        return f"<Gathering: {_HOW}>"

    def __aiter__(self) -> "Gathering[T]":
        if self._is_over:
            warn_ended("these answers have been read")
        return self

    if not TYPE_CHECKING:
        __iter__ = __getitem__ = __next__ = __enter__ = __exit__ = __aenter__ = __aexit__ = refused(
            f"answers are awaited: {_HOW}"
        )

    async def __anext__(self) -> Answer[T]:
        if self._missing_n == 0:
            self._is_over = True
            await self._flow.aclose()
            raise StopAsyncIteration
        try:
            answer = self._answer(await anext(self._flow))
        except StopAsyncIteration:
            self.is_complete = self._is_over = True
            raise
        except DeadlineExceeded:  # ours or the broker's, whose clock may be first
            self._is_over = True
            raise StopAsyncIteration from None
        if self._missing_n is not None and answer.is_ok:
            self._missing_n -= 1
        return answer

    async def aclose(self) -> None:
        """Ends it; services that still work on it get a CANCEL.

        >>> gathering = client.gather(multicast("stock"), b"book", route="count")
        >>> await gathering.aclose()
        """
        await self._flow.aclose()

    async def _all(self) -> list[Answer[T]]:
        answers: list[Answer[T]] = []
        async for answer in self:
            if len(answers) >= MAX_ANSWERS:
                await self.aclose()
                raise TooLarge(f"over {MAX_ANSWERS} answers; read them with async for as they come")
            answers.append(answer)
        if answers and all(isinstance(answer.error, NoHandler) for answer in answers):
            warnings.warn(f"no service has answered: {answers[0].error}", RuntimeWarning, stacklevel=2)
        return answers

    def _answer(self, item: Payload) -> Answer[T]:
        answer: Answer[Any] = read_answer(item)
        if self._read is None or not answer.is_ok:
            return answer
        try:
            return dataclasses.replace(answer, made=self._read(Payload(answer.data)))
        except BadAnswer as error:
            return dataclasses.replace(answer, error=error)


def check_asked(address: Address) -> None:
    """TypeError for what is no address; of one service it warns, as that may be meant: an Answer says who gave it."""
    check_address(address, "multicast")
    if address.routing == "multicast":
        return
    how = f"write multicast({repr(address.service) if address.service else '...'})"
    warnings.warn(f"gather asks one service only, {address!r} is no multicast: for all {how}", RuntimeWarning, 4)

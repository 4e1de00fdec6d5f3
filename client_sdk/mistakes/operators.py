"""Objects that are awaited, looped over or entered and cannot be, and clients that are never closed.

The methods are not for type checkers: these know that there are none.
"""

import functools
import logging
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar, cast

from client_sdk.clock import is_in_loop

F = TypeVar("F", bound=Callable[..., Any])
IN_LOOP: Final = (
    "client_sdk.sync blocks the event loop of this thread, maybe the broker's or the service's: use client_sdk.connect"
)
CLOSE_HOW: Final = "write `async with connect(...) as client:`, or end it with `await client.close()`"
_log: Final = logging.getLogger("client_sdk")


def refused(text: str) -> Callable[..., Any]:
    """A method, such as `__await__`, that raises a TypeError with this text."""

    def refuse(*_: object, **__: object) -> Never:
        raise TypeError(text)

    return refuse


one_by_one: Final = refused("the items of a channel come one by one: write `async for item in items:`")


class ReadOnly(dict[str, str | None]):
    """The tags of a service, as they are: what is changed in a copy of them would reach nobody."""

    if not TYPE_CHECKING:
        __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = refused(
            "tags are changed by `await service.set_tags({**service.tags, 'region': 'us'})`"
        )

    def __reduce__(self) -> tuple[type, tuple[dict[str, str | None]]]:
        return dict, (dict(self),)


def entered(text: str) -> Callable[[F], F]:
    """For a function that gives a context manager: entered in the wrong way, by `with` or `async with`, it says `text`.

    Python 3.14 proposes the other way by itself.
    """

    def decorated(function: F) -> F:
        kinds: dict[type, type] = {}  # of a context manager, the one that refuses; one entry

        @functools.wraps(function)
        def call(*given: object, **named: object) -> Any:
            context = function(*given, **named)
            kind = type(context)
            if kind not in kinds:
                other = ("__enter__", "__exit__") if hasattr(kind, "__aenter__") else ("__aenter__", "__aexit__")
                kinds[kind] = type(kind.__name__, (kind,), dict.fromkeys(other, refused(text)))
            context.__class__ = kinds[kind]
            return context

        return cast("F", call)

    return decorated


def warn_ended(what: str) -> None:
    """In `__aiter__`: a loop would see nothing, without an error."""
    text = "so this loop sees nothing: make the call again, or keep the items in a list"
    warnings.warn(f"{what}, {text}", RuntimeWarning, stacklevel=3)


def warn_unclosed(client: object) -> None:
    """Nobody holds it any more, and its connection is open. Python shows a ResourceWarning only with `-X dev`."""
    text = f"unclosed {client!r}: {CLOSE_HOW}"
    _log.warning("%s", text)
    warnings.warn(text, ResourceWarning, stacklevel=3, source=client)


def look_for_loop() -> None:
    """Before a call that blocks: `warn_in_loop`, unless the loop is a notebook's, where a cell may block."""
    if is_in_loop() and "ipykernel" not in sys.modules:
        warn_in_loop()


@functools.cache
def warn_in_loop() -> None:
    """Once."""
    text = (
        "a call of client_sdk.sync stops the event loop of its thread, with all its tasks: use client_sdk.connect, %s"
    )
    _log.warning(text, "and await the call; or await asyncio.to_thread(client.request_response, ...)")

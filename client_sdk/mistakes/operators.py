"""Objects that are awaited, looped over or entered and cannot be, and clients that are never closed.

The methods are not for type checkers: these know that there are none.
"""

import logging
import warnings
from collections.abc import Callable
from typing import Any, Final, Never

CLOSE_HOW: Final = "write `async with connect(...) as client:`, or end it with `await client.close()`"
_log: Final = logging.getLogger("client_sdk")


def refused(text: str) -> Callable[..., Any]:
    """A method, such as `__await__`, that raises a TypeError with this text."""

    def refuse(*_: object) -> Never:
        raise TypeError(text)

    return refuse


def warn_unclosed(client: object) -> None:
    """Nobody holds it any more, and its connection is open. Python shows a ResourceWarning only with `-X dev`."""
    text = f"unclosed {client!r}: {CLOSE_HOW}"
    _log.warning("%s", text)
    warnings.warn(text, ResourceWarning, stacklevel=3, source=client)

"""How large a payload may be, and what a caller is told when a handler fails. Knows nothing of streams.

The text of an exception is not for callers, it may hold anything: they get a number, and the log has the rest under it.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from client_sdk.errors import ApplicationError, BadRequest, ClientError, Refused
from client_sdk.mistakes.handlers import advice_of, raised_advice
from client_sdk.protocol.settings import MAX_PAYLOAD_BYTES
from rsocket_wire.errors import APPLICATION_ERROR, INVALID
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES

FRAME_OVERHEAD_BYTES: Final = 13  # header, initial credit, metadata length
CHECKED_BYTES: Final = 1024 * 1024  # data and metadata below it are never too large
MAX_TEXT_CHARACTERS: Final = 8192  # of an error; the rest of a longer one is cut
_OWN: Final = str(Path(__file__).parents[1])  # where the SDK is
_log: Final = logging.getLogger("client_sdk")


def check_size(data: bytes, metadata: bytes | None, is_whole: bool = False) -> None:
    """BadRequest "too-large" for more than is sent; `is_whole`: for what does not fit a frame and cannot be cut."""
    size_bytes = len(data) + (0 if metadata is None else len(metadata)) + FRAME_OVERHEAD_BYTES
    most_bytes = MAX_FRAME_BYTES if is_whole else MAX_PAYLOAD_BYTES
    if size_bytes > most_bytes:
        text = f"{size_bytes} bytes with metadata and header, at most {most_bytes} can be sent; send a stream of pieces"
        raise BadRequest(text, word="too-large")


def foreign_loop() -> RuntimeError:
    """What a call gets in an event loop that is not the client's."""
    mend = "connect() in each loop, or call asyncio.run_coroutine_threadsafe(..., its_loop), or use client_sdk.sync"
    text = "this client belongs to another event loop, of another thread or an earlier asyncio.run"
    return RuntimeError(f"{text}: {mend}")


def failure_of(error: BaseException, what: str) -> tuple[int, str]:
    """Code and text of the ERROR that a caller gets; what is not meant for callers stays in the log, with a number."""
    if isinstance(error, ApplicationError):
        word = "" if error.word == ApplicationError.default_word else f"{error.word}: "
        return error.code, (word + error.text)[:MAX_TEXT_CHARACTERS]
    if isinstance(error, Refused):
        return error.code, error.message[:MAX_TEXT_CHARACTERS]
    if isinstance(error, BadRequest) and error.word == "too-large":
        return INVALID, f"{error.word}: {error.text}"
    if not what:
        return APPLICATION_ERROR, "caller-failed: the caller's own items failed"
    incident = secrets.token_hex(4)
    advice = advice_of(error, isinstance(error, ClientError)) or raised_advice(error)
    _log.error("%s: the handler failed, incident %s%s", what, incident, advice, exc_info=error)
    return (
        APPLICATION_ERROR,
        f"handler-failed: incident {incident}; look for it in the log of the service",
    )


def places_of(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Where the program waits in these tasks, `create (/app/orders.py:12)`; empty where that cannot be seen."""
    return ", ".join(sorted({place for task in tasks if (place := _place_of(task.get_coro()))}))


def _place_of(waiting: Any) -> str:
    """The first function of a chain of coroutines that is not of the SDK."""
    while waiting is not None:
        code, frame = getattr(waiting, "cr_code", None), getattr(waiting, "cr_frame", None)
        if code is not None and frame is not None and not code.co_filename.startswith(_OWN):
            return f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"
        waiting = getattr(waiting, "cr_await", None)
    return ""

"""What fits into a frame, and what a caller is told when a handler fails. Knows nothing of streams.

The text of an exception is not for callers, it may hold anything: they get a number, and the log has the rest under it.
"""

import logging
import secrets
from typing import Final

from broker.errors import APPLICATION_ERROR, INVALID
from broker.rsocket import frames
from broker.rsocket.framing import MAX_FRAME_BYTES, FrameCursor
from broker.wire.ints import u32_at
from client_sdk.errors import ApplicationError, BadRequest, Refused

FRAME_OVERHEAD_BYTES: Final = 13  # header, initial credit, metadata length
MAX_TEXT_CHARACTERS: Final = 8192  # of an error; the rest of a longer one is cut
_log: Final = logging.getLogger("client_sdk")


def check_size(data: bytes, metadata: bytes | None) -> None:
    """BadRequest "too-large" for what no frame can hold; every interaction model has room for the same."""
    size_bytes = len(data) + (0 if metadata is None else len(metadata)) + FRAME_OVERHEAD_BYTES
    if size_bytes > MAX_FRAME_BYTES:
        text = f"{size_bytes} bytes with metadata and header, a frame holds {MAX_FRAME_BYTES}; send a stream of pieces"
        raise BadRequest(text, word="too-large")


def error_parts(frame: FrameCursor) -> tuple[int, str]:
    """(code, text) of an ERROR frame of at least 10 bytes; text that is not UTF-8 is shown with U+FFFD."""
    at = frame.start + frames.HEADER_BYTES
    return u32_at(frame.data, at), frame.data[at + 4 : frame.end].decode("utf-8", "replace")


def error_frame(stream_id: int, error: BaseException, what: str) -> bytes:
    """The ERROR that a caller gets; what is not meant for callers stays in the log, with the same number."""
    code, text = failure_of(error, what)
    return frames.encode_error(stream_id, code, text)


def failure_of(error: BaseException, what: str) -> tuple[int, str]:
    """(RSocket code, text) that a caller gets; `what` failed, empty for what the caller does itself."""
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
    _log.error("%s: the handler failed, incident %s", what, incident, exc_info=error)
    return APPLICATION_ERROR, f"handler-failed: incident {incident}; the log of the service has the reason"

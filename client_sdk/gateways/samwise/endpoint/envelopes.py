"""What stands in front of a request that comes by a ROUTER socket, and goes back in front of its answer.

    REQ           caller │ "" │ request …                the delimiter that a REQ socket writes and wants to see again
    DEALER        caller │ "" │ request …                one that imitates a REQ
    by a proxy    caller │ hop │ … │ "" │ request …      each ROUTER on the way put one in front
    DEALER        caller │ request …                     one that does not: it is answered in the same way

Decides where the request begins. A request has no mark of its own, but its first frame is a number and its second frame
is never empty, so that nothing that the protocol allows is taken for an envelope. Knows no sockets.
"""

from collections.abc import Sequence
from typing import Final

MAX_ENVELOPE_FRAMES: Final = 16  # caller, hops and delimiter; a longer one is taken for a request without delimiter
MAX_ID_BYTES: Final = 255  # of a hop, as ZeroMQ allows it
MAX_VERSION_DIGITS: Final = 10  # of a frame that may be the version of a request


def envelope_n(frames: Sequence[bytes]) -> int:
    """How many frames, the caller's included, are the envelope of this message."""
    if len(frames) > 1 and not frames[1]:
        return 2
    if len(frames) > 2 and frames[2] and _is_number(frames[1]):
        return 1
    for at, frame in enumerate(frames[1:MAX_ENVELOPE_FRAMES], 1):
        if not frame:
            return at + 1
    return 1


def _is_number(frame: bytes) -> bool:
    return len(frame) <= MAX_VERSION_DIGITS and frame.isdigit()

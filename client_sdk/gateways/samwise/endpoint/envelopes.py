"""What stands in front of a request, and goes back in front of its answer.

    REQ           "" │ request …                the delimiter that a REQ socket writes and wants to see again
    DEALER        "" │ request …                one that imitates a REQ
    by a proxy    hop │ … │ "" │ request …      each ROUTER on the way put one in front
    DEALER        request …                     one that does not: it is answered in the same way

Decides where the request begins. A request has no mark of its own, but its first frame is a number and its second frame
is never empty, so that nothing that the protocol allows is taken for an envelope. Knows no sockets.
"""

from collections.abc import Sequence
from typing import Final

MAX_ENVELOPE_FRAMES: Final = 15  # hops and delimiter; a longer one is taken for a request without delimiter
MAX_VERSION_DIGITS: Final = 10  # of a frame that may be the version of a request


def envelope_n(frames: Sequence[bytes]) -> int:
    """How many frames are the envelope of this message."""
    if frames and not frames[0]:
        return 1
    if len(frames) > 1 and frames[1] and _is_number(frames[0]):
        return 0
    for at, frame in enumerate(frames[:MAX_ENVELOPE_FRAMES]):
        if not frame:
            return at + 1
    return 0


def _is_number(frame: bytes) -> bool:
    return len(frame) <= MAX_VERSION_DIGITS and frame.isdigit()

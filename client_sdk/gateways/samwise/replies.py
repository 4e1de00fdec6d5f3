"""Answers of the Samwise protocol: a state and a text, to frames and back.

    0    state      "0" or "-1"
    1    message    behind "-1": why; behind "0" in 1.2 only: what was asked for, or nothing

"REPLY MESSAGES FROM SAMWISE" of 1.0. What the state means is decided by the gateway.
"""

from collections.abc import Sequence
from typing import Final

from client_sdk.gateways.samwise.frames import counted, shown
from client_sdk.gateways.samwise.layouts import VERSION_1_2
from client_sdk.gateways.samwise.values import Reply

OK: Final = b"0"
FAILED: Final = b"-1"


def reply_frames(reply: Reply, version: int) -> list[bytes]:
    """The frames of an answer to a request of this version, which is of no matter for a refusal.

    "If <state> is 0, no further frames are expected", but samctl aborts on a single one, so 1.2 has two. D-80
    """
    if not reply.is_ok:
        return [FAILED, text_frame(reply.text)]
    return [OK, text_frame(reply.text)] if version >= VERSION_1_2 else [OK]


def read_reply(frames: Sequence[bytes]) -> Reply:
    """What a gateway or samd has answered, whatever the version.

    "A client receiving a malformed message from samwise SHOULD assume that the request has failed."
    """
    state = frames[0] if frames else b""
    if (state == OK and len(frames) <= 2) or (state == FAILED and len(frames) == 2):
        return Reply(state == OK, frames[1].decode(errors="replace") if len(frames) == 2 else "")
    begin = f", state {shown(state)}" if frames else ""
    return Reply(False, f"malformed reply: {counted(len(frames))}{begin}")


def text_frame(text: str) -> bytes:
    """UTF-8; a NUL, behind which a program in C would not read on, and half of a pair of surrogates are marked."""
    return text.replace("\0", "\ufffd").encode(errors="replace")

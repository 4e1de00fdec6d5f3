"""Single frames of the Samwise protocol: numbers as decimal text, and texts. What a frame is for: `layouts`.

"All types correspond to the c types used by libzmq and czmq": an integer is what `%d` writes, a `char *` has no NUL.
"""

from collections.abc import Sequence
from typing import Final

from client_sdk.gateways.samwise.values import Refused
from rsocket_wire import quantities

MAX_TEXT_BYTES: Final = 255  # bytes of a short string of AMQP 0-9-1, whose length has 8 bits
MAX_NUMBER: Final = 2**31 - 1  # "All types correspond to the c types": the largest int
MAX_DIGITS: Final = len(str(MAX_NUMBER))  # characters that are looked at, however long a frame is
MAX_SHOWN_BYTES: Final = 40  # bytes of a frame that a refusal repeats


def find_number(frame: bytes) -> int | None:
    """The number that is written in plain decimal digits: no sign, no blank, no zero in front. None: it is none.

    atoi, with which samd reads, takes "120xyz" and " 120" for 120; `%d` never writes these. D-79
    """
    if len(frame) > MAX_DIGITS or not frame.isdigit() or (len(frame) > 1 and frame.startswith(b"0")):
        return None
    number = int(frame)
    return number if number <= MAX_NUMBER else None


def shown(frame: bytes) -> str:
    """A frame in a sentence: in quotes, what is not ASCII escaped, and not all of a long one."""
    if len(frame) <= MAX_SHOWN_BYTES:
        return repr(frame)[1:]
    return f"{repr(frame[:MAX_SHOWN_BYTES])[1:]}... of {len(frame)} bytes"


def read_text(frames: Sequence[bytes], at: int, name: str, malformed: str) -> str:
    """A `char *`: UTF-8 without NUL, as long as AMQP can say; may be empty. D-79"""
    frame = frames[at]
    if len(frame) > MAX_TEXT_BYTES:
        sentence = f"{malformed}: frame {at}, {name}, has {len(frame)} bytes, {MAX_TEXT_BYTES} are allowed"
        raise Refused(sentence, "text")
    try:
        text = frame.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"{malformed}: frame {at}, {name}, is no UTF-8 at byte {error.start}", "text") from None
    if "\0" in text:
        raise Refused(f"{malformed}: frame {at}, {name}, has a NUL at byte {frame.index(0)}", "text")
    return text


def encode_text(text: str) -> bytes:
    """The bytes of a text; Refused when UTF-8 has none for it. What else the gateway refuses it says itself."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Refused(f"{text[error.start]!r} cannot be written in UTF-8", "text") from None


def counted(count: int) -> str:
    """A number of frames in words."""
    return quantities.counted(count, "frame")

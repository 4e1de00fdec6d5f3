"""Frames on the pipe from the broker: cuts the byte stream into frames, reads the header and checks rows.

     0                   1                   2                   3
    +---------------------------------------------------------------+
    |  length of what follows, u32 big-endian                       |
    +---------------------------------------------------------------+
    |  MessagePack: the first frame a map (Header), every other     |
    |  an array of rows; a row is an array, its first item the      |
    |  record type, the others the fields of broker.events          |
    +---------------------------------------------------------------+

Requests name what they have in common by a flow number; a definition of the number comes before its first use, and a
number means the same as long as the broker runs. Knows no file and no clock. Rows are checked against the field tables
when they arrive, so that a bad frame is told at once and never spoils the segment of its neighbours.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from broker import events
from spark_sink.errors import BadFrame
from spark_sink.schema import pipe_type

MAX_FRAME_BYTES: Final = 64 << 20  # a length beyond it is garbage: the broker writes some hundred KiB at most

_SAFE_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.]*(-[0-9A-Za-z_.]+)*")  # becomes the beginning of a file name


def _row_type(name: str, tag: int, fields: Sequence[str]) -> Any:
    types = [(field, pipe_type(field, is_request=tag == events.REQUEST)) for field in fields]
    return msgspec.defstruct(name, types, array_like=True, tag=tag, forbid_unknown_fields=True, gc=False)


class Header(msgspec.Struct, frozen=True):
    """Who writes: the first frame."""

    broker_id: str
    broker_name: str
    epoch: int
    version: str = ""  # of the broker's software
    format: int = events.PIPE_FORMAT
    first_number: int = 1  # of the first segment, when an earlier writer of the same epoch has sealed some
    first_frame: int = 1  # number of the first frame of rows that comes; an earlier writer took those before it
    weight: int = 1  # N, where the broker writes one of N requests

    @property
    def stream(self) -> str:
        """What the names of its files begin with."""
        return f"{self.broker_id}-{self.epoch}"


# The type tag is the first item of the array: `row()` of broker.events, as a type that msgspec checks while it decodes.
FlowRow: Final[Any] = _row_type("FlowRow", events.FLOW, events.FLOW_FIELDS)
LifecycleRow: Final[Any] = _row_type("LifecycleRow", events.LIFECYCLE, events.LIFECYCLE_FIELDS)
MessageRow: Final[Any] = _row_type("MessageRow", events.MESSAGE, events.MESSAGE_FIELDS)
FileRow: Final[Any] = _row_type("FileRow", events.FILE, events.FILE_FIELDS)
RequestRow: Final[Any] = _row_type("RequestRow", events.REQUEST, events.REQUEST_FIELDS)
DefinitionRow: Final[Any] = _row_type("DefinitionRow", events.DEFINITION, events.DEFINITION_FIELDS)

_header_decoder: Final = msgspec.msgpack.Decoder(Header)
_rows_decoder: Final[Any] = msgspec.msgpack.Decoder(
    list[FlowRow | LifecycleRow | RequestRow | DefinitionRow | MessageRow | FileRow]
)


class FrameSplitter:
    """The stream of bytes in (`add`), whole frames without their length out (`pull`, until it gives None)."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def left_bytes(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._data)

    def add(self, data: bytes) -> None:
        """More bytes from the pipe."""
        self._data += data

    def pull(self) -> bytes | None:
        """The next whole frame; None: more bytes are needed. BadFrame: a length that no broker writes."""
        if len(self._data) < 4:
            return None
        frame_bytes = int.from_bytes(self._data[:4], "big")
        if not 0 < frame_bytes <= MAX_FRAME_BYTES:
            raise BadFrame(f"a frame says that it is {frame_bytes} bytes long; 1 to {MAX_FRAME_BYTES} are possible")
        if len(self._data) < 4 + frame_bytes:
            return None
        frame = bytes(self._data[4 : 4 + frame_bytes])
        del self._data[: 4 + frame_bytes]
        return frame


def decode_header(frame: bytes) -> Header:
    """The first frame. BadFrame: not a header, of another format, or with an id that can be no file name."""
    try:
        header = _header_decoder.decode(frame)
    except msgspec.MsgspecError as error:
        raise BadFrame(f"the first frame is no header: {error}") from error
    if header.format != events.PIPE_FORMAT:
        raise BadFrame(
            f"the broker writes frames of format {header.format}, this writer reads format {events.PIPE_FORMAT}"
        )
    if not _SAFE_ID.fullmatch(header.broker_id) or len(header.broker_id) > 100:
        raise BadFrame(f"the broker id {header.broker_id!r} cannot begin a file name")
    if not 0 <= header.epoch < 2**63 or header.first_number < 1:
        raise BadFrame(f"the header says epoch {header.epoch} and segment {header.first_number}: not possible")
    if header.first_frame < 1 or not 0 < header.weight < 2**63:
        raise BadFrame(f"the header says frame {header.first_frame} and weight {header.weight}: not possible")
    return header


def decode_rows(frame: bytes) -> list[Any]:
    """The rows of a frame, of the six types, in their order. BadFrame: says which row and field is bad."""
    try:
        rows: list[Any] = _rows_decoder.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadFrame(f"a frame of {len(frame)} bytes holds no rows: {error}") from error
    return rows

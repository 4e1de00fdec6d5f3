"""A frame as one line for people: its type, stream, flags and lengths, and the tags by which it is routed.

    < REQUEST_RESPONSE stream 5, metadata 61 B, data 5 B, ADDRESS service=orders region=eu
    > PAYLOAD stream 5 NEXT COMPLETE, data 12 B

Shows no payload: neither data nor metadata but for ADDRESS and ROUTE_SETUP, no token, no text of an error. `<` is
received, `>` is sent.
"""

from collections.abc import Iterator
from typing import Final

from broker.log import one_line
from rsocket_wire import errors
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.metadata import broker_frames
from rsocket_wire.wire.frames import KIND_NAMES, MIME_TYPES, Address, BrokerFrame, RouteSetup, decode_frame
from rsocket_wire.wire.tags import Tag

RECEIVED: Final = "<"
SENT: Final = ">"
TAGS_SHOWN: Final = 8  # of one map
TEXT_CHARS: Final = 60  # characters of a tag, a name or a mime type
LINE_CHARS: Final = 600  # characters of all

ERROR_NAMES: Final = {
    errors.INVALID_SETUP: "INVALID_SETUP",
    errors.UNSUPPORTED_SETUP: "UNSUPPORTED_SETUP",
    errors.REJECTED_SETUP: "REJECTED_SETUP",
    errors.REJECTED_RESUME: "REJECTED_RESUME",
    errors.CONNECTION_ERROR: "CONNECTION_ERROR",
    errors.CONNECTION_CLOSE: "CONNECTION_CLOSE",
    errors.APPLICATION_ERROR: "APPLICATION_ERROR",
    errors.REJECTED: "REJECTED",
    errors.CANCELED: "CANCELED",
    errors.INVALID: "INVALID",
}
REQUESTS: Final = (frames.REQUEST_RESPONSE, frames.REQUEST_FNF, frames.REQUEST_STREAM, frames.REQUEST_CHANNEL)
_FLAGS: Final = {
    frames.SETUP: ((frames.RESUME_ENABLE, "RESUME"), (frames.LEASE_ENABLE, "LEASE")),
    frames.KEEPALIVE: ((frames.RESPOND, "RESPOND"),),
    **dict.fromkeys(
        (*REQUESTS, frames.PAYLOAD), ((frames.FOLLOWS, "FOLLOWS"), (frames.NEXT, "NEXT"), (frames.COMPLETE, "COMPLETE"))
    ),
}


class SeenFrame:
    """One frame that passed, and the broker frames in its metadata; `str()` is its line."""

    def __init__(self, direction: str, cursor: FrameCursor, metadata_mime: str) -> None:
        """`metadata_mime`: of the connection; a SETUP has its own."""
        self.direction = direction
        self.stream_id = cursor.stream_id
        self.kind = cursor.kind
        self.flags = cursor.flags
        self.raw = bytes(cursor.data[cursor.start : cursor.end])
        self.setup: frames.Setup | None = None  # of a SETUP that can be decoded
        if self.kind == frames.SETUP:
            try:
                self.setup = frames.decode_setup(self.raw, 0, len(self.raw), self.flags)
                metadata_mime = self.setup.metadata_mime
            except errors.BrokerError:
                pass  # shown by its length
        self.broker_frames = list(_broker_frames(self._metadata() or b"", metadata_mime))

    def __str__(self) -> str:
        line = f"{self.direction} {', '.join(self._parts())}"
        return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"

    def _metadata(self) -> bytes | None:
        """None when there is none, or it is not all there."""
        if self.setup is not None:
            return self.setup.metadata
        if self.kind == frames.METADATA_PUSH:
            return self.raw[frames.HEADER_BYTES :]
        if self.kind not in REQUESTS and self.kind != frames.PAYLOAD:
            return None
        start, to = self._place()
        return self.raw[start:to] if self.flags & frames.METADATA and start >= 0 else None

    def _place(self) -> tuple[int, int]:
        return frames.request_parts(self.raw, 0, len(self.raw), self.kind, self.flags)

    def _parts(self) -> Iterator[str]:
        name = frames.KIND_NAMES.get(self.kind, f"type {self.kind:#04x}")
        flags = "".join(f" {text}" for bit, text in _FLAGS.get(self.kind, ()) if self.flags & bit)
        ignore = " IGNORE" if self.flags & frames.IGNORE else ""
        yield f"{name} stream {self.stream_id}{flags}{ignore}"
        yield from self._fields()
        metadata = self._metadata()
        if metadata is not None:
            yield f"metadata {len(metadata)} B"
        yield f"data {self._data_bytes()} B" if self._data_bytes() >= 0 else f"{len(self.raw)} B"
        for each in self.broker_frames:
            yield _shown(each)

    def _fields(self) -> Iterator[str]:
        """What its header says behind the flags."""
        if self.setup is not None:
            setup = self.setup
            yield f"keepalive {setup.keepalive_ms} ms, lifetime {setup.lifetime_ms} ms"
            yield f"mime types {_short(setup.metadata_mime)} {_short(setup.data_mime)}"
        elif self.kind == frames.ERROR and len(self.raw) >= frames.HEADER_BYTES + 4:
            code = frames.error_code(self.raw, 0)
            yield ERROR_NAMES.get(code, f"code {code:#x}")
        elif len(self.raw) >= frames.HEADER_BYTES + 4 and (
            self.kind in (frames.REQUEST_STREAM, frames.REQUEST_CHANNEL, frames.REQUEST_N)
        ):
            yield f"n {frames.initial_n(self.raw, 0)}"
        elif self.kind == frames.LEASE and len(self.raw) >= frames.HEADER_BYTES + 8:
            ttl_ms, requests_n = frames.decode_lease(self.raw, 0, len(self.raw))
            yield f"{requests_n} requests within {ttl_ms} ms"

    def _data_bytes(self) -> int:
        """-1 where the frame has no data, or is not sound."""
        if self.setup is not None:
            return len(self.setup.data)
        if self.kind in REQUESTS or self.kind == frames.PAYLOAD:
            start, to = self._place()
            return len(self.raw) - to if start >= 0 else -1
        if self.kind == frames.ERROR:
            return max(-1, len(self.raw) - frames.HEADER_BYTES - 4)
        if self.kind == frames.KEEPALIVE:
            return max(-1, len(self.raw) - frames.HEADER_BYTES - 8)
        return -1


def _broker_frames(metadata: bytes, mime: str) -> Iterator[BrokerFrame]:
    """Those that can be decoded: of a request in fragments the first may hold a part."""
    places = [(0, len(metadata))] if mime in MIME_TYPES and metadata else broker_frames(metadata)
    for start, to in places:
        try:
            yield decode_frame(metadata[start:to])
        except errors.BrokerError:
            continue


def _shown(frame: BrokerFrame) -> str:
    """Its name; of what routes, with the tags."""
    name = KIND_NAMES[frame.kind]
    if isinstance(frame, Address):
        return f"{name}{_tags(frame.tags)}"
    if isinstance(frame, RouteSetup):
        return f"{name} {_short(frame.service_name)}{_tags(frame.tags)}"
    return name


def _tags(tags: list[Tag]) -> str:
    shown = "".join(f" {_short(repr(tag))}" for tag in tags[:TAGS_SHOWN])
    return shown if len(tags) <= TAGS_SHOWN else f"{shown} and {len(tags) - TAGS_SHOWN} more"


def _short(text: str) -> str:
    return one_line(text if len(text) <= TEXT_CHARS else f"{text[: TEXT_CHARS - 1]}…")

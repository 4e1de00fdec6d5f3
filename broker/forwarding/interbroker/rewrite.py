"""First frames with other metadata: how a request is annotated, passed on and stripped between brokers.

Knows the layout of request frames and nothing else. Everything behind the metadata stays as it is.
"""

from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES, FrameCursor


def rewritten(frame: FrameCursor, stream_id: int, metadata_to: int, metadata: bytes | None) -> bytes:
    """The frame with this stream id and metadata (None: none); `metadata_to`: where its own ends.

    Of a METADATA_PUSH all is metadata. The result may be longer than a frame can be, and then it says nothing true of
    the length of its metadata: whoever calls refuses it.
    """
    kind = frame.kind
    data = frame.data
    if kind == frames.METADATA_PUSH:
        return frames.encode_metadata_push(metadata if metadata is not None else b"")
    if metadata is None:
        head = (stream_id << 16) | (kind << 10) | (frame.flags & ~frames.METADATA)
        begin = frame.start + frames.HEADER_BYTES
        credit = data[begin : begin + 4] if kind >= frames.REQUEST_STREAM else b""
        return head.to_bytes(6, "big") + credit + data[metadata_to : frame.end]
    head = (stream_id << 16) | (kind << 10) | frame.flags | frames.METADATA
    if kind < frames.REQUEST_STREAM:
        return ((head << 24) | len(metadata)).to_bytes(9, "big") + metadata + data[metadata_to : frame.end]
    begin = frame.start + frames.HEADER_BYTES
    length = min(len(metadata), MAX_FRAME_BYTES).to_bytes(3, "big")
    return head.to_bytes(6, "big") + data[begin : begin + 4] + length + metadata + data[metadata_to : frame.end]


def is_streaming(frame: FrameCursor) -> bool:
    """More than one frame may belong to the request: it is to be passed on as it comes."""
    if frame.kind == frames.METADATA_PUSH:
        return False
    return frame.kind >= frames.REQUEST_STREAM or frame.flags & frames.FOLLOWS != 0

"""RSocket's well-known mime types (extension "Well-known MIME Types"): ids for the entries that we write."""

from typing import Final

from rsocket_wire.errors import BrokerError

MAX_MIME_BYTES: Final = 128  # 7 bits that say length - 1

WELL_KNOWN_MIMES: Final[dict[str, int]] = {
    "application/avro": 0x00,
    "application/cbor": 0x01,
    "application/graphql": 0x02,
    "application/gzip": 0x03,
    "application/javascript": 0x04,
    "application/json": 0x05,
    "application/octet-stream": 0x06,
    "application/pdf": 0x07,
    "application/vnd.apache.thrift.binary": 0x08,
    "application/vnd.google.protobuf": 0x09,
    "application/xml": 0x0A,
    "application/zip": 0x0B,
    "audio/aac": 0x0C,
    "audio/mp3": 0x0D,
    "audio/mp4": 0x0E,
    "audio/mpeg3": 0x0F,
    "audio/mpeg": 0x10,
    "audio/ogg": 0x11,
    "audio/opus": 0x12,
    "audio/vorbis": 0x13,
    "image/bmp": 0x14,
    "image/gif": 0x15,
    "image/heic-sequence": 0x16,
    "image/heic": 0x17,
    "image/heif-sequence": 0x18,
    "image/heif": 0x19,
    "image/jpeg": 0x1A,
    "image/png": 0x1B,
    "image/tiff": 0x1C,
    "multipart/mixed": 0x1D,
    "text/css": 0x1E,
    "text/csv": 0x1F,
    "text/html": 0x20,
    "text/plain": 0x21,
    "text/xml": 0x22,
    "video/H264": 0x23,
    "video/H265": 0x24,
    "video/VP8": 0x25,
    "application/x-hessian": 0x26,
    "application/x-java-object": 0x27,
    "application/cloudevents+json": 0x28,
    "application/x-capnp": 0x29,
    "application/x-flatbuffers": 0x2A,
    "message/x.rsocket.mime-type.v0": 0x7A,
    "message/x.rsocket.accept-mime-types.v0": 0x7B,
    "message/x.rsocket.authentication.v0": 0x7C,
    "message/x.rsocket.tracing-zipkin.v0": 0x7D,
    "message/x.rsocket.routing.v0": 0x7E,
    "message/x.rsocket.composite-metadata.v0": 0x7F,
}


def mime_id(mime: str) -> int:
    """The id of a well-known mime type, -1 for others."""
    return WELL_KNOWN_MIMES.get(mime, -1)


def encode_mime(mime: str) -> bytes:
    """A mime type as the stream data mime type extension writes it: |1| id (7) | or |0| length - 1 (7) | text.

    BrokerError "bad-setup" unless it has 1..128 characters of ASCII: a SETUP may say up to 255.
    """
    known = mime_id(mime)
    if known >= 0:
        return bytes([0x80 | known])
    if not mime or len(mime) > MAX_MIME_BYTES or not mime.isascii():
        text = f"data mime type {mime[:32]!r} has {len(mime)} characters, 1..{MAX_MIME_BYTES} of ASCII can be passed on"
        raise BrokerError("bad-setup", text)
    raw = mime.encode("ascii")
    return bytes([len(raw) - 1]) + raw

"""Well-known mime types."""

import pytest

from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.mimes import WELL_KNOWN_MIMES, encode_mime, mime_id

# The table of the extension "Well-known MIME Types", ids 0x00..0x2A without a gap, then 0x7A..0x7F.
FROM_0X00 = """
application/avro application/cbor application/graphql application/gzip application/javascript application/json
application/octet-stream application/pdf application/vnd.apache.thrift.binary application/vnd.google.protobuf
application/xml application/zip audio/aac audio/mp3 audio/mp4 audio/mpeg3 audio/mpeg audio/ogg audio/opus audio/vorbis
image/bmp image/gif image/heic-sequence image/heic image/heif-sequence image/heif image/jpeg image/png image/tiff
multipart/mixed text/css text/csv text/html text/plain text/xml video/H264 video/H265 video/VP8 application/x-hessian
application/x-java-object application/cloudevents+json application/x-capnp application/x-flatbuffers
"""
FROM_0X7A = """
message/x.rsocket.mime-type.v0 message/x.rsocket.accept-mime-types.v0 message/x.rsocket.authentication.v0
message/x.rsocket.tracing-zipkin.v0 message/x.rsocket.routing.v0 message/x.rsocket.composite-metadata.v0
"""


def test_table_is_that_of_the_extension() -> None:
    table = dict(zip(FROM_0X00.split(), range(0x00, 0x2B), strict=True))
    table.update(zip(FROM_0X7A.split(), range(0x7A, 0x80), strict=True))
    assert table == WELL_KNOWN_MIMES


def test_id_of_a_mime_type_that_is_not_well_known_is_absent() -> None:
    assert [mime_id("text/plain"), mime_id("application/avro"), mime_id("text/x-mine")] == [0x21, 0x00, -1]


def test_mime_type_is_written_as_the_extension_draws_it() -> None:
    assert encode_mime("text/plain") == b"\xa1"
    assert encode_mime("a/b") == b"\x02a/b"
    assert encode_mime("x" * 128) == b"\x7f" + b"x" * 128


@pytest.mark.parametrize("mime", ["", "x" * 129, "x" * 255, "tëxt/plain"])
def test_mime_type_that_cannot_be_written_is_refused_and_not_mangled(mime: str) -> None:
    with pytest.raises(BrokerError, match=f"bad-setup: data mime type .* has {len(mime)} characters"):
        encode_mime(mime)

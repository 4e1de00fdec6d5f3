"""spark_sink.feed.transports.amqp_messages: what RabbitMQ sends, for us and for aiormq."""

from collections.abc import Iterable

import pytest
from pamqp import frame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from spark_sink.feed.transports.amqp_messages import MAX_FRAME_BYTES, TELL_S, MessageReader

ALIVE = frame.marshal(Heartbeat(), 0)
ACK = frame.marshal(Basic.Ack(7), 1)


class Connection:
    """What has come over one."""

    def __init__(self, *pieces: bytes) -> None:
        self.now = 0.0
        self.messages: list[tuple[int, str, bytes]] = []
        self.reader = MessageReader(lambda _, *message: self.messages.append(message), lambda: self.now)
        for piece in pieces:
            self.reader.feed_data(piece)

    async def others(self) -> bytes:
        """All that aiormq gets."""
        self.reader.feed_eof()
        return await self.reader.read()


def message(number: int, routing_key: str, *parts: bytes) -> bytes:
    """With a frame for each part of its body, and a heartbeat before the last one."""
    properties = Basic.Properties(content_type="application/json", headers={"a": "b"})
    deliver = Basic.Deliver("consumer", number, False, "exchange", routing_key)
    header = ContentHeader(0, len(b"".join(parts)), properties)
    frames = [
        frame.marshal(deliver, 1),
        frame.marshal(header, 1),
        *(frame.marshal(ContentBody(each), 1) for each in parts),
    ]
    return b"".join((*frames[:-1], ALIVE, frames[-1]))


async def test_messages_are_taken_and_other_frames_left_wherever_they_are_parted() -> None:
    sent = b"".join((ACK, message(1, "v03.post.ä", b"one"), message(2, "v03.post", b"t", b"wo"), ACK, message(3, "")))
    for at in range(len(sent)):
        connection = Connection(sent[:at], sent[at:])
        assert connection.messages == [(1, "v03.post.ä", b"one"), (2, "v03.post", b"two"), (3, "", b"")]
        assert await connection.others() == ACK + ALIVE * 2 + ACK + ALIVE


async def test_aiormq_hears_that_the_connection_lives_while_messages_come() -> None:
    connection = Connection()
    part = message(1, "a", b"one").replace(ALIVE, b"")
    for connection.now in (0.0, TELL_S / 2, TELL_S * 2, TELL_S * 2.5, TELL_S * 4):
        connection.reader.feed_data(part)
    assert len(connection.messages) == 5
    assert await connection.others() == ALIVE * 2


@pytest.mark.parametrize("pieces", [(b"AMQP\0\0\x09\1", b" and more"), (ACK, b"HTTP/1.1 400 Bad Request")])
async def test_what_is_no_amqp_is_left_to_aiormq(pieces: Iterable[bytes]) -> None:
    assert await Connection(*pieces).others() == b"".join(pieces)


@pytest.mark.parametrize(
    "sent, why",
    [
        (b"\3\0\1" + (MAX_FRAME_BYTES + 1).to_bytes(4, "big") + b"\xce", f"a frame has {MAX_FRAME_BYTES + 1} bytes"),
        (b"\1\0\1\0\0\0\4" + bytes((0, 60, 0, 60)) + b"\xce", "requires a buffer"),
    ],
)
async def test_frames_that_cannot_be_end_the_connection(sent: bytes, why: str) -> None:
    with pytest.raises(ConnectionError, match=why):
        await Connection(sent, sent).reader.readexactly(1)

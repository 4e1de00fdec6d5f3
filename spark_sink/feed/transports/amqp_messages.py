"""Takes messages out of what RabbitMQ sends, and leaves all other frames of AMQP 0-9-1 (4.2.3) to aiormq.

    |type (1)|channel (2)|length (4)| content …                                                                |CE|
      1                               |class 60, method 60|consumer|number (8)|redelivered|exchange|routing key|
      2                               |class 60, weight|body bytes (8)|flags (2)| properties, which are not read
      3                               bytes of the body
      else, or of another method      aiormq's

By hand: aiormq reads each frame in three steps, decodes it into objects, puts it into a queue and makes a task of each
message. A quarter of the CPU of a mirrored small file went there.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from struct import Struct
from struct import error as StructError
from typing import Any, Final, SupportsIndex

from aiormq.connection import TransportFactory
from yarl import URL

MAX_FRAME_BYTES: Final = 1 << 20  # of one; RabbitMQ's longest has 128 KiB
TELL_S: Final = 1.0  # between two signs of life for aiormq, which sees no messages

_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_KINDS: Final = frozenset((_METHOD, _HEADER, _BODY, _HEARTBEAT))
_FRAME: Final = Struct(">BHL")
_AROUND: Final = _FRAME.size + 1  # bytes: before the content, and its end
_DELIVER: Final = bytes((0, 60, 0, 60))
_LONG_LONG: Final = Struct(">Q")
_ALIVE: Final = bytes((_HEARTBEAT, 0, 0, 0, 0, 0, 0, 0xCE))  # a frame

Take = Callable[["MessageReader", int, str, bytes], None]  # its connection, number, routing key and body


class MessageReader(asyncio.StreamReader):
    """Of one connection: what aiormq reads. Messages are told as soon as they are whole."""

    def __init__(self, take: Take, now: Callable[[], float]) -> None:
        """`take`: told of each message. `now`: seconds, monotonic."""
        super().__init__(loop=asyncio.get_running_loop())
        self._now: Final = now
        self._take: Final = take
        self._rest = b""  # a frame that is not whole
        self._is_amqp = True  # as far as anything has come
        self._told_at = now()  # when aiormq got a frame
        self._is_coming = False  # a message, of which the first frame is there
        self._number = 0  # its
        self._routing_key = ""  # its
        self._left_n: int | None = None  # bytes of its body that have not come; None: nor has its header
        self._body: list[bytes] = []  # what has come of that

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        """Called by the connection, with bytes."""
        assert isinstance(data, bytes)
        if not self._is_amqp:
            super().feed_data(data)
            return
        try:
            others = self._others(self._rest + data if self._rest else data)
        except (ConnectionError, IndexError, StructError) as error:
            self._is_amqp = False
            self.set_exception(ConnectionError(f"what comes is no AMQP 0-9-1: {error}"))
            return
        now = self._now()
        if others or now > self._told_at + TELL_S:
            self._told_at = now
            super().feed_data(others or _ALIVE)

    def _others(self, data: bytes) -> bytes:
        """The frames that belong to no message. ConnectionError, IndexError, StructError."""
        at, end = 0, len(data)
        others: list[bytes] = []
        while end - at >= _AROUND:
            kind, _, size = _FRAME.unpack_from(data, at)
            if kind not in _KINDS:  # aiormq says what is wrong
                self._is_amqp = False
                others.append(data[at:])
                at = end
                break
            if size > MAX_FRAME_BYTES:
                raise ConnectionError(f"a frame has {size} bytes, {MAX_FRAME_BYTES} are taken")
            behind = at + size + _AROUND
            if behind > end:
                break
            if not self._is_taken(kind, data, at + _FRAME.size, behind - 1):
                others.append(data[at:behind])
            at = behind
        self._rest = data[at:]
        return b"".join(others)

    def _is_taken(self, kind: int, data: bytes, at: int, end: int) -> bool:
        """Whether these bytes are a part of a message."""
        if kind == _METHOD:
            if data[at : at + 4] != _DELIVER:
                return False
            at += 5 + data[at + 4]  # the consumer, which there is one of
            (self._number,) = _LONG_LONG.unpack_from(data, at)
            at += 9
            at += 1 + data[at]  # the exchange
            self._routing_key = data[at + 1 : at + 1 + data[at]].decode("utf-8", "replace")
            self._is_coming, self._left_n = True, None
            return True
        if not self._is_coming or kind == _HEARTBEAT:
            return False
        if self._left_n is None:
            (self._left_n,) = _LONG_LONG.unpack_from(data, at + 4)
        else:
            self._body.append(data[at:end])
            self._left_n -= end - at
        if self._left_n <= 0:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._is_coming, self._left_n = False, None
            self._body.clear()
            self._take(self, self._number, self._routing_key, body)
        return True


class MessageTransport(TransportFactory):
    """Makes connections for aiormq."""

    def __init__(self, made: Callable[[MessageReader], None], take: Take, tls: ssl.SSLContext | None) -> None:
        """`made`: told of each connection. `take`: of each message. `tls`: None: without TLS."""
        self._made: Final = made
        self._take: Final = take
        self._tls: Final = tls

    async def create(self, url: URL, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects. OSError."""
        loop = asyncio.get_running_loop()
        reader = MessageReader(self._take, loop.time)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        where = url.host or "", url.port or 0
        transport, _protocol = await loop.create_connection(lambda: protocol, *where, ssl=self._tls)
        self._made(reader)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

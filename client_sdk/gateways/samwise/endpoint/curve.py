"""Endpoints with CURVE: a ROUTER socket of libzmq, which encrypts, and lets in whose keys are known.

A message is read frame by frame, and what is beyond the limits is dropped as it is read. libzmq gives a message only
when it is whole, and holds it until then: of frames there is no limit below ours but the memory, of bytes the longest
single frame, which ends the connection that sends it.

The socket is driven by its file descriptor: twice as fast as by the futures of pyzmq. It tells of changes only,
so whoever has read or sent must ask whether there is more.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import zmq
from zmq.auth import load_certificate

from client_sdk.gateways.samwise.endpoint.answering import MAX_ENVELOPE_BYTES, Answering
from client_sdk.gateways.samwise.endpoint.callers import Callers, has_come
from client_sdk.gateways.samwise.endpoint.envelopes import MAX_ENVELOPE_FRAMES
from client_sdk.gateways.samwise.endpoint.plain import HANDSHAKE_S, KEEPALIVE_S, LINGER_S, TURN_FRAMES
from client_sdk.gateways.samwise.endpoint.zmtp import Assembly
from client_sdk.gateways.samwise.requests import Rules
from rsocket_wire.errors import BrokerError

MAX_UNSENT: Final = 10_000  # answers of one caller that does not read them; the next are dropped
MAX_UNREAD: Final = 64  # messages of one caller that ZeroMQ reads ahead
_NOW: Final = int(zmq.NOBLOCK)  # as numbers: flags of pyzmq take longer to read than a frame
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_log: Final = logging.getLogger(__name__)


class CurveCallers:
    """All connections of these endpoints."""

    def __init__(
        self, answering: Answering, rules: Rules, room_n: Callable[[], int], key: Path, clients: Path | None
    ) -> None:
        """`room_n`: how many more connections there may be. `key`: of the gateway; BrokerError "bad-config". `clients`:
        directory of public keys; None: all that know the public key of the gateway."""
        self._answering: Final = answering
        self._loop: Final = asyncio.get_running_loop()
        self._context: Final = zmq.Context[zmq.Socket[bytes]]()
        self._callers: Final = Callers(self._context, room_n, clients)
        self._socket: Final = self._context.socket(zmq.ROUTER)
        self._send_frame: Final = super(zmq.Socket, self._socket).send  # without checks: an answer in 3 us, not in 13
        self._assembly: Final = Assembly(  # of the message that is just being read, the caller's name in front
            max_frames=rules.max_frames + MAX_ENVELOPE_FRAMES + 1,
            max_bytes=rules.max_message_bytes + MAX_ENVELOPE_BYTES,
            max_kept=MAX_ENVELOPE_FRAMES + 2,
        )
        self._again: asyncio.Handle | None = None  # None: nothing is known to be there to read
        self._is_open = False
        router = self._socket
        router.ROUTER_HANDOVER = 1  # a caller that comes again under its name is the one that is answered
        router.MAXMSGSIZE = rules.max_message_bytes
        router.SNDHWM, router.RCVHWM = MAX_UNSENT, MAX_UNREAD
        router.HANDSHAKE_IVL = int(HANDSHAKE_S * 1000)
        router.TCP_KEEPALIVE, router.TCP_KEEPALIVE_IDLE = 1, KEEPALIVE_S
        router.LINGER = int(LINGER_S * 1000)
        self._callers.watch(router)
        try:
            router.CURVE_PUBLICKEY, router.CURVE_SECRETKEY = load_certificate(key)
        except (OSError, ValueError, TypeError) as error:
            self.abandon()
            raise BrokerError("bad-config", f"{key}: {error}") from None
        router.CURVE_SERVER = 1

    @property
    def connected_n(self) -> int:
        """Open connections."""
        return self._callers.connected_n

    @property
    def refused_n(self) -> int:
        """Connections that were one too many."""
        return self._callers.refused_n

    def bind(self, endpoint: str) -> str:
        """Listens there; with the port as the system gave it. BrokerError "cannot-listen"."""
        self._socket.IPV6 = int("[" in endpoint)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise BrokerError("cannot-listen", f"{endpoint}: {zmq.strerror(error.errno or 0).lower()}") from None
        return self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def start(self) -> None:
        """Begins to read."""
        self._is_open = True
        self._loop.add_reader(self._socket.FD, self._read)
        self.read_on()

    async def close(self) -> None:
        """Ends all connections, when the last answers are out, or after LINGER_S."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket.FD)
        if self._again is not None:
            self._again.cancel()
        self._callers.close()
        self._socket.close()
        await asyncio.to_thread(self._context.term)

    def abandon(self) -> None:
        """Ends before it has started."""
        self._callers.close()
        self._socket.close()
        self._context.term()

    def send(self, frames: Sequence[bytes]) -> None:
        """To the caller whose name is the first frame. ZeroMQ drops what is for one that is gone."""
        try:
            for frame in frames[:-1]:
                self._send_frame(frame, _MORE)
            self._send_frame(frames[-1], _NOW)
        except zmq.ZMQError as error:
            _log.warning("samwise: an answer could not be sent: %s", error)
        self.read_on()  # sending may have hidden what came

    def read_on(self) -> None:
        """There may be something to read, and a place for it."""
        if self._again is None and self._is_open:
            self._again = self._loop.call_soon(self._read)

    def _read(self) -> None:
        """What is there, for one turn of the loop."""
        self._again = None
        router, assembly = self._socket, self._assembly
        left = TURN_FRAMES
        while left > 0:
            if not assembly.frames_n and not (self._answering.has_place(self) and has_come(router)):
                return
            left -= 1
            frame = router.recv(_NOW, copy=False)  # knows whether it is the last one
            assembly.add(frame.bytes, 0, len(frame))
            if not frame.more:
                message = assembly.take()
                caller = _CurveCaller(self, message.frames.pop(0))
                self._answering.take(caller, message._replace(frames_n=message.frames_n - 1))
        self.read_on()


class _CurveCaller:
    """Who has sent one message."""

    __slots__ = ("_callers", "key")

    def __init__(self, callers: CurveCallers, name: bytes) -> None:
        self.key: Final = name  # as ZeroMQ calls it
        self._callers: Final = callers

    def send(self, frames: Sequence[bytes]) -> None:
        """One answer."""
        self._callers.send([self.key, *frames])

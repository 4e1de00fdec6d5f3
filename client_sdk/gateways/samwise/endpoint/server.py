"""The ROUTER socket: requests of all callers come in, and each gets its answer, in the order of its caller's requests.

    frames ─► envelope, limits ─► read_request ─► Gateway.handle ─► reply_frames ─► envelope and answer

Decides what may wait: how many requests are on their way at the same time, and that the answer of a later request waits
for that of an earlier one of the same caller. What requests mean is decided by `requests`, what becomes of them by the
gateway. Section "GENERAL COMMUNICATION SEQUENCE": "It MUST reply to all client requests eventually".

A message is read frame by frame, and what is beyond the limits is dropped as it is read, so that a message of a million
frames holds nobody up for long. ZeroMQ gives a message only when it is whole, and holds it until then: of frames there
is no limit below ours but the memory, of bytes the longest single frame, which ends the connection that sends it.

The socket is driven by its file descriptor: twice as fast as by the futures of pyzmq. It tells of changes only,
so whoever has read or sent must ask whether there is more.
"""

import asyncio
import errno
import logging
import math
import os
import socket
import stat
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import zmq
from zmq.auth import load_certificate

from client_sdk.gateways.samwise.endpoint.callers import Callers, has_come
from client_sdk.gateways.samwise.endpoint.envelopes import MAX_ENVELOPE_FRAMES, MAX_ID_BYTES, envelope_n
from client_sdk.gateways.samwise.endpoint.rates import Rates
from client_sdk.gateways.samwise.replies import reply_frames
from client_sdk.gateways.samwise.requests import Rules, check_size, read_request
from client_sdk.gateways.samwise.values import TOO_LATE, Publish, Refused, Reply, Request, Rpc
from rsocket_wire.errors import BrokerError

MAX_WAITING: Final = 4096  # requests without an answer; then nothing more is read until one has it
MAX_WAITING_BYTES: Final = 64 << 20  # of them
STUCK_S: Final = 0.3  # without any answer; then reading goes on, and what would wait is refused: a status must not
TURN_FRAMES: Final = 4096  # read in one turn of the loop, 4 ms
MAX_UNSENT: Final = 10_000  # answers of one caller that does not read them; the next are dropped
MAX_UNREAD: Final = 64  # messages of one caller that ZeroMQ reads ahead
HANDSHAKE_S: Final = 5.0  # for a new connection to say who it is
KEEPALIVE_S: Final = 60  # of silence, after which the system asks whether a caller's host is there
LINGER_S: Final = 0.5  # for the last answers
STOP_S: Final = 5.0  # for requests on their way when the server stops
QUIET_S: Final = 0.05  # since the last answer, after which no caller is about to send its next request
REFUSING_S: Final = 1.0  # for callers to become quiet when the server stops, as they do who read that it stops

MAX_ENVELOPE_BYTES: Final = MAX_ENVELOPE_FRAMES * MAX_ID_BYTES
_NOW: Final = int(zmq.NOBLOCK)  # as numbers: flags of pyzmq take longer to read than a frame
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
INTERNAL: Final = Reply(False, "internal error")
_log: Final = logging.getLogger(__name__)


class Answers(Protocol):
    """What answers requests: the gateway."""

    async def handle(self, request: Request) -> Reply:
        """The answer, whatever happens."""

    def refuse(self, refused: Refused) -> Reply:
        """The answer to what was no request; it is counted."""


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Of one endpoint, or several that are one."""

    endpoints: tuple[str, ...]  # ipc:// and tcp://
    rules: Rules
    max_callers: int  # connections
    max_requests_per_s: int = 0  # 0: no limit
    max_requests_per_caller_per_s: int = 0
    curve_key: Path | None = None  # of tcp endpoints; None: they are not encrypted
    curve_clients: Path | None = None  # directory of public keys; None: all that know the public key of the gateway


class Server:
    """Has its endpoints from `bind`, and answers from `start`, to `close`."""

    def __init__(self, answers: Answers, settings: ServerSettings) -> None:
        self.endpoints: list[str] = []  # with ports as the system gave them
        self._answers: Final = answers
        self._settings: Final = settings
        self._rates: Final = Rates(settings.max_requests_per_s, settings.max_requests_per_caller_per_s)
        self._context: Final = zmq.Context[zmq.Socket[bytes]]()
        self._callers: Final = Callers(self._context, settings.max_callers, settings.curve_clients)
        self._socket: Final = self._context.socket(zmq.ROUTER)
        self._send_frame: Final = super(zmq.Socket, self._socket).send  # without checks: an answer in 3 us, not in 13
        self._loop: Final = asyncio.get_running_loop()
        self._again: asyncio.Handle | None = None  # None: nothing is known to be there to read
        self._is_open = False
        self._is_stopping = False  # every request is refused
        self._answered_at = -math.inf  # the last one, of the loop's time
        self._incoming = _Incoming(settings.rules)
        self._waiting: Final[dict[bytes, deque[_Waiting]]] = {}  # by caller, in the order of its requests
        self._waiting_n = 0
        self._waiting_bytes = 0
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._stuck: asyncio.TimerHandle | None = None  # None: reading goes on
        self._is_stuck = False  # nothing was answered for STUCK_S while all places were taken

    @property
    def connected_n(self) -> int:
        """Open connections of callers."""
        return self._callers.connected_n

    @property
    def refused_callers_n(self) -> int:
        """Connections that were not let in, because there were too many."""
        return self._callers.refused_n

    @property
    def waiting_n(self) -> int:
        """Requests that have no answer yet."""
        return self._waiting_n

    def bind(self) -> None:
        """Takes all endpoints: callers may connect, and wait. BrokerError "cannot-listen", and it has none."""
        router = self._socket
        router.ROUTER_HANDOVER = 1  # a caller that comes again under its name is the one that is answered
        router.MAXMSGSIZE = self._settings.rules.max_message_bytes
        router.SNDHWM, router.RCVHWM = MAX_UNSENT, MAX_UNREAD
        router.HANDSHAKE_IVL = int(HANDSHAKE_S * 1000)
        router.TCP_KEEPALIVE, router.TCP_KEEPALIVE_IDLE = 1, KEEPALIVE_S
        router.LINGER = int(LINGER_S * 1000)
        self._callers.watch(router)
        try:
            # What is set for a socket counts for the endpoints that are bound afterwards: files are not encrypted.
            for endpoint in sorted(self._settings.endpoints, key=_is_tcp):
                self._bind(endpoint)
        except BaseException:
            self._close_sockets()
            self._context.term()
            raise

    def start(self) -> None:
        """Begins to answer."""
        self._is_open = True
        self._loop.add_reader(self._socket.FD, self._read)
        self._read_soon()

    async def close(self) -> None:
        """Refuses what comes, answers what is on its way within STOP_S, and closes the socket when it is quiet: a REQ
        socket whose request has come in and gets no answer waits for one for ever."""
        if self._context.closed:
            return
        self._is_stopping = True
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=STOP_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        refusing_until = self._loop.time() + REFUSING_S
        while (now := self._loop.time()) < min(self._answered_at + QUIET_S, refusing_until):
            await asyncio.sleep(self._answered_at + QUIET_S - now)
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket.FD)
        for handle in (self._again, self._stuck):
            if handle is not None:
                handle.cancel()
        self._close_sockets()
        await asyncio.to_thread(self._context.term)  # waits until the last answers are out, LINGER_S at most

    def _close_sockets(self) -> None:
        for endpoint in self.endpoints:  # ZeroMQ leaves their files there
            if endpoint.startswith("ipc:///"):
                Path(endpoint.removeprefix("ipc://")).unlink(missing_ok=True)
        self._callers.close()
        self._socket.close()

    def _bind(self, endpoint: str) -> None:
        scheme, _, place = endpoint.partition("://")
        router = self._socket
        if scheme == "ipc":
            _check_path(endpoint, place)
        elif self._settings.curve_key is not None:
            try:
                router.CURVE_PUBLICKEY, router.CURVE_SECRETKEY = load_certificate(self._settings.curve_key)
            except (OSError, ValueError, TypeError) as error:
                raise BrokerError("bad-config", f"{self._settings.curve_key}: {error}") from None
            router.CURVE_SERVER = 1
        router.IPV6 = int("[" in place)
        try:
            router.bind(endpoint)
        except zmq.ZMQError as error:
            raise BrokerError("cannot-listen", f"{endpoint}: {zmq.strerror(error.errno or 0).lower()}") from None
        self.endpoints.append(router.getsockopt_string(zmq.LAST_ENDPOINT))

    def _read_soon(self) -> None:
        if self._again is None and self._is_open:
            self._again = self._loop.call_soon(self._read)

    def _read(self) -> None:
        """Reads what is there, for one turn of the loop."""
        self._again = None
        router, incoming = self._socket, self._incoming
        left = TURN_FRAMES
        while left > 0:
            if incoming.is_between and (self._must_wait() or not has_come(router)):
                return
            if incoming.is_cut:
                left -= incoming.drop(router, left)
            else:
                left -= 1
                frame = router.recv(_NOW, copy=False)  # knows whether it is the last one: 1.4 us instead of 1.8
                incoming.add(frame.bytes, has_more=frame.more)
            if incoming.is_between:
                self._take(incoming.take())
        self._read_soon()

    def _must_wait(self) -> bool:
        """All places are taken: nothing is read until one is free, unless none becomes free."""
        if not self._is_full():
            return False
        if self._is_stuck:
            return self._waiting_n >= 2 * MAX_WAITING  # refusals wait as well, behind what is stuck
        if self._stuck is None:
            self._stuck = self._loop.call_later(STUCK_S, self._get_stuck)
        return True

    def _is_full(self) -> bool:
        return self._waiting_n >= MAX_WAITING or self._waiting_bytes >= MAX_WAITING_BYTES

    def _get_stuck(self) -> None:
        self._stuck = None
        self._is_stuck = True
        self._read_soon()

    def _take(self, message: "_Message") -> None:
        frames = message.frames
        caller = frames[0]
        at = envelope_n(frames)
        waiting = _Waiting(frames[:at])
        try:
            if self._is_stopping:
                raise Refused(TOO_LATE, "stopping")
            if message.is_cut:  # it is over a limit by more than an envelope can be
                envelope_bytes = sum(min(len(frame), MAX_ID_BYTES) for frame in frames[:at])
                check_size(message.frames_n - at, message.size - envelope_bytes, self._settings.rules)
            if excess := self._rates.find_excess(caller, self._loop.time()):
                raise Refused(f"too many requests: {excess}", "limit")
            request = read_request(frames[at:], self._settings.rules)
            if self._is_stuck and self._is_full() and isinstance(request, Publish | Rpc):
                raise Refused(f"busy: {self._waiting_n} requests wait and none is answered", "limit")
        except Refused as refused:
            waiting.answer = reply_frames(self._answers.refuse(refused), 0)
        except Exception:  # nothing that a caller sends ends the reading
            _log.exception("samwise: a request could not be read, because of a bug in the gateway")
            waiting.answer = reply_frames(INTERNAL, 0)
        queue = self._waiting.get(caller)
        if waiting.answer is not None and queue is None:
            self._send(waiting)
            return
        if queue is None:
            queue = self._waiting[caller] = deque()
        queue.append(waiting)
        self._waiting_n += 1
        if waiting.answer is None:
            waiting.size = message.size
            self._waiting_bytes += waiting.size
            task = self._loop.create_task(self._answer(request, caller, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request, caller: bytes, waiting: "_Waiting") -> None:
        try:
            reply = await self._answers.handle(request)
        except asyncio.CancelledError:
            reply = Reply(False, TOO_LATE)
        except Exception:
            _log.exception("samwise: a request could not be answered, because of a bug in the gateway")
            reply = INTERNAL
        waiting.answer = reply_frames(reply, request.version)
        self._waiting_bytes -= waiting.size
        queue = self._waiting[caller]
        while queue and queue[0].answer is not None:
            self._send(queue.popleft())
            self._waiting_n -= 1
        if not queue:
            del self._waiting[caller]
        if not self._is_full():
            self._is_stuck = False
            if self._stuck is not None:
                self._stuck.cancel()
                self._stuck = None
        self._read_soon()  # there is a place, and sending may have hidden what came

    def _send(self, waiting: "_Waiting") -> None:
        """ZeroMQ drops what is for a caller that is gone, and what one does not read."""
        assert waiting.answer is not None
        self._answered_at = self._loop.time()
        try:
            frames = waiting.envelope + waiting.answer
            for frame in frames[:-1]:
                self._send_frame(frame, _MORE)
            self._send_frame(frames[-1], _NOW)
        except zmq.ZMQError as error:
            _log.warning("samwise: an answer could not be sent: %s", error)


class _Waiting:
    """One request that has no answer yet, or an answer that waits for that of an earlier request."""

    __slots__ = ("answer", "envelope", "size")

    def __init__(self, envelope: list[bytes]) -> None:
        self.envelope: Final = envelope
        self.answer: list[bytes] | None = None  # None: not yet
        self.size = 0  # bytes of the request


class _Incoming:
    """The message that is just being read."""

    def __init__(self, rules: Rules) -> None:
        self.is_between = True  # nothing of a message was read yet
        self._max_frames: Final = rules.max_frames
        self._max_bytes: Final = rules.max_message_bytes
        self._frames: list[bytes] = []
        self._frames_n = 0
        self._bytes = 0
        self._is_short = False  # a frame was not kept as it was
        self.is_cut = False  # it is over a limit, and no frame that comes is kept

    def add(self, frame: bytes, *, has_more: bool) -> None:
        """Takes one frame; `take` gives the message if this was the last one."""
        self._frames_n += 1
        self._bytes += len(frame)
        is_too_much = (
            self._frames_n > self._max_frames + MAX_ENVELOPE_FRAMES
            or self._bytes > self._max_bytes + MAX_ENVELOPE_BYTES
        )
        if not is_too_much:
            self._frames.append(frame)
        else:
            self.is_cut = self._frames_n >= MAX_ENVELOPE_FRAMES
            self._is_short = True
            if self._frames_n <= MAX_ENVELOPE_FRAMES:
                self._frames.append(frame[:MAX_ID_BYTES])  # of the request or a part of the envelope
        self.is_between = not has_more

    def drop(self, router: "zmq.Socket[bytes]", max_n: int) -> int:
        """Reads and forgets so many frames, fewer where the message ends; how many. This is all that a message of a
        million frames costs others: 1 us for each."""
        recv, n, has_more = router.recv, 0, True
        while has_more and n < max_n:
            frame = recv(_NOW, copy=False)
            n += 1
            self._bytes += len(frame)
            has_more = frame.more
        self._frames_n += n
        self.is_between = not has_more
        return n

    def take(self) -> "_Message":
        """The message, and nothing of it is left here."""
        message = _Message(self._frames, self._frames_n, self._bytes, self._is_short)
        self._frames, self._frames_n, self._bytes = [], 0, 0
        self._is_short = self.is_cut = False
        return message


class _Message(NamedTuple):
    """All frames, the caller's first; of one that is cut the first ones."""

    frames: list[bytes]
    frames_n: int  # that it had
    size: int  # bytes that they had
    is_cut: bool


def _is_tcp(endpoint: str) -> bool:
    return endpoint.startswith("tcp:")


def _check_path(endpoint: str, path: str) -> None:
    """BrokerError when somebody listens there, or what is there is no socket: ZeroMQ would take the place from it."""
    if path.startswith("@"):
        return  # no file
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise BrokerError("cannot-listen", f"{endpoint}: {os.strerror(errno.EEXIST).lower()}, and is no socket")
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(STUCK_S)
            caller.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return  # it is free, or the socket of a process that is gone
    except OSError as error:
        raise BrokerError("cannot-listen", f"{endpoint}: {os.strerror(error.errno or errno.EIO).lower()}") from None
    raise BrokerError("cannot-listen", f"{endpoint}: {os.strerror(errno.EADDRINUSE).lower()}")

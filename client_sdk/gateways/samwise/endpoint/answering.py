"""What becomes of the requests of all callers: each gets its answer, in the order of its caller's requests.

    message ─► envelope, limits ─► read_request ─► Answers.handle ─► reply_frames ─► envelope and answer

Decides what may wait: how many requests are on their way at the same time, and that the answer of a later request waits
for that of an earlier one of the same caller. What requests mean is decided by `requests`, what becomes of them by the
gateway. Section "GENERAL COMMUNICATION SEQUENCE": "It MUST reply to all client requests eventually". Knows no sockets.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from client_sdk.gateways.samwise.endpoint.envelopes import MAX_ENVELOPE_FRAMES, envelope_n
from client_sdk.gateways.samwise.endpoint.rates import Rates
from client_sdk.gateways.samwise.endpoint.zmtp import MAX_ID_BYTES, Message
from client_sdk.gateways.samwise.replies import reply_frames
from client_sdk.gateways.samwise.requests import RequestReader, Rules, check_size
from client_sdk.gateways.samwise.values import TOO_LATE, Publish, Refused, Reply, Request, Rpc

MAX_WAITING: Final = 4096  # requests without an answer; then nothing more is read until one has it
MAX_WAITING_BYTES: Final = 64 << 20  # of them
STUCK_S: Final = 0.3  # without any answer; then reading goes on, and what would wait is refused: a status must not
STOP_S: Final = 5.0  # for requests on their way when the gateway stops
QUIET_S: Final = 0.05  # since the last answer, after which no caller is about to send its next request
REFUSING_S: Final = 1.0  # for callers to become quiet when the gateway stops, as they do who read that it stops

MAX_ENVELOPE_BYTES: Final = MAX_ENVELOPE_FRAMES * MAX_ID_BYTES
INTERNAL: Final = Reply(False, "internal error")
_log: Final = logging.getLogger(__name__)


class Answers(Protocol):
    """What answers requests: the gateway."""

    def handle(self, request: Request, answer: Callable[[Reply], None]) -> None:
        """Calls `answer` once, whatever happens; at once perhaps."""

    def refuse(self, refused: Refused) -> Reply:
        """The answer to what was no request; it is counted."""


class Caller(Protocol):
    """One connection."""

    @property
    def key(self) -> bytes:
        """No other has it."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Writes one answer. Nothing, if the caller is gone."""


class Listener(Protocol):
    """What reads requests, of one caller or of several."""

    def read_on(self) -> None:
        """There is a place for a request again, which there was not when it asked last."""


class Answering:
    """The requests that have no answer yet."""

    def __init__(self, answers: Answers, rules: Rules, rates: Rates) -> None:
        self._answers: Final = answers
        self._rules: Final = rules
        self._requests: Final = RequestReader(rules)
        self._rates: Final = rates
        self._loop: Final = asyncio.get_running_loop()
        self._waiting: Final[dict[bytes, deque[_Waiting]]] = {}  # by caller and hop, in the order of its requests
        self._waiting_bytes = 0
        self._held_up: Final[dict[Listener, None]] = {}  # those that wait for a place, the first one first
        self._stuck: asyncio.TimerHandle | None = None  # None: reading goes on
        self._is_stuck = False  # nothing was answered for STUCK_S while all places were taken
        self._is_stopping = False  # every request is refused
        self._answered_at = 0.0  # the last one since it stops, of the loop's time
        self._emptied: asyncio.Future[None] | None = None  # while it stops: nothing waits any more
        self.waiting_n = 0  # requests that have no answer yet

    def has_place(self, listener: Listener) -> bool:
        """Whether `take` may be called; if not, the listener is told when."""
        if not self._is_full():
            return True
        if self._is_stuck and self.waiting_n < 2 * MAX_WAITING:  # refusals wait as well, behind what is stuck
            return True
        if self._stuck is None and not self._is_stuck:
            self._stuck = self._loop.call_later(STUCK_S, self._get_stuck)
        self._held_up[listener] = None
        return False

    def forget(self, listener: Listener) -> None:
        """It is gone: it waits for no place any more."""
        self._held_up.pop(listener, None)

    def take(self, caller: Caller, message: Message) -> None:
        """One message of this caller; it is answered, at once perhaps."""
        frames = message.frames
        at = envelope_n(frames)
        envelope = frames[:at]
        # Of a message that is cut no more than its envelope waits, whatever its size was said to be.
        waiting = _Waiting(caller, envelope, min(message.size, MAX_ENVELOPE_BYTES) if message.is_cut else message.size)
        refusal: Reply | None = None
        try:
            if self._is_stopping:
                raise Refused(TOO_LATE, "stopping")
            if message.is_cut:  # it is over a limit by more than an envelope can be
                envelope_bytes = sum(min(len(frame), MAX_ID_BYTES) for frame in envelope)
                check_size(message.frames_n - at, message.size - envelope_bytes, self._rules)
            if self._rates.are_limited and (excess := self._rates.find_excess(caller.key, self._loop.time())):
                raise Refused(f"too many requests: {excess}", "limit")
            request = self._requests.read(frames[at:])
            if self._is_stuck and self._is_full() and isinstance(request, Publish | Rpc):
                raise Refused(f"busy: {self.waiting_n} requests wait and none is answered", "limit")
        except Refused as refused:
            refusal = self._answers.refuse(refused)
        except Exception:  # nothing that a caller sends ends the reading
            _log.exception("samwise: a request could not be read, because of a bug in the gateway")
            refusal = INTERNAL
        queue = self._waiting.get(waiting.key)
        if queue is None:
            queue = self._waiting[waiting.key] = deque()
        queue.append(waiting)
        self.waiting_n += 1
        self._waiting_bytes += waiting.size
        if refusal is not None:
            self._answered(waiting, 0, refusal)
            return
        version = request.version
        try:
            self._answers.handle(request, lambda reply: self._answered(waiting, version, reply))
        except Exception:
            _log.exception("samwise: a request could not be answered, because of a bug in the gateway")
            self._answered(waiting, version, INTERNAL)

    async def stop(self) -> None:
        """Refuses what comes, and returns when what is on its way has its answer, after STOP_S at last, and callers are
        quiet: a REQ socket whose request has come in and gets no answer waits for one for ever."""
        self._is_stopping = True
        self._answered_at = self._loop.time()
        if self.waiting_n:
            self._emptied = self._loop.create_future()
            await asyncio.wait([self._emptied], timeout=STOP_S)
        for waiting in [each for queue in self._waiting.values() for each in queue]:
            self._answered(waiting, 0, Reply(False, TOO_LATE))
        refusing_until = self._loop.time() + REFUSING_S
        while (now := self._loop.time()) < min(self._answered_at + QUIET_S, refusing_until):
            await asyncio.sleep(self._answered_at + QUIET_S - now)
        if self._stuck is not None:
            self._stuck.cancel()

    def _is_full(self) -> bool:
        return self.waiting_n >= MAX_WAITING or self._waiting_bytes >= MAX_WAITING_BYTES

    def _get_stuck(self) -> None:
        self._stuck = None
        self._is_stuck = True
        self._let_read()

    def _let_read(self) -> None:
        held_up = list(self._held_up)
        self._held_up.clear()
        for listener in held_up:
            listener.read_on()

    def _answered(self, waiting: "_Waiting", version: int, reply: Reply) -> None:
        if waiting.answer is not None:
            return  # the gateway stops, and it came too late
        waiting.answer = reply_frames(reply, version)
        self._waiting_bytes -= waiting.size
        queue = self._waiting[waiting.key]
        while queue and (answer := queue[0].answer) is not None:
            first = queue.popleft()
            self.waiting_n -= 1
            first.caller.send(first.envelope + answer)
        if not queue:
            del self._waiting[waiting.key]
        if self._is_stopping:
            self._answered_at = self._loop.time()
        if not self._is_full():
            self._is_stuck = False
            if self._stuck is not None:
                self._stuck.cancel()
                self._stuck = None
            if self._held_up:
                self._let_read()
        if not self.waiting_n and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)


class _Waiting:
    """One request that has no answer yet, or an answer that waits for that of an earlier request."""

    __slots__ = ("answer", "caller", "envelope", "key", "size")

    def __init__(self, caller: Caller, envelope: list[bytes], size: int) -> None:
        self.caller: Final = caller
        self.envelope: Final = envelope
        self.key: Final = caller.key + envelope[0] if len(envelope) > 1 else caller.key  # callers behind a proxy
        self.answer: list[bytes] | None = None  # None: not yet
        self.size: Final = size  # bytes that wait

"""A request that went to another broker, and may have to go elsewhere: the table here was not up to date (D-50).

The broker that has the route refuses what it cannot deliver, and nobody has seen the request then. So its one frame is
kept until the first answer; if that is such a refusal, the request is decided upon once more, without that route.
"""

from typing import Final

from broker.forwarding.unicast import Splice, is_request_n
from broker.routing.health.loads import NEITHER
from broker.routing.targets import Target
from rsocket_wire.errors import REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.resumption import FRAME_COST

# What brokers say when a decision of another one does not hold (any more). With REJECTED nothing was processed.
STALE: Final[tuple[bytes, ...]] = (b"stale-route:", b"loop:", b"too-many-hops:")
AGAIN: Final[tuple[bytes, ...]] = (*STALE, b"no-lease:", b"draining:", b"over-limit:")
_TEXT_AT: Final = 10  # of an ERROR: behind header and code


class RetryableSplice(Splice):
    """A unicast or shard request on its way to another broker, kept for a second try until the first answer."""

    __slots__ = (
        "_cost_bytes",
        "_flags",
        "_kept",
        "_metadata_bytes",
        "_n",
        "_retries",
        "generation",
        "more_n",
        "target",
    )

    # From `keep` on, which follows the making at once.
    _kept: bytes  # the request from its metadata on, which is never empty; empty once an answer has come
    _metadata_bytes: int  # of that
    _flags: int
    _n: int  # its credit, if the model has one
    _cost_bytes: int  # as it counts for its caller
    _retries: "list[RetryableSplice]"
    generation: int  # of the table by which it was decided
    more_n: int  # credit of REQUEST_N frames that were passed on since
    target: Target

    def keep(
        self, frame: FrameCursor, rest: bytes, metadata_bytes: int, target: Target, retries: "list[RetryableSplice]"
    ) -> None:
        """Keeps this frame to be sent once more. `rest`: the frame from its metadata on.

        `retries`: of the engine, which decides once more upon those that are refused.
        """
        self.target = target
        self.generation = target.generation
        self.more_n = 0
        self._kept = rest
        self._metadata_bytes = metadata_bytes
        self._flags = frame.flags
        self._n = 0 if self.model == frames.REQUEST_RESPONSE else frames.initial_n(frame.data, frame.start)
        self._retries = retries
        cost_bytes = frame.end - frame.start + FRAME_COST
        self._cost_bytes = cost_bytes
        self.caller.waiting_bytes += cost_bytes
        self._passes_answers = False  # the first one comes to `answered`

    def from_caller(self, frame: FrameCursor) -> None:
        if len(self._kept):
            if frame.kind == frames.REQUEST_N:
                if is_request_n(frame) and not self.caller.is_congested:  # else it is held
                    self.more_n = min(self.more_n + frames.initial_n(frame.data, frame.start), frames.MAX_N)
            elif frame.kind == frames.PAYLOAD:
                self._let_go()  # the one frame is not all of it any more
        super().from_caller(frame)

    def answered(self) -> bool:
        if not len(self._kept):
            return False
        self._let_go()
        return True

    def is_retried(self, frame: FrameCursor) -> bool:
        if not len(self._kept) or not is_refused(frame, AGAIN):
            return False
        self._retries.append(self)
        return True

    def give_up(self, now: float) -> bytes:
        """Leaves both peers without a word, because the request goes elsewhere; the request. It is counted there."""
        kept = self._kept
        metadata = kept[: self._metadata_bytes] if self._flags & frames.METADATA else None
        data, flags = kept[self._metadata_bytes :], self._flags & ~frames.METADATA
        raw = frames.encode_request(self.model, self.caller_stream_id, data, metadata, self._n, flags)
        self._let_go()
        del self.caller.streams[self.caller_stream_id]
        self.server.streams.pop(self.server_stream_id, None)
        self.caller.begun -= 1
        if self.timer is not None:
            self.timer.cancel()
        self.route.load.ended(self.model == frames.REQUEST_RESPONSE, NEITHER, 0, now, self.caller.id)
        return raw

    def finish(self, outcome: int, verdict: int, now: float) -> None:
        self._let_go()
        super().finish(outcome, verdict, now)

    def _let_go(self) -> None:
        if len(self._kept):
            self.caller.waiting_bytes -= self._cost_bytes
            self._kept = b""
            self._passes_answers = True


def is_refused(frame: FrameCursor, words: tuple[bytes, ...]) -> bool:
    """A sound ERROR is REJECTED with one of these words."""
    if frames.error_code(frame.data, frame.start) != REJECTED:
        return False
    return frame.data[frame.start + _TEXT_AT : frame.end].startswith(words)

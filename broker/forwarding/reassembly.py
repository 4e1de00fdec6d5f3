"""A request whose metadata is cut by fragmentation: its first frames, held until it is known where they go (D-15).

Decides nothing but when the metadata is whole. When it is, or no more of it can be held, the frames are passed on as
they are, and the fragments that follow never stop here. D-69

    "Fragmentation And Reassembly": metadata is sent completely before data; it is whole when a fragment carries data
    behind it, has no metadata, or is the last one.
"""

from typing import Final

from broker.forwarding.peer import Peer
from broker.forwarding.stream import Stream
from broker.forwarding.traffic.flows import CALLER_LOST, CANCELLED, FAILED
from broker.forwarding.unicast import is_request_n
from broker.routing.targets import Target
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.resumption import FRAME_COST
from rsocket_wire.timers import Timer

MAX_FRAMES: Final = 1024  # held for one request: fragments so small that more are needed serve nobody

# What is to be done with a held request:
LOOK_AGAIN: Final = 0  # another fragment of it has come: its ADDRESS may be whole now
COUNT: Final = 1  # its caller has cancelled it or is gone
REFUSE_CUT: Final = 2  # its deadline passed before its metadata was whole
REFUSE_PENDING: Final = 3  # it waited for a route in vain: until the time was up, or too much of it came


class Decision:
    """What the engine is to do with a held request, which is in no table any more."""

    def __init__(
        self, kind: int, held: "Reassembly", target: Target | None, at: float, outcome: int = 0, word: str = ""
    ) -> None:
        self.kind: Final = kind
        self.held: Final = held
        self.target: Final = target  # None: it was not known yet where the request goes
        self.at: Final = at  # seconds, monotonic
        self.outcome: Final = outcome  # of COUNT, see `traffic.flows`
        self.word: Final = word  # of REFUSE_PENDING: `no-route`, `deadline` or `over-limit`


class Reassembly(Stream):
    """The frames of one request, so far. After each frame the engine looks whether it knows enough."""

    __slots__ = (
        "_decisions",
        "address_at",
        "caller",
        "caller_id",
        "frames",
        "held_bytes",
        "is_complete",
        "is_counted",
        "is_cut",
        "is_judged",
        "is_over",
        "is_whole",
        "kind",
        "later",
        "metadata",
        "more_n",
        "needs_whole",
        "opened_at",
        "rest",
        "target",
        "timer",
    )

    def __init__(self, caller: Peer, caller_id: int, kind: int, decisions: "list[Decision]", now: float) -> None:
        self.caller: Final = caller
        self.caller_id: Final = caller_id
        self.kind: Final = kind
        # As they came, stream id included; bounded by the caller's gathered_bytes, or as the requests that wait.
        self.frames: list[bytes] = []  # up to that with which the metadata is whole
        self.later: list[bytes] = []  # behind it: fragments of data, and of a channel its further items
        self.metadata = b""  # so far
        self.rest = b""  # the data in the last of `frames`
        self.held_bytes = 0
        self.is_whole = False  # the metadata is complete
        self.is_over = False  # the last frame held is the last of the request
        self.is_complete = False  # one of `frames` says COMPLETE
        self.is_cut = True  # more of the request follows the last of `frames`
        self.is_counted = False  # of another broker: see `Request`
        self.is_judged = False  # the quota of its identity has counted it
        self.more_n = 0  # credit of REQUEST_N frames that came meanwhile: the route gets it behind the request
        self.opened_at: Final = now
        self.address_at = -1  # in the metadata, once it was decided upon and waits for a route
        self.needs_whole = False  # the route cannot read the caller's metadata: all of it must be translated
        self.target: Target | None = None  # once the ADDRESS is known
        self.timer: Timer | None = None  # while it is in the caller's table, when its target has a deadline (D-41)
        self._decisions: Final = decisions  # the engine's: what is to be done with held requests

    @property
    def is_crowded(self) -> bool:
        """It has as many frames as may be held."""
        return len(self.frames) + len(self.later) >= MAX_FRAMES

    @property
    def cost_bytes(self) -> int:
        """What is held of it, with FRAME_COST for each frame."""
        return self.held_bytes + FRAME_COST * (len(self.frames) + len(self.later))

    def enter(self) -> None:
        """Takes its place in the caller's table."""
        self.caller.streams[self.caller_id] = self
        self.caller.begun += 1
        self.caller.gathered_bytes += self.held_bytes

    def hold(self, frame: FrameCursor) -> None:
        """Keeps a sound frame of the request, before it enters (again)."""
        completes = frame.kind == frames.PAYLOAD and frame.flags & frames.COMPLETE != 0
        self.is_over = not frame.flags & frames.FOLLOWS or completes
        if self.is_whole:
            self.hold_later(frame)
            return
        metadata_at, metadata_to = frames.request_parts(frame.data, frame.start, frame.end, frame.kind, frame.flags)
        self.frames.append(frame.data[frame.start : frame.end])
        self.metadata += frame.data[metadata_at:metadata_to]
        self.rest = frame.data[metadata_to : frame.end]
        self.held_bytes += frame.end - frame.start
        self.is_complete = self.is_complete or frame.flags & frames.COMPLETE != 0
        self.is_cut = not self.is_over
        self.is_whole = self.is_over or not frame.flags & frames.METADATA or len(self.rest) > 0

    def hold_later(self, frame: FrameCursor) -> None:
        """Keeps a frame behind the whole metadata: data needs no translation, however much of it there is.

        Also one behind the whole request: a channel's caller may complete before anybody has granted items.
        """
        self.later.append(frame.data[frame.start : frame.end])
        self.held_bytes += frame.end - frame.start

    def leave(self) -> None:
        """Gives up its place: the request goes on elsewhere, or has ended."""
        self.caller.streams.pop(self.caller_id, None)
        self.caller.begun -= 1
        self.caller.gathered_bytes -= self.held_bytes
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def merged(self, metadata: bytes | None) -> bytes:
        """One frame in place of those held, with this metadata, for a route that cannot read the caller's."""
        first = self.frames[0]
        flags = ((first[4] & 3) << 8 | first[5]) & ~(frames.METADATA | frames.FOLLOWS | frames.COMPLETE)
        if self.is_cut:
            flags |= frames.FOLLOWS
        if self.is_complete and self.kind == frames.REQUEST_CHANNEL:
            flags |= frames.COMPLETE
        n = frames.initial_n(first, 0) if self.kind >= frames.REQUEST_STREAM else 0
        return frames.encode_request(self.kind, self.caller_id, self.rest, metadata, n, flags)

    def collapse(self, metadata: bytes) -> None:
        """Its frames become one with this metadata, which is all of it; once it is whole, and in no table."""
        self.frames = [self.merged(metadata)]
        self.metadata = metadata

    def from_caller(self, frame: FrameCursor) -> None:
        if frame.kind == frames.CANCEL:
            self._give_up(CANCELLED, frame.now)
        elif frame.kind == frames.ERROR and self.kind == frames.REQUEST_CHANNEL:
            self._give_up(FAILED, frame.now)
        elif frame.kind == frames.PAYLOAD:
            self.leave()
            self.hold(frame)
            self._decisions.append(Decision(LOOK_AGAIN, self, self.target, frame.now))
        elif frame.kind == frames.REQUEST_N and self.kind >= frames.REQUEST_STREAM and is_request_n(frame):
            # D-30
            self.more_n = min(self.more_n + frames.initial_n(frame.data, frame.start), frames.MAX_N)

    def caller_lost(self, now: float) -> None:
        self._give_up(CALLER_LOST, now)

    def expire(self, now: float) -> None:
        """The caller's deadline has passed, and nothing of the request has been passed on."""
        self.leave()
        self._decisions.append(Decision(REFUSE_CUT, self, self.target, now))

    def _give_up(self, outcome: int, now: float) -> None:
        self.leave()
        self._decisions.append(Decision(COUNT, self, self.target, now, outcome))


def is_cut(frame: FrameCursor, metadata_to: int) -> bool:
    """More of the request's metadata may follow in fragments."""
    return frame.flags & frames.FOLLOWS != 0 and frame.flags & frames.METADATA != 0 and metadata_to == frame.end

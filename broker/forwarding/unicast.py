"""A splice: two streams on two peers joined for one unicast (or shard) request.

Frames pass both ways with their stream id rewritten; the splice only watches for the end. Does not know routing, and
reads neither metadata nor data.

    model            | ends when
    -----------------+--------------------------------------------------------------------------
    fire_and_forget  | the last fragment of the request has passed
    request_response | PAYLOAD without FOLLOWS, ERROR or CANCEL
    request_stream   | PAYLOAD with COMPLETE, ERROR or CANCEL
    request_channel  | both sides have completed; ERROR of either; CANCEL of the caller
                     | (CANCEL of the route means "send no more": the caller's side has completed)
    any              | the caller is lost: the route gets CANCEL; the route is lost: the caller gets ERROR CANCELED
                     | (CANCEL if the route had completed its half of a channel: one end of a half is enough)

After that both stream ids are forgotten and late frames are ignored ("Handling the Unexpected").
"""

from typing import Final

from broker.forwarding.peer import Peer
from broker.forwarding.stream import Stream
from broker.forwarding.traffic.flows import CALLER_LOST, CANCELLED, COMPLETED, FAILED, ROUTE_LOST, Flow
from broker.routing.health.loads import BAD, GOOD, NEITHER, Load
from broker.routing.table import Route
from rsocket_wire.errors import CANCELED, INVALID, REJECTED
from rsocket_wire.rsocket.frames import (
    CANCEL,
    COMPLETE,
    ERROR,
    EXT,
    FOLLOWS,
    HEADER_BYTES,
    IGNORE,
    NEXT,
    PAYLOAD,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_N,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    encode_cancel,
    encode_error,
    error_code,
    initial_n,
)
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.timers import Timer

_BLAMED_S: Final = 1.0  # a deadline that is shorter says more about the caller: nobody shall get a route ejected by it


class Splice(Stream):
    """One open request between a caller and the peer of a route."""

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_completes",
        "_items_in",
        "_items_out",
        "_passes_answers",
        "caller",
        "caller_done",
        "caller_stream_id",
        "choice",
        "flow",
        "model",
        "opened_at",
        "route",
        "route_done",
        "server_stream_id",
        "server",
        "timer",
    )

    def __init__(
        self,
        caller: Peer,
        caller_stream_id: int,
        server: Peer,
        server_stream_id: int,
        route: Route,
        flow: Flow,
        model: int,
        now: float,
    ) -> None:
        self.caller: Final = caller
        self.caller_stream_id: Final = caller_stream_id  # stream id at the caller
        self.server: Final = server
        self.server_stream_id: Final = server_stream_id  # stream id at the server
        self.route: Final = route
        self.flow = flow  # where it is counted; another one of the same kind when the broker ends it
        self.model: Final = model
        self.timer: Timer | None = None  # when the caller has set a deadline (D-41)
        self.caller_done = False  # the caller sends no more payloads
        self.route_done = False  # the route sends no more payloads (only a channel outlives that)
        self.opened_at: Final = now
        self.choice = 0  # see `RequestContext.choice`
        # The first frame of a fragmented channel request said COMPLETE: done with its last fragment.
        self._completes = False
        self._passes_answers = model != REQUEST_FNF  # what the route sends goes on without a question, see `answered`
        self._items_in = 0
        self._items_out = 0
        self._bytes_in = 0
        self._bytes_out = 0

    def open(self, frame: FrameCursor) -> None:
        """Enters the tables of both peers and passes the first frame on."""
        self._enter(frame)
        self.server.forward(frame, self.server_stream_id)

    def open_rewritten(self, frame: FrameCursor, prefix: bytes, rest: bytes, metadata_bytes: int) -> None:
        """As `open`, with other metadata in the first frame: see `Peer.forward_rewritten`."""
        self._enter(frame)
        self.server.forward_rewritten(frame, self.server_stream_id, prefix, rest, metadata_bytes)

    def _enter(self, frame: FrameCursor) -> None:
        self.caller.streams[self.caller_stream_id] = self
        self.server.streams[self.server_stream_id] = self
        self.caller.begun += 1
        self.route.load.began(self.model == REQUEST_RESPONSE, self.caller.id)
        if self.model == REQUEST_CHANNEL or frame.flags & FOLLOWS:
            self.begin(frame.flags, frame.end - frame.start)
        else:
            self._bytes_in = frame.end - frame.start
            self._items_in = 1
            self.caller_done = True

    def begin(self, flags: int, size: int) -> None:
        """Notes what the first frame of the request says about its end."""
        self._bytes_in += size
        if flags & FOLLOWS:
            self._completes = self.model == REQUEST_CHANNEL and flags & COMPLETE != 0
            return
        self._items_in = 1
        self.caller_done = self.model != REQUEST_CHANNEL or flags & COMPLETE != 0

    def awaited_at(self, load: Load) -> int:
        return 1 if self.model == REQUEST_RESPONSE and self.route.load is load else 0

    def from_caller(self, frame: FrameCursor) -> None:
        kind = frame.kind
        if kind == PAYLOAD:
            if self.caller_done:
                return
            flags = frame.flags
            self._bytes_in += frame.end - frame.start
            self.server.forward(frame, self.server_stream_id)
            if flags & FOLLOWS and not flags & COMPLETE:
                return  # "A PAYLOAD with both F and C flags set, implicitly ignores the F flag."
            if flags & NEXT or frame.end - frame.start > HEADER_BYTES:  # else it only completes
                self._items_in += 1
            if flags & COMPLETE or self.model != REQUEST_CHANNEL or self._completes:
                self.caller_done = True
                if self.route_done or self.model == REQUEST_FNF:
                    self.finish(COMPLETED, GOOD, frame.now)
        elif kind == REQUEST_N:
            if self.model >= REQUEST_STREAM and is_request_n(frame):
                if self.caller.is_congested:  # it has not read what it has asked for before
                    self.caller.hold_credit(self.caller_stream_id, self, initial_n(frame.data, frame.start))
                    return
                self._bytes_in += frame.end - frame.start
                self.server.forward(frame, self.server_stream_id)
        elif kind == CANCEL:
            self.server.forward(frame, self.server_stream_id)
            self.caller.drop_stream(self.caller_stream_id)
            self.finish(CANCELLED, NEITHER, frame.now)
        elif kind == ERROR:
            if self.model == REQUEST_CHANNEL:
                self._bytes_in += frame.end - frame.start
                self.server.forward(frame, self.server_stream_id)
                self.finish(FAILED, NEITHER, frame.now)
        elif kind == EXT and frame.flags & IGNORE:  # D-32
            self.server.forward(frame, self.server_stream_id)

    def from_route(self, frame: FrameCursor) -> None:
        kind = frame.kind
        if kind == PAYLOAD:
            if not self._passes_answers and not self.answered():
                return
            flags = frame.flags
            self._bytes_out += frame.end - frame.start
            self.caller.forward(frame, self.caller_stream_id)
            if flags & FOLLOWS and not flags & COMPLETE:
                return
            if flags & NEXT or frame.end - frame.start > HEADER_BYTES:
                self._items_out += 1
            if self.model == REQUEST_RESPONSE:  # complete even without C ("Handling the Unexpected")
                self.finish(COMPLETED, GOOD, frame.now)
            elif flags & COMPLETE:
                self.route_done = True
                self._passes_answers = False
                if self.caller_done or self.model == REQUEST_STREAM:
                    self.finish(COMPLETED, GOOD, frame.now)
        elif kind == ERROR:
            if not self.is_retried(frame):
                self.fail(frame)
        elif self.model == REQUEST_CHANNEL and kind == REQUEST_N:
            self.answered()
            if is_request_n(frame):
                if self.server.is_congested:
                    self.server.hold_credit(self.server_stream_id, self, initial_n(frame.data, frame.start))
                    return
                self._bytes_out += frame.end - frame.start
                self.caller.forward(frame, self.caller_stream_id)
        elif self.model == REQUEST_CHANNEL and kind == CANCEL:
            self.answered()
            if not self.caller_done:
                self.caller.forward(frame, self.caller_stream_id)
                self.caller_done = True
                if self.route_done:  # D-28: one end of its half is enough
                    self.finish(COMPLETED, GOOD, frame.now)
        # D-32: from the route of a fire-and-forget it is not passed on
        elif kind == EXT and frame.flags & IGNORE and self.model != REQUEST_FNF:
            self.answered()
            self.caller.forward(frame, self.caller_stream_id)

    def answered(self) -> bool:
        """The route has sent something though nothing was expected, or for the first time: it goes on."""
        return False

    def is_retried(self, frame: FrameCursor) -> bool:
        """The request may go elsewhere: the engine decides whether it does, or its caller gets the ERROR (`fail`)."""
        return False

    def fail(self, frame: FrameCursor) -> None:
        """The route has answered with this ERROR."""
        self._bytes_out += frame.end - frame.start
        if self.model != REQUEST_FNF:
            self.caller.forward(frame, self.caller_stream_id)
        self.finish(FAILED, verdict_of(frame), frame.now)

    def caller_lost(self, now: float) -> None:
        self.server.send(encode_cancel(self.server_stream_id))
        self.finish(CALLER_LOST, NEITHER, now)

    def route_lost(self, now: float) -> None:
        if self.route_done:  # D-28: one end of its half is enough
            self.caller.send(encode_cancel(self.caller_stream_id))
        elif self.model != REQUEST_FNF:  # a fire-and-forget has no answer, not even this one
            text = f"route-lost: the connection of {self.route.service} went away before the request ended"
            self.caller.send(encode_error(self.caller_stream_id, CANCELED, text))
        self.finish(ROUTE_LOST, NEITHER, now)

    def shed(self, text: str, now: float) -> bool:
        is_unseen = self.server.take_back(self.server_stream_id)
        self.caller.drop_stream(self.caller_stream_id)
        if self.route_done:  # D-28: one end of its half is enough
            self.caller.send(encode_cancel(self.caller_stream_id))
        elif self.model != REQUEST_FNF:
            code = REJECTED if is_unseen else CANCELED
            self.caller.send(encode_error(self.caller_stream_id, code, f"over-limit: {text}"))
        self.flow = self.flow.ended_with("over-limit")
        self.finish(FAILED, NEITHER, now)
        return True

    def expire(self, now: float) -> None:
        """The caller's deadline has passed."""
        waited_s = now - self.opened_at
        verdict = BAD if self._is_to_blame(waited_s) else NEITHER
        text = f"{self.route.service} has not ended the request within {waited_s:.3f} s"
        self._cut("deadline", text, verdict, now)

    def deny(self, text: str, now: float) -> None:
        self._cut("denied", text, NEITHER, now)

    def _cut(self, word: str, text: str, verdict: int, now: float) -> None:
        """The broker ends it, with this code word and text for the caller; both peers are there."""
        self.server.send(encode_cancel(self.server_stream_id))
        if self.route_done:  # the caller has its COMPLETE: only its own half is open
            self.caller.send(encode_cancel(self.caller_stream_id))
        elif self.model != REQUEST_FNF:
            self.caller.send(encode_error(self.caller_stream_id, CANCELED, f"{word}: {text}"))
        self.flow = self.flow.ended_with(word)
        self.finish(FAILED, verdict, now)

    def _is_to_blame(self, waited_s: float) -> bool:
        """The route had all of a request/response, could be reached, and has not begun to answer for long (D-37).

        A caller that keeps the end of its request, or gives no credit, must not get a healthy route ejected.
        """
        if self.model != REQUEST_RESPONSE or not self.caller_done or self._bytes_out or waited_s < _BLAMED_S:
            return False
        return not self.server.is_suspended and not self.server.is_congested

    def finish(self, outcome: int, verdict: int, now: float) -> None:
        """Forgets both streams and counts the request; called once. `verdict` on the route: GOOD, BAD or NEITHER."""
        del self.caller.streams[self.caller_stream_id]
        self.server.streams.pop(self.server_stream_id, None)  # already taken out when the server is lost
        self.caller.begun -= 1
        if self.timer is not None:
            self.timer.cancel()
        latency_us = int((now - self.opened_at) * 1e6)
        caller = self.caller
        if verdict == BAD:
            spare_for_link(self.route.load, caller)
        self.route.load.ended(self.model == REQUEST_RESPONSE, verdict, latency_us, now, caller.id, caller.shared_origin)
        self.flow.count(
            outcome,
            latency_us,
            self._items_in,
            self._items_out,
            self._bytes_in,
            self._bytes_out,
            self.opened_at,
            self.choice,
            1,
        )


def is_request_n(frame: FrameCursor) -> bool:
    """A REQUEST_N whose credit is there and over 0 ("Value MUST be > 0"); others are ignored."""
    return frame.end - frame.start >= 10 and initial_n(frame.data, frame.start) > 0


def spare_for_link(load: Load, caller: Peer) -> None:
    """Before a request of this caller ends BAD: see `Load.spare`. Without annotations its broker has chosen nothing."""
    if caller.link is not None and caller.link.version:
        load.spare(caller.id)


def verdict_of(frame: FrameCursor) -> int:
    """What the ERROR of a route says about it: INVALID is the caller's fault and a good answer, all else is bad."""
    return GOOD if error_code(frame.data, frame.start) == INVALID else BAD

"""A world of honest callers and services, and a witness who writes down what each of them is sent.

Whatever they do, in whatever order, must hold:

    each request ends exactly once, by a responder that it was delivered to or by the broker; nothing comes behind
    items arrive whole, in order and no more than were asked for, in both directions
    a request is delivered only to a route that matches at that moment, and to each at most once
    nothing is written to a connection that is gone, and nothing is left in any table at the end
    each mask has the slots of the routes that it stands for, and no others

Here nobody breaks the protocol: `play.py` is where they do.
"""

from __future__ import annotations

from broker.core import CoreSettings
from rsocket_wire.errors import APPLICATION_ERROR
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST
from rsocket_wire.wire.keys import SHARD_KEY
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import Frame, Wire, World, address, addressed, fragments
from tests.invariants import check_masks

ROUTINGS = (UNICAST, MULTICAST, SHARD)
SERVICES = ("orders", "stock")
REGIONS = ("eu", "us", "ap")


class Half:
    """Items in one direction of one stream, as its receiver sees them: whole, from whom, how many."""

    def __init__(self) -> None:
        self.part = b""  # of an item whose last fragment has not come
        self.seen: dict[int, int] = {}  # sender -> number of its latest item

    def take(self, frame: Frame, request: int) -> int:
        """A PAYLOAD with an item or a fragment of one; 1 when an item is whole now."""
        self.part += frame.data
        if frame.flags & FOLLOWS:
            return 0
        text, self.part = self.part.rstrip(b"."), b""
        of, sender, number = (int(word) for word in text.split(b" "))
        assert of == request, f"an item of request {of} came to request {request}"
        assert number == self.seen.get(sender, 0) + 1, f"item {number} of {sender} behind {self.seen.get(sender, 0)}"
        self.seen[sender] = number
        return 1


class Ask:
    """One request, as its caller sees it."""

    def __init__(self, number: int, caller: Caller, stream_id: int, model: int, routing: int, wanted: dict[str, str]):
        self.number = number
        self.caller = caller
        self.stream_id = stream_id
        self.model = model
        self.routing = routing
        self.wanted = wanted  # tags of the AND
        self.answers = Half()
        self.credit_n = 0  # items that it asked for and did not get
        self.may_send_n = 0  # channel items that it may send
        self.sent_n = 0
        self.part = False  # an item was begun and not ended
        self.is_done = model != REQUEST_CHANNEL  # it sends no more
        self.is_answered = model == REQUEST_FNF  # it gets no more
        self.end = ""  # how it ended
        self.delivered: dict[int, Serving] = {}  # by member

    @property
    def is_open(self) -> bool:
        return not self.end

    def text(self, number: int, size: int) -> bytes:
        return b"%d %d %d" % (self.number, -1, number) + b"." * size

    def opening(self, size: int) -> bytes:
        """The data of the request itself, which are the first item of a channel."""
        if self.model != REQUEST_CHANNEL:
            return b"%d" % self.number + b"." * size
        self.sent_n = 1
        return self.text(1, size)


class Serving:
    """One request at one of its routes."""

    def __init__(self, ask: Ask, member: Member, stream_id: int) -> None:
        self.ask = ask
        self.member = member
        self.stream_id = stream_id
        self.items = Half()
        self.credit_n = 0  # items that it may send
        self.granted_n = 0  # channel items that it asked for and did not get
        self.sent_n = 0
        self.part = False
        self.is_done = ask.model == REQUEST_FNF  # it sends no more
        self.is_input_done = ask.model != REQUEST_CHANNEL  # it gets no more
        self.is_whole = False  # the request itself has come with all its fragments

    @property
    def is_over(self) -> bool:
        return self.is_done and self.is_input_done

    def text(self, size: int) -> bytes:
        return b"%d %d %d" % (self.ask.number, self.member.number, self.sent_n + 1) + b"." * size


class Member:
    """A service with one route."""

    def __init__(self, wire: Wire, number: int, service: str, region: str) -> None:
        self.wire = wire
        self.number = number
        self.service = service
        self.region = region
        self.servings: dict[int, Serving] = {}  # open ones by stream id

        self.regions = {region}  # that it had when what it reads now was sent

    def matches(self, wanted: dict[str, str]) -> bool:
        return wanted["service"] == self.service and wanted.get("region", self.region) in self.regions


class Caller:
    """A connection without a route."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.asks: dict[int, Ask] = {}  # by stream id, ended ones too
        self.next_id = 1


class History:
    """The world, and what happened in it."""

    def __init__(self, settings: CoreSettings | None = None, world: World | None = None) -> None:
        self.world = world or World(settings)
        self.members: list[Member] = []  # that are connected
        self.callers: list[Caller] = []
        self.gone: list[Wire] = []
        self.asks: list[Ask] = []
        self.delayed: set[Wire] = set()  # what had waited for them is read now
        self.members_n = 0

    # What can happen

    def join(self, service: str, region: str) -> None:
        self.members_n += 1
        wire = self.world.service(service, self.members_n, framed=self.members_n % 3 > 0, region=region)
        self.members.append(Member(wire, self.members_n, service, region))
        self.look()

    def move(self, member: Member, region: str) -> None:
        """Its tags change; what it serves goes on."""
        member.region = region
        member.regions.add(region)
        member.wire.announce(member.number, member.service, region=region)
        self.look()

    def come(self) -> None:
        self.callers.append(Caller(self.world.caller(framed=len(self.callers) % 2 == 0)))

    def lose_member(self, member: Member) -> None:
        self.members.remove(member)
        self.gone.append(member.wire)
        member.wire.lose()
        self.look()

    def lose_caller(self, caller: Caller) -> None:
        self.callers.remove(caller)
        self.gone.append(caller.wire)
        for ask in caller.asks.values():
            ask.end = ask.end or "lost"
        caller.wire.lose()
        self.look()

    def begin(self, caller: Caller, model: int, routing: int, service: str, region: str, n: int) -> tuple[Ask, bytes]:
        """A new request, of which nothing is sent yet, and its ADDRESS."""
        wanted = {"service": service, **({"region": region} if region else {})}
        ask = Ask(len(self.asks), caller, caller.next_id, model, routing, wanted)
        caller.next_id += 2
        self.asks.append(ask)
        caller.asks[ask.stream_id] = ask
        if model in (REQUEST_STREAM, REQUEST_CHANNEL):
            ask.credit_n = n
        tags: dict[str, str | None] = {**wanted}
        if routing == SHARD:
            tags["user"] = str(ask.number % 7)
        return ask, address(routing, [(SHARD_KEY, "user")] if routing == SHARD else [], b"", **tags)

    def ask(self, caller: Caller, model: int, routing: int, service: str, region: str, n: int, cuts: int) -> None:
        """A new request, in `cuts` + 1 fragments behind its first frame's metadata."""
        if caller.wire.is_paused:
            return
        ask, raw = self.begin(caller, model, routing, service, region, n)
        metadata, data = addressed(raw), ask.opening(cuts)
        self.send_request(ask, metadata, data, [len(metadata + data) - cuts + each for each in range(cuts)], n)

    def send_request(self, ask: Ask, metadata: bytes, data: bytes, places: list[int], n: int) -> None:
        """Its frames, cut at these places."""
        if ask.model == REQUEST_FNF:
            ask.end = "sent"
        for raw in fragments(ask.model, ask.stream_id, metadata, data, places, n):
            ask.caller.wire.send(raw)
            self.look()

    def want(self, ask: Ask, n: int) -> None:
        if ask.is_open and not ask.is_answered and ask.model != REQUEST_RESPONSE and not ask.caller.wire.is_paused:
            ask.credit_n += n
            ask.caller.wire.send(frames.encode_request_n(ask.stream_id, n))
            self.look()

    def cancel(self, ask: Ask) -> None:
        if ask.is_open and not ask.caller.wire.is_paused:
            ask.end = "cancelled"
            ask.caller.wire.send(frames.encode_cancel(ask.stream_id))
            self.look()

    def send_item(self, ask: Ask, size: int, is_cut: bool) -> None:
        """A channel item of the caller."""
        if ask.is_open and not ask.is_done and ask.may_send_n > 0 and not ask.caller.wire.is_paused:
            ask.may_send_n -= 1
            ask.sent_n += 1
            self._send(ask.caller.wire, ask.stream_id, ask.text(ask.sent_n, size), is_cut)

    def finish_asking(self, ask: Ask, is_error: bool) -> None:
        if not ask.is_open or ask.is_done or ask.caller.wire.is_paused:
            return
        ask.is_done = True
        if is_error:
            ask.end = "error of its own"
            ask.caller.wire.send(frames.encode_error(ask.stream_id, APPLICATION_ERROR, "enough"))
        else:
            ask.end = "completed" if ask.is_answered else ""
            ask.caller.wire.send(frames.encode_payload(ask.stream_id, frames.COMPLETE))
        self.look()

    def answer(self, serving: Serving, size: int, is_cut: bool) -> None:
        """An item of the service; the answer of a request/response."""
        wire = serving.member.wire
        if serving.is_done or not serving.is_whole or wire.is_paused:
            return
        if serving.ask.model == REQUEST_RESPONSE:
            text = serving.text(size)
            self._end(serving)
            self._send(wire, serving.stream_id, text, is_cut, frames.COMPLETE)
        elif serving.credit_n > 0:
            serving.credit_n -= 1
            text = serving.text(size)
            serving.sent_n += 1
            self._send(wire, serving.stream_id, text, is_cut)

    def complete(self, serving: Serving) -> None:
        wire = serving.member.wire
        if serving.is_done or not serving.is_whole or wire.is_paused or serving.ask.model == REQUEST_RESPONSE:
            return
        serving.is_done = True
        self._drop_over(serving)
        wire.send(frames.encode_payload(serving.stream_id, frames.COMPLETE))
        self.look()

    def fail(self, serving: Serving) -> None:
        wire = serving.member.wire
        if not serving.is_done and serving.is_whole and not wire.is_paused:
            self._end(serving)
            wire.send(frames.encode_error(serving.stream_id, APPLICATION_ERROR, f"by {serving.member.number}"))
            self.look()

    def listen(self, serving: Serving, n: int) -> None:
        """The service asks for channel items."""
        if not serving.is_input_done and not serving.member.wire.is_paused:
            serving.granted_n += n
            serving.member.wire.send(frames.encode_request_n(serving.stream_id, n))
            self.look()

    def stop_listening(self, serving: Serving) -> None:
        if not serving.is_input_done and serving.is_whole and not serving.member.wire.is_paused:
            serving.is_input_done = True
            self._drop_over(serving)
            serving.member.wire.send(frames.encode_cancel(serving.stream_id))
            self.look()

    def congest(self, wire: Wire, is_congested: bool) -> None:
        if is_congested:
            wire.world.core.congested(wire.peer)
        else:
            wire.world.core.relieved(wire.peer, wire.world.now)
            self.delayed.add(wire)
        wire.world.pump()
        self.look()
        self.delayed.clear()

    def wait(self, seconds: float) -> None:
        self.world.advance(seconds)
        self.look()

    # What is seen

    @property
    def worlds(self) -> list[World]:
        """All brokers."""
        return [self.world]

    @property
    def wires(self) -> list[Wire]:
        """Of everybody who is connected."""
        return [member.wire for member in self.members] + [caller.wire for caller in self.callers]

    @property
    def open_servings(self) -> list[Serving]:
        return [serving for member in self.members for serving in member.servings.values()]

    @property
    def open_asks(self) -> list[Ask]:
        return [ask for caller in self.callers for ask in caller.asks.values() if ask.is_open]

    def look(self) -> None:
        """Reads what everybody was sent, and looks into the tables."""
        for world in self.worlds:
            check_masks(world.core)
        for member in list(self.members):
            for frame in member.wire.received():
                self._at_member(member, frame)
            self.forget_regions(member)
        for caller in list(self.callers):
            for frame in caller.wire.received():
                self._at_caller(caller, frame)
        for wire in self.gone:
            assert wire.received() == [], "something was written to a connection that is gone"

    def forget_regions(self, member: Member) -> None:
        """What the member reads from now on is sent from now on, if nothing waits for it."""
        if not member.wire.peer.is_congested:
            member.regions = {member.region}

    def settle(self) -> None:
        """Everybody brings what runs to its end; after that nothing may be left."""
        self.relieve_all()
        for _ in range(1000):
            open_asks = self.open_asks
            servings = self.open_servings
            if not open_asks and not servings:
                break
            for ask in open_asks:
                self.finish_asking(ask, False)
                self.want(ask, 3)
            for serving in servings:
                if serving.stream_id in serving.member.servings:
                    self.answer(serving, 0, False)
                    self.complete(serving)
            if not servings:
                self.wait(1.0)
        hanging = [(ask.number, ask.model, ask.routing) for ask in self.open_asks]
        assert not hanging, f"requests that never end: {hanging}"
        assert not self.open_servings, "routes that were never told the end"
        self.check_over()

    def relieve_all(self) -> None:
        """Everybody takes what is written to it."""
        for wire in self.world.wires.values():
            if not wire.is_lost:
                self.congest(wire, False)

    def check_over(self) -> None:
        """Nothing is left of any request."""
        self.wait(6.0)  # a fire-and-forget may still wait for a route
        for world in self.worlds:
            assert world.left_over() == []
            assert world.core.engine.pending.size == 0
            assert world.core.engine.timers.take_due(1e12) is None

    def _send(self, wire: Wire, stream_id: int, text: bytes, is_cut: bool, flags: int = 0) -> None:
        if is_cut:
            middle = len(text) // 2
            wire.send(frames.encode_payload(stream_id, NEXT | FOLLOWS, text[:middle]))
            self.look()
            text = text[middle:]
        wire.send(frames.encode_payload(stream_id, NEXT | flags, text))
        self.look()

    def _end(self, serving: Serving) -> None:
        serving.is_done = serving.is_input_done = True
        self._drop_over(serving)

    def _drop_over(self, serving: Serving) -> None:
        if serving.is_over:
            serving.member.servings.pop(serving.stream_id, None)

    def _at_member(self, member: Member, frame: Frame) -> None:
        serving = member.servings.get(frame.stream_id)
        if serving is None:
            self._begin(member, frame)
            return
        if frame.kind == frames.PAYLOAD:
            if not serving.is_whole and serving.ask.model != REQUEST_CHANNEL:
                serving.is_whole = not frame.flags & FOLLOWS
            else:
                self._item_at_member(serving, frame)
            if serving.ask.model == REQUEST_FNF and serving.is_whole:
                self._end(serving)
        elif frame.kind == frames.REQUEST_N:
            serving.credit_n += frame.n
        elif frame.kind in (frames.CANCEL, frames.ERROR):
            self._end(serving)
        else:
            raise AssertionError(f"{frame} at {member.number}")

    def _begin(self, member: Member, frame: Frame) -> None:
        if frame.kind == frames.REQUEST_N:
            return  # the broker asked before it saw the end of that stream
        if member.wire in self.delayed and frame.kind not in MODELS:
            return  # nor had it seen it when it said this
        assert frame.kind in MODELS, f"{frame} at {member.number} for a stream that has ended"
        ask = self.asks[int(frame.data.rstrip(b".").split(b" ")[0])]
        assert member.number not in ask.delivered, f"request {ask.number} came twice to {member.number}"
        assert member.matches(ask.wanted), f"request {ask.number} for {ask.wanted} came to {member.region}"
        assert frame.kind == ask.model
        serving = ask.delivered[member.number] = Serving(ask, member, frame.stream_id)
        assert ask.routing == MULTICAST or len(ask.delivered) == 1, f"request {ask.number} came to {ask.delivered}"
        serving.credit_n = frame.n
        serving.is_whole = not frame.flags & FOLLOWS
        if ask.model == REQUEST_CHANNEL:
            serving.granted_n = 1  # the request itself is the first item
            self._item_at_member(serving, frame)
        if ask.model != REQUEST_FNF or not serving.is_whole:
            serving.is_input_done = ask.model not in (REQUEST_CHANNEL, REQUEST_FNF)
            member.servings[frame.stream_id] = serving

    def _item_at_member(self, serving: Serving, frame: Frame) -> None:
        assert not serving.is_input_done or serving.ask.model == REQUEST_CHANNEL, f"{frame} was not asked for"
        if frame.flags & NEXT or frame.kind != frames.PAYLOAD:
            whole = serving.items.take(frame, serving.ask.number)
            serving.granted_n -= whole
            serving.is_whole = serving.is_whole or whole > 0
            assert serving.granted_n >= 0 or serving.is_input_done, "an item more than the route asked for"
        if frame.flags & frames.COMPLETE:
            serving.is_input_done = True
            self._drop_over(serving)

    def _at_caller(self, caller: Caller, frame: Frame) -> None:
        assert frame.stream_id, f"{frame}"
        ask = caller.asks[frame.stream_id]
        if ask.end in ("cancelled", "error of its own"):
            return  # what was under way
        if (
            caller.wire in self.delayed
            and not ask.is_open
            and frame.kind in (frames.REQUEST_N, frames.CANCEL, frames.ERROR)
        ):
            return  # it was said before the caller had said its last word
        assert ask.is_open, f"{frame} behind the end ({ask.end}) of request {ask.number}"
        if frame.kind == frames.PAYLOAD:
            assert not ask.is_answered, f"{frame} behind the last answer of request {ask.number}"
            if frame.flags & NEXT:
                ask.credit_n -= ask.answers.take(frame, ask.number)
                senders = set(ask.answers.seen)
                assert senders <= set(ask.delivered), f"{senders} answer what came to {set(ask.delivered)}"
                assert ask.model == REQUEST_RESPONSE or ask.credit_n >= 0, "an item more than the caller asked for"
            if frame.flags & frames.COMPLETE:
                ask.is_answered = True
                ask.end = "completed" if ask.is_done or ask.model != REQUEST_CHANNEL else ""
        elif frame.kind == frames.ERROR:
            assert not ask.is_answered or ask.model == REQUEST_CHANNEL
            word = frame.text.partition(" ")[0]
            assert word != "by" or int(frame.text.split(" ")[1]) in ask.delivered
            ask.end = f"error {frame.text}"
        elif frame.kind == frames.REQUEST_N and ask.model == REQUEST_CHANNEL:
            ask.may_send_n += frame.n
        elif frame.kind == frames.CANCEL and ask.model == REQUEST_CHANNEL:
            ask.is_done = True
            ask.end = "completed" if ask.is_answered else ""
        else:
            raise AssertionError(f"{frame} at the caller of request {ask.number}")

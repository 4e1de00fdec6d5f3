"""Who gets which message, who has acknowledged it, and when it is tried again: decides, and does nothing itself.

A message goes to the next destination that is up and takes it (round robin) or, `acks_n` being more than one, to so
many different ones (redundant). One that has acknowledged it is never asked again, and never twice at a time. Where
one fails, another that is up is asked at once; when all that are up have failed it, it rests for `interval_s`. Each
time it was published and not acknowledged is a try; after `tries` it is dead. Where nobody is up nothing is tried, so
an outage uses up no tries: what has fixed destinations waits in its order, what has others is set aside by exchange.

| state     | where                | goes on as      | when                                                          |
|-----------|----------------------|-----------------|---------------------------------------------------------------|
| new       | disk                 | ready           | there is room in the window                                   |
| ready     | window               | under way       | it is the first, and its destinations are up and have room    |
|           |                      | parked          | nobody can take it, and others may go on                      |
|           |                      | later           | all that are up have failed it                                |
| under way | window               | done            | as many have acknowledged it as it wants                      |
|           |                      | ready, in front | one has failed it, or there were fewer than it wants          |
|           |                      | dead            | it is hopeless, or its tries are used up                      |
| later     | disk, with a moment  | ready           | at that moment                                                |
| parked    | disk, in a lane      | ready           | the first of its lane finds somebody                          |
| dead      | disk, for operators  | later           | somebody requeues it                                          |

A lane holds messages that have the same destinations left: those of one exchange (of all, if destinations are fixed)
that the same ones have acknowledged. Its first message is tried for all, whenever something changes and once in each
`interval_s`; as long as it is not empty, new ones of its kind go behind it. So what one caller sends to one exchange
stays in order until something fails, and with fixed destinations what it sends at all: a message waits there until
those who shall get it have room, and all behind it wait as well.

The window is what is in memory, the rest is on disk: `wants` says what to read, `take_fates` what to write. Moments are
milliseconds since the epoch, as on disk.
"""

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from client_sdk.gateways.samwise.backends.backend import ANY
from client_sdk.gateways.samwise.decisions import (
    Acknowledged,
    Dead,
    Done,
    Fate,
    Later,
    Parked,
    ReadNew,
    TakeDue,
    TakeLane,
    Want,
)
from client_sdk.gateways.samwise.values import Message

WINDOW_N: Final = 2_048  # messages in memory
WINDOW_BYTES: Final = 64 * 1024 * 1024  # of payloads and headers in memory, and of what is read at once
READ_N: Final = 256  # messages read at once: callers' messages wait for it
LANES_N: Final = 8  # lanes looked at in one round: what is in the window waits for it
IN_FLIGHT_N: Final = 256  # deliveries under way at one destination; of services without a name, of one exchange
MAX_LANES: Final = 1_000  # lanes at a time: whoever names many exchanges fills them; beyond, each message rests alone


@dataclass(frozen=True, slots=True)
class Retry:
    """When a message is delivered again."""

    tries: int = 3  # publishings of one message, before it is dead; 0: no limit
    interval_s: float = 5.0  # between the failure of the last destination that could take it and the next try
    threshold_s: float = 10.0  # for an acknowledgement, after which the delivery has failed


SAMD_RETRY: Final = Retry()  # as samd has it without configuration


class _Entry:
    """A message in the window."""

    __slots__ = (
        *("message", "bytes", "lane", "waits_for", "failed", "reason"),
        *("has_tried", "is_away", "is_hopeless", "is_removed"),
    )

    def __init__(self, message: Message, lane: "_Lane | None") -> None:
        self.message = message  # with its tries, and those who have acknowledged it, up to now
        self.bytes: Final = len(message.publish.payload) + sum(len(value) for _, value in message.publish.headers)
        self.lane: Final = lane  # from which it comes; None: from none
        self.waits_for: Final[set[str]] = set()  # destinations; empty: it is ready
        self.failed: Final[set[str]] = set()  # destinations that are up and have failed it since it came to the window
        self.reason = ""  # of the last failure
        self.has_tried = False  # something was published of what is under way, and not acknowledged
        self.is_away = False  # the last failure was that nobody is there
        self.is_hopeless = False  # nobody will ever take it
        self.is_removed = False  # an operator has done so, while it was under way


class _Lane:
    """Messages on disk that wait for the same destinations."""

    __slots__ = ("place", "look_at_ms", "is_open")

    def __init__(self, place: str) -> None:
        self.place: Final = place  # of a destination that has no name
        self.look_at_ms: int | None = 0  # when its first message is tried; None: it is being tried, or the lane is open
        self.is_open = False  # its messages find somebody


class Delivery:
    """All messages of one gateway that wait. Callers write the fates before they ask for more."""

    def __init__(
        self,
        retry: Retry,
        *,
        has_fixed_destinations: bool,
        window_n: int = WINDOW_N,
        window_bytes: int = WINDOW_BYTES,
        max_lanes: int = MAX_LANES,
        in_flight_n: int = IN_FLIGHT_N,
    ) -> None:
        """`has_fixed_destinations`: see `Backend`."""
        self._tries: Final = retry.tries
        self._interval_ms: Final = round(retry.interval_s * 1000)
        self._threshold_ms: Final = round(retry.threshold_s * 1000)
        self._is_fixed: Final = has_fixed_destinations
        self._window_n: Final = window_n
        self._window_bytes: Final = window_bytes
        self._max_lanes: Final = max_lanes
        self._in_flight_n: Final = in_flight_n
        self._entries: Final[dict[int, _Entry]] = {}
        self._bytes = 0  # of them
        self._ready: Final[deque[_Entry]] = deque()
        self._deadlines: Final[OrderedDict[tuple[int, str], int]] = OrderedDict()  # of deliveries, the earliest first
        self._in_flight: Final[dict[str, int]] = {}  # deliveries by place
        self._lanes: Final[dict[str, _Lane]] = {}
        self._short: Final[dict[str, set[str]]] = {}  # lanes that wait for room, by place
        self._turn = 0  # of destinations
        self._rounds_n = 0  # how often was asked what to read
        self._stored_to = 0  # the last id that is on disk
        self._read_to = 0  # the last one that was new and is not any more
        self._is_reading = False  # new ones
        self._ahead: Final[set[int]] = set()  # those behind `_read_to` that came otherwise, after a restart
        self._due_at_ms: int | None = None  # when the next one on disk is due; None: none is
        self._look_at_ms: int | None = None  # until when the head waits, or for a change; None: it does not
        self._fates: list[Fate] = []

    # What is on disk

    def resume(self, stored_to: int, lanes: Iterable[str], due_at_ms: int | None) -> None:
        """What a store has at the start: its last id, its lanes, and when the next message is due (None: none)."""
        self._stored_to = stored_to
        self._due_at_ms = due_at_ms
        for name in lanes:
            self._lanes[name] = _Lane(_place(ANY, name.partition("\n")[0]))

    def stored(self, message: Message) -> None:
        """A new one, in the order of ids; it is not read again if it comes to the window at once."""
        self._stored_to = message.id
        # Nothing is being read then: new ones are read only where some are behind `_read_to`, and ids have no gaps.
        if message.id == self._read_to + 1 and self._room() > 0:
            self._read_to = message.id
            self._add(message, None)

    def requeued(self, due_at_ms: int) -> None:
        """Dead letters are due then."""
        self._due_at_ms = due_at_ms if self._due_at_ms is None else min(due_at_ms, self._due_at_ms)

    def wants(self, now_ms: int) -> list[Want]:
        """What to read now; empty: nothing, or there is no room."""
        if self._room() <= 0:
            return []
        self._rounds_n += 1
        found: list[Want] = []
        if self._due_at_ms is not None and self._due_at_ms <= now_ms:
            found.append(TakeDue(READ_N))
        if self._read_to < self._stored_to and not self._is_reading:
            found.append(ReadNew(self._read_to, READ_N))
        lanes: list[Want] = []
        for name, lane in self._lanes.items():
            if lane.is_open:
                room = self._in_flight_n - self._in_flight.get(lane.place, 0)
                if room > 0:
                    lanes.append(TakeLane(name, min(room, READ_N)))
            elif lane.look_at_ms is not None and lane.look_at_ms <= now_ms:
                lanes.append(TakeLane(name, 1))
        found += self._turned(lanes)[:LANES_N]
        return self._share(found)

    def got_new(self, messages: Iterable[Message], up_to: int) -> None:
        """For ReadNew: what was read, and the id up to which there are no others."""
        self._is_reading = False
        self._read_to = max(self._read_to, up_to)
        self._stored_to = max(self._stored_to, up_to)
        for message in messages:
            if message.id not in self._ahead:  # it looks new on disk, and may be done with since it was read
                self._add(message, None)
        if self._ahead:
            self._ahead.difference_update([id for id in self._ahead if id <= up_to])

    def got_due(self, messages: Iterable[Message], next_at_ms: int | None) -> None:
        """For TakeDue: what was taken, and when the next one is due; None: none is."""
        self._due_at_ms = next_at_ms
        for message in messages:
            self._add(message, None)

    def got_lane(self, name: str, messages: Iterable[Message], *, is_all: bool) -> None:
        """For TakeLane: what was taken, and whether the lane is empty now."""
        lane = self._lanes[name]
        lane.look_at_ms = None
        if is_all:
            del self._lanes[name]
        for message in messages:
            self._add(message, lane)

    def reading_failed(self) -> None:
        """The disk did not give what was wanted last, or not all of it: it is wanted again."""
        self._is_reading = False

    # Destinations

    def changed(self) -> None:
        """Some came or went."""
        self._look_at_ms = None
        for lane in self._lanes.values():
            if lane.look_at_ms is not None:
                lane.look_at_ms = 0

    def head(self, now_ms: int) -> Message | None:
        """The message whose turn it is: ask the backend for its destinations, and `begin`. None: none, for now."""
        if self._look_at_ms is not None:
            if now_ms < self._look_at_ms:
                return None
            self._look_at_ms = None
        while self._ready:
            entry = self._ready[0]
            lane = self._lanes.get(self._lane_of(entry)) if self._lanes else None
            if lane is None or (lane is entry.lane and lane.look_at_ms is None):
                return entry.message
            self._park(entry, self._lane_of(entry))
        return None

    def begin(self, message: Message, destinations: Sequence[str], now_ms: int) -> list[str]:
        """Where the delivery of the head begins now; empty: nowhere. `destinations`: all that could take it."""
        entry = self._entries.get(message.id)
        if entry is None or not self._ready or self._ready[0] is not entry:
            return []  # something went before it, meanwhile
        entry.failed.intersection_update(destinations)  # who comes back is asked again
        there = [name for name in destinations if name not in entry.message.acknowledged_by]
        left = [name for name in there if name not in entry.failed]
        if not left:
            self._rest(entry, there, now_ms)
            return []
        start = self._turn % len(left)
        turned = left[start:] + left[:start]
        places = {name: _place(name, message.publish.exchange) for name in turned}
        free = [name for name in turned if self._in_flight.get(places[name], 0) < self._in_flight_n]
        wanted_n = min(_missing_n(entry.message), len(left))
        if len(free) < wanted_n:
            if self._is_fixed:
                self._look_at_ms = now_ms + self._interval_ms
            else:
                full = next(places[name] for name in turned if name not in free)
                self._set_aside(entry, now_ms, full)
            return []
        self._ready.popleft()
        if entry.lane is not None:
            entry.lane.is_open = entry.lane.look_at_ms is None
        self._turn += wanted_n
        for name in free[:wanted_n]:
            entry.waits_for.add(name)
            self._in_flight[places[name]] = self._in_flight.get(places[name], 0) + 1
            self._deadlines[message.id, name] = now_ms + self._threshold_ms
        return free[:wanted_n]

    # Deliveries. Of one that is not under way nothing is heard.

    def acknowledged(self, id: int, to: str, by: str) -> None:
        """The destination that was chosen as `to` is `by`, and has acknowledged it."""
        entry = self._end(id, to)
        if entry is None:
            return
        names = entry.message.acknowledged_by | {by}
        entry.message = replace(entry.message, acknowledged_by=names)
        if _missing_n(entry.message) > 0 and not entry.is_removed:
            self._fates.append(Acknowledged(entry.message, names))
        self._settle(entry)

    def failed(self, id: int, to: str, reason: str, *, is_away: bool = False, is_hopeless: bool = False) -> None:
        """It was not acknowledged there; see `NotDelivered`."""
        entry = self._end(id, to)
        if entry is None:
            return
        entry.failed.add(to)
        entry.reason = reason
        entry.has_tried |= not is_away
        entry.is_away = is_away
        entry.is_hopeless |= is_hopeless
        self._settle(entry)

    def overdue(self, now_ms: int) -> list[tuple[int, str]]:
        """Deliveries, by id and destination, that have waited too long: cancel them, and report each as failed when it
        has ended. Each is told once."""
        found = []
        while self._deadlines:
            each, deadline_at_ms = next(iter(self._deadlines.items()))
            if deadline_at_ms > now_ms:
                break
            del self._deadlines[each]
            found.append(each)
        return found

    def forget(self, id: int) -> None:
        """An operator has removed it. What is under way goes on, and is not tried again."""
        entry = self._entries.get(id)
        if entry is None:
            return
        if entry.waits_for:
            entry.is_removed = True
            return
        self._ready.remove(entry)
        self._let_go(entry)
        if entry.lane is not None and entry.lane.look_at_ms is None and not entry.lane.is_open:
            entry.lane.look_at_ms = 0  # the next one is tried for all

    # What comes of it

    def take_fates(self) -> list[Fate]:
        """What has become of messages since the last time; to be written in this order."""
        fates, self._fates = self._fates, []
        return fates

    def next_at_ms(self) -> int | None:
        """When something is to be done though nothing happens; None: never."""
        moments = [self._look_at_ms]
        if self._room() > 0:
            moments += [self._due_at_ms, *(lane.look_at_ms for lane in self._lanes.values())]
        if self._deadlines:
            moments.append(next(iter(self._deadlines.values())))
        return min((each for each in moments if each is not None), default=None)

    # Helpers

    def _room(self) -> int:
        return self._window_n - len(self._entries) if self._bytes < self._window_bytes else 0

    def _share(self, found: list[Want]) -> list[Want]:
        """They have the room in turns: each has some of it at last."""
        room = self._room()
        shared: list[Want] = []
        for want in self._turned(found)[:room]:
            shared.append(replace(want, max_n=min(want.max_n, max(1, room // len(found)))))
        self._is_reading |= any(isinstance(want, ReadNew) for want in shared)
        return shared

    def _turned(self, wants: list[Want]) -> list[Want]:
        start = self._rounds_n % len(wants) if wants else 0
        return wants[start:] + wants[:start]

    def _add(self, message: Message, lane: _Lane | None) -> None:
        entry = _Entry(message, lane)
        if message.id > self._read_to:
            self._ahead.add(message.id)
        self._entries[message.id] = entry
        self._bytes += entry.bytes
        self._ready.append(entry)

    def _let_go(self, entry: _Entry) -> None:
        del self._entries[entry.message.id]
        self._bytes -= entry.bytes

    def _end(self, id: int, to: str) -> _Entry | None:
        """One delivery less; None: it was not under way."""
        entry = self._entries.get(id)
        if entry is None or to not in entry.waits_for:
            return None
        entry.waits_for.discard(to)
        self._deadlines.pop((id, to), None)
        place = _place(to, entry.message.publish.exchange)
        self._in_flight[place] -= 1
        in_flight_n = self._in_flight[place]
        if in_flight_n == 0:
            del self._in_flight[place]
        self._look_at_ms = None  # there is room now
        if place in self._short and in_flight_n <= self._in_flight_n // 2:
            for name in self._short.pop(place):
                lane = self._lanes.get(name)
                if lane is not None and lane.look_at_ms is not None:
                    lane.look_at_ms = 0
        return entry

    def _settle(self, entry: _Entry) -> None:
        """What becomes of it, when nothing of it is under way any more."""
        if entry.waits_for:
            return
        message = entry.message
        if entry.has_tried:
            message = entry.message = replace(message, tries_n=message.tries_n + 1)
            entry.has_tried = False
        if _missing_n(message) <= 0:
            self._let_go(entry)
            self._fates.append(Done(message))
        elif entry.is_removed:
            self._let_go(entry)
        elif entry.is_hopeless or 0 < self._tries <= message.tries_n:
            self._let_go(entry)
            self._fates.append(Dead(message, entry.reason))
        else:
            self._ready.appendleft(entry)

    def _rest(self, entry: _Entry, there: Collection[str], now_ms: int) -> None:
        """Nobody can take the head now. `there`: those who are up, and have failed it."""
        if there and (self._is_fixed or not entry.is_away):
            self._postpone(entry, now_ms)
        elif self._is_fixed and not entry.message.acknowledged_by:
            self._look_at_ms = now_ms + self._interval_ms  # nobody can take the others, either
        else:
            self._set_aside(entry, now_ms)

    def _postpone(self, entry: _Entry, now_ms: int) -> None:
        self._ready.popleft()
        self._let_go(entry)
        due_at_ms = now_ms + self._interval_ms
        self.requeued(due_at_ms)
        self._fates.append(Later(entry.message, due_at_ms, entry.reason))

    def _set_aside(self, entry: _Entry, now_ms: int, full: str | None = None) -> None:
        """Its lane waits, for room at a place perhaps."""
        name = self._lane_of(entry)
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) >= self._max_lanes:
                self._postpone(entry, now_ms)
                return
            lane = self._lanes[name] = _Lane(_place(ANY, entry.message.publish.exchange))
        lane.look_at_ms = now_ms + self._interval_ms
        lane.is_open = False
        if full is not None:
            self._short.setdefault(full, set()).add(name)
        self._park(entry, name)

    def _park(self, entry: _Entry, lane: str) -> None:
        self._ready.popleft()
        self._let_go(entry)
        self._fates.append(Parked(entry.message, lane, entry.reason))

    def _lane_of(self, entry: _Entry) -> str:
        exchange = "" if self._is_fixed else entry.message.publish.exchange
        return "\n".join((exchange, *sorted(entry.message.acknowledged_by)))


def _missing_n(message: Message) -> int:
    return message.publish.acks_n - len(message.acknowledged_by)


def _place(to: str, exchange: str) -> str:
    """Where the deliveries are counted that are under way: a hanging service must not hold up the others."""
    return to if to != ANY else "\n" + exchange

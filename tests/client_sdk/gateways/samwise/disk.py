"""A store in memory and destinations that a test turns on and off, around the machine of deliveries; and a clock."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from client_sdk.gateways.samwise.decisions import Acknowledged, Dead, Done, Fate, Later, Parked, ReadNew, TakeDue, Want
from client_sdk.gateways.samwise.delivery import MAX_LANES, Delivery, Retry
from client_sdk.gateways.samwise.values import Message


@dataclass
class Row:
    """A message on disk."""

    message: Message
    due_at_ms: int | None = None
    lane: str | None = None


@dataclass
class World:
    """One gateway's messages, from `put` to their end."""

    retry: Retry = field(default_factory=Retry)
    is_fixed: bool = True
    window_n: int = 100
    max_lanes: int = MAX_LANES
    in_flight_n: int = 10
    up: dict[str, tuple[str, ...]] = field(default_factory=dict)  # destinations by exchange; "": of all exchanges
    now_ms: int = 1_000_000
    rows: dict[int, Row] = field(default_factory=dict)
    begun: list[tuple[int, str]] = field(default_factory=list)  # all deliveries, in their order
    under_way: list[tuple[int, str]] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    dead: dict[int, str] = field(default_factory=dict)  # with the reason
    stored_to: int = 0

    def __post_init__(self) -> None:
        self.delivery = self._delivery()

    def _delivery(self) -> Delivery:
        return Delivery(
            self.retry,
            has_fixed_destinations=self.is_fixed,
            window_n=self.window_n,
            max_lanes=self.max_lanes,
            in_flight_n=self.in_flight_n,
        )

    def restart(self) -> None:
        """The process was killed: what is on disk is all that there is."""
        self.under_way.clear()
        self.delivery = self._delivery()
        dues = [row.due_at_ms for row in self.rows.values() if row.due_at_ms is not None]
        lanes = {row.lane for row in self.rows.values() if row.lane is not None}
        self.delivery.resume(self.stored_to, lanes, min(dues, default=None))
        self.pump()

    # What happens

    def put(self, *messages: Message) -> None:
        for message in messages:
            self.rows[message.id] = Row(message)
            self.stored_to = message.id
            self.delivery.stored(message)
        self.pump()

    def set_up(self, *names: str, exchange: str = "") -> None:
        """These are up, and no others."""
        self.up[exchange] = names
        self.delivery.changed()
        self.pump()

    def ack(self, id: int, to: str, by: str | None = None) -> None:
        self.under_way.remove((id, to))
        self.delivery.acknowledged(id, to, by or to)
        self.pump()

    def fail(self, id: int, to: str, reason: str = "no", *, is_away: bool = False, is_hopeless: bool = False) -> None:
        self.under_way.remove((id, to))
        self.delivery.failed(id, to, reason, is_away=is_away, is_hopeless=is_hopeless)
        self.pump()

    def wait(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)
        self.pump()

    def wait_for_next(self) -> None:
        """Until something is to be done."""
        at_ms = self.delivery.next_at_ms()
        assert at_ms is not None
        self.now_ms = max(self.now_ms, at_ms)
        self.pump()

    # What a gateway does

    def pump(self) -> None:
        self._write()
        while True:
            wants = self.delivery.wants(self.now_ms)
            for want in wants:
                self._read(want)
            heads_n = 0
            while (message := self.delivery.head(self.now_ms)) is not None:
                heads_n += 1
                names = self.delivery.begin(message, self.destinations(message), self.now_ms)
                for name in names:
                    self.check_begun(message, name)
                    self.begun.append((message.id, name))
                    self.under_way.append((message.id, name))
                self._write()
            self._write()
            if not wants and not heads_n:
                return

    def destinations(self, message: Message) -> tuple[str, ...]:
        return self.up.get("" if self.is_fixed else message.publish.exchange, ())

    def check_begun(self, message: Message, name: str) -> None:
        assert (message.id, name) not in self.under_way, "two deliveries of one message to one destination at a time"
        assert name not in self.rows[message.id].message.acknowledged_by, "it has acknowledged it"
        assert name in self.destinations(message)
        assert self.rows[message.id].due_at_ms is None
        assert self.rows[message.id].lane is None

    def _write(self) -> None:
        for fate in self.delivery.take_fates():
            self._write_one(fate)

    def _write_one(self, fate: Fate) -> None:
        id = fate.message.id
        row = self.rows[id]
        tries_n = fate.message.tries_n
        match fate:
            case Done():
                assert len(fate.message.acknowledged_by) >= row.message.publish.acks_n
                del self.rows[id]
                self.done.append(id)
            case Dead(reason=reason):
                del self.rows[id]
                self.dead[id] = reason
            case Acknowledged(names=names):
                assert names > row.message.acknowledged_by
                row.message = replace(row.message, acknowledged_by=names)
            case Later(due_at_ms=due_at_ms):
                assert due_at_ms > self.now_ms
                row.message = replace(row.message, tries_n=tries_n)
                row.due_at_ms = due_at_ms
            case Parked(lane=lane):
                row.message = replace(row.message, tries_n=tries_n)
                row.lane = lane

    def _read(self, want: Want) -> None:
        if isinstance(want, ReadNew):
            new = [
                row
                for id, row in self.rows.items()
                if id > want.after_id and row.due_at_ms is None and row.lane is None
            ]
            found = self._take(new, want.max_n)
            self.delivery.got_new(found, self.stored_to if len(found) == len(new) else found[-1].id)
        elif isinstance(want, TakeDue):
            rows = [row for row in self.rows.values() if row.due_at_ms is not None and row.due_at_ms <= self.now_ms]
            found = self._take(rows, want.max_n)
            dues = [row.due_at_ms for row in self.rows.values() if row.due_at_ms is not None]
            self.delivery.got_due(found, min(dues, default=None))
        else:
            rows = [row for row in self.rows.values() if row.lane == want.lane]
            found = self._take(rows, want.max_n)
            self.delivery.got_lane(want.lane, found, is_all=len(found) == len(rows))

    def _take(self, rows: list[Row], max_n: int) -> list[Message]:
        taken = sorted(rows, key=lambda row: row.message.id)[:max_n]
        for row in taken:
            row.due_at_ms = row.lane = None
        return [row.message for row in taken]

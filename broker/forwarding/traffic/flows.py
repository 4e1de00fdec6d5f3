"""Traffic counters: who called whom, how often, how many bytes, how long it took.

Decides how requests are counted; every ended request is counted once, in the flow of its caller, route, address and
model, under its outcome. Each interval the counters become `FlowRecord`s and begin anew, so sums over the records are
exact. Where single requests are written, too, the flow hands each one on (`request_log`). Does not know time or files.
"""

from typing import Final, NamedTuple

from broker.events import NO_KEY, OUTCOME_NAMES, REQUEST, FlowRecord, bucket_of
from broker.forwarding.traffic.request_log import RequestLog, address_text
from broker.routing.health.loads import ServiceLoad
from rsocket_wire.errors import CODE_WORDS

# Interaction models: the type of their first frame (METADATA_PUSH among them).
MODEL_NAMES: Final[dict[int, str]] = {
    0x04: "request_response",
    0x05: "fire_and_forget",
    0x06: "request_stream",
    0x07: "request_channel",
    0x0C: "metadata_push",
}

# Outcomes: places in `OUTCOME_NAMES`.
COMPLETED: Final = 0
FAILED: Final = 1  # the route answered with an ERROR, or the broker ended it: then its flow has the word
CANCELLED: Final = 2  # by the caller
REJECTED: Final = 3  # by the broker, before any route saw it
ROUTE_LOST: Final = 4
CALLER_LOST: Final = 5

MAX_FLOWS: Final = 65_536  # different flows in one interval; later ones are counted together, without caller and route
MAX_REFUSED_TOTALS: Final = 1_000  # combinations of refused requests in the totals
TAKEN_N: Final = 20  # flows of an interval that is over become records in a turn, in 0.15 ms: others wait for them
MAX_ADDRESS_BYTES: Final = 16 << 20  # of ADDRESSes that the flows of one interval keep; later ones keep none
# Combinations in the totals; service names come from peers, later ones are counted without. Who has no route any more
# gives its name to one that has.
MAX_TOTALS: Final = 10_000

_WORDS: Final[list[str]] = list(CODE_WORDS)
_REJECTED_NAME: Final = OUTCOME_NAMES[REJECTED]


class Counts:
    """The numbers of one outcome."""

    __slots__ = (
        "branches",
        "bytes_in",
        "bytes_out",
        "histogram",
        "items_in",
        "items_out",
        "latency_max_us",
        "latency_sum_us",
        "requests",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.branches = 0
        self.items_in = 0
        self.items_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.latency_sum_us = 0
        self.latency_max_us = 0
        self.histogram: dict[int, int] = {}  # bucket -> requests, at most MAX_BUCKET + 1 of them

    def add(self, more: "Counts") -> None:
        """Adds other counts."""
        self.requests += more.requests
        self.branches += more.branches
        self.items_in += more.items_in
        self.items_out += more.items_out
        self.bytes_in += more.bytes_in
        self.bytes_out += more.bytes_out
        self.latency_sum_us += more.latency_sum_us
        self.latency_max_us = max(self.latency_max_us, more.latency_max_us)
        for bucket, number in more.histogram.items():
            self.histogram[bucket] = self.histogram.get(bucket, 0) + number


class FlowTexts(NamedTuple):
    """What the requests of a flow have in common, in the order of `DEFINITION_FIELDS`."""

    caller_route: str = ""
    caller_service: str = ""
    principal: str = ""
    route_id: str = ""
    service: str = ""
    label: str = ""  # of the address
    model: str = ""
    routing: str = ""
    word: str = ""
    emptied_by: str = ""


class Flow:
    """Requests of one caller to one route under one address and model."""

    __slots__ = ("_counts", "_ended", "_is_listed", "_table", "address", "key", "key_hash", "number", "owner", "texts")

    def __init__(
        self,
        table: "FlowTable",
        owner: "dict[int, Flow]",
        key: int,
        texts: FlowTexts,
        address: bytes = b"",
        key_hash: int = NO_KEY,
    ) -> None:
        self._table: Final = table
        self.owner: Final = owner  # the dict that it is found by until the interval ends
        self.key: Final = key
        self.texts: Final = texts
        self.address: Final = address  # see `Target.raw`; empty: none, too long, or too many of them
        self.key_hash: Final = key_hash
        self.number = 0  # that single requests name it by; 0: none has in this interval
        self._counts: list[Counts | None] = [None, None, None, None, None, None]  # by outcome
        self._is_listed = False  # in the table's list: has counts of this interval
        self._ended: dict[int, Flow] | None = None  # by word, see `ended_with`; None: the broker ended none so far

    def ended_with(self, word: str) -> "Flow":
        """Returns where those of its requests are counted that the broker itself ended, with this code word."""
        ended = self._ended
        if ended is None:
            ended = self._ended = {}
        place = _WORDS.index(word)
        flow = ended.get(place)
        if flow is not None:
            return flow
        return self._table.open(ended, place, self.texts._replace(word=word), self.address, self.key_hash)

    def count(
        self,
        outcome: int,
        latency_us: int,
        items_in: int,
        items_out: int,
        bytes_in: int,
        bytes_out: int,
        opened_at: float,
        choice: int,
        branches: int,
    ) -> None:
        """One request ended. `opened_at`: seconds, monotonic; the end is `latency_us` later. `choice`: which of the
        query's choices it was; 0: none was made. `branches`: routes that it went to."""
        counts = self._counts[outcome]
        if counts is None:
            counts = self._counts[outcome] = Counts()
            if not self._is_listed:
                self._is_listed = True
                self._table.active.append(self)
        counts.requests += 1
        counts.branches += branches
        counts.items_in += items_in
        counts.items_out += items_out
        counts.bytes_in += bytes_in
        counts.bytes_out += bytes_out
        counts.latency_sum_us += latency_us
        if latency_us > counts.latency_max_us:
            counts.latency_max_us = latency_us
        bucket = bucket_of(latency_us)
        counts.histogram[bucket] = counts.histogram.get(bucket, 0) + 1
        log = self._table.request_log
        if log.every_n and (seq := log.draw()):
            if not self.number:
                self.number = log.define((*self.texts, address_text(self.address)))
            log.rows.append(
                (
                    REQUEST,
                    seq,
                    int(opened_at * 1e6 + log.base_us),
                    latency_us,
                    self.number,
                    outcome,
                    choice,
                    log.query.choices,
                    self.key_hash,
                    branches,
                    items_in,
                    items_out,
                    bytes_in,
                    bytes_out,
                )
            )

    def take_counts(self) -> list[Counts | None]:
        """Takes the interval's counts by outcome; the flow begins anew."""
        counts = self._counts
        self._counts = [None, None, None, None, None, None]
        self._is_listed = False
        return counts


class Uncounted(Flow):
    """What somebody else has counted."""

    def ended_with(self, word: str) -> Flow:
        return self

    def count(
        self,
        outcome: int,
        latency_us: int,
        items_in: int,
        items_out: int,
        bytes_in: int,
        bytes_out: int,
        opened_at: float,
        choice: int,
        branches: int,
    ) -> None:
        pass


class FlowTable:
    """All flows of the current interval, and totals for ever."""

    def __init__(self, request_log: RequestLog, services: dict[str, ServiceLoad] | None = None) -> None:
        """`services`: the services that have routes, by name."""
        self.request_log: Final = request_log
        self._services: Final[dict[str, ServiceLoad]] = services if services is not None else {}
        self._folded: list[bool] = []  # in this interval: totals of services that are gone, refused ones or others
        self.address_bytes = 0  # of the flows made in this interval
        self.over: Final[list[Flow]] = []  # of the interval that is over, not taken yet; the last one is the next
        self.active: list[Flow] = []  # those that counted something in this interval
        self.opened = 0  # flows made in this interval
        # By service, model, routing, outcome, word; see MAX_TOTALS.
        self.totals: Final[dict[tuple[str, str, str, str, str], Counts]] = {}
        self._refused = 0  # of the totals: those of requests that no route saw
        # Requests of other brokers: the one where they came in has counted them, so this one is in no record.
        self.relayed: Final[Flow] = Uncounted(self, {}, 0, FlowTexts())
        self._overflow: dict[FlowTexts, Flow] = {}  # flows beyond MAX_FLOWS, by model, routing and word: a few dozen

    def open(
        self, owner: dict[int, Flow], key: int, texts: FlowTexts, address: bytes = b"", key_hash: int = NO_KEY
    ) -> Flow:
        """Makes the flow under `key` of `owner`."""
        if self.opened >= MAX_FLOWS:
            return self._open_overflow(FlowTexts(model=texts.model, routing=texts.routing, word=texts.word))
        self.opened += 1
        if self.address_bytes + len(address) > MAX_ADDRESS_BYTES:
            address = b""
        self.address_bytes += len(address)
        flow = owner[key] = Flow(self, owner, key, texts, address, key_hash)
        return flow

    def end_interval(self) -> None:
        """Ends the interval: what counts from now on is of the next one, but at flows that are still to be taken."""
        self.active.reverse()
        self.over[:0] = self.active
        self.active = []
        self.opened = 0
        self.address_bytes = 0
        self._folded = []

    def take_records(self, seq: int, at_ms: int, interval_ms: int, all_of_them: bool = True) -> list[FlowRecord]:
        """Records of the interval that is over, numbered from `seq` on, or some of them; their counters begin anew."""
        records: list[FlowRecord] = []
        taken_n = len(self.over) if all_of_them else TAKEN_N
        taken = self.over[-taken_n:]
        del self.over[-taken_n:]
        taken.reverse()
        for flow in taken:
            flow.owner.pop(flow.key, None)
            if flow.number:
                self.request_log.forgotten.append(flow.number)
                flow.number = 0
            for outcome, counts in enumerate(flow.take_counts()):
                if counts is not None:
                    self._add_up(flow, outcome, counts)
                    records.append(_record(flow, outcome, counts, seq + len(records), at_ms, interval_ms))
        return records

    def _open_overflow(self, texts: FlowTexts) -> Flow:
        flow = self._overflow.get(texts)
        if flow is None:
            flow = self._overflow[texts] = Flow(self, {}, 0, texts)
        return flow

    def _add_up(self, flow: Flow, outcome: int, counts: Counts) -> None:
        texts = flow.texts
        key = (texts.service, texts.model, texts.routing, OUTCOME_NAMES[outcome], texts.word)
        total = self.totals.get(key)
        if total is None:
            # Callers make up the names of services that nobody has: they must not crowd out those that are there.
            is_refused = outcome == REJECTED
            if self._is_full(is_refused) and texts.service in self._services and is_refused not in self._folded:
                self._folded.append(is_refused)
                self._fold(is_refused)
            if self._is_full(is_refused):
                key = ("", key[1], key[2], key[3], key[4])
            total = self._total(key)
        total.add(counts)

    def _is_full(self, is_refused: bool) -> bool:
        if is_refused:
            return self._refused >= MAX_REFUSED_TOTALS
        return len(self.totals) - self._refused >= MAX_TOTALS

    def _total(self, key: tuple[str, str, str, str, str]) -> Counts:
        """Returns the total under this key, made now if need be."""
        total = self.totals.get(key)
        if total is None:
            total = self.totals[key] = Counts()
            if key[3] == _REJECTED_NAME:
                self._refused += 1
        return total

    def _fold(self, is_refused: bool) -> None:
        """Adds the totals of services that have no routes to those without a name, so that who has some has room.

        No sum over them changes.
        """
        for key, total in list(self.totals.items()):
            if not key[0] or (key[3] == _REJECTED_NAME) != is_refused or key[0] in self._services:
                continue
            del self.totals[key]
            if is_refused:
                self._refused -= 1
            self._total(("", key[1], key[2], key[3], key[4])).add(total)


def _record(flow: Flow, outcome: int, counts: Counts, seq: int, at_ms: int, interval_ms: int) -> FlowRecord:
    texts = flow.texts
    return FlowRecord(
        seq,
        at_ms,
        interval_ms,
        *texts[:8],
        OUTCOME_NAMES[outcome],  # stands in front of the word
        *texts[8:],
        counts.requests,
        counts.branches,
        counts.items_in,
        counts.items_out,
        counts.bytes_in,
        counts.bytes_out,
        counts.latency_sum_us,
        counts.latency_max_us,
        sorted(counts.histogram.items()),
        address_text(flow.address),
    )

"""Traffic counters: who called whom, how often, how many bytes, how long it took.

Decides how requests are counted; every ended request is counted once, in the flow of its caller, route, address and
model, under its outcome. Each interval the counters become `FlowRecord`s and begin anew, so sums over the records are
exact. Where single requests are written, too, the flow hands each one on (`singles`). Does not know time or files.
"""

from typing import Final

from broker.events import NO_KEY, FlowRecord, bucket_of
from broker.forwarding.singles import Singles, address_text

# Interaction models: the type of their first frame (METADATA_PUSH among them).
MODEL_NAMES: Final[dict[int, str]] = {
    0x04: "request_response",
    0x05: "fire_and_forget",
    0x06: "request_stream",
    0x07: "request_channel",
    0x0C: "metadata_push",
}

COMPLETED: Final = 0
FAILED: Final = 1  # the route answered with an ERROR
CANCELLED: Final = 2  # by the caller
REJECTED: Final = 3  # by the broker, before any route saw it
ROUTE_LOST: Final = 4
CALLER_LOST: Final = 5
OUTCOME_NAMES: Final = ("completed", "error", "cancelled", "rejected", "route_lost", "caller_lost")

MAX_FLOWS: Final = 65_536  # different flows in one interval; later ones are counted together, without caller and route
MAX_REFUSED_TOTALS: Final = 1_000  # combinations of refused requests in the totals
MAX_ADDRESS_BYTES: Final = 16 << 20  # of ADDRESSes that the flows of one interval keep; later ones keep none
MAX_TOTALS: Final = 10_000  # combinations in the totals; service names come from peers, later ones are counted without


class Counts:
    """The numbers of one outcome."""

    __slots__ = (
        "branches",
        "bucket",
        "bucket_n",
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
        self.histogram: dict[int, int] = {}  # bucket -> requests, at most MAX_BUCKET + 1 of them, see `settle`
        self.bucket = 0  # the latest one; its requests are counted here first, as they come in runs
        self.bucket_n = 0

    def settle(self) -> None:
        """Makes the histogram whole."""
        if self.bucket_n:
            self.histogram[self.bucket] = self.histogram.get(self.bucket, 0) + self.bucket_n
            self.bucket_n = 0


class Flow:
    """Requests of one caller to one route under one address and model."""

    __slots__ = (
        "_counts",
        "_is_listed",
        "_table",
        "address",
        "caller_route",
        "caller_service",
        "emptied_by",
        "key",
        "key_hash",
        "label",
        "model",
        "number",
        "owner",
        "route_id",
        "routing",
        "service",
        "word",
    )

    def __init__(
        self,
        table: "FlowTable",
        owner: "dict[int, Flow]",
        key: int,
        caller_route: str,
        caller_service: str,
        route_id: str,
        service: str,
        label: str,
        model: int,
        routing: str,
        word: str,
        emptied_by: str = "",
        address: bytes = b"",
        key_hash: int = NO_KEY,
    ) -> None:
        self._table: Final = table
        self.owner: Final = owner  # the dict that it is found by until the interval ends
        self.key: Final = key
        self.caller_route: Final = caller_route
        self.caller_service: Final = caller_service
        self.route_id: Final = route_id
        self.service: Final = service
        self.label: Final = label
        self.model: Final = model
        self.routing: Final = routing
        self.word: Final = word
        self.emptied_by: Final = emptied_by
        self.address: Final = address  # see `Target.raw`; empty: none, too long, or too many of them
        self.key_hash: Final = key_hash
        self.number = 0  # that single requests name it by; 0: none has in this interval
        self._counts: list[Counts | None] = [None, None, None, None, None, None]  # by outcome
        self._is_listed = False  # in the table's list: has counts of this interval

    @property
    def model_name(self) -> str:
        """`request_response`."""
        return MODEL_NAMES.get(self.model, "")

    def count(
        self,
        outcome: int,
        latency_us: int,
        items_in: int,
        items_out: int,
        bytes_in: int,
        bytes_out: int,
        opened_at: float,
        order: int,
        branches: int,
    ) -> None:
        """One request ended. `opened_at`: seconds, monotonic; the end is `latency_us` later. `order`: which of the
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
        if bucket != counts.bucket:
            counts.settle()
            counts.bucket = bucket
        counts.bucket_n += 1
        singles = self._table.singles
        if singles.every_n:
            singles.add(self, outcome, latency_us, items_in, items_out, bytes_in, bytes_out, opened_at, order, branches)

    def take_counts(self) -> list[Counts | None]:
        """The interval's counts by outcome; the flow begins anew."""
        counts = self._counts
        self._counts = [None, None, None, None, None, None]
        self._is_listed = False
        return counts


class Uncounted(Flow):
    """What somebody else has counted."""

    __slots__ = ()

    def count(
        self,
        outcome: int,
        latency_us: int,
        items_in: int,
        items_out: int,
        bytes_in: int,
        bytes_out: int,
        opened_at: float,
        order: int,
        branches: int,
    ) -> None:
        pass


class FlowTable:
    """All flows of the current interval, and totals for ever."""

    __slots__ = ("_crowd", "_refused", "active", "address_bytes", "opened", "relayed", "singles", "totals")

    def __init__(self, singles: Singles) -> None:
        self.singles: Final = singles
        self.address_bytes = 0  # of the flows made in this interval
        self.active: list[Flow] = []  # those that counted something in this interval
        self.opened = 0  # flows made in this interval
        self.totals: dict[
            tuple[str, str, str, str, str], Counts
        ] = {}  # service, model, routing, outcome, word; see MAX_TOTALS
        self._refused = 0  # of the totals: those with a code word
        # Requests of other brokers: the one where they came in has counted them, so this one is in no record.
        self.relayed: Final[Flow] = Uncounted(self, {}, 0, "", "", "", "", "", 0, "", "")
        self._crowd: dict[str, Flow] = {}  # flows beyond MAX_FLOWS, by model, routing and word: a few dozen

    def open(
        self,
        owner: dict[int, Flow],
        key: int,
        caller_route: str,
        caller_service: str,
        route_id: str,
        service: str,
        label: str,
        model: int,
        routing: str,
        word: str,
        emptied_by: str = "",
        address: bytes = b"",
        key_hash: int = NO_KEY,
    ) -> Flow:
        """The flow under `key` of `owner`, made now."""
        if self.opened >= MAX_FLOWS:
            return self._open_crowd(model, routing, word)
        self.opened += 1
        if self.address_bytes + len(address) > MAX_ADDRESS_BYTES:
            address = b""
        self.address_bytes += len(address)
        flow = Flow(
            self,
            owner,
            key,
            caller_route,
            caller_service,
            route_id,
            service,
            label,
            model,
            routing,
            word,
            emptied_by,
            address,
            key_hash,
        )
        owner[key] = flow
        return flow

    def take_records(self, seq: int, at_ms: int, interval_ms: int) -> list[FlowRecord]:
        """Records of the interval that ends now, numbered from `seq` on; counters begin anew."""
        records: list[FlowRecord] = []
        active = self.active
        self.active = []
        self.opened = 0
        self.address_bytes = 0
        for flow in active:
            flow.owner.pop(flow.key, None)
            self.singles.forget(flow)
            for outcome, counts in enumerate(flow.take_counts()):
                if counts is not None:
                    counts.settle()
                    self._add_up(flow, outcome, counts)
                    records.append(_record(flow, outcome, counts, seq + len(records), at_ms, interval_ms))
        return records

    def _open_crowd(self, model: int, routing: str, word: str) -> Flow:
        name = f"{model} {routing} {word}"
        flow = self._crowd.get(name)
        if flow is None:
            flow = self._crowd[name] = Flow(self, {}, 0, "", "", "", "", "", model, routing, word)
        return flow

    def _add_up(self, flow: Flow, outcome: int, counts: Counts) -> None:
        key = (flow.service, MODEL_NAMES[flow.model], flow.routing, OUTCOME_NAMES[outcome], flow.word)
        total = self.totals.get(key)
        if total is None:
            # Callers make up the names of services that nobody has: they must not crowd out those that are there.
            is_full = (
                self._refused >= MAX_REFUSED_TOTALS if flow.word else len(self.totals) - self._refused >= MAX_TOTALS
            )
            if is_full:
                key = ("", key[1], key[2], key[3], key[4])
                total = self.totals.get(key)
            if total is None:
                total = self.totals[key] = Counts()
                if flow.word:
                    self._refused += 1
        total.requests += counts.requests
        total.branches += counts.branches
        total.items_in += counts.items_in
        total.items_out += counts.items_out
        total.bytes_in += counts.bytes_in
        total.bytes_out += counts.bytes_out
        total.latency_sum_us += counts.latency_sum_us
        total.latency_max_us = max(total.latency_max_us, counts.latency_max_us)
        for bucket, number in counts.histogram.items():
            total.histogram[bucket] = total.histogram.get(bucket, 0) + number


def _record(flow: Flow, outcome: int, counts: Counts, seq: int, at_ms: int, interval_ms: int) -> FlowRecord:
    return FlowRecord(
        seq,
        at_ms,
        interval_ms,
        flow.caller_route,
        flow.caller_service,
        flow.route_id,
        flow.service,
        flow.label,
        MODEL_NAMES[flow.model],
        flow.routing,
        OUTCOME_NAMES[outcome],
        flow.word,
        flow.emptied_by,
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

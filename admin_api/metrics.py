"""/metrics: the broker's numbers for Prometheus, made when they are asked for; nothing is counted twice for it.

Names: `broker_` noun, unit in the name, `_total` for what only grows; of the Samwise gateway `samwise_`. Requests and
their bytes, items and latencies are those of ended requests, added up at the end of each flow interval, as in
`/api/v1/traffic`.

Service names come from peers, and every label value costs lines in each answer (and memory in Prometheus), so only
`MAX_SERVICES` of them have their own; the rest are counted together as `(other)`. Names that were only ever asked for
in vain are bounded by themselves (`MAX_REFUSED`): a caller that makes names up cannot take the places of services.
`_Places` says who has lines, and how counters never go back when a service gives its own to another one.

A broker with 300 services has some 15 000 lines, for which prometheus-client needs 100 ms. So they are written in
pieces of a few ms, and the loop forwards in between; no piece looks at what another one was looking at.

The flow histograms have 16 buckets per octave of microseconds; the `le` bounds are powers of two of a microsecond, at
which both agree exactly.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import accumulate, chain
from typing import Final, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from admin_api.numbers import EVENT_FILES, NUMBERS, Look
from admin_api.processes import BrokerProcess
from broker import VERSION
from broker.core import Core
from broker.events import MAX_BUCKET, bucket_low_us
from broker.views import queries
from broker.views.queries import REFUSED, Measured, Total, TotalKey
from rsocket_wire.models import REQUEST_RESPONSE, STREAMS

MAX_SERVICES: Final = 300  # names with lines of their own
MAX_REFUSED: Final = 100  # the same, of services of which requests were only refused
OTHER: Final = "(other)"
BOUNDS_US: Final = tuple(1 << power for power in range(6, 26))  # 64 us … 34 s: of requests
OWN_BOUNDS_US: Final = tuple(1 << power for power in range(2, 24))  # 4 us … 8 s: of what the broker adds, and its lag
HOP_BOUNDS: Final = (1, 2, 3, 4, 6, 8, 12, 16)  # links between brokers
WITH_ANSWER: Final = (REQUEST_RESPONSE, *STREAMS)  # the others end as they begin
PIECE_LINES: Final = 240  # some 2 ms
PIECE_TOTALS: Final = 200  # whose histograms are added up in one go: some 2 ms
OPENMETRICS: Final = "application/openmetrics-text"
END: Final = b"# EOF\n"  # of OpenMetrics
T = TypeVar("T")

_BOUNDS: Final = [repr(bound / 1e6) for bound in BOUNDS_US] + ["+Inf"]
# By flow bucket the position among the bounds; no bucket lies across a bound.
_POSITIONS: Final = [sum(bucket_low_us(bucket) >= bound for bound in BOUNDS_US) for bucket in range(MAX_BUCKET + 1)]


class Metrics:
    """The metrics of one broker and of its process."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process: Final = process
        self._places: Final = _Places()
        self._system: Final = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._system)

    async def render(self, accept: str, more: Iterable[Metric] = ()) -> tuple[bytes, str]:
        """The text and its content type, in the format that the Accept header asks for: Prometheus or OpenMetrics.
        `more`: families of others, which stand behind those of the broker."""
        encode, content_type = choose_encoder(accept)
        lines: list[bytes] = []
        name = ""
        for family in chain(self._collect(), chain.from_iterable(map(_parts, more))):
            text = encode(Families([family])).removesuffix(END)
            lines.append(text if family.name != name else _without_comments(text))
            name = family.name
            await asyncio.sleep(0)  # the loop's turn
        lines.append(encode(self._system).removesuffix(END))
        if content_type.startswith(OPENMETRICS):
            lines.append(END)
        return b"".join(lines), content_type

    def _collect(self) -> Iterator[Metric]:
        """All families of the broker as it is now; a large one in several pieces, one after another. Other things may
        happen between two of them."""
        process, core, places = self._process, self._process.core, self._places
        places.settle(core)
        build = {"version": VERSION, "core": queries.CORE}
        yield InfoMetricFamily("broker_build", "Version of the broker, and whether its core is compiled", build)
        look = Look(process, places.first(queries.service_routes(core)), places.refusals(core))
        yield from (number.family(look) for number in NUMBERS)
        if look.files is not None:
            files = look.files
            yield from (number.family(files) for number in EVENT_FILES)
        yield log_lines(look.edge.lines)
        yield _measured(
            "broker_added_latency_seconds",
            "Latency that the broker adds per frame: from the arrival of its bytes to the end of the write",
            core.added,
        )
        yield _measured("broker_loop_lag_seconds", "Lateness of a timer that is due every 50 ms", core.lag)
        yield _hops(core.engine.annotations.hop_counts)
        yield from _requests(core, places)
        yield from _volumes(core, places)


class Families(Collector):
    """Families, or parts of them, that are there already, for an encoder."""

    def __init__(self, families: list[Metric]) -> None:
        self._families: Final = families

    def collect(self) -> list[Metric]:
        return self._families


def _parts(family: Metric) -> Iterator[Metric]:
    """The same in several pieces, if it is large."""
    for samples in _pieces(family.samples, 1):
        part = Metric(family.name, family.documentation, family.type)
        part.samples = samples
        yield part


def _without_comments(text: bytes) -> bytes:
    """Samples only: the family's HELP and TYPE were already said. A sample begins with its name, never with #."""
    # By line feeds only, which names have escaped: `splitlines` would take a carriage return in a name for an end, too.
    return b"".join(line for line in BytesIO(text) if not line.startswith(b"#"))


def log_lines(lines: Mapping[tuple[str, bool], int]) -> CounterMetricFamily:
    """By kind, and whether they were written."""
    family = CounterMetricFamily(
        "broker_log_lines", "Log lines about what unknown peers do, written or only counted", labels=["kind", "written"]
    )
    for (kind, is_written), number in lines.items():
        family.add_metric([kind, "true" if is_written else "false"], number)
    return family


def _hops(counts: Sequence[int]) -> HistogramMetricFamily:
    """`counts`: requests by number of links, up to 255."""
    buckets = [(str(bound), sum(counts[: bound + 1])) for bound in HOP_BOUNDS] + [("+Inf", sum(counts))]
    links = sum(hops_n * number for hops_n, number in enumerate(counts))
    return HistogramMetricFamily("broker_request_hops", "Links that requests of other brokers passed", buckets, links)


def _requests(core: Core, places: "_Places") -> Iterator[Metric]:
    numbers: dict[TotalKey, int] = {}
    for part in places.parts(core):
        key = (part.label, *part.key[1:])
        numbers[key] = numbers.get(key, 0) + part.sign * part.total.requests
    labels = ["service", "model", "routing", "outcome", "code"]
    for piece in _pieces(list(numbers.items()), 1):
        family = CounterMetricFamily(
            "broker_requests", "Ended requests; code: code word of the broker's own error", labels=labels
        )
        for key, number in piece:
            family.add_metric(key, number)
        yield family


def _volumes(core: Core, places: "_Places") -> Iterator[Metric]:
    """Items, bytes and latencies. Refused requests moved nothing."""
    groups: dict[tuple[str, str], list[_Part]] = {}
    for part in places.parts(core):
        if part.key[3] != REFUSED:
            groups.setdefault((part.label, part.key[1]), []).append(part)
    labels = ["service", "model", "direction"]
    for what, name, text in (
        ("items", "broker_items", "Payloads of ended requests: in from callers, out from routes"),
        ("bytes", "broker_bytes", "Bytes of frames of ended requests: in from callers, out from routes"),
    ):
        for piece in _pieces(list(groups.items()), 2):
            family = CounterMetricFamily(name, text, labels=labels)
            for pair, group in piece:
                for way in ("in", "out"):
                    total = sum(part.sign * getattr(part.total, f"{what}_{way}") for part in group)
                    family.add_metric([*pair, way], total)
            yield family
    answered = [(pair, group) for pair, group in groups.items() if pair[1] in WITH_ANSWER]
    for piece in _pieces(answered, len(_BOUNDS) + 2):
        latencies = _latencies()
        for pair, group in piece:
            numbers = [0] * len(_BOUNDS)
            for at in range(0, len(group), PIECE_TOTALS):
                if at:
                    yield _latencies()  # an empty piece: only the loop's turn, `(other)` may have thousands of totals
                _add_buckets(numbers, group[at : at + PIECE_TOTALS])
            buckets = list(zip(_BOUNDS, accumulate(numbers), strict=True))
            sum_us = sum(part.sign * part.total.latency_sum_us for part in group)
            latencies.add_metric(pair, buckets, sum_us / 1e6)
        yield latencies


def _measured(name: str, text: str, durations: Measured) -> HistogramMetricFamily:
    numbers = [0] * (len(OWN_BOUNDS_US) + 1)
    for bucket, number in enumerate(durations.numbers):
        numbers[bisect_right(OWN_BOUNDS_US, bucket_low_us(bucket))] += number
    labels = [repr(bound / 1e6) for bound in OWN_BOUNDS_US] + ["+Inf"]
    buckets = list(zip(labels, accumulate(numbers), strict=True))
    return HistogramMetricFamily(name, text, buckets, durations.sum_us / 1e6)


def _latencies() -> HistogramMetricFamily:
    return HistogramMetricFamily(
        "broker_request_duration_seconds",
        "Time from the first frame of a request to its end, for interaction models with an answer",
        labels=["service", "model"],
    )


class _Part(NamedTuple):
    """A total as it counts under a label; `sign` -1: it is taken off again."""

    label: str
    key: TotalKey
    sign: int
    total: Total


class _Places:
    """Which services have lines of their own, from one look at the metrics to the next.

    The first MAX_SERVICES that were served, or refused while they had routes; and the first MAX_REFUSED of which
    requests were only refused, which no service had. Who has routes and comes later takes the place of one that has
    none any more, the one that had it for longest.

    Counters never go back: who gives a place back is counted among `(other)` from then on, with all that it has; who
    gets one and was among `(other)` before begins at 0, and what it had until then stays there. So no sum over
    services changes by it.
    """

    def __init__(self) -> None:
        self._served: Final[dict[str, None]] = {}  # in the order in which they got their places
        self._refused: Final[dict[str, None]] = {}
        self._others: set[str] = set()  # services counted among `(other)` when somebody looked; bounded by the totals
        # Of services that were among them before they got a place: their totals, and what these were at that moment.
        self._bases: dict[TotalKey, tuple[Total, Total]] = {}
        self._refusals: dict[str, int] = {}  # the same of the refusals of their breakers

    def settle(self, core: Core) -> None:
        """Gives and takes places, once for each look."""
        totals = queries.totals(core)
        refused = core.health.breakers.refused
        there = core.table.loads.services
        # Services in the order of their first request; True: requests of it were served, or its breaker refused some.
        names: dict[str, bool] = {}
        for key, _ in totals:
            names[key[0]] = names.get(key[0], False) or key[3] != REFUSED
        names |= dict.fromkeys(refused, True)
        for place in (self._served, self._refused):
            for name in [name for name in place if name not in names]:  # the broker counts them without name now
                del place[name]
                self._drop(name)
        gone = iter([name for name in self._served if name not in there])
        for name in sorted(names, key=lambda name: name not in there):  # who has routes comes first
            was_served = names[name]
            if name in ("", OTHER) or name in self._served:
                continue
            if was_served or name in there:
                if len(self._served) >= MAX_SERVICES:
                    given = next(gone, None) if name in there else None
                    if given is None:
                        continue  # it may have one of the refused, and keeps it
                    del self._served[given]
                    self._drop(given)
                is_new = name not in self._refused
                self._refused.pop(name, None)
                self._served[name] = None
            elif name not in self._refused and len(self._refused) < MAX_REFUSED:
                is_new = True
                self._refused[name] = None
            else:
                continue
            if is_new and name in self._others:
                self._note(name, totals, refused)
        self._others = {name for name in names if self._is_other(name)}
        kept = {key: total for key, total in totals if key in self._bases}
        self._bases = {key: base for key, base in self._bases.items() if kept.get(key) is base[0]}

    def parts(self, core: Core) -> list[_Part]:
        """All totals, by label."""
        parts: list[_Part] = []
        for key, total in queries.totals(core):
            label = self._label(key[0])
            parts.append(_Part(label, key, 1, total))
            base = self._bases.get(key)
            if base is not None and base[0] is total:
                parts += [_Part(label, key, -1, base[1]), _Part(OTHER, key, 1, base[1])]
        return parts

    def refusals(self, core: Core) -> dict[str, int]:
        """Requests that breakers refused, by label."""
        numbers: dict[str, int] = {}
        for name, number in core.health.breakers.refused.items():
            label = self._label(name) if name else OTHER
            base = min(number, self._refusals.get(name, 0))
            numbers[label] = numbers.get(label, 0) + number - base
            if base:
                numbers[OTHER] = numbers.get(OTHER, 0) + base
        return numbers

    def first(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """Of services: those with places and, up to MAX_SERVICES, the first of the others; the rest together."""
        names = [name for name in numbers if name in self._served]
        names += [name for name in numbers if name not in self._served and name != OTHER][: MAX_SERVICES - len(names)]
        first = {name: numbers[name] for name in names}
        rest = sum(numbers.values()) - sum(first.values())
        return {**first, OTHER: rest} if rest else first

    def _label(self, name: str) -> str:
        if not self._is_other(name):
            return name
        self._others.add(name)
        return OTHER

    def _is_other(self, name: str) -> bool:
        return name != "" and name not in self._served and name not in self._refused

    def _note(self, name: str, totals: list[tuple[TotalKey, Total]], refused: Mapping[str, int]) -> None:
        """What a service has when it leaves `(other)` stays there."""
        for key, total in totals:
            if key[0] == name:
                base = Total()
                base.add(total)
                self._bases[key] = (total, base)
        if name in refused:
            self._refusals[name] = refused[name]

    def _drop(self, name: str) -> None:
        """The service has no lines any more: all that it has is among `(other)`."""
        for key in [key for key in self._bases if key[0] == name]:
            del self._bases[key]
        self._refusals.pop(name, None)


def _add_buckets(numbers: list[int], group: list[_Part]) -> None:
    """Adds the histograms up by position among the bounds."""
    for part in group:
        for bucket, number in part.total.histogram.items():
            numbers[_POSITIONS[bucket]] += part.sign * number


def _pieces(items: list[T], lines: int) -> Iterator[list[T]]:
    """The items, each of so many lines, by `PIECE_LINES`; one empty piece of none, so that the family is there."""
    size = PIECE_LINES // lines
    for at in range(0, max(1, len(items)), size):
        yield items[at : at + size]

"""The metrics of several workers as those of one broker.

Decides how samples of one name and one set of labels become one: counters, histograms and what each worker has for
itself are added up; of what all know alike (`numbers.ALIKE`) the largest counts. Knows the text format, not who was
asked.

A sum of counters must never go back, or Prometheus takes it for a restart of everything and counts all of it again.
So what a worker had counted when it was last asked stays in the sums when it is gone, and its successor's is added;
what it counted after that is lost. A worker that does not answer this time counts as it did the last time. Gauges are
of those that answer.

A service that has lines at one worker may have none at another, which gave its place away and counts it among the
others (see `metrics`). What that worker had told of it stays in the sum of the service for as long as any worker has
lines of it, and is taken off the others meanwhile; so neither goes back, and nothing counts twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from prometheus_client import Metric, generate_latest
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families

from admin_api.metrics import OTHER, Families
from admin_api.numbers import ALIKE, counter, gauge
from broker.views.merge import MAX
from broker.views.schemas import STATES

SampleKey: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]  # name, labels in their order

ROUTES: Final = "broker_routes"
REMOTE: Final = "broker_remote_routes"
_SINKS: Final = (OTHER, "")  # services among which those without lines of their own are counted
_GROWING: Final = frozenset({"counter", "histogram"})
_ENDINGS: Final = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}  # of the names of samples


@dataclass(slots=True)
class Counted:
    """What the run of one worker has counted."""

    run: int  # number of its process
    values: dict[SampleKey, float] = field(default_factory=dict)
    # Of services that lost their lines there: what they had, and among which others it counts now.
    kept: dict[SampleKey, dict[SampleKey, float]] = field(default_factory=dict)

    def take(self, values: dict[SampleKey, float]) -> None:
        """What the worker says now."""
        grown: dict[SampleKey, float] = {}  # others, by how much; as far as nobody has accounted for it
        for key, old in self.values.items():
            if not _is_placed(key):
                values.setdefault(key, old)
            elif values.get(key, -1.0) < old:  # it may have lines again, which begin anew
                left = old
                for sink in [_renamed(key, name) for name in _SINKS]:
                    more = grown.setdefault(sink, values.get(sink, 0.0) - self.values.get(sink, 0.0))
                    moved = min(left, more)
                    if moved > 0.0:
                        grown[sink] = more - moved
                        left -= moved
                        amounts = self.kept.setdefault(key, {})
                        amounts[sink] = amounts.get(sink, 0.0) + moved
        self.values = values

    def sums(self) -> dict[SampleKey, float]:
        """All of it."""
        sums = dict(self.values)
        for key, amounts in self.kept.items():
            for sink, amount in amounts.items():
                sums[key] = sums.get(key, 0.0) + amount
                sums[sink] = sums.get(sink, 0.0) - amount
        return sums


class WorkersMetrics:
    """Remembers counters, so that sums do not go back."""

    def __init__(self) -> None:
        self._latest: dict[int, Counted] = {}  # by worker
        self._gone: dict[SampleKey, float] = {}  # sums of those that are no more; names and labels are bounded by them

    def render(
        self, accept: str, texts: Mapping[int, tuple[int, str]], own: Iterable[Metric] = ()
    ) -> tuple[bytes, str]:
        """The whole and its content type, in the format that the Accept header asks for.

        `texts`: by worker the number of its process and its metrics in the Prometheus format; who does not answer is
        not among them. `own`: families of the supervisor, and of what is one for all workers.
        """
        families: dict[str, Metric] = {}
        gauges: dict[SampleKey, float] = {}
        seen: dict[str, float] = {}  # routes as each worker counts them, added up
        for worker, (run, text) in texts.items():
            counted = self._begin(worker, run)
            values: dict[SampleKey, float] = {}
            for family in text_string_to_metric_families(text):
                families.setdefault(family.name, family)
                for sample in family.samples:
                    key = (sample.name, tuple(sample.labels.items()))
                    if family.type in _GROWING:
                        values[key] = float(sample.value)
                    elif sample.name in ALIKE or STATES.get(sample.labels.get("state", "")) is MAX:
                        gauges[key] = max(gauges.get(key, float("-inf")), float(sample.value))
                    else:
                        gauges[key] = gauges.get(key, 0.0) + float(sample.value)
                    if sample.name in (ROUTES, REMOTE):
                        seen[sample.name] = seen.get(sample.name, 0.0) + float(sample.value)
            counted.take(values)
        self._forget()
        if (REMOTE, ()) in gauges:  # those that no worker has
            gauges[REMOTE, ()] = max(0.0, gauges[ROUTES, ()] - (seen[ROUTES] - seen[REMOTE]))
        encode, content_type = choose_encoder(accept)
        return encode(Families([*self._joined(families, gauges), *own])), content_type

    def _begin(self, worker: int, run: int) -> Counted:
        """Where the counters of this run go; those of the run before it are kept apart."""
        latest = self._latest.get(worker)
        if latest is None or latest.run != run:
            if latest is not None:
                _add(self._gone, latest.sums())
            latest = self._latest[worker] = Counted(run)
        return latest

    def _forget(self) -> None:
        """Services of which no worker has lines any more are among the others for good: else their names were kept."""
        live = {key for counted in self._latest.values() for key in counted.values}
        for key in [key for key in self._gone if key not in live and _is_placed(key)]:
            _add(self._gone, {_renamed(key, OTHER): self._gone.pop(key)})
        for counted in self._latest.values():
            for key in [key for key in counted.kept if key not in live]:
                del counted.kept[key]

    def _joined(self, families: Mapping[str, Metric], gauges: dict[SampleKey, float]) -> list[Metric]:
        sums = dict(self._gone)
        for counted in self._latest.values():
            _add(sums, counted.sums())
        by_name: dict[str, list[tuple[SampleKey, float]]] = {}
        for key, value in (*sums.items(), *gauges.items()):
            by_name.setdefault(key[0], []).append((key, value))
        joined: list[Metric] = []
        for family in families.values():
            whole = Metric(family.name, family.documentation, family.type)
            rows = [row for end in _ENDINGS.get(family.type, ("",)) for row in by_name.get(family.name + end, ())]
            if family.type == "histogram":
                rows = _by_series(rows, family.name)
            for (name, labels), value in rows:
                whole.add_sample(name, dict(labels), value)
            joined.append(whole)
        return joined


def encoded(families: list[Metric]) -> str:
    """In the Prometheus format, as workers tell theirs."""
    return generate_latest(Families(families)).decode()


def own_families(restarts: Mapping[int, int], up: Mapping[int, bool]) -> list[Metric]:
    """What only the supervisor knows, by worker."""

    def by_worker(numbers: Mapping[int, int]) -> dict[str, float]:
        return {str(worker): number for worker, number in numbers.items()}

    is_up = gauge("broker_worker_up", "1 when these metrics include the worker", by_worker, "worker")
    return [
        is_up.family(up),
        counter("broker_worker_restarts", "Restarts of the worker", by_worker, "worker").family(restarts),
    ]


def _add(sums: dict[SampleKey, float], more: Mapping[SampleKey, float]) -> None:
    for key, value in more.items():
        sums[key] = sums.get(key, 0.0) + value


def _is_placed(key: SampleKey) -> bool:
    """It is of one service, whose lines may go."""
    return dict(key[1]).get("service", OTHER) not in _SINKS


def _renamed(key: SampleKey, service: str) -> SampleKey:
    """The same sample of another service."""
    return key[0], tuple((name, service if name == "service" else value) for name, value in key[1])


def _by_series(rows: list[tuple[SampleKey, float]], name: str) -> list[tuple[SampleKey, float]]:
    """Buckets, sum and count of each series together, as both formats want them; buckets in ascending order."""
    series: dict[tuple[tuple[str, str], ...], list[tuple[SampleKey, float]]] = {}
    for key, value in rows:
        labels = tuple(label for label in key[1] if label[0] != "le")
        series.setdefault(labels, []).append((key, value))
    ordered: list[tuple[SampleKey, float]] = []
    for group in series.values():
        buckets = [row for row in group if row[0][0] == f"{name}_bucket"]
        buckets.sort(key=lambda row: float(dict(row[0][1])["le"]))
        ordered += buckets + [row for row in group if row[0][0] != f"{name}_bucket"]
    return ordered

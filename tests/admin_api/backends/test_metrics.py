"""Metrics of several workers as one exposition: sums that never go back, and gauges that are no sums."""

from __future__ import annotations

from prometheus_client import Metric

from admin_api.backends.metrics import WorkersMetrics, own_families
from admin_api.metrics import OTHER, Metrics
from admin_api.numbers import ALIKE
from broker.views.merge import MAX
from broker.views.schemas import STATES
from tests.admin_api.fakes import FakeAdmin, shop_with_traffic
from tests.admin_api.test_metrics import OPENMETRICS, parse_openmetrics, parse_text

TEXT = """# HELP broker_routes Routes
# TYPE broker_routes gauge
broker_routes {routes}
# HELP broker_streams Requests in flight
# TYPE broker_streams gauge
broker_streams {streams}
# HELP broker_frames_received_total Frames
# TYPE broker_frames_received_total counter
broker_frames_received_total {frames}
# HELP broker_loop_lag_seconds Lag
# TYPE broker_loop_lag_seconds histogram
broker_loop_lag_seconds_bucket{{le="1e-05"}} {low}
broker_loop_lag_seconds_bucket{{le="0.5"}} {high}
broker_loop_lag_seconds_bucket{{le="+Inf"}} {high}
broker_loop_lag_seconds_count {high}
broker_loop_lag_seconds_sum {lag}
"""


def text(routes: int = 0, streams: int = 0, frames: int = 0, low: int = 0, high: int = 0, lag: float = 0.0) -> str:
    """What a worker says."""
    return TEXT.format(routes=routes, streams=streams, frames=frames, low=low, high=high, lag=lag)


def rendered(metrics: WorkersMetrics, texts: dict[int, tuple[int, str]]) -> list[str]:
    """The samples, in their order."""
    body, content_type = metrics.render("", texts)
    assert content_type.startswith("text/plain")
    return [line for line in body.decode().splitlines() if not line.startswith("#")]


def test_counters_and_histograms_are_added_up_and_what_all_know_is_not() -> None:
    found = rendered(WorkersMetrics(), {1: (11, text(5, 2, 100, 1, 3, 0.5)), 2: (12, text(6, 3, 50, 2, 2, 0.25))})
    assert found == [
        "broker_routes 6.0",
        "broker_streams 5.0",
        "broker_frames_received_total 150.0",
        'broker_loop_lag_seconds_bucket{le="1e-05"} 3.0',
        'broker_loop_lag_seconds_bucket{le="0.5"} 5.0',
        'broker_loop_lag_seconds_bucket{le="+Inf"} 5.0',
        "broker_loop_lag_seconds_count 5.0",
        "broker_loop_lag_seconds_sum 0.75",
    ]


def frames(metrics: WorkersMetrics, texts: dict[int, tuple[int, str]]) -> list[str]:
    """The sums of a counter, a histogram and a gauge."""
    wanted = ("broker_frames", "broker_loop_lag_seconds_count", "broker_streams")
    return [line.rpartition(" ")[2] for line in rendered(metrics, texts) if line.startswith(wanted)]


def test_a_counter_does_not_go_back_when_a_worker_is_silent_or_another_process() -> None:
    metrics = WorkersMetrics()
    other = (12, text(streams=1, frames=50, high=5))
    assert frames(metrics, {1: (11, text(streams=2, frames=100, high=10)), 2: other}) == ["3.0", "150.0", "15.0"]
    assert frames(metrics, {2: other}) == ["1.0", "150.0", "15.0"]
    assert frames(metrics, {1: (13, text(streams=4, frames=7, high=1)), 2: other}) == ["5.0", "157.0", "16.0"]
    assert frames(metrics, {1: (13, text(streams=4, frames=9, high=2)), 2: other}) == ["5.0", "159.0", "17.0"]


LABELLED = '# TYPE broker_requests_total counter\nbroker_requests_total{{service="{name}"}} 1\n'


def test_labels_that_only_one_worker_has_are_there() -> None:
    texts = {
        1: (1, "# TYPE broker_requests_total counter\n"),
        2: (2, LABELLED.format(name="orders")),
        3: (3, LABELLED.format(name="billing")),
    }
    assert rendered(WorkersMetrics(), texts) == [
        'broker_requests_total{service="orders"} 1.0',
        'broker_requests_total{service="billing"} 1.0',
    ]


def of_services(**numbers: int) -> str:
    """What a worker says of services; `others` have no lines of their own, `nameless` no name."""
    names = {"others": OTHER, "nameless": ""}
    lines = [f'broker_requests_total{{service="{names.get(name, name)}"}} {number}' for name, number in numbers.items()]
    return "\n".join(["# TYPE broker_requests_total counter", *lines, ""])


def by_service(metrics: WorkersMetrics, *texts: tuple[int, str]) -> dict[str, float]:
    found = [line.rpartition(" ") for line in rendered(metrics, dict(enumerate(texts, 1)))]
    return {name.split('"')[1]: float(value) for name, _, value in found}


def test_a_service_that_lost_its_lines_at_one_worker_keeps_its_sum_while_another_has_some() -> None:
    metrics = WorkersMetrics()
    assert by_service(metrics, (1, of_services(a=5, others=1)), (2, of_services(a=7))) == {"a": 12, OTHER: 1}
    # At worker 1 it had counted 6 when its place went to b; so 5 of the 6 are of `a` here.
    one = of_services(b=2, others=7)
    assert by_service(metrics, (1, one), (2, of_services(a=8))) == {"b": 2, "a": 13, OTHER: 2}
    one = of_services(b=2, a=3, others=7)  # a place again, and it begins at 0
    assert by_service(metrics, (1, one), (2, of_services(a=8))) == {"b": 2, "a": 16, OTHER: 2}
    one = of_services(b=2, a=1, others=10)  # lost and got again between two looks
    assert by_service(metrics, (1, one), (2, of_services(a=8))) == {"b": 2, "a": 17, OTHER: 2}
    restarted = of_services(a=1)
    assert by_service(metrics, (11, restarted), (2, of_services(a=8))) == {"a": 18, OTHER: 4}
    assert by_service(metrics, (11, of_services(others=2)), (2, of_services(others=9))) == {OTHER: 24}
    assert by_service(metrics, (11, of_services(others=2)), (2, of_services(others=9, a=1))) == {"a": 1, OTHER: 24}


def test_services_that_the_broker_counts_without_name_are_taken_off_those_without() -> None:
    metrics = WorkersMetrics()
    texts = (1, of_services(a=5, others=1, nameless=1)), (2, of_services(a=7))
    assert by_service(metrics, *texts) == {"a": 12, OTHER: 1, "": 1}
    texts = (1, of_services(others=1, nameless=7)), (2, of_services(a=7))
    assert by_service(metrics, *texts) == {"a": 12, OTHER: 1, "": 2}


def test_names_that_no_worker_has_any_more_are_not_kept() -> None:
    metrics = WorkersMetrics()
    for number in range(100):
        texts = {1: (number // 10, of_services(**{f"s{number}": 1, "others": number}))}
        rendered(metrics, texts)
    assert len(metrics._gone) == 1
    assert sum(len(counted.kept) for counted in metrics._latest.values()) == 0


def test_what_the_supervisor_counts_stands_beside_it() -> None:
    body, _ = WorkersMetrics().render("", {1: (11, text())}, own_families({1: 0, 2: 3}, {1: True, 2: False}))
    lines = [line for line in body.decode().splitlines() if line.startswith("broker_worker_")]
    assert lines == [
        'broker_worker_up{worker="1"} 1.0',
        'broker_worker_up{worker="2"} 0.0',
        'broker_worker_restarts_total{worker="1"} 0.0',
        'broker_worker_restarts_total{worker="2"} 3.0',
    ]


def factor(family: Metric, labels: dict[str, str]) -> int:
    """Two brokers count twice as much as one, and know as much."""
    is_alike = family.name in ALIKE or STATES.get(labels.get("state", "")) is MAX
    return 1 if family.type == "gauge" and is_alike else 2


async def test_the_metrics_of_real_brokers_are_readable_in_both_formats() -> None:
    """Twice the same broker: every counter is twice its own."""
    one, _ = await Metrics(FakeAdmin(shop_with_traffic())).render("")
    texts = {1: (1, one.decode()), 2: (2, one.decode())}
    body, _ = WorkersMetrics().render("", texts)
    alone = {family.name: family for family in parse_text(one.decode())}
    both = {family.name: family for family in parse_text(body.decode())}
    assert {name: family.type for name, family in both.items()} == {name: family.type for name, family in alone.items()}
    for name, family in alone.items():
        expected = [
            (sample.name, sample.labels, sample.value * factor(family, sample.labels)) for sample in family.samples
        ]
        assert [(sample.name, sample.labels, sample.value) for sample in both[name].samples] == expected, name
    open_body, content_type = WorkersMetrics().render(OPENMETRICS, texts)
    assert content_type.startswith("application/openmetrics-text")
    assert {family.name for family in parse_openmetrics(open_body.decode())} == set(alone)

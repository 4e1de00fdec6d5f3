"""/metrics: every number under its name, bounded, in both formats."""

import asyncio
import io
import sys
from collections.abc import Callable
from itertools import pairwise

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_fd_to_metric_families

from admin_api.metrics import BOUNDS_US, MAX_REFUSED, MAX_SERVICES, OTHER, OWN_BOUNDS_US, PIECE_LINES, Metrics
from broker.core import CoreSettings
from broker.events import bucket_of
from broker.forwarding.traffic.flows import Counts
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE
from tests.admin_api.asking import api_of
from tests.admin_api.fakes import FakeAdmin, shop_with_traffic
from tests.fakes import World, address

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


async def samples(of: FakeAdmin | Metrics, prefix: str) -> dict[str, float]:
    """`name{label="value"}` and its value, of all names with this prefix."""
    text, _ = await (of if isinstance(of, Metrics) else Metrics(of)).render("")
    lines = [line.rpartition(" ") for line in text.decode().splitlines() if line.startswith(prefix)]
    found = {name: float(value) for name, _, value in lines}
    assert len(found) == len(lines), "a sample is there twice"
    return found


def parse_text(text: str) -> list[Metric]:
    """The families of the Prometheus format."""
    return list(text_fd_to_metric_families(io.StringIO(text)))


def parse_openmetrics(text: str) -> list[Metric]:
    """The families of OpenMetrics; ValueError when one is not as it must be."""
    return list(openmetrics.text_fd_to_metric_families(io.StringIO(text)))  # type: ignore[no-untyped-call]


def total(found: dict[str, float], prefix: str) -> float:
    """The sum of all samples with that prefix."""
    return sum(value for name, value in found.items() if name.startswith(prefix))


def count(world: World, service: str, outcome: str = "completed", latencies_us: tuple[int, ...] = (100,)) -> Counts:
    """So many requests were counted by now, one of each latency."""
    totals = world.core.engine.flows.totals
    counts = totals.setdefault((service, "request_response", "unicast", outcome, ""), Counts())
    counts.histogram.clear()
    counts.requests = len(latencies_us)
    counts.latency_sum_us = sum(latencies_us)
    for us in latencies_us:
        counts.histogram[bucket_of(us)] = counts.histogram.get(bucket_of(us), 0) + 1
    return counts


def _requests(service: str, model: str, outcome: str, code: str = "") -> str:
    return (
        f'broker_requests_total{{code="{code}",model="{model}",outcome="{outcome}",routing="unicast",'
        f'service="{service}"}}'
    )


async def test_latencies_are_cumulative_and_in_seconds_and_only_of_models_with_an_answer() -> None:
    world = shop_with_traffic()
    count(world, "orders", latencies_us=(63, 64, 64, 1000, 1 << 30))
    count(world, "orders", "error", latencies_us=(2000,))
    found = await samples(FakeAdmin(world), "broker_request_duration_seconds")
    labels = 'model="request_response",service="orders"'
    assert all(labels in name for name in found)
    bounds = [repr(bound / 1e6) for bound in BOUNDS_US] + ["+Inf"]
    numbers = [found.pop(f'broker_request_duration_seconds_bucket{{le="{bound}",{labels}}}') for bound in bounds]
    assert numbers == [1, 3, 3, 3, 4, 5] + [5] * 14 + [6]
    assert found == {
        f"broker_request_duration_seconds_count{{{labels}}}": 6,
        f"broker_request_duration_seconds_sum{{{labels}}}": pytest.approx(0.003191 + (1 << 30) / 1e6),
    }


@pytest.mark.parametrize("name", ["added_latency", "loop_lag"])
async def test_what_the_edge_measured_is_cumulative_and_in_seconds(name: str) -> None:
    world = World()
    durations = world.core.added if name == "added_latency" else world.core.lag
    for us, number in ((3, 1), (4, 2), (15, 3), (5000, 4), (60_000_000, 5)):
        durations.add(us / 1e6, number)
    found = await samples(FakeAdmin(world), f"broker_{name}_seconds")
    bounds = [repr(bound / 1e6) for bound in OWN_BOUNDS_US] + ["+Inf"]
    numbers = [found.pop(f'broker_{name}_seconds_bucket{{le="{bound}"}}') for bound in bounds]
    assert numbers == [1, 3, 6, 6, 6, 6, 6, 6, 6, 6, 6] + [10] * 11 + [15]
    assert found == {f"broker_{name}_seconds_count": 15, f"broker_{name}_seconds_sum": pytest.approx(300.020056)}


async def test_requests_that_breakers_refused_are_counted_by_service_and_beyond_the_limit_together() -> None:
    world = World()
    refused = world.core.health.breakers.refused
    refused |= {"": 7, **{f"s{number}": 2 for number in range(MAX_SERVICES + 3)}}
    found = await samples(FakeAdmin(world), "broker_breaker_refusals_total")
    assert len(found) == MAX_SERVICES + 1
    assert found[f'broker_breaker_refusals_total{{service="s{MAX_SERVICES - 1}"}}'] == 2
    assert found[f'broker_breaker_refusals_total{{service="{OTHER}"}}'] == 2 * 3 + 7


async def test_requests_that_wait_are_counted() -> None:
    admin = FakeAdmin(World(CoreSettings(no_route="wait")))
    raw = admin.world.caller().request(REQUEST_RESPONSE, 1, address(service="orders"))
    assert await samples(admin, "broker_wait") == {
        "broker_waiting_requests": 1,
        "broker_waiting_bytes": len(raw),
        "broker_waited_requests_total": 1,
    }


@pytest.mark.parametrize("is_ready, is_stopping, value", [(True, False, 1), (False, False, 0), (True, True, 0)])
async def test_ready_is_a_number(is_ready: bool, is_stopping: bool, value: int) -> None:
    admin = FakeAdmin(World())
    admin.is_ready, admin.is_stopping = is_ready, is_stopping
    assert await samples(admin, "broker_ready") == {"broker_ready": value}


async def test_services_beyond_the_limit_are_counted_together() -> None:
    world = World()
    for number in range(MAX_SERVICES + 5):
        count(world, f"s{number}", latencies_us=(100, 200))
    found = await samples(FakeAdmin(world), "broker_requests_total")
    assert len(found) == MAX_SERVICES + 1
    assert found[_requests(f"s{MAX_SERVICES - 1}", "request_response", "completed")] == 2
    assert found[_requests(OTHER, "request_response", "completed")] == 10
    latencies = await samples(FakeAdmin(world), "broker_request_duration_seconds_count")
    assert latencies[f'broker_request_duration_seconds_count{{model="request_response",service="{OTHER}"}}'] == 10


async def test_names_that_a_caller_makes_up_do_not_take_the_places_of_services() -> None:
    world = World()
    for number in range(MAX_SERVICES + MAX_REFUSED):
        count(world, f"made-up-{number}", "rejected")
    count(world, "orders")
    found = await samples(FakeAdmin(world), "broker_requests_total")
    assert len(found) == MAX_REFUSED + 2
    assert found[_requests("orders", "request_response", "completed")] == 1
    assert found[_requests(OTHER, "request_response", "rejected")] == MAX_SERVICES


async def test_routes_of_services_beyond_the_limit_are_counted_together() -> None:
    world = World()
    for number in range(MAX_SERVICES + 3):
        world.service(f"s{number}", number + 1)
    found = await samples(FakeAdmin(world), "broker_service_routes")
    assert (len(found), found[f'broker_service_routes{{service="{OTHER}"}}']) == (MAX_SERVICES + 1, 3)


@pytest.mark.parametrize("services", [0, 1, PIECE_LINES, MAX_SERVICES + 1])
async def test_both_formats_are_well_formed_however_many_pieces_there_are(services: int) -> None:
    world = World()
    for number in range(services):
        count(world, f'"s\n{number}\\')
    metrics = Metrics(FakeAdmin(world))
    text, content_type = await metrics.render("text/plain;version=0.0.4")
    assert content_type.startswith("text/plain")
    plain = [family.name for family in parse_text(text.decode())]
    assert len(plain) == len(set(plain))
    text, content_type = await metrics.render(OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")
    families = {family.name: family for family in parse_openmetrics(text.decode())}  # fails when one comes twice
    names = {sample.labels["service"] for sample in families["broker_requests"].samples}
    assert len(names) == min(services, MAX_SERVICES + 1)


LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # of somebody: `str.splitlines` takes all of them for one


@pytest.mark.parametrize("accept, parse", [("", parse_text), (OPENMETRICS, parse_openmetrics)])
async def test_names_of_services_cannot_tear_lines(accept: str, parse: Callable[[str], list[Metric]]) -> None:
    world = World()
    names = {f'{end}#{number}{end}# EOF{end}\\"{{}} ' for number in range(PIECE_LINES // 10) for end in LINE_ENDS}
    for name in names:
        count(world, name)
    text, _ = await Metrics(FakeAdmin(world)).render(accept)
    families = {family.name: family for family in parse(text.decode())}
    for family in ("broker_requests", "broker_items", "broker_bytes", "broker_request_duration_seconds"):
        assert {sample.labels["service"] for sample in families[family].samples} == names


# Places


def served(found: dict[str, float], service: str) -> float | None:
    """Completed requests under a label; None: it has no line."""
    return found.get(_requests(service, "request_response", "completed"))


async def test_who_has_routes_takes_the_place_of_one_that_has_none_any_more_and_no_sum_shrinks() -> None:
    """By default 300 names that were served once and left made all later services `(other)` until the broker ended."""
    world = World()
    admin = FakeAdmin(world)
    metrics = Metrics(admin)
    world.service("s0", 1)  # the only one of them that stays
    for number in range(MAX_SERVICES):
        count(world, f"s{number}", latencies_us=(100, 200))
    first = await samples(metrics, "broker_")
    count(world, "nobody-any-more")
    count(world, "payments", latencies_us=(100, 300, 300))
    second = await samples(metrics, "broker_")
    assert [served(second, name) for name in ("payments", "nobody-any-more", OTHER)] == [None, None, 4]
    world.service("payments", 2)
    third = await samples(metrics, "broker_")
    assert [served(third, name) for name in ("s0", "s1", "payments", OTHER)] == [2, None, 0, 6]
    payments = count(world, "payments", latencies_us=(100, 300, 300, 400))
    fourth = await samples(metrics, "broker_")
    assert [served(fourth, name) for name in ("s0", "payments", OTHER)] == [2, 1, 6]
    latency = 'broker_request_duration_seconds_bucket{{le="{}",model="request_response",service="{}"}}'
    bounds = ("0.000128", "0.000256", "0.000512", "+Inf")
    assert [fourth[latency.format(bound, "payments")] for bound in bounds] == [0, 0, 1, 1]
    assert [fourth[latency.format(bound, OTHER)] for bound in bounds] == [3, 4, 6, 6]
    for before, after in pairwise((first, second, third, fourth)):
        for prefix in ("broker_requests_total", "broker_items_total", "broker_bytes_total", "broker_request_duration"):
            assert total(before, prefix) <= total(after, prefix)
            assert before.keys() - after.keys() == {
                name for name in before if name.startswith("broker_") and 'service="s1"' in name and after is third
            }
    assert payments.requests == 4


async def test_a_place_that_was_given_back_and_is_given_again_begins_anew() -> None:
    world = World()
    metrics = Metrics(FakeAdmin(world))
    for number in range(MAX_SERVICES):
        count(world, f"s{number}")
    orders = world.service("orders", 1)
    count(world, "orders")
    found = await samples(metrics, "broker_")
    assert [served(found, name) for name in ("s0", "orders", OTHER)] == [1, 1, 1]
    assert served(found, f"s{MAX_SERVICES - 1}") is None
    orders.lose()
    last = f"s{MAX_SERVICES - 1}"
    back = world.service(last, 2)
    found = await samples(metrics, "broker_")
    assert [served(found, name) for name in (last, "orders", "s0", OTHER)] == [0, None, 1, 2]
    count(world, last, latencies_us=(1, 2, 3))
    assert served(await samples(metrics, "broker_"), last) == 2
    back.lose()
    world.service("orders", 3)
    found = await samples(metrics, "broker_")
    assert [served(found, name) for name in ("orders", "s0", last, OTHER)] == [0, None, 2, 3]


async def test_totals_that_the_broker_counts_without_name_leave_their_place() -> None:
    world = World()
    metrics = Metrics(FakeAdmin(world))
    for number in range(MAX_SERVICES + 1):
        count(world, f"s{number}")
    await samples(metrics, "broker_")
    count(world, "", latencies_us=(100,))
    del world.core.engine.flows.totals["s7", "request_response", "unicast", "completed", ""]
    found = await samples(metrics, "broker_")
    assert [served(found, name) for name in ("s7", f"s{MAX_SERVICES}", "", OTHER)] == [None, 0, 1, 1]


async def test_a_name_that_was_refused_has_a_place_of_a_service_once_it_has_routes() -> None:
    world = World()
    metrics = Metrics(FakeAdmin(world))
    for number in range(MAX_REFUSED + 1):
        count(world, f"made-up-{number}", "rejected")
    last = f"made-up-{MAX_REFUSED}"
    found = await samples(metrics, "broker_")
    assert found.get(_requests(last, "request_response", "rejected")) is None
    world.service("made-up-0", 1)
    world.service(last, 2)
    found = await samples(metrics, "broker_")
    assert found[_requests("made-up-0", "request_response", "rejected")] == 1
    assert found[_requests(last, "request_response", "rejected")] == 0
    assert found[_requests(OTHER, "request_response", "rejected")] == 1


async def test_a_service_that_is_called_like_the_others_counts_among_them() -> None:
    world = World()
    world.service(OTHER, 1)
    world.service("orders", 2)
    count(world, OTHER)
    found = await samples(FakeAdmin(world), "broker_")
    assert served(found, OTHER) == 1
    assert found[f'broker_service_routes{{service="{OTHER}"}}'] == 1


async def test_refusals_of_breakers_have_the_places_of_their_services() -> None:
    world = World()
    metrics = Metrics(FakeAdmin(world))
    refused = world.core.health.breakers.refused
    for number in range(MAX_SERVICES):
        count(world, f"s{number}")
    refused["payments"] = 5
    count(world, "payments")
    name = 'broker_breaker_refusals_total{{service="{}"}}'
    assert await samples(metrics, "broker_breaker_refusals_total") == {name.format(OTHER): 5}
    world.service("payments", 1)
    found = await samples(metrics, "broker_breaker_refusals_total")
    assert found == {name.format("payments"): 0, name.format(OTHER): 5}
    refused["payments"] = 7
    found = await samples(metrics, "broker_breaker_refusals_total")
    assert found == {name.format("payments"): 2, name.format(OTHER): 5}


async def test_the_process_is_told_too() -> None:
    found = await samples(FakeAdmin(World()), "p")
    assert any(name.startswith("python_info") for name in found)
    if sys.platform == "linux":
        assert found["process_resident_memory_bytes"] > 0


async def test_the_loop_turns_between_the_pieces() -> None:
    world = World()
    for number in range(MAX_SERVICES):
        count(world, f"s{number}")
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    text, _ = await Metrics(FakeAdmin(world)).render("")
    turning.cancel()
    assert turns > text.count(b"\n") / PIECE_LINES


async def test_routes_may_come_and_go_while_metrics_are_written() -> None:
    world = World()
    metrics = Metrics(FakeAdmin(world))
    for number in range(MAX_SERVICES):
        count(world, f"s{number}")
    writing = asyncio.create_task(metrics.render(""))
    number = MAX_SERVICES
    while not writing.done():
        number += 1
        count(world, f"s{number}")
        world.service(f"s{number}", number)
        await asyncio.sleep(0)
    text, _ = await writing
    names = [family.name for family in parse_text(text.decode())]
    assert len(names) == len(set(names))


async def test_the_endpoint_answers_in_the_format_that_was_asked_for() -> None:
    async with api_of(FakeAdmin(World())) as client:
        async with client.get("/metrics") as answer:
            assert (answer.status, answer.content_type) == (200, "text/plain")
            assert "broker_routes 0.0\n" in await answer.text()
        async with client.get("/metrics", headers={"Accept": OPENMETRICS}) as answer:
            assert answer.content_type == "application/openmetrics-text"

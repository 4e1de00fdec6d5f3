"""A replay with the settings that ran makes every choice as the broker made it."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.core import CoreSettings
from broker.events import DRAIN_STARTED, ROUTE_EJECTED, ROUTE_RELIEVED
from broker.routing.policies import Policy
from spark_sink.what_if.replay import ANONYMOUS_STICKY
from spark_sink.what_if.simulation import Simulation
from tests.spark_sink.what_if.histories import asked
from tests.spark_sink.what_if.recording import busy_day, change_tags, drains, policy

MOST = 2000  # requests


def wrong(simulation: Simulation) -> dict[str, tuple[int, int]]:
    """Methods of which some choice came out differently: (choices, same)."""
    return {
        name: (compared.choices, compared.same)
        for name, compared in simulation.checked.compared.items()
        if compared.same != compared.choices
    }


@pytest.mark.parametrize(
    "chooser", ["round_robin", "random", "weighted", "least_busy", "power_of_two", "zone_first", "zone_first:weighted"]
)
def test_every_choice_of_a_busy_day_is_reproduced(chooser: str, tmp_path: Path) -> None:
    day = busy_day(CoreSettings(policy(chooser), single_requests=1, zone="a"), MOST)
    simulation = asked(day.write(tmp_path))
    compared = simulation.checked.compared
    assert wrong(simulation) == {}
    assert sum(each.choices for each in compared.values()) > 0.95 * MOST
    assert (
        compared[chooser if ":" in chooser or chooser != "zone_first" else "zone_first:round_robin"].choices > MOST / 2
    )
    assert simulation.result.moved_requests == 0


ALL_CHOOSERS = ("round_robin", "random", "weighted", "least_busy", "power_of_two", "zone_first:random", "sticky:random")


def test_hints_and_all_shard_methods_are_reproduced(tmp_path: Path) -> None:
    settings = CoreSettings(policy("random"), single_requests=1)
    day = busy_day(settings, MOST, shard=0.4, hints=ALL_CHOOSERS, by_caller=True, anonymous=False)
    simulation = asked(day.write(tmp_path))
    assert wrong(simulation) == {}
    assert set(simulation.checked.compared) >= {
        "shard maglev", "shard ring", "shard jump", "shard modulo", "shard rendezvous", "least_busy", "sticky random"
    }  # fmt: skip


def test_services_with_policies_of_their_own_are_reproduced(tmp_path: Path) -> None:
    own = {"svc0": policy("power_of_two"), "svc1": policy("weighted", shard_method="maglev")}
    day = busy_day(CoreSettings(policy("round_robin"), own, single_requests=1), MOST)
    simulation = asked(day.write(tmp_path))
    assert wrong(simulation) == {}
    assert {"power_of_two", "weighted", "round_robin", "shard maglev", "shard rendezvous"} <= set(
        simulation.checked.compared
    )


def test_ejected_routes_are_reproduced(tmp_path: Path) -> None:
    settings = CoreSettings(
        Policy("random", eject_after_errors=2, eject_s=0.05, eject_max_percent=50), single_requests=1
    )
    day = busy_day(settings, MOST, errors=0.5)
    assert day.told(ROUTE_EJECTED) > 10
    assert day.told(ROUTE_RELIEVED) > 10
    assert wrong(asked(day.write(tmp_path))) == {}


def test_full_routes_and_services_are_reproduced(tmp_path: Path) -> None:
    limits = policy("least_busy", max_in_flight_per_route=1, max_in_flight_per_service=3)
    day = busy_day(CoreSettings(limits, single_requests=1), MOST)
    simulation = asked(day.write(tmp_path))
    for made, same in wrong(simulation).values():  # but where a caller had its share of a route or a service (D-68)
        assert same >= made * 0.99
    assert simulation.result.still_refused["over-limit"] > 50


def test_multicasts_in_between_change_nothing_for_who_does_not_look_at_loads(tmp_path: Path) -> None:
    day = busy_day(CoreSettings(policy("weighted"), single_requests=1), MOST, multicast=0.2)
    simulation = asked(day.write(tmp_path))
    assert wrong(simulation) == {}
    assert simulation.result.multicast_requests > 100
    assert simulation.result.branches == simulation.result.real_branches
    assert not any("multicasts to" in note for note in simulation.notes)


def test_requests_that_waited_for_a_route_are_reproduced(tmp_path: Path) -> None:
    settings = CoreSettings(policy("random"), single_requests=1, no_route="wait", no_route_timeout_s=0.5)
    day = busy_day(settings, MOST, routes=1)
    assert wrong(asked(day.write(tmp_path))) == {}


@pytest.mark.parametrize("kind", ["tag", "route"])
def test_drains_are_reproduced(kind: str, tmp_path: Path) -> None:
    day = busy_day(CoreSettings(policy("round_robin"), single_requests=1), MOST, events=drains(kind))
    assert day.told(DRAIN_STARTED) > 3
    assert wrong(asked(day.write(tmp_path))) == {}


def test_changed_tags_are_reproduced(tmp_path: Path) -> None:
    day = busy_day(CoreSettings(policy("least_busy"), single_requests=1), MOST, events=change_tags)
    assert sum(event[8] == "changed" for event in day.lifecycle()) > 3
    assert wrong(asked(day.write(tmp_path))) == {}


def test_sticky_choices_of_callers_without_a_route_are_counted_and_taken_as_they_were(tmp_path: Path) -> None:
    day = busy_day(CoreSettings(policy("sticky:random"), single_requests=1), MOST, shard=0.0)
    simulation = asked(day.write(tmp_path))
    assert simulation.result.not_replayed[ANONYMOUS_STICKY] > 100
    times = simulation.result.not_replayed[ANONYMOUS_STICKY]
    assert f"a request was taken as it was, {times:,} times: {ANONYMOUS_STICKY}" in simulation.notes
    loads = simulation.result.routes.values()
    assert sum(load.asked.requests for load in loads) > 0.98 * sum(load.real.requests for load in loads)


def test_a_latency_based_chooser_is_nearly_reproduced_and_the_report_says_so(tmp_path: Path) -> None:
    day = busy_day(CoreSettings(policy("peak_ewma"), single_requests=1), MOST, shard=0.0)
    simulation = asked(day.write(tmp_path))
    compared = simulation.checked.compared["peak_ewma"]
    assert compared.same >= 0.99 * compared.choices
    assert any("went by latencies" in note for note in simulation.notes)


def test_routes_that_warm_up_are_nearly_reproduced(tmp_path: Path) -> None:
    day = busy_day(CoreSettings(policy("random", slow_start_s=0.3), single_requests=1), MOST, shard=0.0)
    compared = asked(day.write(tmp_path)).checked.compared["random"]
    assert compared.same >= 0.99 * compared.choices


def test_multicasts_in_between_are_not_wholly_reproduced_by_who_looks_at_loads(tmp_path: Path) -> None:
    day = busy_day(CoreSettings(policy("least_busy"), single_requests=1), MOST, multicast=0.2)
    simulation = asked(day.write(tmp_path))
    compared = simulation.checked.compared["least_busy"]
    assert 0.5 * compared.choices < compared.same < compared.choices  # each branch has its own end; one is recorded
    assert any("multicasts to" in note and "so least_busy may see more in flight" in note for note in simulation.notes)

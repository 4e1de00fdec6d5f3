"""The names of the choosers, and what each may leave to the service."""

import pytest

from broker.routing.choosers.chooser import Chooser
from broker.routing.choosers.least_busy import LeastBusy
from broker.routing.choosers.peak_ewma import PeakEwma
from broker.routing.choosers.power_of_two import PowerOfTwo
from broker.routing.choosers.random import Random
from broker.routing.choosers.registry import Methods
from broker.routing.choosers.round_robin import RoundRobin
from broker.routing.choosers.weighted import Weighted
from broker.routing.choosers.zone_first import ZoneFirst


@pytest.mark.parametrize(
    "name, kind",
    [
        ("round_robin", RoundRobin),
        ("rr", RoundRobin),
        ("random", Random),
        ("weighted", Weighted),
        ("least_busy", LeastBusy),
        ("least-connections", LeastBusy),
        ("power_of_two", PowerOfTwo),
        ("p2c", PowerOfTwo),
        ("least_request", PowerOfTwo),
        ("peak_ewma", PeakEwma),
        ("ewma", PeakEwma),
        ("WeightedStats", PeakEwma),
    ],
)
def test_chooser_is_known_by_its_names_and_by_those_of_others(name: str, kind: type[Chooser]) -> None:
    method = Methods().find(name, "random")
    assert method is not None
    assert (type(method.chooser), method.is_sticky) == (kind, False)


@pytest.mark.parametrize(
    "name, service, inner",
    [
        ("zone_first", "round_robin", RoundRobin),
        ("zone", "peak_ewma", PeakEwma),
        ("zone-aware", "sticky", RoundRobin),
        ("zone_first", "zone_first:random", Random),
        ("zone_first:power_of_two", "random", PowerOfTwo),
        ("ZoneFirst:p2c", "random", PowerOfTwo),
    ],
)
def test_within_a_zone_the_named_chooser_decides_or_the_services(name: str, service: str, inner: type[Chooser]) -> None:
    """D-35."""
    method = Methods().find(name, service)
    assert method is not None
    assert isinstance(method.chooser, ZoneFirst)
    assert (type(method.chooser.inner), method.is_sticky) == (inner, False)


@pytest.mark.parametrize(
    "name, service, kind",
    [
        ("sticky", "round_robin", RoundRobin),
        ("sticky", "sticky", RoundRobin),
        ("sticky", "peak_ewma", PeakEwma),
        ("sticky:random", "peak_ewma", Random),
        ("sticky:zone_first", "peak_ewma", ZoneFirst),
    ],
)
def test_first_sticky_choice_is_made_by_the_named_chooser_or_the_services(
    name: str, service: str, kind: type[Chooser]
) -> None:
    """D-35."""
    method = Methods().find(name, service)
    assert method is not None
    assert (type(method.chooser), method.is_sticky) == (kind, True)


@pytest.mark.parametrize(
    "name", ["", "fastest", "random:random", "zone_first:fastest", "zone_first:sticky", "sticky:sticky", ":random"]
)
def test_name_that_nobody_knows_is_no_method(name: str) -> None:
    assert Methods().find(name, "random") is None

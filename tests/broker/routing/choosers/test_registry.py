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
    "name, service, kind, inner, is_sticky",
    [
        ("round_robin", "random", RoundRobin, None, False),
        ("rr", "random", RoundRobin, None, False),
        ("random", "random", Random, None, False),
        ("weighted", "random", Weighted, None, False),
        ("least_busy", "random", LeastBusy, None, False),
        ("least-connections", "random", LeastBusy, None, False),
        ("power_of_two", "random", PowerOfTwo, None, False),
        ("p2c", "random", PowerOfTwo, None, False),
        ("least_request", "random", PowerOfTwo, None, False),
        ("peak_ewma", "random", PeakEwma, None, False),
        ("ewma", "random", PeakEwma, None, False),
        ("WeightedStats", "random", PeakEwma, None, False),
        # Within a zone, and for the first choice of a sticky caller: the named chooser decides, or the service's
        ("zone_first", "round_robin", ZoneFirst, RoundRobin, False),
        ("zone", "peak_ewma", ZoneFirst, PeakEwma, False),
        ("zone-aware", "sticky", ZoneFirst, RoundRobin, False),
        ("zone_first", "zone_first:random", ZoneFirst, Random, False),
        ("zone_first:power_of_two", "random", ZoneFirst, PowerOfTwo, False),
        ("ZoneFirst:p2c", "random", ZoneFirst, PowerOfTwo, False),
        ("sticky", "round_robin", RoundRobin, None, True),
        ("sticky", "sticky", RoundRobin, None, True),
        ("sticky", "peak_ewma", PeakEwma, None, True),
        ("sticky:random", "peak_ewma", Random, None, True),
        ("sticky:zone_first", "peak_ewma", ZoneFirst, PeakEwma, True),
    ],
)
def test_chooser_is_known_by_its_names_and_by_those_of_others(
    name: str, service: str, kind: type[Chooser], inner: type[Chooser] | None, is_sticky: bool
) -> None:
    """D-35."""
    method = Methods().find(name, service)
    assert method is not None
    assert (type(method.chooser), method.is_sticky) == (kind, is_sticky)
    if isinstance(method.chooser, ZoneFirst):
        assert type(method.chooser.inner) is inner


@pytest.mark.parametrize(
    "name", ["", "fastest", "random:random", "zone_first:fastest", "zone_first:sticky", "sticky:sticky", ":random"]
)
def test_name_that_nobody_knows_is_no_method(name: str) -> None:
    assert Methods().find(name, "random") is None

"""Requests over several brokers: as `test_history.py`, while what brokers say to each other arrives late."""

import random
from typing import Any

import pytest

from broker.core import CoreSettings
from broker.routing.policies import Policy
from tests.fuzz.far_history import FarHistory, SlowNet
from tests.fuzz.history import REGIONS, SERVICES
from tests.fuzz.test_history import play
from tests.topology import in_a_line

POLICIES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "even": {"locality": "even", "multicast_prefetch_n": 2, "multicast_on_leave": "error"},
    "waiting": {"no_route": "wait", "max_waiting": 6, "no_route_timeout_s": 2.0, "locality": "even"},
    "protected": {"policy": Policy("peak_ewma", eject_after_errors=2, max_in_flight_per_route=3), "locality": "even"},
}


def net_of(policy: str, shape: str) -> SlowNet:
    """Three brokers in a line, or in a ring, or two."""
    names, edges = in_a_line(2 if shape == "pair" else 3, shape == "ring")
    return SlowNet(names, edges, {name: CoreSettings(broker_name=name, **POLICIES[policy]) for name in names})


def go_far(history: FarHistory, rng: random.Random, steps: int, troubles: float) -> None:
    """`play`, with what only happens between brokers in between."""
    for _ in range(steps):
        play(history, rng, 10)
        roll = rng.random()
        if roll < 0.07 and history.members:
            history.reconnect(rng.choice(history.members))
        elif roll < 0.12 and history.members:
            history.rename(rng.choice(history.members))
        elif roll < 0.2:
            history.congest_link(rng.random() < 0.4)
        elif roll < 0.2 + troubles:
            history.break_some_link()
        elif roll < 0.22 + troubles and troubles:
            history.end_broker(rng.random() < 0.5)
        elif roll < 0.25 + troubles:
            history.start_brokers()
            history.wait(1.0)
        elif roll < 0.4:
            history.catch_up()


@pytest.mark.parametrize("troubles", [0.0, 0.05])
@pytest.mark.parametrize("shape", ["pair", "line", "ring"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_long_history_at_several_brokers_holds(policy: str, shape: str, troubles: float) -> None:
    name = f"{policy} {shape} {troubles}"
    history = FarHistory(net_of(policy, shape), name)
    rng = random.Random(name)
    for _ in range(3):
        history.join(rng.choice(SERVICES), rng.choice(REGIONS))
        history.come()
    go_far(history, rng, 40, troubles)
    assert len(history.asks) > 20
    history.settle()

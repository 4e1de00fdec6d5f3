"""Each request ends exactly once, by the right responder, whatever happens; `history.py` has the whole promise."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.core import CoreSettings
from broker.routing.policies import Policy
from tests.broker.forwarding.pairs import MODELS
from tests.fuzz.history import REGIONS, ROUTINGS, SERVICES, History

POLICIES = {
    "as it comes": CoreSettings(),
    "small windows": CoreSettings(multicast_prefetch_n=2, multicast_on_leave="error"),
    "waiting": CoreSettings(no_route="wait", max_waiting=6, no_route_timeout_s=2.0),
    "protected": CoreSettings(policy=Policy("peak_ewma", eject_after_errors=2, max_in_flight_per_route=3)),
}


def play(history: History, rng: random.Random, steps: int) -> None:
    """So many random steps; most of them are about what is open."""
    for _ in range(steps):
        roll = rng.random()
        if roll < 0.02 and len(history.members) < 8:
            history.join(rng.choice(SERVICES), rng.choice(REGIONS))
        elif roll < 0.03 and len(history.callers) < 6:
            history.come()
        elif roll < 0.035 and len(history.members) > 1:
            history.lose_member(rng.choice(history.members))
        elif roll < 0.038 and len(history.callers) > 1:
            history.lose_caller(rng.choice(history.callers))
        elif roll < 0.045 and history.members:
            history.move(rng.choice(history.members), rng.choice(REGIONS))
        elif roll < 0.06:
            if history.wires:
                history.congest(rng.choice(history.wires), rng.random() < 0.4)
        elif roll < 0.07:
            history.wait(rng.choice((0.1, 1.0, 3.0)))
        elif roll < 0.35 and history.callers:
            history.ask(
                rng.choice(history.callers),
                rng.choice(MODELS),
                rng.choice(ROUTINGS),
                rng.choice(SERVICES),
                rng.choice(("", "", *REGIONS)),
                rng.choice((1, 2, 5, 100)),
                rng.choice((0, 0, 0, 1, 3)),
            )
        elif roll < 0.5 and history.open_asks:
            ask = rng.choice(history.open_asks)
            what = rng.random()
            if what < 0.4:
                history.send_item(ask, rng.choice((0, 50)), rng.random() < 0.3)
            elif what < 0.7:
                history.want(ask, rng.choice((1, 3, 0x7FFFFFFF)))
            elif what < 0.85:
                history.finish_asking(ask, rng.random() < 0.2)
            else:
                history.cancel(ask)
        elif history.open_servings:
            serving = rng.choice(history.open_servings)
            what = rng.random()
            if what < 0.65:
                history.answer(serving, rng.choice((0, 50)), rng.random() < 0.3)
            elif what < 0.8:
                history.listen(serving, rng.choice((1, 2, 10)))
            elif what < 0.92:
                history.complete(serving)
            elif what < 0.96:
                history.stop_listening(serving)
            else:
                history.fail(serving)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", POLICIES)
def test_a_long_history_holds(name: str, seed: int) -> None:
    history = History(POLICIES[name])
    rng = random.Random(f"{name} {seed}")
    for _ in range(2):
        history.join(rng.choice(SERVICES), rng.choice(REGIONS))
        history.come()
    play(history, rng, 2000)
    assert len(history.asks) > 100
    history.settle()


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(sorted(POLICIES)), rng=st.randoms(use_true_random=False))
def test_every_short_history_holds(name: str, rng: random.Random) -> None:
    """The same steps, chosen and made small by Hypothesis."""
    history = History(POLICIES[name])
    history.come()
    history.join("orders", "eu")
    play(history, rng, 40)
    history.settle()

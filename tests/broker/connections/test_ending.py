"""Decisions to end a connection: the code of the ERROR that stands for them."""

import pytest

from broker.connections.ending import Ending, connection_code
from rsocket_wire.errors import CONNECTION_CLOSE, CONNECTION_ERROR, REJECTED_SETUP, Refusal
from tests.fakes import World


@pytest.mark.parametrize(
    ("word", "before_setup", "behind_setup"),
    [
        ("over-limit", REJECTED_SETUP, CONNECTION_ERROR),  # REJECTED is of requests
        ("bad-frame", CONNECTION_ERROR, CONNECTION_ERROR),
        ("broker-stopped", CONNECTION_CLOSE, CONNECTION_CLOSE),
    ],
)
def test_codes_fit_the_state_of_the_connection(word: str, before_setup: int, behind_setup: int) -> None:
    world = World()
    refusal = Refusal(word, "enough")
    peers = world.connect().peer, world.caller().peer
    assert [connection_code(peer, refusal) for peer in peers] == [before_setup, behind_setup]


def test_the_core_carries_out_what_was_decided_once() -> None:
    world = World()
    wire = world.caller()
    for _ in range(2):
        world.core.lifecycle.carry_out(Ending(wire.peer, "draining", "enough", CONNECTION_CLOSE), world.now)
    world.pump()
    assert [frame.kind for frame in wire.received()] == [0x0B]
    assert world.core.lifecycle.limits.closed.by_reason == {"draining": 1}

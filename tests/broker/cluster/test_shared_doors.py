"""D-53: clients are told of other places, never of the one that they would come back to."""

from __future__ import annotations

from tests.topology import Net


def test_a_url_at_which_several_brokers_are_reached_is_told_once_and_not_by_these() -> None:
    net = Net(["w1", "w2", "v1", "v2"], [("w2", "w1"), ("v1", "w1"), ("v2", "v1"), ("v2", "w2")])
    for name, world in net.worlds.items():
        world.core.cluster._settings.client_urls[:] = [f"tcp://{name[0]}.example:7000"]
    net.pump()
    net.advance(1)
    found = {name: world.core.cluster.client_urls() for name, world in net.worlds.items()}
    theirs, ours = ["tcp://v.example:7000"], ["tcp://w.example:7000"]
    assert found == {"w1": theirs, "w2": theirs, "v1": ours, "v2": ours}

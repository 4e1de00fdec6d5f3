"""A link on the way that takes no more for now: callers of what is behind it wait, and nobody else (D-74)."""

from typing import Any

import pytest

from broker.cluster.links.congestion import BEHIND_MIME, TOLD_S
from broker.cluster.settings import ClusterSettings
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE, encode_metadata_push, encode_request
from rsocket_wire.rsocket.metadata import encode_entry
from tests.broker.cluster.test_behind import ALL, SOON_S, send_until_paused
from tests.broker.forwarding.interbroker.test_shared_links import ORDERS, Way
from tests.fakes import address, route_id
from tests.topology import Net, linked


class Line(Way):
    """A way on which the link of two brokers takes nothing more."""

    def __init__(self, brokers_n: int, **limits: Any) -> None:
        super().__init__(brokers_n, **limits)
        names = self.net.names[-2:]
        self.slow = self.net.link(names[0], names[1])

    def told_n(self) -> int:
        """Words about ways that are behind, to the first broker."""
        return sum(BEHIND_MIME in frame.raw for frame in self.net.link("b2", "b1").seen)

    def drops(self) -> list[int]:
        return [world.core.engine.drops.total_n for world in self.net.worlds.values()]

    def waiting(self) -> list[Any]:
        """What is left of the waiting at any broker."""
        cores = [world.core for world in self.net.worlds.values()]
        told = [list(core.cluster.congestion._told) for core in cores]
        behind = [core._back_pressure.behind for core in cores]
        return [each for each in [*behind, *told] if each]


@pytest.mark.parametrize("kind", [REQUEST_FNF, REQUEST_RESPONSE])
@pytest.mark.parametrize("metadata", [ORDERS, ALL])
@pytest.mark.parametrize("brokers_n", [3, 4])
def test_callers_wait_for_a_link_on_the_way_and_nothing_is_lost(brokers_n: int, metadata: bytes, kind: int) -> None:
    """D-74: each broker on the way tells the one before, and the first one does not read from its callers."""
    way = Line(brokers_n)
    caller, bystander = way.caller(), way.caller()
    way.slow.block()
    sent_n = send_until_paused(way, caller, metadata, kind)
    assert sent_n <= brokers_n
    assert [bystander.is_paused, *(end.is_paused for end in way.net.ends)] == [False] * (1 + len(way.net.ends))
    way.slow.unblock()
    way.net.pump()
    assert not caller.is_paused  # at once
    assert [frame.data for frame in way.service.received()] == [b"%d" % number for number in range(sent_n)]
    assert way.drops() == [0] * brokers_n
    way.net.advance(SOON_S)
    assert way.waiting() == []


def test_as_much_as_was_under_way_is_all_that_a_link_on_the_way_must_hold() -> None:
    way = Line(3, max_pending_bytes=1 << 20)
    caller = way.caller()
    way.slow.block()
    for number in range(64):
        if caller.is_paused:
            break
        caller.send(encode_request(REQUEST_FNF, 1 + 2 * number, bytes(100_000), ORDERS))
        way.net.pump()
    assert (number, way.drops()) == (2, [0, 0, 0])


def test_a_link_that_is_full_already_makes_callers_of_others_wait() -> None:
    """What it refuses, too, is a request that was sent that way."""
    way = Line(3, max_pending_bytes=1 << 20)
    caller = way.caller()
    way.slow.fill(1 << 20)
    send_until_paused(way, caller)
    way.slow.unblock()
    way.net.pump()
    assert not caller.is_paused


def test_callers_go_on_when_the_link_on_the_way_has_broken() -> None:
    for broken in (("b1", "b2"), ("b2", "b3")):
        way = Line(3)
        caller = way.caller()
        way.slow.block()
        send_until_paused(way, caller)
        way.net.break_link(*broken)
        way.net.advance(SOON_S)
        assert (caller.is_paused, caller.peer.paused_by) == (False, {})
        assert way.waiting() == []


def test_nobody_waits_for_a_link_that_is_not_on_the_way() -> None:
    """b1 has a link of its own to b3, and another way leads around the link that is slow."""
    net = linked(Net(["b1", "b2", "b3", "b4"], [("b1", "b2"), ("b2", "b3"), ("b1", "b3"), ("b1", "b4")]))
    net.worlds["b3"].service("orders", 1)
    net.worlds["b4"].service("bills", 2)
    net.pump()
    caller = net.worlds["b1"].caller()
    net.link("b2", "b3").block()
    for number, service in enumerate(["orders", "bills"] * 5):
        caller.request(REQUEST_FNF, 1 + 2 * number, address(service=service))
        net.pump()
    assert not caller.is_paused


def test_callers_go_on_when_a_better_way_has_come() -> None:
    way = Line(3)
    caller = way.caller()
    way.slow.block()
    send_until_paused(way, caller)
    net = way.net
    net.worlds["b1"].core.cluster.dials.set_targets("config", ["tcp://b2:7878", "tcp://b3:7878"])
    net.advance(2 * SOON_S)
    assert net.worlds["b1"].core.table.routes()[0].owner.via is net.link("b1", "b3").peer  # type: ignore[attr-defined]
    assert not caller.is_paused
    way.slow.unblock()
    net.advance(SOON_S)
    assert way.waiting() == []


def test_a_link_that_is_often_slow_for_a_moment_is_no_flood_of_words() -> None:
    way = Line(3)
    for _ in range(100):
        way.slow.block()
        way.caller().send(encode_request(REQUEST_FNF, 1, b"", ORDERS, 0))
        way.net.pump()
        way.slow.unblock()
    way.net.pump()
    assert way.told_n() == 2
    way.slow.block()
    caller = way.caller()
    for number in range(2):
        caller.send(encode_request(REQUEST_FNF, 1 + 2 * number, b"", ORDERS))
        way.net.pump()
    assert (way.told_n(), caller.is_paused) == (2, False)
    way.net.advance(2 * TOLD_S)
    assert way.told_n() == 3
    send_until_paused(way, caller)


def test_what_is_no_list_of_brokers_ends_the_link() -> None:
    way = Line(3)
    end = way.net.link("b2", "b1")
    end.peer.send(encode_metadata_push(encode_entry(BEHIND_MIME, bytes(17))))
    way.net.pump()
    assert way.ended()[0] == "17 bytes are not a multiple of 16, the length of a broker id"


def test_entries_that_nobody_knows_end_no_link() -> None:
    """So a broker that does not know what D-74 says goes on as before."""
    way = Line(3)
    end = way.net.link("b2", "b1")
    end.peer.send(encode_metadata_push(encode_entry(b"message/x.rsocket.broker.other.v0", bytes(17))))
    way.net.pump()
    assert way.ended() == []


def test_as_many_brokers_as_there_may_be_are_heard_of() -> None:
    way = Line(3)
    core = way.net.worlds["b1"].core
    neighbour = core.cluster.handshakes.neighbours[way.net.link("b1", "b2").peer.id]
    link = neighbour.peer.link
    assert link is not None
    core.cluster.congestion.receive(neighbour, b"".join(route_id(number) for number in range(5_000)), way.net.now)
    assert len(link.behind) == ClusterSettings(b"").max_brokers

"""Whose a Route Id is in a cluster: the identity's that was there first, as long as its route is there (D-97)."""

from __future__ import annotations

import random

import pytest

from broker.access.holders import holder_in, holder_of, is_kept, keeps_out
from broker.core import CoreSettings
from rsocket_wire.errors import CONNECTION_CLOSE, CONNECTION_ERROR, REJECTED, REJECTED_SETUP
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.frames import MULTICAST, UNICAST, Address
from rsocket_wire.wire.tags import Tag
from tests.fakes import Frame, Wire, announcement, route_id, setup
from tests.topology import Net, in_a_line, line, linked, route_text

ADA, EVE = "certificate:CN=ada", "certificate:CN=eve"
TAKEN = f"route-taken: the Route Id {route_text(1)} is that of a route of another identity"
EVERYWHERE = ("b1", "b2", "b3")


def net_of(*modes: str) -> Net:
    """b1 ─ b2 ─ b3; all with `required`, but for the modes that are said."""
    by_name = dict(zip(EVERYWHERE, modes or ("required",) * 3, strict=True))

    def make(name: str) -> CoreSettings:
        return CoreSettings(broker_name=name, auth_mode=by_name[name], auth_accept=("certificate",))

    return linked(Net(*in_a_line(3), make=make))


def announce(net: Net, name: str, who: str, token: bytes | None = None, service: str = "orders") -> Wire:
    """A connection of this identity with the Route Id 1, and what the cluster makes of it."""
    wire = net.worlds[name].connect(origin=("", who))
    wire.send(setup(announcement(1, service), token=token))
    net.advance(0.3)
    return wire


def said(wire: Wire) -> list[tuple[int, str]]:
    """Code and text of the ERRORs on stream 0."""
    return [(frame.code, frame.text) for frame in wire.received() if not frame.stream_id and frame.code]


def places(net: Net) -> set[str]:
    """At which broker the route is, by all tables; the same at all of them."""
    return {table.get(route_text(1), "") for table in net.tables().values()}


def test_at_another_broker_it_is_refused_and_the_route_stays() -> None:
    net = net_of()
    ada = announce(net, "b1", ADA)
    assert said(announce(net, "b3", EVE)) == [(REJECTED_SETUP, TAKEN)]
    assert (places(net), said(ada)) == ({"b1"}, [])
    later = net.worlds["b3"].connect(origin=("", EVE))
    later.send(setup())
    later.announce(1, "orders")
    assert (said(later), places(net)) == ([(CONNECTION_ERROR, TAKEN)], {"b1"})
    told = [event for event in net.worlds["b3"].events() if event.name == "Denied"]
    assert [(event.reason, event.principal) for event in told] == [("route-taken", EVE)] * 2


def test_the_same_identity_may_go_to_another_broker_and_when_it_leaves_all_may() -> None:
    net = net_of()
    old = announce(net, "b1", ADA)
    new = announce(net, "b3", ADA)
    text = f"replaced: another connection came with the Route Id {route_text(1)} at the broker b3"
    assert (said(old), places(net), said(announce(net, "b2", EVE))) == (
        [(CONNECTION_CLOSE, text)],
        {"b3"},
        [(REJECTED_SETUP, TAKEN)],
    )
    new.lose()
    net.advance(0.3)
    assert (said(announce(net, "b2", EVE)), places(net)) == ([], {"b2"})


def test_it_is_kept_while_its_connection_may_come_back() -> None:
    net = net_of()
    announce(net, "b1", ADA, token=b"t").lose()
    assert said(announce(net, "b3", EVE)) == [(REJECTED_SETUP, TAKEN)]
    assert places(net) == {"b1"}
    assert said(announce(net, "b3", ADA)) == []
    assert places(net) == {"b3"}


@pytest.mark.parametrize(("first", "second", "winner"), [("b1", "b3", "b1"), ("b3", "b1", "b3"), ("", "", "b1")])
@pytest.mark.parametrize("order", [1, -1])
def test_of_two_that_come_at_once_the_older_one_stays_at_all_brokers(
    first: str, second: str, winner: str, order: int
) -> None:
    """Of two of one millisecond that of the broker with the smaller id."""
    net = net_of()
    net.holds = lambda a, b, frame: True
    wires: dict[str, Wire] = {}
    for name in (first, second) if first else ("b1", "b3"):
        wires[name] = net.worlds[name].connect(origin=("", ADA if name == "b1" else EVE))
        wires[name].send(setup(announcement(1, "orders")))
        if first:
            net.advance(0.05)
    assert [said(wire) for wire in wires.values()] == [[], []]
    net.held = net.held[::order]
    net.release()
    net.advance(0.5)
    loser = "b3" if winner == "b1" else "b1"
    assert said(wires[winner]) == []
    assert said(wires[loser]) == [(CONNECTION_ERROR, f"{TAKEN} at the broker {winner}")]
    assert (places(net), len(net.digests())) == ({winner}, 1)


def test_who_has_been_cut_off_from_the_others_hears_of_it_when_they_are_back() -> None:
    net = net_of()
    announce(net, "b1", ADA)
    net.part(["b1"], ["b2", "b3"])
    net.advance(5.0)
    eve = announce(net, "b3", EVE)
    assert (said(eve), net.table("b2")) == ([], {route_text(1): "b3"})
    net.heal()
    net.advance(8.0)
    assert said(eve) == [(CONNECTION_ERROR, f"{TAKEN} at the broker b1")]
    assert (places(net), len(net.digests())) == ({"b1"}, 1)


def test_a_broker_that_comes_later_and_one_that_has_missed_it_know_it_too() -> None:
    net = net_of()
    net.drops = lambda a, b, frame: (a, b) == ("b2", "b3") and b"orders" in frame.raw
    announce(net, "b1", ADA)
    assert net.table("b3") == {}
    net.drops = None
    net.advance(5.0)  # neighbours have compared what they know
    assert said(announce(net, "b3", EVE)) == [(REJECTED_SETUP, TAKEN)]
    net.kill("b3")
    net.start("b3")
    net.advance(4.0)
    assert said(announce(net, "b3", EVE)) == [(REJECTED_SETUP, TAKEN)]


@pytest.mark.parametrize(
    ("modes", "told_n"),
    [(("observe", "observe", "observe"), 1), (("off", "off", "off"), 0), (("off", "off", "required"), 0),
     (("observe", "required", "required"), 0), (("required", "required", "observe"), 1),
     (("required", "required", "off"), 0)],
)  # fmt: skip
def test_where_one_of_both_brokers_does_not_require_it_the_newer_one_stays(
    modes: tuple[str, str, str], told_n: int
) -> None:
    net = net_of(*modes)
    ada = announce(net, "b1", ADA)
    net.worlds["b3"].events()
    eve = announce(net, "b3", EVE)
    assert (said(eve), places(net), [code for code, _ in said(ada)]) == ([], {"b3"}, [CONNECTION_CLOSE])
    told = [event.reason for event in net.worlds["b3"].events() if event.name == "Denied"]
    assert told == ["route-taken"] * told_n


def asked(net: Net, name: str, who: str, routing: int, origin: int = 1) -> list[Frame]:
    caller = net.worlds[name].caller(origin=("", who))
    raw = Address(route_id(origin), [Tag.of("service", "orders")], flags=routing).encode()
    for turn in range(2):
        caller.request(REQUEST_RESPONSE if turn else REQUEST_STREAM, 2 * turn + 1, raw)
        net.pump()
    return caller.received()


@pytest.mark.parametrize("routing", [UNICAST, MULTICAST])
def test_an_origin_of_another_identity_is_denied_at_every_broker(routing: int) -> None:
    net = net_of()
    server = announce(net, "b1", ADA)
    text = f"denied: the origin of the ADDRESS, {route_text(1)}, is a route of another identity"
    for name in EVERYWHERE:
        assert [(frame.code, frame.text) for frame in asked(net, name, EVE, routing)] == [(REJECTED, text)] * 2
        assert server.received() == []
        assert (asked(net, name, ADA, routing), len(server.received())) == ([], 2)
    assert (asked(net, "b3", EVE, routing, 9), len(server.received())) == ([], 2)


def test_what_a_route_is_called_is_nothing_that_its_client_can_say() -> None:
    """A tag that looks like what brokers say is a tag; who announces it is who it is."""
    net = net_of()
    net.holds = lambda a, b, frame: True
    wire = net.worlds["b3"].connect(origin=("", EVE))
    wire.send(setup(announcement(1, "orders", **{"extension-0x7c-1": holder_of(ADA, False).decode()})))
    net.advance(0.05)
    ada = announce(net, "b1", ADA)
    net.release()
    net.advance(0.3)
    assert (said(wire), [code for code, _ in said(ada)], places(net)) == ([], [CONNECTION_ERROR], {"b3"})


def test_a_state_with_letters_of_an_identity_is_read_in_any_order() -> None:
    ada = holder_of(ADA, False)
    assert (len(ada), ada.isupper()) == (32, True)
    assert [holder_in(state) for state in (ada, b"d" + ada + b"w", b"o" + ada, b"dcw", ada[1:], b"")] == [
        ada, ada, b"o" + ada, b"", b"", b"",
    ]  # fmt: skip
    assert holder_of("", True) == b"o" + holder_of("anonymous", False)
    assert [is_kept(each) for each in (ada, b"o" + ada, b"")] == [True, False, False]
    cases = [(ada, False), (ada, True), (b"o" + ada, False), (b"o" + ada, True), (b"", True)]
    assert [(keeps_out(each, EVE, observes), keeps_out(each, ADA, observes)) for each, observes in cases] == [
        (True, False), (True, False), (False, False), (True, False), (False, False),
    ]  # fmt: skip


def test_however_they_come_and_go_all_brokers_agree_on_one() -> None:
    """Three identities, links that break, connections that are lost, and messages that are late."""
    for seed in range(4):
        rng = random.Random(seed)
        net = net_of(*[rng.choice(("required", "required", "off")) for _ in EVERYWHERE])
        wires: list[Wire] = []
        for _ in range(12):
            what = rng.randrange(6)
            if what < 3:
                who = rng.choice((ADA, EVE, "certificate:CN=bob"))
                wires.append(announce(net, rng.choice(EVERYWHERE), who, service=rng.choice(("orders", "stock"))))
            elif what == 3 and wires:
                rng.choice(wires).lose()
            else:
                net.part(*rng.choice(([["b1"], ["b2", "b3"]], [["b1", "b2"], ["b3"]], [EVERYWHERE])))
                net.advance(rng.choice((0.1, 4.0)))
        net.heal()
        net.advance(9.0)
        open_n = sum(not (wire.is_closed or wire.is_lost) for wire in wires)
        assert (len(net.digests()), len(places(net)), open_n) == (1, 1, int(places(net) != {""})), seed


def test_a_cluster_that_judges_nobody_says_nothing_of_it() -> None:
    net = linked(line(2))
    announce(net, "b1", "")
    (entry,) = net.worlds["b2"].core.cluster.replication.gossip.route_entries(route_id(1))
    assert len(entry.raw) == 46 + 7 + len(b"\x81\x86orders\x82\x24") + 36

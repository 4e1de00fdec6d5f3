"""Connections are judged anew: who ends, with which words, what becomes of its requests, and how many in one turn."""

from __future__ import annotations

import pytest

from broker.access.certificates import ISSUER_BYTES, RevokedCertificates
from broker.access.identities import Proof
from broker.access.roles import Offer, Role
from broker.connections.review import ENDING_N, LOOKS_N
from broker.core import CoreSettings
from rsocket_wire.errors import CANCELED, CONNECTION_ERROR, REJECTED_RESUME
from rsocket_wire.rsocket.frames import REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM, Resume
from rsocket_wire.wire.frames import MULTICAST
from tests.broker.resuming import NO_SESSION
from tests.fakes import Wire, World, address, announcement, cancelled, error, routes_in, setup
from tests.topology import line, linked

ANY = Offer([("service", ["*"])])
ALL = Role("all", ["*"], [ANY], [ANY])
ORDERS = Role("orders", ["certificate:CN=orders"], [Offer([("service", ["orders"]), ("region", ["eu", "us"])])], [ANY])
OTHERS = Role("default", [], [], [ANY])
DENIED = "denied: the connection that served orders may do so no more"
ONE, TWO = bytes(ISSUER_BYTES) + b"\x07", bytes(ISSUER_BYTES) + b"\x08"
GONE = "revoked: the credentials of this connection hold no longer; connect again with others"


def world_of(*roles: Role, mode: str = "required", **more: int) -> World:
    kinds = ("certificate", "uid", "anonymous")
    return World(CoreSettings(auth_mode=mode, auth_accept=kinds, roles=roles or (ALL,), **more))  # type: ignore[arg-type]


def connect(world: World, who: str, number: int = 0, service: str = "", **tags: str) -> Wire:
    """A connection of this principal; with a service it has a route."""
    wire = world.connect(origin=("10.0.0.4", who))
    wire.send(setup(announcement(number, service, **tags) if service else None))
    return wire


def set_roles(world: World, *roles: Role) -> None:
    world.core.set_roles(list(roles), world.now)
    world.pump()


def told(world: World, *names: str) -> list[tuple[str, str, str]]:
    return [(event.name, event.reason, event.detail) for event in world.events() if event.name in names]


def test_who_has_no_role_any_more_ends_and_who_has_one_stays() -> None:
    world = world_of()
    orders, billing = (
        connect(world, "certificate:CN=orders", 1, "orders", region="eu"),
        connect(world, "certificate:CN=x"),
    )
    world.events()
    set_roles(world, ORDERS)
    assert (orders.received(), orders.is_closed) == ([], False)
    assert billing.one() == error(0, CONNECTION_ERROR, "denied: certificate:CN=x has no role any more")
    assert billing.is_closed
    assert told(world, "RolesChanged", "AuthRefused", "Denied", "PeerClosed") == [
        ("RolesChanged", "", "there are 1, 2 connections are judged anew"),
        ("AuthRefused", "denied", "certificate:CN=x has no role any more"),
        ("PeerClosed", "denied", "certificate:CN=x has no role any more"),
    ]
    assert world.core.lifecycle.admission.refused == {"denied": 1}
    assert [
        wire.is_closed for wire in (connect(world, "certificate:CN=x"), connect(world, "certificate:CN=orders"))
    ] == [
        True,
        False,
    ]


def test_a_route_that_may_not_be_announced_any_more_leaves_and_its_requests_end_denied() -> None:
    world = world_of()
    orders = connect(world, "certificate:CN=orders", 1, "orders", region="mars")
    caller = connect(world, "uid:7")
    for stream_id, kind in ((1, REQUEST_RESPONSE), (3, REQUEST_STREAM), (5, REQUEST_CHANNEL)):
        caller.request(kind, stream_id, address(service="orders"))
    own = orders.request(REQUEST_STREAM, 1, address(service="orders"))  # its own service
    assert own
    begun = [frame.stream_id for frame in orders.received()]
    set_roles(world, ORDERS, OTHERS)
    text = "denied: the role orders does not allow to announce this route: region=mars"
    assert caller.received() == [error(stream_id, CANCELED, DENIED) for stream_id in (1, 3, 5)]
    said = orders.received()
    assert said == [*(cancelled(at) for at in begun[:3]), *said[3:5], error(0, CONNECTION_ERROR, text)]
    assert {frame.stream_id for frame in said[3:5]} == {1, begun[3]}
    assert (orders.is_closed, caller.is_closed, routes_in(world)) == (True, False, [])
    assert world.left_over() == []
    flows = [(record.outcome, record.word) for record in world.flows() if record.caller_service == ""]
    assert flows == [("error", "denied")] * 3


def test_of_a_multicast_the_routes_that_are_denied_leave() -> None:
    world = world_of()
    orders = [
        connect(world, "certificate:CN=orders", at, "orders", region=where) for at, where in ((1, "eu"), (2, "mars"))
    ]
    caller = connect(world, "uid:7")
    caller.request(REQUEST_STREAM, 1, address(MULTICAST, service="orders"))
    (branch,) = orders[0].received()
    set_roles(world, ORDERS, OTHERS)
    assert ([wire.is_closed for wire in orders], caller.received()) == ([False, True], [])
    orders[0].answer(branch.stream_id, b"only")
    assert [frame.data for frame in caller.received()][:1] == [b"only"]
    assert world.left_over() == []


def test_nobody_is_told_of_a_fire_and_forget() -> None:
    world = world_of()
    orders = connect(world, "certificate:CN=orders", 1, "orders")
    caller = connect(world, "uid:7")
    raw = caller.request(REQUEST_FNF, 1, address(service="orders"))
    assert raw
    set_roles(world, OTHERS)
    assert (orders.is_closed, caller.received(), world.left_over()) == (True, [], [])


def test_whose_credentials_are_taken_back_ends_revoked_with_all_connections() -> None:
    world = world_of()
    gone = [connect(world, "uid:7") for _ in range(2)]
    stays = connect(world, "uid:8")
    world.events()
    world.core.take_back({"uid:7"})
    world.pump()
    assert [wire.one() for wire in gone] == [error(0, CONNECTION_ERROR, GONE)] * 2
    assert (stays.received(), stays.is_closed) == ([], False)
    assert told(world, "Revoked", "RolesChanged") == [("Revoked", "revoked", "uid:7")] * 2


def test_with_observe_it_is_only_told() -> None:
    world = world_of(mode="observe")
    orders = connect(world, "certificate:CN=orders", 1, "orders", region="mars")
    user = connect(world, "uid:7")
    world.events()
    set_roles(world, ORDERS)
    world.core.take_back({"uid:7"})
    world.pump()
    assert [wire.is_closed for wire in (orders, user)] == [False, False]
    assert [name for name, *_ in told(world, "Denied", "AuthRefused", "Revoked")] == [
        "Denied",
        "AuthRefused",
        "Denied",
        "Revoked",
    ]


def test_without_admission_nobody_is_judged() -> None:
    world = World()
    wire = connect(world, "uid:7", 1, "orders")
    world.core.take_back({"uid:7"})
    assert (world.core.has_work(), wire.is_closed) == (False, False)


def test_a_session_whose_right_has_ended_is_not_resumed() -> None:
    world = world_of()
    wire = world.connect(origin=("10.0.0.4", "certificate:CN=x"))
    wire.send(setup(token=b"t"))
    wire.lose()
    set_roles(world, ORDERS)
    assert world.core.peers() == []
    again = world.connect(origin=("10.0.0.4", "certificate:CN=x"))
    again.send(Resume(b"t", 0, 0).encode())
    assert again.one() == error(0, REJECTED_RESUME, NO_SESSION)


def test_a_session_that_was_let_in_as_nobody_stays_nobody_whatever_its_next_transport_proves() -> None:
    world = world_of(mode="required")
    wire = world.connect(origin=("10.0.0.4", ""))
    wire.send(setup(token=b"t"))
    wire.lose()
    again = world.connect(origin=("10.0.0.4", "certificate:CN=x"))
    again.send(Resume(b"t", 0, 0).encode())
    assert (again.is_closed, again.peer.principal, again.peer.proof.principal) == (False, "", "certificate:CN=x")
    assert again.peer in world.core.peers()
    again.lose()
    world.advance(world.core.settings.resume_ttl_s + 100.0)
    assert world.core.lifecycle.limits.origins() == (0, 0)


def test_so_many_are_judged_in_a_turn_and_the_rest_in_the_next_ones() -> None:
    world = world_of()
    wires = [connect(world, "uid:7") for _ in range(LOOKS_N + 1)]
    world.core.set_roles([ALL], world.now)
    left: list[int] = []
    while world.core.has_work():
        world.core.work(world.now)
        left.append(len(world.core.lifecycle.review.unjudged))
    assert left == [1, 0]
    world.core.take_back({"uid:7"})
    world.core.work(world.now)
    ended_n = sum(wire.peer.is_ending for wire in wires)
    assert ended_n == -(-LOOKS_N // (1 + ENDING_N))
    assert [wire.peer.is_ending for wire in wires[:ended_n]] == [True] * ended_n  # the oldest first
    world.core.set_roles([ALL], world.now)  # begins anew, and forgets nobody that is to end
    world.pump()
    assert {wire.is_closed for wire in wires} == {True}


# Certificates


def listing(*ids: bytes) -> RevokedCertificates:
    revoked = RevokedCertificates()
    for each in ids:
        revoked.by_issuer.setdefault(each[:ISSUER_BYTES], set()).add(each[ISSUER_BYTES:])
    return revoked


def showing(world: World, id: bytes) -> Wire:
    """A client, with the certificate of this id."""
    wire = connect(world, "certificate:CN=orders")
    wire.peer.proof = Proof("certificate:CN=orders", certificate=id)
    return wire


@pytest.mark.parametrize("mode", ["off", "observe", "required"])
def test_who_has_shown_a_certificate_that_is_now_revoked_ends_whatever_the_mode_is(mode: str) -> None:
    world = world_of(mode=mode) if mode != "off" else World()
    one, two, none = showing(world, ONE), showing(world, TWO), connect(world, "uid:7")
    early = world.connect(origin=("10.0.0.4", "certificate:CN=orders"))  # it has said nothing yet
    early.peer.proof = one.peer.proof
    world.core.set_revoked_certificates(listing(ONE))
    world.pump()
    assert [wire.is_closed for wire in (one, two, none, early)] == [True, False, False, True]
    assert one.one() == error(0, CONNECTION_ERROR, "revoked: the certificate of this connection is revoked")
    assert told(world, "Revoked") == [("Revoked", "revoked", "the certificate of this connection is revoked")] * 2
    world.core.set_revoked_certificates(listing(TWO))
    world.pump()
    assert (two.is_closed, world.core.has_work()) == (True, False)


def test_a_link_with_a_certificate_that_is_now_revoked_ends() -> None:
    net = linked(line(2))
    world = net.worlds["b1"]
    (peer,) = [each for each in world.core.peers() if each.link is not None]
    peer.proof = Proof("certificate:CN=b2", certificate=ONE)
    world.core.set_revoked_certificates(listing(ONE))
    net.advance(0.1)
    assert peer.end_reason == "revoked"


def test_who_comes_with_one_that_tls_did_not_know_to_be_revoked_ends_at_once() -> None:
    """The handshake began before the list was read."""
    world = world_of()
    world.core.set_revoked_certificates(listing(ONE))
    proof = Proof("certificate:CN=orders", certificate=ONE)
    assert world.core.connected("tls 10.0.0.4:1", True, world.now, "10.0.0.4", proof).end_reason == "revoked"
    assert world.core.dialled("tls 10.0.0.4:2", True, world.now, "tls://b:1", "10.0.0.4", proof).end_reason == "revoked"
    assert world.core.connected("tls 10.0.0.4:3", True, world.now, "10.0.0.4").end_reason == ""

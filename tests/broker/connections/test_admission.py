"""Admission: who is let in, who is asked about, what a stranger is told, and when it ends."""

from __future__ import annotations

import pytest

from broker.access.roles import Offer, Role
from broker.connections.admission import MAX_SECRET_BYTES, NOT_ACCEPTED, Ask
from broker.core import CoreSettings
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED, REJECTED_RESUME, REJECTED_SETUP
from rsocket_wire.rsocket.frames import METADATA, METADATA_PUSH, REQUEST_FNF, REQUEST_RESPONSE, Resume, encode_request
from rsocket_wire.rsocket.metadata import encode_entry, encode_well_known_entry
from rsocket_wire.wire.authentication import AUTHENTICATION_ID, AUTHENTICATION_MIME, BEARER, SIMPLE, Credentials
from rsocket_wire.wire.tags import Tag
from tests.broker.access.refusals import refusal_of
from tests.broker.resuming import NO_SESSION, ORDERS, resumed
from tests.conformance.links import Broker, cluster
from tests.fakes import Wire, World, addressed, announcement, error, framed, raw_frame, setup

TOKEN = Credentials(BEARER, "", "a-secret-token")
PASSWORD = Credentials(SIMPLE, "ada", "lovelace")
CERTIFICATE = ("10.0.0.4", "certificate:CN=orders")
LIMIT_S = 2.0
TLS_TEXT = "unauthenticated: passwords and tokens are accepted over TLS only; use tls or wss"
REFUSED = error(0, REJECTED_SETUP, f"unauthenticated: {NOT_ACCEPTED}")


def entry(credentials: Credentials) -> bytes:
    return encode_well_known_entry(AUTHENTICATION_ID, credentials.encode())


def world_of(*accept: str, mode: str = "required", **more: int) -> World:
    return World(CoreSettings(auth_mode=mode, auth_accept=accept, setup_timeout_s=LIMIT_S, **more))  # type: ignore[arg-type]


def connect(
    world: World, metadata: bytes | None, *more: bytes, origin: tuple[str, str] = ("", ""), is_private: bool = True
) -> Wire:
    """A connection that has sent a SETUP, and this behind it in the same bytes."""
    wire = world.connect(origin=origin, is_private=is_private)
    wire.send_bytes(framed(setup(metadata), *more))
    return wire


def admit(world: World, ask: Ask, principal: str = "jwt:orders-7", expires_at: float = 0.0) -> None:
    """Answers as the edge does."""
    world.core.admit(ask.peer, principal, expires_at, world.now)
    world.wires[ask.peer.id].work_off()
    world.pump()


def told(world: World) -> list[tuple[str, str, str]]:
    """Name, reason and detail of what happened to connections."""
    names = ("Admitted", "AuthRefused", "PeerConnected", "PeerClosed")
    return [(event.name, event.reason, event.detail) for event in world.events() if event.name in names]


# Let in or refused at once


def test_with_off_credentials_are_what_they_were_before() -> None:
    """Nobody looks at them: not even at such as cannot be read."""
    world = World()
    wire = connect(world, encode_well_known_entry(AUTHENTICATION_ID, b"?"), is_private=False)
    assert (wire.received(), wire.is_closed, world.core.take_asks()) == ([], False, [])
    assert [event.name for event in world.events()][1:] == ["PeerConnected"]


@pytest.mark.parametrize(
    ("accept", "origin"),
    [("certificate", CERTIFICATE), ("uid", ("", "uid:1000")), ("anonymous", ("10.0.0.4", ""))],
)
def test_who_needs_no_credentials_is_let_in_at_once(accept: str, origin: tuple[str, str]) -> None:
    world = world_of(accept)
    wire = connect(world, announcement(1, "orders"), origin=origin, is_private=False)
    assert (wire.received(), wire.peer.principal) == ([], origin[1])
    assert told(world) == [("Admitted", accept, origin[1] or "anonymous"), ("PeerConnected", "", "")]
    assert world.core.table.find(bytes(15) + b"\x01") is not None or wire.peer.route is not None


@pytest.mark.parametrize("origin", [("10.0.0.4", ""), CERTIFICATE, ("", "uid:1000")])
def test_who_has_none_of_what_is_accepted_is_told_what_is(origin: tuple[str, str]) -> None:
    world = world_of("jwt", "user")
    wire = connect(world, announcement(1, "orders"), origin=origin)
    text = "the SETUP has no credentials, and the transport proves none; this broker accepts jwt or user"
    assert (wire.one(), wire.is_closed) == (error(0, REJECTED_SETUP, f"unauthenticated: {text}"), True)
    assert wire.peer.route is None
    assert [name for name, *_ in told(world)] == ["AuthRefused", "PeerClosed"]


def test_passwords_and_tokens_need_tls() -> None:
    for credentials in (TOKEN, PASSWORD):
        world = world_of("jwt", "user")
        wire = connect(world, entry(credentials), is_private=False)
        assert (wire.one(), wire.is_closed) == (error(0, REJECTED_SETUP, TLS_TEXT), True)
        assert world.core.take_asks() == []


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        (entry(PASSWORD), f"{NOT_ACCEPTED}; this broker accepts jwt or anonymous"),  # only tokens are
        (entry(Credentials(BEARER, "", "x" * (MAX_SECRET_BYTES + 1))), NOT_ACCEPTED),
        (entry(TOKEN) + entry(TOKEN), "the credentials cannot be read: the SETUP has them more than once"),
        (
            encode_entry(AUTHENTICATION_MIME, b"\x85secret"),
            "the credentials cannot be read: authentication type: id 0x05 is unknown, 0x00 and 0x01 are known",
        ),
    ],
)
def test_what_cannot_be_accepted_is_refused_at_once(metadata: bytes, text: str) -> None:
    world = world_of("jwt", "anonymous")
    wire = connect(world, metadata)
    assert (wire.one(), wire.is_closed) == (error(0, REJECTED_SETUP, f"unauthenticated: {text}"), True)


# Asked


def test_nothing_of_a_connection_is_looked_at_until_it_is_admitted() -> None:
    world = world_of("jwt")
    service = connect(world, entry(TOKEN) + announcement(1, "orders"))
    (ask,) = world.core.take_asks()
    assert (ask.kind, ask.credentials.secret, service.peer.route) == ("jwt", TOKEN.secret, None)
    admit(world, ask)
    request = encode_request(REQUEST_RESPONSE, 1, b"x", addressed(ORDERS))
    caller = connect(world, entry(TOKEN), request)
    assert service.received() == []
    (ask,) = world.core.take_asks()
    admit(world, ask, "jwt:caller")
    assert [frame.data for frame in service.received()] == [b"x"]
    assert (service.peer.principal, caller.peer.principal) == ("jwt:orders-7", "jwt:caller")
    assert told(world) == [
        ("Admitted", "jwt", "jwt:orders-7"),
        ("PeerConnected", "", ""),
        ("Admitted", "jwt", "jwt:caller"),
        ("PeerConnected", "", ""),
    ]


def test_a_refused_one_learns_the_word_and_operators_the_reason() -> None:
    world = world_of("user")
    wire = connect(world, entry(PASSWORD) + announcement(1, "orders"))
    (ask,) = world.core.take_asks()
    world.core.refuse(ask.peer, "unauthenticated", NOT_ACCEPTED, "user: another password", world.now)
    world.pump()
    assert (wire.one(), wire.is_closed, wire.peer.route) == (REFUSED, True, None)
    events = world.events()
    assert ("AuthRefused", "unauthenticated", "user: another password") in [
        (event.name, event.reason, event.detail) for event in events
    ]
    assert "lovelace" not in repr(events)
    world.core.admit(ask.peer, "user:ada", 0.0, world.now)  # too late: it changes nothing
    assert (wire.peer.principal, world.core.lifecycle.admission.refused) == ("", {"unauthenticated": 1})


def test_a_token_names_who_has_a_certificate_too_and_must_hold() -> None:
    world = world_of("certificate", "jwt")
    first, second = (connect(world, entry(TOKEN), origin=CERTIFICATE) for _ in range(2))
    good, bad = world.core.take_asks()
    admit(world, good, "jwt:ada")
    world.core.refuse(bad.peer, "unauthenticated", NOT_ACCEPTED, "jwt: it has expired", world.now)
    world.pump()
    assert (first.peer.principal, first.is_closed, second.one()) == ("jwt:ada", False, REFUSED)
    assert world.core.lifecycle.limits.origins() == (1, 2)  # one address; the second waits for its end


def test_connections_of_an_admitted_principal_are_counted() -> None:
    world = world_of("jwt", max_connections_per_principal=1)
    first, second = (connect(world, entry(TOKEN)) for _ in range(2))
    for ask in world.core.take_asks():
        admit(world, ask, "jwt:ada")
    text = "over-limit: 1 connections of jwt:ada are open, limits.max_connections_per_principal is 1"
    assert (first.is_closed, second.one()) == (False, error(0, REJECTED_SETUP, text))
    first.lose()
    second.lose()
    assert world.core.lifecycle.limits.origins() == (0, 0)


def test_no_answer_in_time_is_one() -> None:
    world = world_of("jwt")
    wire = connect(world, entry(TOKEN))
    world.advance(LIMIT_S - 0.1)
    assert not wire.is_closed
    world.advance(0.2)
    frame = wire.one()
    text = f"the credentials could not be verified within {LIMIT_S:.1f} s; try again later"
    assert frame == error(0, REJECTED_SETUP, f"auth-unavailable: {text}")
    assert [(name, reason) for name, reason, _ in told(world)] == [
        ("AuthRefused", "auth-unavailable"),
        ("PeerClosed", "auth-unavailable"),
    ]


def test_a_client_that_leaves_meanwhile_leaves_nothing_behind() -> None:
    world = world_of("jwt")
    wire = connect(world, entry(TOKEN))
    wire.lose()
    (ask,) = world.core.take_asks()
    admit(world, ask)
    assert (world.core.peers(), world.left_over(), world.core.lifecycle.limits.origins()) == ([], [], (0, 0))


# Observed


@pytest.mark.parametrize("metadata", [None, entry(PASSWORD), entry(TOKEN)])
def test_observe_refuses_nobody_and_tells_all(metadata: bytes | None) -> None:
    world = world_of("user", mode="observe")
    wire = connect(world, metadata, origin=CERTIFICATE)
    for ask in world.core.take_asks():
        world.core.refuse(ask.peer, "unauthenticated", NOT_ACCEPTED, "user: another password", world.now)
    world.pump()
    assert (wire.received(), wire.is_closed, wire.peer.principal) == ([], False, CERTIFICATE[1])
    assert [name for name, *_ in told(world)] == ["AuthRefused", "PeerConnected"]
    assert world.core.lifecycle.admission.refused == {"unauthenticated": 1}


def test_observe_lets_in_who_is_not_verified_in_time() -> None:
    world = world_of("user", mode="observe")
    wire = connect(world, entry(PASSWORD) + announcement(1, "orders"))
    world.advance(LIMIT_S + 0.1)
    assert (wire.is_closed, wire.peer.route is not None) == (False, True)


# Roles


def roles(*roles: Role) -> World:
    return World(CoreSettings(auth_mode="required", auth_accept=("certificate",), roles=roles))


SERVICE = "io.rsocket.routing.ServiceName"  # as a tag beside the service name of the ROUTE_SETUP
ORDERS_ROLE = Role(
    "orders", ["certificate:CN=orders"], [Offer([("service", ["orders", "${name}-*"]), ("region", ["eu", "us"])])]
)
OTHERS = Role("default", [], [])


def denied(why: str) -> str:
    return f"denied: the role orders does not allow to announce this route: {why}"


@pytest.mark.parametrize(
    ("service", "tags", "text"),
    [
        ("orders", {"region": "eu"}, ""),
        ("orders", {"region": "us", "version": "7"}, ""),
        ("CN=orders-beta", {"region": "eu"}, ""),
        ("payments", {"region": "eu"}, denied("service=payments")),
        ("orders", {"region": "mars"}, denied("region=mars")),
        ("orders", {}, denied("it has no tag region")),
        ("orders", {"region": "eu", SERVICE: "payments"}, denied("service=payments")),
        ("payments", {"region": "eu", SERVICE: "orders"}, denied("service=payments")),
        (
            "orders",
            {"region": "eu", "route_id": "11223344-5566-7788-99aa-bbccddeeff00"},
            "denied: a tag of this route is the Route Id of another one",
        ),
    ],
)
def test_a_role_allows_to_announce_what_one_of_its_offers_fits(service: str, tags: dict[str, str], text: str) -> None:
    world = roles(ORDERS_ROLE, OTHERS)
    for is_first in (True, False):  # with the SETUP, and in a METADATA_PUSH
        metadata = announcement(1, service, **tags)
        wire = connect(world, metadata if is_first else None, origin=CERTIFICATE)
        if not is_first:
            wire.send(raw_frame(METADATA_PUSH, METADATA, metadata))
        said = [frame.text for frame in wire.received()]
        assert (said, wire.peer.route is not None) == ([text] if text else [], not text)
        wire.lose()
    events = [(event.name, event.reason, event.service) for event in world.events() if event.name == "Denied"]
    assert events == [("Denied", "denied", service)] * (2 if text else 0)


def test_a_tag_of_a_route_is_no_foreign_route_id_without_roles_too() -> None:
    world = roles()
    metadata = announcement(1, "orders", route_id="11223344-5566-7788-99aa-bbccddeeff00")
    wire = connect(world, metadata, origin=CERTIFICATE)
    assert [frame.text for frame in wire.received()] == ["denied: a tag of this route is the Route Id of another one"]
    assert wire.peer.route is None


def test_who_has_no_role_is_refused_and_the_default_role_is_one() -> None:
    wire = connect(roles(ORDERS_ROLE), None, origin=("", "certificate:CN=billing"))
    assert wire.one() == error(0, REJECTED_SETUP, "denied: certificate:CN=billing has no role")
    world = roles(OTHERS, ORDERS_ROLE)
    caller = connect(world, None, origin=("", "certificate:CN=billing"))
    assert (caller.received(), caller.is_closed) == ([], False)
    caller = connect(world, announcement(1, "orders"), origin=("", "certificate:CN=billing"))
    text = "denied: the role default does not allow to announce this route: service=orders"
    assert caller.one() == error(0, REJECTED_SETUP, text)


def test_a_name_with_a_star_opens_no_pattern() -> None:
    role = Role("own", ["jwt:*"], [Offer([("service", ["${name}"])])])
    assert refusal_of(role, [Tag.of("service", "ab")], "jwt:a*") != ""
    assert refusal_of(role, [Tag.of("service", "a*")], "jwt:a*") == ""


def test_events_and_flows_tell_who_it_was_its_role_and_the_tag_that_was_in_the_way() -> None:
    world = roles(ORDERS_ROLE, OTHERS)
    connect(world, announcement(1, "orders", region="eu"), origin=CERTIFICATE)
    connect(world, announcement(2, "orders", region="mars"), origin=CERTIFICATE)
    caller = connect(world, None, origin=("", "certificate:CN=billing"))
    caller.send(encode_request(REQUEST_FNF, 1, b"x", addressed(ORDERS)))
    names = ("Admitted", "RouteJoined", "Denied")
    events = [each for each in world.events() if each.name in names]
    told = [(each.name, each.principal, each.role) for each in events]
    orders = "certificate:CN=orders"
    assert told == [
        *(("Admitted", orders, "orders"), ("RouteJoined", orders, "")),
        *(("Admitted", orders, "orders"), ("Denied", orders, "orders")),
        ("Admitted", "certificate:CN=billing", "default"),
    ]
    assert list(events[3].tags) == [("tag", "region"), ("value", "mars")]
    world.now += 1
    assert [record.principal for record in world.flows()] == ["certificate:CN=billing"]


def test_who_is_refused_for_want_of_a_role_is_named_all_the_same() -> None:
    world = World(CoreSettings(auth_mode="required", auth_accept=("jwt",), roles=(ORDERS_ROLE,)))
    connect(world, entry(TOKEN))
    admit(world, world.core.take_asks()[0])
    assert [each.principal for each in world.events() if each.name == "AuthRefused"] == ["jwt:orders-7"]


def test_roles_are_only_observed_with_observe() -> None:
    world = World(CoreSettings(auth_mode="observe", auth_accept=("certificate",), roles=(ORDERS_ROLE,)))
    for origin in (CERTIFICATE, ("", "certificate:CN=billing")):
        wire = connect(world, announcement(1, "payments"), origin=origin)
        assert (wire.is_closed, wire.peer.route is not None) == (False, True)
    names = [event.name for event in world.events()]
    assert [names.count(name) for name in ("Denied", "AuthRefused")] == [3, 1]  # the Route Id, too


def test_a_route_id_belongs_to_who_has_it() -> None:
    world = roles(Role("all", ["*"], [Offer([("service", ["*"])])]))
    first = connect(world, announcement(1, "orders"), origin=CERTIFICATE)
    thief = connect(world, announcement(1, "orders"), origin=("", "certificate:CN=billing"))
    assert thief.one().text.startswith("route-taken: the Route Id ")
    again = connect(world, announcement(1, "orders"), origin=CERTIFICATE)  # the same identity may replace its own
    assert (first.is_closed, again.is_closed, again.peer.route is not None) == (True, False, True)


# Brokers


def test_a_broker_proves_itself_otherwise_and_asks_nothing_before() -> None:
    world = cluster(CoreSettings(broker_name="b1", auth_mode="required", auth_accept=("jwt",)))
    connect(world, entry(TOKEN) + announcement(1, "orders"))
    (ask,) = world.core.take_asks()
    admit(world, ask)
    service = world.wires[ask.peer.id]
    broker = Broker(world).dial()
    broker.wire.send(encode_request(REQUEST_RESPONSE, 1, b"x", addressed(ORDERS)))
    broker.wire.send(raw_frame(METADATA_PUSH, METADATA, addressed(ORDERS)))
    refused = [frame for frame in broker.wire.frames if frame.stream_id == 1]
    assert ([frame.code for frame in refused], service.received()) == ([REJECTED], [])
    broker.wire.frames = [frame for frame in broker.wire.frames if frame.stream_id != 1]
    broker.prove()
    assert (broker.wire.peer.link is not None, world.core.take_asks()) == (True, [])


def test_who_only_says_that_it_is_a_broker_is_refused_where_there_is_no_cluster() -> None:
    world = world_of("jwt")
    broker = Broker(world).dial()
    assert (broker.wire.one().text.partition(":")[0], broker.wire.is_closed) == ("unauthenticated", True)


# Ends, and sessions


def test_a_connection_ends_with_its_token() -> None:
    world = world_of("jwt")
    wire = connect(world, entry(TOKEN))
    (ask,) = world.core.take_asks()
    admit(world, ask, expires_at=world.now + 10)
    world.advance(9.9)
    assert not wire.is_closed
    world.advance(0.2)
    text = "expired: the token of this connection has expired; connect again with a new one"
    assert (wire.one(), wire.is_closed) == (error(0, CONNECTION_ERROR, text), True)
    assert world.core.lifecycle.admission.refused == {"expired": 1}


def test_with_observe_an_expired_token_is_only_told() -> None:
    world = world_of("jwt", mode="observe")
    wire = connect(world, entry(TOKEN))
    (ask,) = world.core.take_asks()
    admit(world, ask, expires_at=world.now + 10)
    world.advance(11)
    assert (wire.is_closed, told(world)[-1]) == (False, ("AuthRefused", "expired", "jwt:orders-7"))


def suspended(world: World, expires_at: float = 0.0, origin: tuple[str, str] = CERTIFICATE) -> Wire:
    """A session that was begun with a token, whose socket broke."""
    wire = world.connect(origin=origin, is_private=True)
    wire.send(setup(entry(TOKEN), token=b"t"))
    (ask,) = world.core.take_asks()
    admit(world, ask, expires_at=expires_at)
    wire.lose()
    return wire


def test_a_session_is_resumed_by_its_transport_only_and_stays_who_it_was() -> None:
    world = world_of("jwt", "certificate")
    old = suspended(world)
    for origin, is_private in ((("10.0.0.4", ""), True), (CERTIFICATE, False)):
        other = world.connect(name="tcp 127.0.0.1:9", origin=origin, is_private=is_private)
        other.send(Resume(b"t", 0, 0).encode())
        assert other.one() == error(0, REJECTED_RESUME, NO_SESSION)
        other.lose()
    again = world.connect(name="tcp 127.0.0.1:8", origin=CERTIFICATE, is_private=True)
    again.send(Resume(b"t", 0, 0).encode())
    assert (again.one(), again.peer is old.peer, again.peer.principal) == (resumed(0), True, "jwt:orders-7")
    again.lose()
    world.advance(100)
    assert world.core.lifecycle.limits.origins() == (0, 0)


def test_who_has_a_certificate_does_not_resume_a_session_of_a_token_that_had_none() -> None:
    world = world_of("jwt", "certificate")
    old = suspended(world, origin=("10.0.0.4", ""))
    other = world.connect(name="tcp 127.0.0.1:9", origin=CERTIFICATE, is_private=True)
    other.send(Resume(b"t", 0, 0).encode())
    assert other.one() == error(0, REJECTED_RESUME, NO_SESSION)
    again = world.connect(name="tcp 127.0.0.1:8", origin=("10.0.0.4", ""), is_private=True)
    again.send(Resume(b"t", 0, 0).encode())
    assert (again.one(), again.peer is old.peer, again.peer.principal) == (resumed(0), True, "jwt:orders-7")


def test_a_session_is_over_when_its_token_is() -> None:
    world = world_of("jwt", "certificate")
    suspended(world, expires_at=world.now + 10)
    world.advance(11)
    again = world.connect(name="tcp 127.0.0.1:8", origin=CERTIFICATE)
    again.send(Resume(b"t", 0, 0).encode())
    assert again.one() == error(0, REJECTED_RESUME, NO_SESSION)

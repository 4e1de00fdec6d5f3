"""Clients log in anew on an open connection (D-100): what changes, what does not, and what they are told."""

from __future__ import annotations

import pytest

from broker.access.roles import Offer, Role
from broker.connections.admission import MAX_SECRET_BYTES, NOT_ACCEPTED
from broker.connections.renewals import MAX_RENEWALS, WINDOW_S
from broker.core import CoreSettings
from rsocket_wire.errors import CONNECTION_ERROR
from rsocket_wire.rsocket.frames import METADATA_PUSH, REQUEST_RESPONSE, Resume, encode_metadata_push
from rsocket_wire.rsocket.metadata import encode_well_known_entry
from rsocket_wire.rsocket.notices import MAY_BE_TOLD_ENTRY, find_notice, renewal_entry
from rsocket_wire.wire.authentication import AUTHENTICATION_ID, BEARER, SIMPLE, Credentials
from tests.fakes import Wire, World, address, announcement, error, setup

TOKEN = Credentials(BEARER, "", "a-secret-token")
PASSWORD = Credentials(SIMPLE, "ada", "lovelace")
WHO = "jwt:orders-7"
LIFE_S = 10.0
REFUSED = f"unauthenticated: {NOT_ACCEPTED}"
ANY = Offer([("service", ["*"])])


def world_of(*roles: Role, mode: str = "required", **more: int) -> World:
    return World(CoreSettings(auth_mode=mode, auth_accept=("jwt", "user"), roles=roles, **more))  # type: ignore[arg-type]


def logged_in(
    world: World,
    principal: str = WHO,
    life_s: float = LIFE_S,
    *,
    metadata: bytes = MAY_BE_TOLD_ENTRY,
    token: bytes = b"",
) -> Wire:
    """A client that was let in as this principal, for so long."""
    credentials = PASSWORD if principal.startswith("user") else TOKEN
    wire = world.connect(is_private=True)
    entry = encode_well_known_entry(AUTHENTICATION_ID, credentials.encode())
    wire.send(setup(metadata + entry, token=token) if token else setup(metadata + entry))
    answer(world, principal, life_s)
    return wire


def answer(world: World, principal: str = WHO, life_s: float = LIFE_S, issued_at_ms: int = 0) -> None:
    """Answers the one that is asked about as the edge does."""
    (ask,) = world.core.take_asks()
    expires_at = world.now + life_s if life_s else 0.0
    world.core.admit(ask.peer, principal, expires_at, world.now, issued_at_ms)
    world.wires[ask.peer.id].work_off()
    world.pump()


def renewal(credentials: Credentials = TOKEN) -> bytes:
    return encode_metadata_push(renewal_entry(credentials.encode()))


def told(wire: Wire) -> list[tuple[str, int]]:
    """What the client was told of its login since the last look: that, and for how many ms it holds."""
    notices = [find_notice(frame.raw[6:]) for frame in wire.received() if frame.kind == METADATA_PUSH]
    return [(each.login, each.expires_in_ms) for each in notices if each is not None]


def events(world: World) -> list[tuple[str, str, str]]:
    names = ("Admitted", "AuthRefused", "Revoked")
    return [(event.name, event.reason, event.detail) for event in world.events() if event.name in names]


def test_a_client_learns_how_long_its_credentials_hold_and_with_new_ones_stays() -> None:
    world = world_of()
    wire = logged_in(world)
    assert told(wire) == [("", 10_000)]
    world.advance(8.0)
    wire.send(renewal())
    answer(world, life_s=60.0)
    assert told(wire) == [("renewed", 60_000)]
    world.advance(LIFE_S)
    assert not wire.is_closed
    world.advance(52.0)
    assert wire.one().data.startswith(b"expired: ")
    assert [detail for name, _, detail in events(world) if name == "Admitted"] == [WHO, f"{WHO}, renewed"]


def test_a_shorter_life_counts_at_once_and_none_ends_the_connection_no_more() -> None:
    world = world_of()
    shorter, endless = logged_in(world, life_s=100.0), logged_in(world)
    shorter.send(renewal())
    answer(world, life_s=1.0)
    endless.send(renewal())
    answer(world, life_s=0.0)
    assert (told(shorter), told(endless)) == ([("", 100_000), ("renewed", 1_000)], [("", 10_000), ("renewed", 0)])
    world.advance(1.1)
    assert shorter.is_closed
    world.advance(15.0)
    assert not endless.is_closed


@pytest.mark.parametrize("metadata", [b"", MAY_BE_TOLD_ENTRY[:-1] + b"\x02"])
def test_who_may_not_be_told_is_told_nothing_before_it_asks(metadata: bytes) -> None:
    world = world_of()
    wire = logged_in(world, metadata=metadata)
    assert told(wire) == []
    wire.send(renewal())
    answer(world)
    assert told(wire) == [("renewed", 10_000)]


def test_traffic_goes_on_while_new_credentials_are_verified() -> None:
    world = world_of()
    service = logged_in(world, metadata=announcement(1, "orders"))
    caller = logged_in(world, "jwt:caller")
    caller.send(renewal())
    caller.request(REQUEST_RESPONSE, 1, address(service="orders"))
    (request,) = service.received()
    service.answer(request.stream_id, b"x")
    assert caller.received()[-1].data == b"x"
    answer(world, "jwt:caller")
    assert not caller.is_closed


@pytest.mark.parametrize(
    ("principal", "reason"),
    [("jwt:billing", "they are those of jwt:billing"), ("user:orders-7", "they are those of user:orders-7")],
)
def test_another_name_or_kind_is_refused_and_the_old_rights_hold_until_they_end(principal: str, reason: str) -> None:
    world = world_of()
    wire = logged_in(world)
    world.advance(5.0)
    wire.send(renewal())
    answer(world, principal, 60.0)
    assert told(wire) == [("", 10_000), (REFUSED, 5_000)]
    assert (wire.peer.principal, wire.is_closed) == (WHO, False)
    assert events(world)[-1] == ("AuthRefused", "unauthenticated", f"renewal: {reason}")
    world.advance(5.1)
    assert wire.one().data.startswith(b"expired: ")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (PASSWORD.encode(), NOT_ACCEPTED),  # another kind than at the SETUP
        (Credentials(BEARER, "", "x" * (MAX_SECRET_BYTES + 1)).encode(), NOT_ACCEPTED),
        (b"", "the credentials cannot be read: "),
        (b"\x85secret", "the credentials cannot be read: authentication type: id 0x05 is unknown"),
    ],
)
def test_what_cannot_be_accepted_is_refused_at_once(raw: bytes, text: str) -> None:
    world = world_of()
    wire = logged_in(world)
    wire.send(encode_metadata_push(renewal_entry(raw)))
    assert world.core.take_asks() == []
    login = told(wire)[-1][0]
    assert (login.startswith(f"unauthenticated: {text}"), "secret" in login, wire.is_closed) == (True, False, False)


def test_two_at_once_are_none_and_a_second_one_waits_for_the_first() -> None:
    world = world_of()
    wire = logged_in(world)
    wire.send(encode_metadata_push(renewal_entry(TOKEN.encode()) * 2))
    assert world.core.take_asks() == []
    wire.send(renewal())
    wire.send(renewal())
    assert [login.partition(":")[0] for login, _ in told(wire)] == ["", "unauthenticated", "auth-unavailable"]
    answer(world)
    assert told(wire) == [("renewed", 10_000)]


def test_what_others_could_read_is_refused_and_not_verified() -> None:
    """The session goes on where it is as private as before, and no other transport gets as far."""
    world = world_of()
    wire = logged_in(world)
    wire.peer.proof = world.connect(origin=("10.0.0.4", "")).peer.proof
    wire.send(renewal())
    assert (world.core.take_asks(), told(wire)[-1][0].startswith("unauthenticated: passwords and tokens")) == ([], True)


def test_what_does_not_hold_or_cannot_be_verified_changes_nothing() -> None:
    world = world_of()
    wire = logged_in(world)
    for word in ("unauthenticated", "auth-unavailable"):
        wire.send(renewal())
        (ask,) = world.core.take_asks()
        world.core.refuse(ask.peer, word, "no", "jwt: it has expired", world.now)
        world.pump()
    assert [login for login, _ in told(wire)] == ["", "unauthenticated: no", "auth-unavailable: no"]
    assert world.core.lifecycle.admission.refused == {"unauthenticated": 1, "auth-unavailable": 1}
    world.advance(LIFE_S + 0.1)
    assert wire.is_closed


def test_too_many_end_the_connection() -> None:
    world = world_of()
    wire = logged_in(world, life_s=1000.0)
    for _ in range(MAX_RENEWALS):
        wire.send(renewal(PASSWORD))
    world.advance(WINDOW_S)
    for _ in range(MAX_RENEWALS):
        wire.send(renewal(PASSWORD))
    assert (len(told(wire)), wire.is_closed) == (1 + 2 * MAX_RENEWALS, False)
    wire.send(renewal(PASSWORD))
    text = f"over-limit: more than {MAX_RENEWALS} renewals came within 60 s"
    assert (wire.one(), wire.is_closed) == (error(0, CONNECTION_ERROR, text), True)


def test_the_role_is_judged_anew_and_a_revocation_counts_from_when_the_new_ones_were_issued() -> None:
    world = world_of(Role("orders", [WHO], [ANY], [ANY]))
    old, new = logged_in(world), logged_in(world)
    new.send(renewal())
    answer(world, life_s=60.0, issued_at_ms=5_000)
    told(new)
    world.core.set_revocations({WHO: 5_000})
    world.pump()
    assert (old.is_closed, new.is_closed) == (True, False)
    new.send(renewal())
    answer(world, life_s=60.0, issued_at_ms=4_999)
    assert told(new) == [(REFUSED, 60_000)]
    assert events(world)[-1] == ("AuthRefused", "unauthenticated", f"renewal: those of {WHO} are revoked")
    new.send(renewal())
    world.core.lifecycle.roles.replace([Role("none", ["jwt:other"], [], [])])  # and nobody was judged yet
    answer(world, life_s=60.0, issued_at_ms=6_000)
    assert (new.one().data, new.is_closed) == (f"denied: {WHO} has no role any more".encode(), True)


def test_a_password_that_was_renewed_was_issued_then() -> None:
    world = world_of()
    wire = logged_in(world, "user:ada")
    world.advance(5.0)
    wire.send(renewal(PASSWORD))
    answer(world, "user:ada", 60.0)
    at_ms = world.core.lifecycle.admission._event_log.wall(world.now)
    assert wire.peer.login.issued_at_ms == at_ms > wire.peer.connected_at_ms


def test_a_session_without_a_socket_has_its_new_rights_when_it_comes_back() -> None:
    world = world_of(resume_ttl_s=30.0)  # type: ignore[arg-type]
    wire = logged_in(world, token=b"t" * 16)
    wire.send(renewal())
    wire.lose()
    answer(world, life_s=25.0)
    world.advance(20.0)
    assert wire.peer.is_suspended
    assert wire.peer.login.expires_at == world.now + 5.0
    again = world.connect(is_private=True)
    again.send(Resume(b"t" * 16, 0, 0).encode())
    world.advance(4.0)
    assert not again.is_closed
    world.advance(1.1)
    assert again.is_closed


def test_who_has_no_credentials_cannot_get_some() -> None:
    """Neither with `off`, where nobody looks, nor where a certificate was enough."""
    required = CoreSettings(auth_mode="required", auth_accept=("certificate", "jwt"))
    for settings, n in ((CoreSettings(), 0), (required, 1)):
        world = World(settings)
        wire = world.connect(origin=("10.0.0.4", "certificate:CN=orders"), is_private=True)
        wire.send(setup(MAY_BE_TOLD_ENTRY))
        wire.send(renewal())
        assert (len(told(wire)), world.core.take_asks(), wire.is_closed) == (n, [], False)


def test_an_answer_to_who_has_ended_is_nobodys() -> None:
    world = world_of()
    wire = logged_in(world)
    wire.send(renewal())
    (ask,) = world.core.take_asks()
    wire.lose()
    world.core.admit(ask.peer, WHO, 0.0, world.now)
    world.core.refuse(ask.peer, "unauthenticated", "no", "no", world.now)
    assert events(world)[-1][0] == "Admitted"

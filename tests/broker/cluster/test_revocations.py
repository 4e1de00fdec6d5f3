"""Revocations: whose connections end, who is let in no more, at every broker, and so many are kept."""

from __future__ import annotations

import pytest

from broker.access.revocations import MAX_REVOCATIONS
from broker.cluster.cluster import EXPIRE_S
from broker.cluster.gossip import EXPIRY_STEP_S, TOMBSTONE_S
from broker.cluster.messages import MAX_PRINCIPAL_BYTES
from broker.core import CoreSettings
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED_SETUP, BrokerError
from rsocket_wire.rsocket.metadata import encode_well_known_entry
from rsocket_wire.wire.authentication import AUTHENTICATION_ID, BEARER, Credentials
from tests.conformance.links import cluster
from tests.fakes import Frame, Wire, World, error, setup
from tests.topology import Net, in_a_line

WHO = "jwt:orders-7"
TOKEN = encode_well_known_entry(AUTHENTICATION_ID, Credentials(BEARER, "", "a-secret-token").encode())
SETTINGS = {"auth_mode": "required", "auth_accept": ("jwt", "uid")}
TEXT = "revoked: the credentials of this connection hold no longer; connect again with others"


def world_of(mode: str = "required") -> World:
    return cluster(CoreSettings(broker_name="b1", **{**SETTINGS, "auth_mode": mode}))  # type: ignore[arg-type]


def log_in(world: World, issued_s: float = 0.0, who: str = WHO) -> Wire:
    """A connection with a token that was issued so long after now; None: that does not say."""
    wire = world.connect()
    wire.send(setup(TOKEN))
    (ask,) = world.core.take_asks()
    world.core.admit(ask.peer, who, 0.0, world.now, world.at_ms + int(issued_s * 1000))
    world.pump()
    return wire


def revoke(world: World, before_s: float = 0.0, who: str = WHO) -> None:
    world.core.cluster.set_revocation(who, world.at_ms + int(before_s * 1000), world.now)
    world.pump()


def revoked(code: int) -> Frame:
    return error(0, code, TEXT)


def told(world: World) -> list[tuple[str, str]]:
    names = ("Revoked", "RevocationSet", "RevocationRemoved")
    return [(event.name, event.detail) for event in world.events() if event.name in names]


def test_what_was_issued_before_ends_and_is_let_in_no_more() -> None:
    world = world_of()
    old, new, other = log_in(world, -10.0), log_in(world, -1.0), log_in(world, -10.0, "jwt:orders-8")
    revoke(world, -5.0)
    assert (old.one(), old.is_closed) == (revoked(CONNECTION_ERROR), True)
    assert [wire.is_closed for wire in (new, other)] == [False, False]
    assert (log_in(world, -6.0).one(), log_in(world, -5.0).received()) == (revoked(REJECTED_SETUP), [])
    assert told(world) == [("RevocationSet", WHO), ("Revoked", WHO), ("Revoked", WHO)]
    assert world.core.lifecycle.admission.refused == {"revoked": 2}
    assert world.core.cluster.remove_revocation(WHO, world.now)
    assert (log_in(world, -6.0).received(), told(world)) == ([], [("RevocationRemoved", WHO)])
    assert not world.core.cluster.remove_revocation(WHO, world.now)


def test_a_token_that_does_not_say_when_it_was_issued_is_older_than_any_moment() -> None:
    world = world_of()
    revoke(world, -3600.0)
    wire = world.connect()
    wire.send(setup(TOKEN))
    (ask,) = world.core.take_asks()
    world.core.admit(ask.peer, WHO, 0.0, world.now)
    world.pump()
    assert wire.one() == revoked(REJECTED_SETUP)


def test_other_credentials_count_from_when_their_connection_was_made() -> None:
    world = world_of()
    old = world.connect(origin=("", "uid:7"))
    old.send(setup())
    world.advance(1)
    revoke(world, who="uid:7")
    assert old.one() == revoked(CONNECTION_ERROR)
    again = world.connect(origin=("", "uid:7"))
    again.send(setup())
    assert again.received() == []
    revoke(world, 60.0, "uid:7")  # from now on for a minute
    assert again.one() == revoked(CONNECTION_ERROR)
    again = world.connect(origin=("", "uid:7"))
    again.send(setup())
    assert again.one() == revoked(REJECTED_SETUP)


def test_with_observe_it_is_only_told() -> None:
    world = world_of("observe")
    old = log_in(world, -10.0)
    revoke(world)
    assert (old.is_closed, log_in(world, -10.0).is_closed) == (False, False)
    assert [name for name, _ in told(world)] == ["RevocationSet", "Revoked", "Revoked"]


def test_those_of_the_file_count_beside_those_of_operators() -> None:
    world = world_of()
    world.core.set_revocations({WHO: world.at_ms - 5000})
    revoke(world, -10.0)
    wires = [log_in(world, issued_s) for issued_s in (-11.0, -6.0, -4.0)]
    assert [wire.is_closed for wire in wires] == [True, True, False]
    world.core.set_revocations({WHO: world.at_ms})
    world.pump()
    assert wires[2].one() == revoked(CONNECTION_ERROR)
    world.core.set_revocations({})
    assert not log_in(world, -6.0).is_closed


def test_it_counts_at_every_broker_and_at_those_that_come_later() -> None:
    names, edges = in_a_line(3)
    net = Net(names, edges, make=lambda name: CoreSettings(broker_name=name, **SETTINGS))  # type: ignore[arg-type]
    net.kill("b3")
    net.advance(5)
    far = log_in(net.worlds["b2"], -10.0)
    revoke(net.worlds["b1"])
    net.pump()
    net.advance(1)
    assert (far.one(), far.is_closed) == (revoked(CONNECTION_ERROR), True)
    net.start("b3")
    net.advance(10)
    assert len(net.digests()) == 1
    assert log_in(net.worlds["b3"], -20.0).one() == revoked(REJECTED_SETUP)
    assert net.worlds["b3"].core.cluster.remove_revocation(WHO, net.now)
    net.advance(5)
    assert [world.core.lifecycle.revocations.told for world in net.worlds.values()] == [{}] * 3


@pytest.mark.parametrize("who", ["", "orders-7", "role:orders", "jwt:\n", "jwt:" + "x" * MAX_PRINCIPAL_BYTES])
def test_what_is_no_identity_is_refused(who: str) -> None:
    world = world_of()
    with pytest.raises(BrokerError, match="bad-revocation"):
        world.core.cluster.set_revocation(who, world.at_ms, world.now)
    with pytest.raises(BrokerError, match="bad-revocation"):
        world.core.cluster.set_revocation(WHO, 0, world.now)


def test_so_many_identities_are_revoked_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were removed are among them as long as their tombstones are there."""
    world = world_of()
    others = world.core.cluster
    others.set_revocation("jwt:first", 1, world.now)
    others.replication.gossip.revocations_n = MAX_REVOCATIONS - 1  # as if the others had been set
    others.set_revocation(WHO, 1, world.now)
    text = f"over-limit: {MAX_REVOCATIONS} revocations are set, the limit is {MAX_REVOCATIONS}"
    with pytest.raises(BrokerError, match=text):
        others.set_revocation("jwt:one-more", 1, world.now)
    others.set_revocation(WHO, 2, world.now)
    others.remove_revocation(WHO, world.now)
    with pytest.raises(BrokerError, match=text):
        others.set_revocation("jwt:one-more", 1, world.now)
    world.advance(TOMBSTONE_S + EXPIRY_STEP_S + EXPIRE_S)
    others.set_revocation("jwt:one-more", 1, world.now)
    assert list(world.core.lifecycle.revocations.told) == ["jwt:first", "jwt:one-more"]


def test_many_that_come_at_once_have_everybody_judged_once_more_and_not_again_and_again() -> None:
    world = world_of()
    wires = [log_in(world) for _ in range(3)]
    for number in range(100):
        world.core.cluster.set_revocation(f"jwt:{number}", 1, world.now)
    assert len(world.core.lifecycle.review.unjudged) == 1
    world.core.work(world.now)
    assert (world.core.lifecycle.review.unjudged, [wire.is_closed for wire in wires]) == ([], [False] * 3)

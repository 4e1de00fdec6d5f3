"""Who is let in, and wants more than its role allows: to announce, to call, to stay, to be somebody else."""

import logging
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from broker.connections.renewals import MAX_RENEWALS
from broker.edge.admission.tokens import LEEWAY_S
from broker.forwarding.traffic.denials import TOLD_S
from broker.server import Server
from rsocket_wire.rsocket.frames import ERROR, REQUEST_FNF, REQUEST_RESPONSE, encode_metadata_push, encode_request
from rsocket_wire.rsocket.notices import renewal_entry
from rsocket_wire.wire.annotations import ANNOTATIONS_MIME, Annotations
from rsocket_wire.wire.authentication import BEARER, Credentials
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, Address
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import SHARD_KEY, STICKY_ROUTE_KEY
from tests.attacks.brokers import asked, credentials_of, login, running, user, write_users
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer
from tests.conformance import scripts
from tests.fakes import address, addressed, announcement, composite, route_id, setup, tags_of
from tests.system.support.certificates import Authority
from tests.system.support.waits import until
from tests.system.support.wires import Wire

ROLES = """
[role.services]
who = ["user:service"]
announce = [{ service = "*" }]

[role.orders]
who = ["user:orders", "certificate:spiffe://acme/orders", "jwt:orders-7"]
announce = [{ service = "orders", region = ["eu", "us"] }]
address = [{ service = "billing" }, { service = "stock", environment = "prod" }]

[role.own]
who = ["user:*"]
announce = [{ service = "${name}" }]
"""
NAMES = ("service", "orders", "ada", "a*")
CLUSTER = {"cluster.secret": "correct horse battery staple"}
STOCK = address(service="stock", environment="test")
ASKS = {
    "by tags": STOCK,
    "by any tag": address(environment="test"),
    "by Route Id": address(route_id=id_text(route_id(1))),
    "as a multicast": address(MULTICAST, environment="test"),
    "as a shard": address(SHARD, [(SHARD_KEY, "user")], environment="test", user="7"),
    "as a sticky one": address(0, [(STICKY_ROUTE_KEY, "user")], environment="test", user="7"),
}


def roles_at(folder: Path, text: str = ROLES) -> Path:
    """A file of roles, and one of users."""
    write_users(folder / "users", NAMES)
    (folder / "broker.toml").write_text(text)
    return folder / "broker.toml"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A broker with these roles and users."""
    async with running(guarded(tmp_path), roles_at(tmp_path)) as server:
        yield server


def tokens(folder: Path, accept: str = "jwt") -> dict[str, object]:
    """Options of a broker that lets in whom `signer` has signed for."""
    (folder / "keys").write_bytes(key_set(signer()))
    trusted = {"jwt.keys": folder / "keys", "jwt.issuer": ISSUER, "jwt.audience": AUDIENCE}
    return {"auth.mode": "required", "auth.accept": accept, **trusted}


def guarded(folder: Path, more: Mapping[str, object] = MappingProxyType({})) -> dict[str, object]:
    """Options of a broker that lets in the users of `roles_at`."""
    return {"auth.mode": "required", "auth.accept": "user,anonymous", "auth.users": folder / "users", **more}


def joining(server: Server) -> dict[str, object]:
    """Options of a broker that links to this one."""
    return {"broker.name": "b2", "cluster.peers": server.listeners[0]}


async def word_of(wire: Wire) -> str:
    """The code word with which it ends."""
    return (await wire.rest())[-1].text.partition(":")[0]


async def refused(server: Server, raw: bytes) -> str:
    """The code word for a connection that sends this first."""
    wire = await Wire.connect(server.listeners[0])
    wire.send(raw)
    return await word_of(wire)


async def reached(service: Wire) -> list[bytes]:
    """What has come to it, and ended up in front of an answer to this."""
    found = []
    service.send(scripts.frame(0, 0x03, 0x80, bytes(8)))
    while (frame := await service.receive()).kind != 0x03:
        found.append(frame.data)
    return found


# Announcing


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("payments", {"region": "eu"}),
        ("orders", {"region": "mars"}),
        ("orders", {}),
        ("orders", {"region": "eu", "io.rsocket.routing.ServiceName": "payments"}),
        ("orders", {"region": "eu", "route_id": id_text(route_id(9))}),
    ],
)
async def test_nobody_announces_what_its_role_does_not_allow(server: Server, name: str, tags: dict[str, str]) -> None:
    """In the SETUP, in a METADATA_PUSH, and as a request."""
    announced = announcement(1, name, **tags)
    assert await refused(server, login(credentials_of("orders"), announced)) == "denied"
    for later in (encode_metadata_push(announced), encode_request(REQUEST_FNF, 1, b"", announced)):
        wire = await user(server.listeners[0], "orders")
        wire.send(later)
        assert await word_of(wire) == "denied"
    assert server.core.table.size() == 0
    await user(server.listeners[0], "orders", announcement(1, "orders", region="eu"))
    assert server.core.table.size() == 1


async def test_who_has_no_role_is_not_let_in(server: Server) -> None:
    assert await refused(server, setup()) == "denied"


async def test_a_name_with_a_star_announces_nothing_of_others(server: Server) -> None:
    assert await refused(server, login(credentials_of("a*"), announcement(1, "ada"))) == "denied"
    await user(server.listeners[0], "a*", announcement(1, "a*"))


async def test_a_certificate_of_orders_announces_no_payments_and_holds_no_token_up(
    tmp_path: Path, authority: Authority
) -> None:
    authority.sign("orders", "subjectAltName=URI:spiffe://acme/orders\n")
    shown = {"tls.certificate": authority.certificate("broker"), "tls.key": authority.key("broker")}
    options = tokens(tmp_path, "certificate,jwt") | shown | {"tls.client_ca": authority.root}
    async with running(options, roles_at(tmp_path), ("tls://127.0.0.1:0",)) as server:

        async def ended(raw: bytes) -> str:
            wire = await Wire.connect(server.listeners[0], authority.client_context("orders"))
            wire.send(raw)
            return await word_of(wire)

        assert await ended(setup(announcement(1, "payments", region="eu"))) == "denied"
        assert await ended(login(Credentials(BEARER, "", signer().sign(aud="another")))) == "unauthenticated"
        wire = await Wire.connect(server.listeners[0], authority.client_context("orders"))
        wire.send(login(Credentials(BEARER, "", signer().sign()), announcement(1, "orders", region="eu")))
        await wire.ping()
        assert [peer.principal for peer in server.core.peers()] == ["jwt:orders-7"]


# Staying


async def test_nobody_stays_longer_than_its_token_holds(tmp_path: Path) -> None:
    async with running(tokens(tmp_path), roles_at(tmp_path)) as server:
        wire = await Wire.connect(server.listeners[0])
        wire.send(login(Credentials(BEARER, "", signer().sign(exp=int(time.time()) + 50))))
        await wire.ping()
        at_ms = time.time_ns() // 1_000_000
        server.change(lambda core, now: core.tick(now + 50 + LEEWAY_S, at_ms))
        assert await word_of(wire) == "expired"


async def test_nobody_becomes_somebody_else_by_renewing_its_credentials(tmp_path: Path) -> None:
    """Nor goes on trying."""

    def renewal(token: str) -> bytes:
        return encode_metadata_push(renewal_entry(Credentials(BEARER, "", token).encode()))

    options = tokens(tmp_path) | {"limits.max_wrong_logins_per_s": 0}
    async with running(options, roles_at(tmp_path)) as server:
        wire = await Wire.connect(server.listeners[0])
        wire.send(login(Credentials(BEARER, "", signer().sign())))
        await wire.ping()
        wire.send(renewal(signer().sign(sub="service")), renewal("no token"))
        await until(lambda: server.core.lifecycle.admission.refused == {"unauthenticated": 2})
        assert [peer.principal for peer in server.core.peers()] == ["jwt:orders-7"]
        for _ in range(MAX_RENEWALS):
            wire.send(renewal("no token"))
        assert await word_of(wire) == "over-limit"


async def test_nobody_stays_or_comes_back_with_what_was_revoked(tmp_path: Path) -> None:
    """At any broker of the cluster."""
    stolen = login(Credentials(BEARER, "", signer().sign(iat=int(time.time()) - 1)))
    options = tokens(tmp_path) | CLUSTER
    async with (
        running(options | {"broker.name": "b1"}, roles_at(tmp_path)) as server,
        running(
            options | {"broker.name": "b2", "cluster.peers": server.listeners[0]}, tmp_path / "broker.toml"
        ) as other,
        asked(server, tmp_path / "token") as admin,
    ):
        await until(lambda: [link.is_up for link in other.core.cluster.links()] == [True])
        wires = [await Wire.connect(each.listeners[0]) for each in (server, other)]
        for wire in wires:
            wire.send(stolen)
            await wire.ping()
        assert (await admin.ask("PUT", "/api/v1/revocations/jwt:orders-7", admin.token))[0] == 200
        assert [await word_of(wire) for wire in wires] == ["revoked"] * 2
        for each in (server, other):
            assert await refused(each, stolen) == "revoked"


# Being somebody else


async def test_nobody_becomes_a_broker_by_saying_so(server: Server) -> None:
    said = scripts.forwarding(scripts.broker_info(1, ("name", "evil")))
    added = scripts.route_add(1, 1, "orders")
    assert await refused(server, login(credentials_of("service"), said)) in ("no-cluster", "unauthenticated")
    for frame in (scripts.broker_info(1, ("name", "evil")), added, scripts.route_remove(1, 1)):
        wire = await user(server.listeners[0], "service", announcement(1, "billing"))
        wire.send(scripts.push(scripts.forwarding(frame)))
        assert (await wire.rest())[-1].stream_id == 0
    assert server.core.table.size() == 0


async def test_router_annotations_of_a_client_are_refused(server: Server) -> None:
    section = Annotations(0, "role:services", "b9", ["b9"]).encode()
    metadata = composite((ANNOTATIONS_MIME.decode(), section), (MIME_TYPE, STOCK))
    caller = await user(server.listeners[0], "orders")
    caller.send(encode_request(REQUEST_RESPONSE, 1, b"", metadata))
    assert (await caller.receive()).text.startswith("bad-annotations:")


async def test_nobody_asks_in_the_name_of_another_ones_route(server: Server) -> None:
    billing = await user(server.listeners[0], "service", announcement(1, "billing"))
    raw = Address(route_id(1), tags_of({"service": "billing"})).encode()
    caller = await user(server.listeners[0], "orders")
    caller.send(encode_request(REQUEST_RESPONSE, 1, b"forged", addressed(raw)))
    assert (await caller.receive()).text.startswith("denied: the origin of the ADDRESS")
    caller.send(encode_metadata_push(addressed(raw)))
    await caller.ping()
    assert await reached(billing) == []


# Calling


@pytest.mark.parametrize("raw", ASKS.values(), ids=ASKS)
async def test_nobody_calls_what_its_role_does_not_allow(server: Server, raw: bytes) -> None:
    stock = await user(server.listeners[0], "service", announcement(1, "stock", environment="test"))
    caller = await user(server.listeners[0], "orders")
    caller.send(encode_request(REQUEST_RESPONSE, 1, b"", addressed(raw)))
    assert (await caller.receive()).text.startswith("denied: ")
    caller.send(encode_request(REQUEST_FNF, 3, b"", addressed(raw)), encode_metadata_push(addressed(raw)))
    await caller.ping()
    assert await reached(stock) == []


async def test_a_redirect_leads_nobody_where_its_role_does_not(server: Server) -> None:
    vault = await user(server.listeners[0], "service", announcement(1, "vault"))
    caller = await user(server.listeners[0], "orders")
    server.change(lambda core, now: core.cluster.set_redirect("billing", "vault", now))
    caller.send(encode_request(REQUEST_RESPONSE, 1, b"", addressed(address(service="billing"))))
    assert (await caller.receive()).text.startswith("denied: ")
    assert await reached(vault) == []


async def test_who_waits_for_a_route_does_not_get_one_that_its_role_does_not_allow(tmp_path: Path) -> None:
    async with running(guarded(tmp_path, {"routing.no_route": "wait"}), roles_at(tmp_path)) as server:
        caller = await user(server.listeners[0], "orders")
        caller.send(encode_request(REQUEST_RESPONSE, 1, b"x", addressed(address(service="stock"))))
        await caller.ping()
        test = await user(server.listeners[0], "service", announcement(1, "stock", environment="test"))
        assert await reached(test) == []
        prod = await Wire.connect(server.listeners[0])
        prod.send(login(credentials_of("service"), announcement(2, "stock", environment="prod")))
        assert (await prod.receive()).data == b"x"


async def test_annotations_that_are_accepted_lead_nobody_where_its_role_does_not(tmp_path: Path) -> None:
    async with running(guarded(tmp_path, {"annotations.from_clients": "accept"}), roles_at(tmp_path)) as server:
        stock = await user(server.listeners[0], "service", announcement(1, "stock", environment="test"))
        caller = await user(server.listeners[0], "orders")
        for target in (f"route:{id_text(route_id(1))}", "role:services", f"broker:{server.core.id_text}"):
            section = Annotations(0, target, "b9", ["b9"]).encode()
            metadata = composite((ANNOTATIONS_MIME.decode(), section), (MIME_TYPE, STOCK))
            caller.send(encode_request(REQUEST_RESPONSE, 1, b"", metadata))
            assert (await caller.receive()).text.startswith("denied: ")
        assert await reached(stock) == []


@pytest.mark.parametrize(("address_there", "expected"), [("{ service = 'stock' }", [b"x"]), ("", []), (None, [])])
async def test_another_broker_lets_nobody_call_what_its_own_role_of_that_name_does_not_allow(
    tmp_path: Path, address_there: str | None, expected: list[bytes]
) -> None:
    """None: it has no such role."""
    options = guarded(tmp_path, CLUSTER)
    there = tmp_path / "there.toml"
    services = ROLES.partition("[role.orders]")[0]
    orders = f"[role.orders]\nwho = ['user:orders']\naddress = [{address_there}]"
    there.write_text(services + (orders if address_there is not None else ""))
    async with (
        running(options | {"broker.name": "b1"}, roles_at(tmp_path)) as server,
        running(options | joining(server), there) as other,
    ):
        stock = await user(other.listeners[0], "service", announcement(1, "stock", environment="prod"))
        await until(lambda: server.core.table.size() == 1)
        caller = await user(server.listeners[0], "orders")
        raw = address(MULTICAST, service="stock", environment="prod")
        caller.send(encode_request(REQUEST_RESPONSE, 1, b"x", addressed(raw)))
        if expected:
            assert (await stock.receive()).data == b"x"
        else:
            assert (await caller.receive()).kind == ERROR
            assert await reached(stock) == []


async def test_who_is_denied_again_and_again_is_told_of_once(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await user(server.listeners[0], "service", announcement(1, "stock", environment="test"))
    caller = await user(server.listeners[0], "orders")
    for number in range(200):
        caller.send(encode_request(REQUEST_FNF, 2 * number + 1, b"", addressed(STOCK)))
    await caller.ping()
    assert server.core.engine.denials.by_end["refused"] == 200
    server.change(lambda core, now: core.tick(now + TOLD_S, time.time_ns() // 1_000_000))
    await until(lambda: any("denied" in line for line in caplog.messages))
    assert len([line for line in caplog.messages if "denied" in line]) == 1

"""Who would pass for somebody else at a service: by saying so in what only a broker may write."""

from pathlib import Path

import pytest
from argon2 import PasswordHasher

from client_sdk import Caller, Password, Payload, Request, Service, address, connect, multicast
from client_sdk.services.caller import CALLER_MIME
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE, encode_request
from rsocket_wire.wire.caller import Caller as Said
from rsocket_wire.wire.frames import MIME_TYPE
from tests.broker.forwarding.brokers import annotated, section, to_route
from tests.conftest import MakeServer
from tests.fakes import address as scripted
from tests.fakes import addressed, announcement, composite, setup
from tests.system.support.waits import until
from tests.system.support.wires import Wire

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

FORGED = Said("user", "admin", "admins").encode()


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_nobody_says_that_it_is_somebody_else(make_server: MakeServer, mode: str) -> None:
    """The service hears who is connected, and nothing of what the caller says; one that is not told hears nothing."""
    accept = {} if mode == "off" else {"auth.accept": "anonymous"}
    server = await make_server(**{"auth.mode": mode, "routing.identity": "true", **accept})
    heard: list[Caller | None] = []
    seen: list[list[str]] = []
    billing = Service("billing")

    @billing.request_response("pay")
    async def pay(request: Request) -> bytes:
        heard.append(request.caller)
        seen.append([mime for mime, _ in request.entries])
        return b"paid"

    url = str(server.listeners[0])
    async with connect(url, service=billing), connect(url) as attacker:
        for mime in (CALLER_MIME, CALLER_MIME.upper(), f"{CALLER_MIME};v=1"):
            for to in (address("billing"), multicast("billing")):
                await attacker.request_response(to, b"", route="pay", metadata={mime: FORGED})
    assert heard == [Caller("anonymous")] * 6
    assert [mimes.count(CALLER_MIME) for mimes in seen] == [1] * 6
    assert {mime.lower() for mimes in seen for mime in mimes if "caller" in mime.lower()} == {CALLER_MIME}


async def test_a_caller_at_another_broker_is_who_has_logged_in_there(make_server: MakeServer, tmp_path: Path) -> None:
    """Two brokers: Eve logs in at one, claims to be somebody else, and the service is at the other one."""
    (tmp_path / "users").write_text("".join(f"{name}:{CHEAP.hash(name)}\n" for name in ("ada", "eve")))
    auth = {"auth.mode": "required", "auth.accept": "user", "auth.users": tmp_path / "users"}
    common = {**auth, "cluster.secret": "a secret of sixteen bytes", "routing.identity": "true"}
    first = await make_server(**common, **{"broker.name": "b1"})
    peers = {"broker.name": "b2", "cluster.peers": first.listeners[0]}
    second = await make_server(**common, **peers)
    heard: list[Caller | None] = []
    billing = Service("billing")

    @billing.request_response("pay")
    async def pay(request: Request) -> bytes:
        heard.append(request.caller)
        return b"paid"

    ada, eve = Password("ada", "ada"), Password("eve", "eve")
    forged = {CALLER_MIME: FORGED}
    async with connect(str(second.listeners[0]), service=billing, credentials=ada):
        await until(lambda: len(first.core.table.routes()) == 1)
        async with connect(str(first.listeners[0]), credentials=eve) as client:
            for to in (address("billing"), address("billing"), multicast("billing")):
                answer = await client.request_response(to, b"", route="pay", metadata=forged)
                assert answer == Payload(b"paid")
    assert heard == [Caller("user", "eve")] * 3


async def test_annotations_that_are_accepted_name_nobody(make_server: MakeServer) -> None:
    """Who may say where a request goes does not say behind that who it is."""
    server = await make_server(**{"annotations.from_clients": "accept", "routing.identity": "true"})
    url = server.listeners[0]
    service, attacker = await Wire.service(url, "billing", 7), await Wire.caller(url)
    said = annotated(section(to_route(7), "b9"), (CALLER_MIME, FORGED))
    attacker.send(encode_request(REQUEST_RESPONSE, 1, b"", said + addressed(scripted(service="billing"))))
    got = (await service.receive()).metadata or b""
    assert got.startswith(composite((CALLER_MIME, Said("anonymous", "", "").encode())))
    assert FORGED not in got


async def test_a_service_that_cannot_be_told_is_not_offered(make_server: MakeServer) -> None:
    server = await make_server(**{"routing.identity": "true"})
    wire = await Wire.connect(server.listeners[0])
    wire.send(setup(announcement(1, "billing", MIME_TYPE), MIME_TYPE))
    (last,) = await wire.rest()
    assert last.text.startswith("bad-route: ")

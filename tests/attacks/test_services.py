"""Who would have the traffic of another service: by making its route fail for all, or by taking its Route Id."""

from pathlib import Path

import pytest
from argon2 import PasswordHasher

from rsocket_wire.errors import APPLICATION_ERROR
from rsocket_wire.rsocket.frames import Setup, encode_error
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.authentication import AUTHENTICATION_MIME, SIMPLE, Credentials
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from rsocket_wire.wire.ids import id_text
from tests.conftest import MakeServer
from tests.fakes import composite, route_id
from tests.system.support.waits import until
from tests.system.support.wires import Wire

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@pytest.mark.parametrize("is_used", [True, False], ids=["others are served", "nobody else asks"])
async def test_requests_that_must_fail_take_no_route_from_others(make_server: MakeServer, is_used: bool) -> None:
    """Six frames: announce `billing`, and send five requests that its true route answers with an error."""
    server = await make_server()
    url = server.listeners[0]
    billing = await Wire.service(url, "billing", 1)
    if is_used:
        other = await Wire.caller(url)
        other.request("billing", b"one that is good")
        billing.answer(await billing.receive(), b"yes")
        assert (await other.receive()).data == b"yes"
    attacker = await Wire.service(url, "billing", 2)
    for _ in range(5):
        attacker.request("billing", b"one that is wrong", route_id=id_text(route_id(1)))
        billing.send(encode_error((await billing.receive()).stream_id, APPLICATION_ERROR, "no such bill"))
        assert (await attacker.receive()).text == "no such bill"
    true = server.core.table.find(route_id(1))
    assert true is not None
    if is_used:
        await attacker.ping()  # a turn of the event loop later: then it would have been ejected
        assert server.core.table.masks.ejected.to_list() == []
    else:
        await until(lambda: server.core.table.masks.ejected.to_list() == [true.slot])  # the five are enough


def setup_of(name: str) -> bytes:
    """A SETUP of the user of this name, with the route 1 and a session."""
    credentials = (AUTHENTICATION_MIME.decode(), Credentials(SIMPLE, name, name).encode())
    announced = (MIME_TYPE, RouteSetup(route_id(1), "billing", []).encode())
    metadata = composite(credentials, announced)
    raw = Setup(COMPOSITE_MIME, "a/b", 20_000, 90_000, metadata, wants_resume=True, token=name.encode())
    return raw.encode()


@pytest.mark.parametrize("is_suspended", [False, True])
async def test_a_route_id_is_not_taken_from_another_identity(
    make_server: MakeServer, tmp_path: Path, is_suspended: bool
) -> None:
    """Nor while its connection is broken, and may be resumed."""
    (tmp_path / "users").write_text("".join(f"{name}:{CHEAP.hash(name)}\n" for name in ("ada", "eve")))
    accept = {"auth.mode": "required", "auth.accept": "user", "auth.users": tmp_path / "users"}
    server = await make_server(**accept)
    ada, eve = [await Wire.connect(server.listeners[0]) for _ in range(2)]
    ada.send(setup_of("ada"))
    await until(lambda: server.core.table.find(route_id(1)) is not None)
    if is_suspended:
        ada.transport.abort()
        await until(lambda: server.shell.links_open() == 1)
    before = server.core.table.find(route_id(1))
    eve.send(setup_of("eve"))
    (last,) = await eve.rest()
    assert last.text.startswith("route-taken: ")
    assert server.core.table.find(route_id(1)) is before

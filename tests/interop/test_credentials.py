"""Credentials as programs of others send them, and a broker that verifies them: helpers of rsocket-py and rsocket-js,
SETUPs of Spring Security."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from rsocket.error_codes import ErrorCode
from rsocket.extensions.helpers import authenticate_bearer, authenticate_simple, composite
from rsocket.payload import Payload

from broker.connections.admission import NOT_ACCEPTED
from broker.server import Server
from rsocket_wire.errors import REJECTED_SETUP
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer
from tests.conftest import MakeServer
from tests.fakes import error
from tests.interop.node import Node
from tests.interop.rsocket_py import Handler, dial, text
from tests.system.support.waits import soon, until
from tests.system.support.wires import Wire, url_of

pytestmark = pytest.mark.interop

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
VECTORS = json.loads((Path(__file__).resolve().parents[1] / "vectors" / "authentication.json").read_text())
REFUSAL = f"unauthenticated: {NOT_ACCEPTED}"


@pytest.fixture
async def server(make_server: MakeServer, tmp_path: Path) -> Server:
    """A broker that knows ada, whose password is lovelace, and who signs tokens."""
    (tmp_path / "keys.json").write_bytes(key_set(signer()))
    (tmp_path / "users").write_text(f"ada:{CHEAP.hash('lovelace')}\n")
    options = {
        "auth.mode": "required",
        "auth.accept": "jwt,user",
        "auth.users": tmp_path / "users",
        "jwt.keys": tmp_path / "keys.json",
        "jwt.issuer": ISSUER,
        "jwt.audience": AUDIENCE,
    }
    return await make_server(**options)


async def principal_of(server: Server) -> str:
    """Who is let in, of one."""
    await until(lambda: server.core.lifecycle.admission.admitted_n == 1)
    (peer,) = server.core.peers()
    return peer.principal


class Ear(Handler):
    """Hears on stream 0 why it was refused."""

    async def on_error(self, error_code: ErrorCode, payload: Payload) -> None:
        self.errors.append(f"{error_code.name} {text(payload)}")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (lambda: authenticate_simple("ada", "lovelace"), "user:ada"),
        (lambda: authenticate_bearer(signer().sign()), "jwt:orders-7"),
        (lambda: authenticate_simple("ada", "byron"), ""),
        (lambda: authenticate_bearer("no token"), ""),
    ],
)
@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
async def test_helpers_of_rsocket_py_log_in_and_are_told_why_not(
    server: Server, scheme: str, entry: Any, expected: str
) -> None:
    handler = Ear("caller")
    async with dial(url_of(server, scheme), handler, setup=bytes(composite(entry()))):
        if expected:
            assert await principal_of(server) == expected
        else:
            await until(lambda: handler.errors == [f"REJECTED_SETUP {REFUSAL}"])


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        (lambda: ["ada", "lovelace"], "user:ada"),
        (lambda: [signer().sign()], "jwt:orders-7"),
        (lambda: ["ada", "byron"], ""),
        (lambda: [signer().sign(aud="another")], ""),
    ],
)
async def test_helpers_of_rsocket_js_log_in_and_are_told_why_not(
    needs_node: Node, server: Server, credentials: Any, expected: str
) -> None:
    url = url_of(server, "tcp")
    js = await asyncio.to_thread(needs_node.start, "peer.cjs", url=url, credentials=credentials())
    try:
        if expected:
            assert await principal_of(server) == expected
        else:
            told = await asyncio.to_thread(js.event, "closed")
            assert told["error"] == {"code": REJECTED_SETUP, "message": REFUSAL}
    finally:
        assert await asyncio.to_thread(js.end) == 0, js.errors


async def test_setups_of_spring_security_log_in_or_are_refused(server: Server) -> None:
    """Its SETUPs name the MIME type of credentials, where others have its number."""
    by_name = {each["name"]: bytes.fromhex(each["hex"]) for each in VECTORS}
    welcome = await Wire.connect(url_of(server, "tcp"))
    welcome.setup(by_name["spring_setup_simple"])
    assert await principal_of(server) == "user:ada"
    refused = await Wire.connect(url_of(server, "tcp"))
    refused.setup(by_name["spring_setup_bearer"])
    assert await soon(refused.rest()) == [error(0, REJECTED_SETUP, REFUSAL)]
    await welcome.close()

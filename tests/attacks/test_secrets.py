"""Who would learn a secret from what a broker says, to a peer, into its log, to operators; or by trying many."""

import logging
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from broker.connections.admission import NOT_ACCEPTED
from broker.connections.guesses import WRONG_PER_S
from broker.connections.rate_limits import BURST_S
from rsocket_wire.errors import REJECTED_SETUP
from rsocket_wire.rsocket.frames import KEEPALIVE
from rsocket_wire.wire.authentication import AUTHENTICATION_MIME, BEARER, SIMPLE, Credentials
from tests.conformance import scripts
from tests.conftest import MakeServer
from tests.fakes import Frame, composite, error
from tests.system.support.waits import until
from tests.system.support.wires import Wire, url_of

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PLANTED = "planted-9f3a"


@pytest.mark.parametrize("credentials", [Credentials(SIMPLE, "ada", PLANTED), Credentials(BEARER, "", PLANTED)])
async def test_a_secret_that_is_refused_stands_nowhere(
    make_server: MakeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, credentials: Credentials
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "users").write_text(f"ada:{CHEAP.hash('another')}\n")
    (tmp_path / "secret").write_text(f"{PLANTED} of the cluster")
    server = await make_server(
        **{
            "auth.mode": "required",
            "auth.accept": "user",
            "auth.users": tmp_path / "users",
            "cluster.secret_file": tmp_path / "secret",
            "log.frames": "*",
        }
    )
    told: list[Frame] = []
    for url in server.listeners:
        wire = await Wire.connect(url)
        wire.setup(composite((AUTHENTICATION_MIME.decode(), credentials.encode())))
        told += await wire.rest()
    await until(lambda: caplog.text.count("credentials refused") == len(told))
    closed = server.core.lifecycle.limits.closed.latest
    assert told == [error(0, REJECTED_SETUP, f"unauthenticated: {NOT_ACCEPTED}")] * 3
    assert [each.reason for each in closed] == ["unauthenticated"] * 3
    assert PLANTED not in caplog.text + "".join(each.detail for each in closed)


def entry(password: str) -> bytes:
    return composite((AUTHENTICATION_MIME.decode(), Credentials(SIMPLE, "ada", password).encode()))


async def test_a_flood_of_passwords_is_slowed_down_and_keeps_nobody_else_waiting(
    make_server: MakeServer, tmp_path: Path
) -> None:
    (tmp_path / "users").write_text(f"ada:{CHEAP.hash('lovelace')}\n")
    auth = {"auth.mode": "required", "auth.accept": "user", "auth.users": tmp_path / "users"}
    server = await make_server(**auth, **{"limits.setup_timeout_s": 60})
    admission = server.core.lifecycle.admission
    burst_n = int(WRONG_PER_S * BURST_S)
    flood = [await Wire.connect(url_of(server, "tcp")) for _ in range(3 * burst_n)]
    for number, wire in enumerate(flood):
        wire.setup(entry(f"guess-{number}"))
    await until(lambda: admission.refused == {"unauthenticated": burst_n})
    other = await Wire.connect(url_of(server, "unix"))
    other.setup(entry("lovelace"))
    other.send(scripts.frame(0, KEEPALIVE, 0x80, bytes(8)))
    assert ((await other.receive()).kind, admission.admitted_n) == (KEEPALIVE, 1)
    assert admission.refused["unauthenticated"] <= burst_n + 1  # one a second

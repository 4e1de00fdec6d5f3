"""Who would learn a secret by trying many."""

from pathlib import Path

from argon2 import PasswordHasher

from broker.connections.guesses import WRONG_PER_S
from broker.connections.rate_limits import BURST_S
from rsocket_wire.rsocket.frames import KEEPALIVE
from rsocket_wire.wire.authentication import AUTHENTICATION_MIME, SIMPLE, Credentials
from tests.conformance import scripts
from tests.conftest import MakeServer
from tests.fakes import composite
from tests.system.support.waits import until
from tests.system.support.wires import Wire, url_of

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


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

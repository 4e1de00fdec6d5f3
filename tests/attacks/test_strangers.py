"""Who has no credentials, wrong ones, or those of somebody else, and what else it can do before anybody knows it."""

import io
import logging
from pathlib import Path

import pytest

from broker.connections.admission import NOT_ACCEPTED
from broker.edge import origins
from broker.edge.admission import keys
from broker.edge.admission.passwords import PasswordVerifier
from broker.log import TextFormatter
from rsocket_wire.errors import REJECTED_RESUME, REJECTED_SETUP
from rsocket_wire.rsocket.frames import KEEPALIVE, REQUEST_RESPONSE, Resume, encode_request
from rsocket_wire.wire.authentication import BEARER, SIMPLE, Credentials
from tests.attacks.brokers import credentials_of, login, user, write_users
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer
from tests.broker.resuming import NO_SESSION
from tests.conftest import MakeServer
from tests.fakes import address, addressed, announcement, error, setup
from tests.system.support.waits import until
from tests.system.support.wires import Wire, url_of

REFUSED = error(0, REJECTED_SETUP, f"unauthenticated: {NOT_ACCEPTED}")
MANY = 60


def users(folder: Path, *names: str) -> dict[str, object]:
    """Options of a broker that lets these in."""
    return {"auth.mode": "required", "auth.accept": "user", "auth.users": write_users(folder / "users", names)}


def tokens(where: object) -> dict[str, object]:
    """Options of a broker that lets in whom the keys there have signed for."""
    said = {"auth.mode": "required", "auth.accept": "jwt", "jwt.keys": where}
    return said | {"jwt.issuer": ISSUER, "jwt.audience": AUDIENCE}


async def test_mime_types_that_are_made_up_keep_nobody_out(make_server: MakeServer) -> None:
    """4,096 pairs once kept all later clients with a new one out, until the broker ended."""
    server = await make_server()
    known_n = len(server.core.engine.mimes)
    for number in range(MANY):
        wire = await Wire.connect(server.listeners[0])
        wire.send(setup(data_mime=f"application/x-{number}"))
        await wire.ping()
        await wire.close()
    await until(lambda: server.core.peers() == [])
    assert len(server.core.engine.mimes) == known_n


async def test_no_stranger_writes_a_line_of_the_log(make_server: MakeServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = await make_server()
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(TextFormatter())
    logging.getLogger("broker").addHandler(handler)
    try:
        evil = "x\n2026-03-01T08:30:00.125Z info    broker: stopped\x1b[2J\r\u2028"
        await Wire.service(server.listeners[0], evil, 1, region=evil)
        await until(lambda: "joined" in written.getvalue())
    finally:
        logging.getLogger("broker").removeHandler(handler)
    lines = written.getvalue().removesuffix("\n")
    assert [line for line in lines.split("\n") if line.endswith("broker: stopped")] == []
    assert [each for each in "\x1b\r\u2028" if each in lines] == []


# Credentials


async def test_keys_that_are_made_up_do_not_make_the_broker_ask_for_them(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def fetch(url: str) -> bytes:
        asked.append(url)
        return key_set(signer())

    monkeypatch.setattr(keys, "fetch_keys", fetch)
    server = await make_server(**tokens("https://id.example/keys") | {"limits.max_wrong_logins_per_s": 0})
    for number in range(20):
        wire = await Wire.connect(server.listeners[0])
        wire.send(login(Credentials(BEARER, "", signer().sign(headers={"kid": str(number)}))))
        assert await wire.rest() == [REFUSED]
    assert len(asked) == 1


async def test_a_flood_of_logins_waits_for_nothing_and_nobody_waits_for_it(
    make_server: MakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PasswordVerifier, "max_waiting", 3)
    server = await make_server(**users(tmp_path, "ada") | {"limits.max_wrong_logins_per_s": 0})
    service = await user(server.listeners[0], "ada", announcement(1, "echo"))
    service.begin_echo()
    caller = await user(server.listeners[0], "ada")
    flood = [await Wire.connect(server.listeners[0]) for _ in range(MANY)]
    for wire in flood:
        wire.send(login(Credentials(SIMPLE, "ada", "a guess")))
    assert (await caller.ask("echo", b"still here?")).data == b"still here?"
    words = [(await wire.rest())[-1].text.partition(":")[0] for wire in flood]
    assert set(words) == {"unauthenticated", "auth-unavailable"}
    assert words.count("auth-unavailable") > MANY // 2
    await user(server.listeners[0], "ada")


async def test_what_comes_with_the_setup_reaches_nobody_before_it_is_verified(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = await make_server(**users(tmp_path, "ada"))
    service = await user(server.listeners[0], "ada", announcement(1, "orders"))
    request = encode_request(REQUEST_RESPONSE, 1, b"x", addressed(address(service="orders")))
    stranger = await Wire.connect(server.listeners[0])
    stranger.send(login(Credentials(SIMPLE, "ada", "a guess"), announcement(2, "evil")), request)
    assert await stranger.rest() == [REFUSED]
    await service.ping()  # nothing came before the answer
    assert [route.service for route in server.core.table.routes()] == ["orders"]
    known = await Wire.connect(server.listeners[0])
    known.send(login(credentials_of("ada")), request)
    assert (await service.receive()).data == b"x"


async def test_nobody_is_let_in_by_what_everybody_on_the_way_could_read(
    make_server: MakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await make_server(**users(tmp_path, "ada"))
    await user(server.listeners[0], "ada")
    monkeypatch.setattr(origins, "is_loopback", lambda _: False)  # as another machine sees it
    for scheme in ("tcp", "ws"):
        wire = await Wire.connect(url_of(server, scheme))
        wire.send(login(credentials_of("ada")))
        (last,) = await wire.rest()
        assert last.text.startswith("unauthenticated: passwords and tokens are accepted over TLS only")


async def test_a_session_is_resumed_by_its_own_identity_alone(make_server: MakeServer) -> None:
    """Who knows its token, and comes another way."""
    server = await make_server(**{"auth.mode": "required", "auth.accept": "uid,anonymous"})
    ours = await Wire.connect(url_of(server, "unix"))
    ours.send(setup(announcement(1, "orders"), token=b"known"))
    await ours.ping()
    ours.transport.abort()
    await until(lambda: server.shell.links_open() == 0)
    for scheme in ("tcp", "ws"):
        stranger = await Wire.connect(url_of(server, scheme))
        stranger.send(Resume(b"known", 0, 0).encode())
        assert await stranger.rest() == [error(0, REJECTED_RESUME, NO_SESSION)]
    again = await Wire.connect(url_of(server, "unix"))
    again.send(Resume(b"known", 0, 0).encode())
    assert (await again.receive()).kind != KEEPALIVE
    await again.ping()

"""Who has no credentials, wrong ones, or those of somebody else, and what else it can do before anybody knows it."""

import asyncio
import io
import logging
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from broker.connections.admission import NOT_ACCEPTED
from broker.edge import origins
from broker.edge.admission import keys
from broker.edge.admission.passwords import PasswordVerifier
from broker.limited_log import LINES_PER_S, STRANGERS
from broker.log import TextFormatter
from rsocket_wire.errors import REJECTED_RESUME, REJECTED_SETUP
from rsocket_wire.rsocket.frames import KEEPALIVE, REQUEST_RESPONSE, Resume, encode_metadata_push, encode_request
from rsocket_wire.wire.authentication import BEARER, SIMPLE, Credentials
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from tests.attacks.brokers import credentials_of, login, user, write_users
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer
from tests.broker.resuming import NO_SESSION
from tests.conftest import MakeServer
from tests.fakes import address, addressed, announcement, composite, error, route_id, setup, tags_of
from tests.system.support.waits import soon, until
from tests.system.support.wires import Wire, url_of

REFUSED = error(0, REJECTED_SETUP, f"unauthenticated: {NOT_ACCEPTED}")
MANY = 60
FLOOD_N = 100  # lines that there would be


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


# The log (D-67)


class Said:
    """Lines since the test began."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self._before = dict(STRANGERS.lines)

    def counts(self, kind: str) -> tuple[int, int]:
        """How many were written, and how many only counted."""
        pairs = [(kind, True), (kind, False)]
        written, counted = [STRANGERS.lines.get(pair, 0) - self._before.get(pair, 0) for pair in pairs]
        return written, counted

    def lines(self, words: str) -> list[str]:
        return [text for text in self._caplog.messages if words in text]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    caplog.set_level(logging.INFO)
    return Said(caplog)


async def test_connections_that_come_and_fail(make_server: MakeServer, said: Said) -> None:
    server = await make_server()
    for _ in range(FLOOD_N):
        wire = await Wire.connect(server.listeners[0])
        wire.send(b"no frame")
        await wire.rest()
        await wire.close()
    await until(lambda: sum(said.counts("PeerClosed")) == FLOOD_N)
    written, counted = said.counts("PeerClosed")
    assert (written + counted, counted > 0) == (FLOOD_N, True)
    STRANGERS.flush()
    assert len(said.lines("closed after")) == written
    numbers = [int(text.split()[1]) for text in said.lines("more like it within a second: PeerClosed (bad-setup)")]
    assert sum(numbers) == counted


async def test_routes_that_are_announced_again_and_again(make_server: MakeServer, said: Said) -> None:
    """One connection that changes its route: 70 bytes were 1,800 of log."""
    server = await make_server()
    wire = await Wire.caller(server.listeners[0])
    sent = 0
    for number in range(FLOOD_N):
        raw = RouteSetup(route_id(number + 1), "orders", tags_of({f"a{each}": "x" * 100 for each in range(8)})).encode()
        push = encode_metadata_push(composite((MIME_TYPE, raw)))
        sent += len(push)
        wire.send(push)
    await wire.ping()
    await until(lambda: sum(said.counts("RouteJoined")) == FLOOD_N)
    assert said.counts("RouteJoined")[0] <= 2 * LINES_PER_S
    STRANGERS.flush()
    assert sum(len(text) for text in said.lines("")) < sent


async def test_what_is_no_websocket_again_and_again(make_server: MakeServer, said: Said) -> None:
    server = await make_server()
    url = urlsplit(server.listeners[1])
    for _ in range(FLOOD_N):
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        writer.write(b"GARBAGE\r\n\r\n")
        await soon(reader.read())
        writer.close()
    await until(lambda: sum(said.counts("WebSocketUpgrade")) == FLOOD_N)
    assert len(said.lines("no WebSocket")) == said.counts("WebSocketUpgrade")[0] < FLOOD_N


async def test_others_are_told_as_ever_while_somebody_floods(make_server: MakeServer, said: Said) -> None:
    server = await make_server()
    for _ in range(3 * LINES_PER_S):
        wire = await Wire.connect(server.listeners[0])
        wire.send(b"no frame")
        await wire.rest()
        await wire.close()
    await Wire.service(server.listeners[2], "orders", 7)
    await until(lambda: said.lines(f"route {route_id(7).hex()[:8]}"))
    (line,) = said.lines(": joined from unix")
    assert "orders" in line

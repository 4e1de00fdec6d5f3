"""Who reaches the REST API: from this machine, without the token of its broker, and from others."""

import asyncio
import logging
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from admin_api import app as app_module
from admin_api import changes
from admin_api.access import gate
from admin_api.bodies import MAX_BODY_BYTES
from admin_api.listener import AdminListener, Bounds
from broker.config.sections.admin_checks import ADMIN, OPERATOR, READER, VIEWER, digest_of
from broker.config.sections.events import EventOptions
from broker.connections.guesses import SLOW_S, WRONG_PER_S
from broker.connections.rate_limits import BURST_S
from broker.limited_log import STRANGERS
from broker.server import Server
from spark_sink.event_files.layout import segment_name
from tests.attacks.brokers import Asked, asked, running
from tests.conftest import StartBroker
from tests.system.support.waits import soon, until

DRAIN: Final = "/api/v1/drains/broker"
ROUTES: Final = "/api/v1/routes"
EVENTS: Final = "/api/v1/events"
MANY: Final = 70  # more than one address has places
HALF: Final = "PUT /api/v1/drains/broker HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Its tokens are those of `write_tokens`, if a test writes some before it reloads."""
    async with running({}) as server:
        yield server


@pytest.fixture
async def api(server: Server, tmp_path: Path) -> AsyncIterator[Asked]:
    async with asked(server, tmp_path / "token") as api:
        yield api


@pytest.fixture
async def tokened(tmp_path: Path) -> AsyncIterator[Asked]:
    """The API of a broker with a token `rsb_ROLE` for each role, and one that has expired."""
    now = datetime.now(UTC)
    lines = [(role, role, now + timedelta(days=1)) for role in (VIEWER, READER, OPERATOR, ADMIN)]
    lines.append(("expired", ADMIN, now - timedelta(seconds=1)))
    text = [f"{name} {role} {end:%Y-%m-%dT%H:%M:%SZ} {digest_of(f'rsb_{name}')}\n" for name, role, end in lines]
    (tmp_path / "tokens").write_text("".join(text))
    async with running({"admin.tokens": tmp_path / "tokens"}) as server, asked(server, tmp_path / "token") as api:
        yield api


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests come from another machine."""
    for module in (gate, changes):
        monkeypatch.setattr(module, "is_local", lambda _: False)


async def status(api: Asked, method: str, path: str, token: str = "") -> int:
    return (await api.ask(method, path, token))[0]


# The port


@pytest.mark.parametrize("half", ["G", HALF, f"{HALF}Authorization: Bearer TOKEN\r\nContent-Length: 50\r\n\r\nhello"])
async def test_half_requests_keep_nobody_out(api: Asked, half: str) -> None:
    """Nor those of who may change something, whose body would be waited for."""
    writers = []
    for _ in range(MANY):
        _, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(half.replace("TOKEN", api.token).encode())
        writers.append(writer)
    assert await status(api, "GET", ROUTES) == 200
    for writer in writers:
        writer.transport.abort()


async def test_who_does_not_read_its_answers_is_closed(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    bounds = Bounds(stalled_s=0.05, look_s=0.01)
    monkeypatch.setattr(app_module, "AdminListener", lambda app: AdminListener(app, bounds))
    async with asked(server, tmp_path / "token") as api:
        _, writer = await asyncio.open_connection("127.0.0.1", api.port, limit=4096)
        writer.write(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 500)
        await until(lambda: any("unread bytes and read none" in line for line in caplog.messages))
        writer.transport.abort()


async def test_what_is_no_http_is_a_few_lines_and_a_long_body_is_none(
    api: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(MANY):
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(b"GARBAGE / HTTP/1.1\r\n\r\n")
        assert b" 400 " in await soon(reader.readline())
        writer.close()
    STRANGERS.flush()
    assert 0 < len([line for line in caplog.messages if line.startswith("admin 127.0.0.1")]) < MANY // 2
    assert (await api.ask("PUT", DRAIN, api.token, data=b" " * (MAX_BODY_BYTES + 1)))[0] == 413


async def test_a_mistake_of_ours_tells_nothing_of_us(
    server: Server, api: Asked, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("planted-9f3a")

    monkeypatch.setattr(server, "moment", fail)
    code, said = await api.ask("GET", "/api/v1/status")
    assert (code, "planted-9f3a" in said, "Traceback" in said) == (500, False, False)
    assert "planted-9f3a" in caplog.text


# From this machine


async def test_other_users_of_the_machine_change_nothing_and_read_no_event_files(api: Asked, tmp_path: Path) -> None:
    for method, path in (("PUT", DRAIN), ("DELETE", "/api/v1/connections/1"), ("GET", EVENTS)):
        assert await status(api, method, path) == 401
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert [await status(api, method, DRAIN, api.token) for method in ("PUT", "DELETE")] == [200, 200]


def test_what_others_can_read_is_warned_of(start_broker: StartBroker, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("correct horse battery staple")
    (tmp_path / "secret").chmod(0o644)
    broker = start_broker(cluster__secret_file=tmp_path / "secret")
    assert "CLUSTER__SECRET_FILE: every user of this machine may read the file" in broker.errors


async def test_nothing_is_sent_but_event_files(server: Server, api: Asked, tmp_path: Path) -> None:
    broker_id, epoch = "7f3a0000-0000-4000-8000-000000000001", 1_700_000_000_000
    (tmp_path / "secret").write_text("not for everybody")
    for name in ("flows", "lifecycle"):
        (tmp_path / "events" / name).mkdir(parents=True)
        (tmp_path / "events" / name / segment_name(broker_id, epoch, 1)).symlink_to(tmp_path / "secret")
    server.config = replace(server.config, events=EventOptions(dir=str(tmp_path / "events")))
    assert await status(api, "GET", EVENTS, api.token) == 200
    run = f"{broker_id}-{epoch}"
    for path in (
        f"{run}/flows/1",
        f"{run}/..%2f..%2f/1",
        f"{run}/%2e%2e/secret",
        "..%2fsecret",
        f"{run}/x/1",
    ):
        code, said = await api.ask("GET", f"{EVENTS}/{path}", api.token)
        assert (code in (400, 404), "not for everybody" in said) == (True, False), path


# From another machine


@pytest.mark.usefixtures("elsewhere")
async def test_another_machine_changes_nothing(api: Asked) -> None:
    assert [await status(api, method, DRAIN) for method in ("PUT", "DELETE")] == [403, 403]
    assert await status(api, "PUT", DRAIN, api.token) == 403


@pytest.mark.usefixtures("elsewhere")
async def test_where_there_are_tokens_another_machine_needs_one_that_holds(tokened: Asked) -> None:
    for path in (ROUTES, "/metrics", "/nothing", EVENTS):
        assert await status(tokened, "GET", path) == 401
        assert await status(tokened, "GET", path, "rsb_wrong") == 401
        assert await status(tokened, "GET", path, "rsb_expired") == 401
    assert await status(tokened, "GET", ROUTES, "rsb_viewer") == 200


async def test_who_asks_for_large_answers_again_and_again_has_to_wait(tmp_path: Path) -> None:
    async with running({"admin.max_requests_per_s": 1}) as server, asked(server, tmp_path / "token") as api:
        burst_n = int(BURST_S)
        answers = [await status(api, "GET", f"{ROUTES}?limit=1000") for _ in range(burst_n + 5)]
        assert answers[:burst_n] == [200] * burst_n
        assert answers[-1] == 429  # a token or two may have come back meanwhile
        assert await status(api, "GET", "/readyz") == 200
        assert await status(api, "GET", ROUTES, api.token) == 200


async def test_a_proxy_on_this_machine_speaks_for_another(tokened: Asked) -> None:
    for header in ("X-Forwarded-For", "Forwarded"):
        assert (await tokened.ask("GET", ROUTES, headers={header: "for=192.0.2.7"}))[0] == 401
    assert await status(tokened, "GET", ROUTES) == 200


async def test_a_token_does_what_its_role_may(tokened: Asked) -> None:
    asked_for = (("GET", ROUTES), ("GET", EVENTS), ("PUT", DRAIN))
    allowed = {
        role: [await status(tokened, *each, f"rsb_{role}") for each in asked_for]
        for role in (VIEWER, READER, OPERATOR, ADMIN)
    }
    expected = {VIEWER: [200, 403, 403], READER: [403, 200, 403], OPERATOR: [200, 403, 200], ADMIN: [200, 200, 200]}
    assert allowed == expected


async def test_nobody_changes_something_and_is_not_named(tokened: Asked, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for token, code in ((OPERATOR, 200), (VIEWER, 403), ("guess", 401)):
        assert await status(tokened, "PUT", DRAIN, f"rsb_{token}") == code
    await until(lambda: len([line for line in caplog.messages if DRAIN in line]) == 2)
    told = [line for line in caplog.messages if DRAIN in line]
    assert [[name in line for line in told] for name in (OPERATOR, VIEWER)] == [[True, False], [False, True]]


async def test_guesses_at_tokens_are_slowed_down_and_stand_nowhere(
    tokened: Asked, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    slept: list[float] = []

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    said = ""
    for _ in range(int(WRONG_PER_S * BURST_S) + 3):
        code, text = await tokened.ask("GET", ROUTES, "rsb_planted-9f3a")
        assert code == 401
        said += text
    assert slept == [SLOW_S] * 3
    assert "planted-9f3a" not in said + caplog.text

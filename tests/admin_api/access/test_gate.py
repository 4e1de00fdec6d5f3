"""Who gets in: by token, by role, by where a request comes from."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from admin_api.access.gate import MAKE_HELP, Gate
from admin_api.access.identities import Identities
from admin_api.access.local_token import LocalToken
from admin_api.app import make_app
from admin_api.errors import Handler
from broker.config.sections.admin_checks import ADMIN, OPERATOR, READER, ROLES, VIEWER, AdminToken, digest_of
from broker.config.sections.process import AdminOptions
from broker.connections.guesses import SLOW_S, WRONG_PER_S
from broker.connections.rate_limits import BURST_S
from tests.admin_api.asking import Api, refusal
from tests.admin_api.fakes import FakeAdmin, shop

EXPIRES_S = 1000.0
PLANTED = "rsb_planted-9f3a"
ELSEWHERE = {"X-Test-Remote": "192.0.2.7"}
DRAIN = "/api/v1/drains/broker"


class Gated:
    """An API behind a gate, whose clock stands still."""

    def __init__(self, folder: Path, identities: Identities | None = None, max_requests_per_s: int = 0) -> None:
        self.now = 0.0
        self.tokens: list[AdminToken] | None = None
        self.local = LocalToken(str(folder / "token"))
        clocks = (lambda: self.now, lambda: self.now)
        gate = Gate(lambda: self.tokens, self.local, identities, max_requests_per_s, *clocks)
        self.admin = FakeAdmin(shop())
        self.app = make_app(self.admin, gate=gate)
        self.app.middlewares.insert(0, _from_elsewhere)
        self.local.write(7070)

    @property
    def own(self) -> str:
        """The token of this machine."""
        assert self.local.file is not None  # it was written
        return self.local.file.read_text().strip()

    def allow_all(self) -> None:
        """Changes from everywhere."""
        self.admin.config = replace(self.admin.config, admin=AdminOptions(changes="all"))

    def configure(self) -> None:
        """A token of each role."""
        self.tokens = [AdminToken(f"t-{role}", role, EXPIRES_S, digest_of(f"rsb_{role}")) for role in ROLES]


@web.middleware
async def _from_elsewhere(request: web.Request, handler: Handler) -> web.StreamResponse:
    remote = request.headers.get("X-Test-Remote")
    return await handler(request.clone(remote=remote) if remote else request)


@pytest.fixture
def gated(tmp_path: Path) -> Gated:
    return Gated(tmp_path)


@pytest.fixture
async def api(gated: Gated) -> AsyncIterator[Api]:
    async with TestClient(TestServer(gated.app)) as client:
        yield client


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def status(api: Api, method: str, path: str, **headers: str) -> int:
    async with api.request(
        method, path, headers={name.replace("_", "-"): each for name, each in headers.items()}
    ) as it:
        return it.status


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [("GET", "/api/v1/status", 200), ("GET", "/api/v1/events", 401), ("PUT", DRAIN, 401)],
)
async def test_from_this_machine_everybody_looks_and_nobody_else_does_more(
    api: Api, method: str, path: str, expected: int
) -> None:
    assert await status(api, method, path) == expected


async def test_the_token_of_this_machine_is_good_for_everything(api: Api, gated: Gated) -> None:
    own = bearing(gated.own)
    assert [
        await status(api, *each, **own) for each in [("GET", "/api/v1/events"), ("PUT", DRAIN), ("DELETE", DRAIN)]
    ] == [200] * 3


async def test_elsewhere_all_is_as_admin_changes_says_until_there_are_tokens(api: Api, gated: Gated) -> None:
    assert await status(api, "GET", "/metrics", **ELSEWHERE) == 200
    assert (await refusal(api, "PUT", DRAIN, headers=ELSEWHERE))[:2] == (403, "not-allowed")
    gated.tokens = []
    assert (await refusal(api, "GET", "/api/v1/status", headers=ELSEWHERE))[:2] == (401, "no-token")
    assert await status(api, "GET", "/nothing", **ELSEWHERE) == 401
    assert [await status(api, "GET", path, **ELSEWHERE) for path in ("/livez", "/readyz")] == [200, 200]


async def test_who_is_spoken_for_by_a_proxy_here_is_elsewhere(api: Api, gated: Gated) -> None:
    forwarded = {"X-Forwarded-For": "192.0.2.7"}
    assert [await status(api, "GET", path, **forwarded) for path in ("/metrics", "/api/v1/events")] == [200, 401]
    gated.tokens = []
    assert await status(api, "GET", "/metrics", **forwarded) == 401


@pytest.mark.parametrize(
    ("role", "expected"),
    [(VIEWER, [200, 403, 403]), (READER, [403, 200, 403]), (OPERATOR, [200, 403, 200]), (ADMIN, [200, 200, 200])],
)
async def test_a_role_says_what_its_token_is_good_for(api: Api, gated: Gated, role: str, expected: list[int]) -> None:
    gated.configure()
    asked = [("GET", "/api/v1/status"), ("GET", "/api/v1/events"), ("PUT", DRAIN)]
    assert [await status(api, *each, **bearing(f"rsb_{role}")) for each in asked] == expected


async def test_a_refusal_says_which_role_is_missing_and_how_to_say_who_one_is(api: Api, gated: Gated) -> None:
    gated.configure()
    async with api.put(DRAIN, headers=bearing("rsb_viewer")) as answer:
        said = await answer.json()
        assert (answer.status, said["code"]) == (403, "role-not-enough")
        help = f"{MAKE_HELP.format(role=OPERATOR)}; FILE is that of admin.tokens"
        assert said["detail"] == f"token:t-viewer has the role viewer, this needs operator; {help}"
    async with api.put(DRAIN) as answer:
        said = await answer.json()
        assert (answer.status, said["code"]) == (401, "no-token")
        text = "this needs a token with the role operator, as Authorization: Bearer TOKEN"
        has = f"{gated.local.file} has that of this machine, which rsocket-broker ctl reads"
        assert said["detail"] == f"{text}; {has}; {help}"
    async with api.put(DRAIN, headers={"Forwarded": "for=192.0.2.1"}) as answer:
        assert (await answer.json())["detail"] == f"{text}; {help}"  # where the file is, is for this machine
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="rsocket-broker"'
    async with api.put(DRAIN, headers={"Authorization": "rsb_admin"}) as answer:
        said = await answer.json()
        text = "the header Authorization holds no Bearer token; write Authorization: Bearer TOKEN, of one with the role"
        assert (said["code"], said["detail"].startswith(f"{text} operator; ")) == ("no-token", True)


async def test_a_token_ends_and_one_that_is_revoked_or_wrong_is_refused_where_none_is_needed_too(
    api: Api, gated: Gated
) -> None:
    gated.configure()
    assert await status(api, "GET", "/metrics", **bearing("rsb_viewer")) == 200
    gated.now = EXPIRES_S
    assert (await refusal(api, "GET", "/metrics", headers=bearing("rsb_viewer")))[:2] == (401, "wrong-token")
    detail = (await refusal(api, "PUT", "/api/v1/drains/broker", headers=bearing("rsb_viewer")))[2]
    assert "rsocket-broker token new NAME --role operator" in detail  # the role that this needs
    gated.now, gated.tokens = 0.0, []
    async with api.get("/metrics", headers=bearing("rsb_viewer")) as answer:
        assert (answer.status, "invalid_token" in answer.headers["WWW-Authenticate"]) == (401, True)


async def test_guesses_are_slowed_down_by_address_and_stand_nowhere(
    api: Api, gated: Gated, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)

    monkeypatch.setattr("admin_api.access.gate.asyncio.sleep", sleep)
    caplog.set_level(logging.DEBUG)
    said = ""
    for _ in range(int(WRONG_PER_S * BURST_S) + 1):
        async with api.get("/metrics", headers=bearing(PLANTED)) as answer:
            said += await answer.text()
    assert slept == [SLOW_S]
    async with api.get("/metrics", headers=bearing(PLANTED) | ELSEWHERE) as answer:
        said += await answer.text()
    assert slept == [SLOW_S], "who is elsewhere has guessed nothing"
    assert (PLANTED in said + caplog.text, "a wrong token" in caplog.text) == (False, True)
    assert digest_of(PLANTED) not in said + caplog.text


async def test_who_asks_too_often_is_refused_by_token_or_by_address(tmp_path: Path) -> None:
    gated = Gated(tmp_path, max_requests_per_s=1)
    gated.configure()
    burst_n = int(BURST_S)
    viewer = bearing("rsb_viewer")
    async with TestClient(TestServer(gated.app)) as api:
        assert [await status(api, "GET", "/api/v1/status", **viewer) for _ in range(burst_n)] == [200] * burst_n
        async with api.get("/api/v1/status", headers=viewer) as answer:
            said = await answer.json()
            assert (answer.status, said["code"], answer.headers["Retry-After"]) == (429, "too-many-requests", "1")
            assert said["detail"] == f"more than {burst_n} came faster than 1 a second (admin.max_requests_per_s)"
        assert await status(api, "GET", "/api/v1/status", **bearing("rsb_admin")) == 200
        assert await status(api, "GET", "/api/v1/status") == 200  # of this machine, without a token
        assert await status(api, "GET", "/livez", **viewer) == 200
        gated.now += 1.0
        assert await status(api, "GET", "/api/v1/status", **viewer) == 200

"""JSON Web Tokens at the REST API: whose they are, what they are good for, and what does not hold."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from admin_api.access.identities import Identities, make_verifier
from broker.config.options import Config
from broker.config.sections.auth import JwtOptions
from broker.config.sections.process import AdminOptions
from broker.connections.guesses import WRONG_PER_S
from broker.connections.rate_limits import BURST_S
from broker.edge.admission.tokens import LEEWAY_S
from tests.admin_api.access.test_gate import DRAIN, ELSEWHERE, Gated, bearing, status
from tests.admin_api.access.test_trail import told
from tests.admin_api.asking import Api, refusal
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer
from tests.broker.edge.admission.test_tokens import signed_with_the_public_key, unsigned

API = "rsocket-broker-admin"
ROLES = AdminOptions(
    audience=API,
    admins=("jwt:root",),
    operators=("jwt:ops-*",),
    viewers=("jwt:ops-7", "jwt:grafana"),
    readers=("jwt:spark",),
)


class Identified:
    """An API that knows who signs tokens."""

    def __init__(self, folder: Path) -> None:
        self.keys = folder / "keys.json"
        self.keys.write_bytes(key_set(signer()))
        self.options = ROLES
        verifier = make_verifier(Config(admin=ROLES, jwt=JwtOptions(str(self.keys), ISSUER, AUDIENCE)))
        assert verifier is not None
        self.verifier = verifier
        self.gated = Gated(folder, Identities(verifier, lambda: self.options))


def token(sub: str, **claims: Any) -> str:
    return signer().sign(**{"sub": sub, "aud": API, **claims})


@pytest.fixture
def identified(tmp_path: Path) -> Identified:
    return Identified(tmp_path)


@pytest.fixture
async def api(identified: Identified) -> AsyncIterator[Api]:
    async with TestClient(TestServer(identified.gated.app)) as client:
        yield client


@pytest.mark.parametrize(
    ("sub", "expected"),
    [
        ("grafana", [200, 403, 403]),
        ("spark", [403, 200, 403]),
        ("ops-7", [200, 403, 200]),
        ("root", [200, 200, 200]),
        ("stranger", [403, 403, 403]),
    ],
)
async def test_an_identity_has_the_first_role_that_fits_it(api: Api, sub: str, expected: list[int]) -> None:
    asked = [("GET", "/api/v1/status"), ("GET", "/api/v1/events"), ("PUT", DRAIN)]
    assert [await status(api, *each, **bearing(token(sub))) for each in asked] == expected


async def test_a_change_tells_the_identity_and_who_has_no_role_is_told_so(api: Api, identified: Identified) -> None:
    assert await status(api, "PUT", DRAIN, **bearing(token("ops-7"))) == 200
    async with api.put(DRAIN, headers=bearing(token("stranger"))) as answer:
        said = await answer.json()
    text = "admin.operators lists the identities that have that role"
    assert (said["code"], said["detail"]) == (
        "role-not-enough",
        f"jwt:stranger has no role here, this needs operator; {text}",
    )
    assert [(each[0], each[1], each[4]) for each in told(identified.gated.admin.world)] == [
        ("jwt:ops-7", "operator", ""),
        ("jwt:stranger", "", "role-not-enough"),
    ]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: token("root", aud=AUDIENCE), "it is for another audience"),
        (lambda: token("root", exp=int(time.time()) - LEEWAY_S - 1), "it has expired"),
        (lambda: token("root", iss="https://evil.example"), "it is of another issuer"),
        (lambda: signer("ES256", "other").sign(sub="root", aud=API), "no known key has its id and algorithm"),
        (unsigned, "its algorithm is not RS256, PS256, ES256 or EdDSA"),
        (signed_with_the_public_key, "its algorithm is not RS256, PS256, ES256 or EdDSA"),
        (lambda: "a.b.c", "it is no JSON Web Token"),
    ],
)
async def test_what_does_not_hold_is_refused_with_one_word_and_the_log_says_why(
    api: Api, wrong: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(wrong)
    text = str(wrong())
    assert (await refusal(api, "GET", "/metrics", headers=bearing(text)))[:2] == (401, "wrong-token")
    assert f"a token is not accepted: {reason}" in caplog.text
    assert text not in caplog.text


async def test_a_revoked_identity_is_refused_and_a_later_token_is_not(api: Api, identified: Identified) -> None:
    now = int(time.time())
    old, new = token("ops-7", iat=now - 60), token("ops-7", iat=now)
    assert await status(api, "GET", "/metrics", **bearing(old)) == 200
    identified.gated.admin.core.cluster.set_revocation("jwt:ops-7", (now - 30) * 1000, 7.0)
    assert (await refusal(api, "GET", "/metrics", headers=bearing(old)))[:2] == (401, "wrong-token")
    assert await status(api, "GET", "/metrics", **bearing(new)) == 200


async def test_where_identities_have_roles_others_need_a_token(api: Api) -> None:
    assert (await refusal(api, "GET", "/api/v1/status", headers=ELSEWHERE))[:2] == (401, "no-token")
    assert await status(api, "GET", "/api/v1/status", **ELSEWHERE, **bearing(token("grafana"))) == 200


async def test_roles_and_keys_that_are_read_again_count_at_once(api: Api, identified: Identified) -> None:
    assert await status(api, "GET", "/metrics", **bearing(token("grafana"))) == 200
    identified.options = replace(ROLES, viewers=())
    assert await status(api, "GET", "/metrics", **bearing(token("grafana"))) == 403
    identified.keys.write_bytes(key_set(signer("ES256", "other")))
    identified.verifier.prepare()
    identified.verifier.commit()
    assert await status(api, "GET", "/metrics", **bearing(token("root"))) == 401


async def test_keys_that_cannot_be_read_are_no_fault_of_the_token(api: Api, identified: Identified) -> None:
    identified.keys.unlink()
    assert (await refusal(api, "GET", "/metrics", headers=bearing(token("root"))))[:2] == (503, "auth-unavailable")


async def test_an_expired_token_is_no_guess_and_a_forged_one_is(
    api: Api, identified: Identified, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)

    monkeypatch.setattr("admin_api.access.gate.asyncio.sleep", sleep)
    for text, delays_n in ((token("root", aud="x"), 0), (unsigned(), 1)):
        for _ in range(int(WRONG_PER_S * BURST_S) + 1):
            assert await status(api, "GET", "/metrics", **bearing(text)) == 401
        assert len(slept) == delays_n

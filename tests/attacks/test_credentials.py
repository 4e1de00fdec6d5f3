"""Credentials of all kinds that are refused, each with its word; and who would learn a secret of them from what is
said: to a peer, into the log, to operators."""

import base64
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.access.identities import JWT, USER
from broker.connections.admission import NOT_ACCEPTED
from broker.edge.admission.tokens import LEEWAY_S
from broker.events import FlowRecord, LifecycleEvent
from broker.server import Server
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED_SETUP
from rsocket_wire.wire.authentication import AUTHENTICATION_MIME, BEARER, SIMPLE, Credentials
from tests.attacks.brokers import Asked, asked, running, write_users
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer
from tests.broker.edge.admission.test_tokens import (
    ALGORITHM,
    UNKNOWN,
    claims,
    signed_with_the_public_key,
    unsigned,
    written,
)
from tests.fakes import Frame, composite, error
from tests.system.support.waits import soon
from tests.system.support.wires import Wire, url_of

PLANTED = "planted-9f3a"
LONG = PLANTED * 1500  # more than a secret may have
MIB = PLANTED.ljust(1 << 20, "x")
NO_TOKEN = "it is no JSON Web Token"
MALFORMED = "it is malformed"
TWICE = "the SETUP has them more than once"
VIEWS = ("status", "connections", "connections/closed", "limits", "routes", "services", "traffic", "revocations")


class Attempt(NamedTuple):
    """What a SETUP says, what its sender is told, and why: what operators are told."""

    said: Callable[[], list[Credentials]]
    text: str
    reason: str


def password(name: str, secret: str, reason: str = "no such user, or another password") -> Attempt:
    """Of a user."""
    return Attempt(lambda: [Credentials(SIMPLE, name, secret)], NOT_ACCEPTED, f"{USER}: {reason}")


def token(made: Callable[[], str], reason: str) -> Attempt:
    """Of somebody who signs, or would be one."""
    return Attempt(lambda: [Credentials(BEARER, "", made())], NOT_ACCEPTED, f"{JWT}: {reason}")


def ago(seconds: float) -> int:
    return int(time.time() - seconds)


ATTEMPTS = {
    "missing": Attempt(
        list,
        "the SETUP has no credentials, and the transport proves none; this broker accepts jwt or user",
        "no credentials, and anonymous is not in auth.accept",
    ),
    "another password": password("ada", PLANTED),
    "no such user": password("eve", PLANTED),
    "no password": password("ada", ""),
    "a long password": Attempt(
        lambda: [Credentials(SIMPLE, "ada", LONG)], NOT_ACCEPTED, f"{USER} of {len(LONG)} bytes"
    ),
    "expired": token(lambda: signer().sign(exp=ago(LEEWAY_S + 1)), "it has expired"),
    "early": token(lambda: signer().sign(nbf=ago(-60)), "it does not hold yet"),
    "issued later": token(lambda: signer().sign(iat=ago(-60)), "it does not hold yet"),
    "another audience": token(lambda: signer().sign(aud="another"), "it is for another audience"),
    "another issuer": token(lambda: signer().sign(iss="https://evil.example"), "it is of another issuer"),
    "no exp": token(lambda: signer().sign(exp=None), "it lacks exp, sub, iss or aud"),
    "none": token(unsigned, ALGORITHM),
    "HS256 with the public key": token(signed_with_the_public_key, ALGORITHM),
    "an unknown kid": token(lambda: signer("ES256", PLANTED).sign(), UNKNOWN),
    "ES256 called RS256": token(lambda: written(header='{"alg": "RS256", "kid": "one"}'), UNKNOWN),
    "an algorithm that is a list": token(lambda: written(header='{"alg": ["ES256"], "kid": "one"}'), ALGORITHM),
    "an end beyond all numbers": token(lambda: written(claims(exp="1" + "0" * 400)), MALFORMED),
    "thousands of brackets": token(lambda: written("[" * 9000), MALFORMED),
    "thousands of brackets as a header": token(lambda: written(header="[" * 9000), NO_TOKEN),
    "bad base64": token(lambda: f"{signer().sign()}!{PLANTED}", MALFORMED),
    "no token": token(lambda: PLANTED, NO_TOKEN),
    "a long token": Attempt(lambda: [Credentials(BEARER, "", LONG)], NOT_ACCEPTED, f"{JWT} of {len(LONG)} bytes"),
    "a token and a password": Attempt(
        lambda: [Credentials(BEARER, "", signer().sign()), Credentials(SIMPLE, "ada", "ada")],
        f"the credentials cannot be read: {TWICE}",
        TWICE,
    ),
    "twice the same": Attempt(
        lambda: [Credentials(SIMPLE, "ada", "ada")] * 2, f"the credentials cannot be read: {TWICE}", TWICE
    ),
}


def secrets_of(said: list[Credentials]) -> Iterator[str]:
    """What nobody may find: passwords, tokens and their parts. A password that is a name is none."""
    for credentials in said:
        for part in (credentials.secret, *credentials.secret.split(".")):
            if len(part) > len(PLANTED):
                yield part[:64]
    yield from (PLANTED, base64.urlsafe_b64encode(PLANTED.encode()).decode())


async def refused(url: str, said: list[Credentials]) -> list[Frame]:
    """All that is told to who says this."""
    wire = await Wire.connect(url)
    wire.setup(composite(*((AUTHENTICATION_MIME.decode(), each.encode()) for each in said)) if said else None)
    return await soon(wire.rest())


async def shown_by(api: Asked) -> str:
    """All that operators see."""
    shown = [await api.ask("GET", f"/api/v1/{view}", api.token) for view in VIEWS]
    shown.append(await api.ask("GET", "/metrics", api.token))
    assert [status for status, _ in shown] == [200] * len(shown)
    return "".join(text for _, text in shown)


async def test_all_credentials_that_are_refused_get_their_word_and_stand_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    events: list[LifecycleEvent | FlowRecord] = []
    take_events = Server._take_events

    def note_events(server: Server, taken: list[LifecycleEvent | FlowRecord]) -> None:
        events.extend(taken)
        take_events(server, taken)

    monkeypatch.setattr(Server, "_take_events", note_events)
    (tmp_path / "keys.json").write_bytes(key_set(signer()))
    (tmp_path / "secret").write_text(f"{PLANTED} of the cluster")
    options: dict[str, Any] = {
        "auth.mode": "required",
        "auth.accept": "jwt,user",
        "auth.users": write_users(tmp_path / "users", ["ada"]),
        "jwt.keys": tmp_path / "keys.json",
        "jwt.issuer": ISSUER,
        "jwt.audience": AUDIENCE,
        "cluster.secret_file": tmp_path / "secret",
        "log.frames": "*",
        "limits.max_wrong_logins_per_s": 1000,
    }
    secrets: set[str] = set()
    said_to: dict[str, list[Frame]] = {}
    async with running(options) as server, asked(server, tmp_path / "token") as api:
        for at, (name, attempt) in enumerate(ATTEMPTS.items()):
            said = attempt.said()
            secrets.update(secrets_of(said))
            said_to[name] = await refused(server.listeners[at % 2], said)
        too_long = await refused(url_of(server, "tcp"), [Credentials(BEARER, "", MIB)])
        shown = await shown_by(api)
    text = f"bad-frame: a frame of {len(MIB) + 112} bytes, the limit is 262144"
    assert too_long == [error(0, CONNECTION_ERROR, text)]
    for name, attempt in ATTEMPTS.items():
        assert said_to[name] == [error(0, REJECTED_SETUP, f"unauthenticated: {attempt.text}")], name
    reasons = [each.detail for each in events if isinstance(each, LifecycleEvent) and each.name == "AuthRefused"]
    assert reasons == [attempt.reason for attempt in ATTEMPTS.values()]
    everything = caplog.text + shown + repr([each.row() for each in events])
    assert [each for each in secrets if each in everything] == []

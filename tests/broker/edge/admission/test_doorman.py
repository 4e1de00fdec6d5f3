"""The doorman: what comes of a verifier's answer, of its faults and of its silence."""

from __future__ import annotations

import asyncio
import logging

import pytest

from broker.connections.admission import Ask
from broker.edge.admission.doorman import Doorman
from broker.edge.admission.verdicts import NotAccepted, Unavailable, Verified
from rsocket_wire.wire.authentication import SIMPLE, Credentials
from tests.fakes import World

CANNOT = "the credentials cannot be verified now; try again later"


class FakeVerifier:
    """Gives or raises the same for everybody; None: never answers."""

    at_once_n = 2
    max_waiting = 2

    def __init__(self, answer: Verified | Exception | None) -> None:
        self.answer = answer
        self.prepared_n = 0
        self.is_closed = False

    async def verify(self, credentials: Credentials) -> Verified:
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer

    def prepare(self) -> None:
        self.prepared_n += 1

    def commit(self) -> set[str]:
        return {"ada"}

    async def close(self) -> None:
        self.is_closed = True


class FakeShell:
    """What it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def admit(self, peer: object, principal: str, expires_at: float, issued_at_ms: int) -> None:
        self.told.append((principal, expires_at, issued_at_ms))

    def refuse_credentials(self, peer: object, word: str, text: str, reason: str) -> None:
        self.told.append((word, text, reason))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Verified("ada"), ("user:ada", 0.0, 0)),
        (Verified("ada", 5_060.0, 4_990.5), ("user:ada", 160.0, 4_990_500)),
        (
            NotAccepted("another password"),
            ("unauthenticated", "the credentials are not accepted", "user: another password"),
        ),
        (Unavailable("full"), ("auth-unavailable", CANNOT, "user: full")),
        (ValueError("lovelace"), ("auth-unavailable", CANNOT, "user: ValueError")),
        (None, ("auth-unavailable", CANNOT, "user: no answer within 0 s")),
    ],
)
async def test_each_answer_reaches_the_core_in_its_words_and_no_secret_the_log(
    answer: Verified | Exception | None, told: tuple[object, ...], caplog: pytest.LogCaptureFixture
) -> None:
    shell, verifier = FakeShell(), FakeVerifier(answer)
    doorman = Doorman({"user": verifier}, 0 if answer is None else 5, lambda: 100.0, lambda: 5_000.0)
    doorman.shell = shell  # type: ignore[assignment]  # of the same face
    with caplog.at_level(logging.INFO):
        doorman.take([Ask(World().connect().peer, "user", Credentials(SIMPLE, "ada", "lovelace"))])
        while not shell.told:
            await asyncio.sleep(0)
    assert shell.told == [told]
    assert "lovelace" not in caplog.text
    await doorman.stop()
    assert verifier.is_closed


async def test_nobody_is_answered_after_the_stop() -> None:
    shell = FakeShell()
    doorman = Doorman({"user": FakeVerifier(None)}, 60)
    doorman.shell = shell  # type: ignore[assignment]  # of the same face
    doorman.take([Ask(World().connect().peer, "user", Credentials(SIMPLE, "ada", "lovelace"))])
    await doorman.stop()
    assert shell.told == []


async def test_what_all_verifiers_have_read_again_is_committed_as_principals() -> None:
    verifiers = {kind: FakeVerifier(None) for kind in ("user", "jwt")}
    doorman = Doorman(verifiers, 5)
    doorman.prepare()
    assert [verifier.prepared_n for verifier in verifiers.values()] == [1, 1]
    assert doorman.commit() == {"user:ada", "jwt:ada"}

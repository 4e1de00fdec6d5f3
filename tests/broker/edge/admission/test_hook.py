"""The hook: what is asked of another program over HTTP, what its answers mean, and how long they are used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from broker.edge.admission import hook as hook_module
from broker.edge.admission.hook import HookVerifier
from broker.edge.admission.verdicts import NotAccepted, Unavailable, Verified
from rsocket_wire.wire.authentication import BEARER, SIMPLE, Credentials

NO_ANSWER = 'the answer of the hook is no JSON object with "allowed": true or false'
ADA = Credentials(SIMPLE, "ada", "lovelace")


class Hook:
    """A program that answers what a test says."""

    def __init__(self) -> None:
        self.url = ""
        self.answer: Any = {"allowed": True}
        self.asked: list[dict[str, str]] = []
        self.now = 100.0  # of both clocks, the wall's being 5,000 s ahead

    async def respond(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, web.Response):
            return self.answer
        text = self.answer if isinstance(self.answer, str) else json.dumps(self.answer)
        return web.Response(text=text)

    def verifier(self, kind: str = "user", keep_s: float = 0.0) -> HookVerifier:
        return HookVerifier(kind, self.url, keep_s, clock=lambda: self.now, wall=lambda: self.now + 5_000.0)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    found = Hook()
    app = web.Application()
    app.router.add_post("/login", found.respond)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/login"
    yield found
    await runner.cleanup()


async def test_who_is_allowed_has_the_name_that_the_hook_says_and_else_that_of_the_credentials(hook: Hook) -> None:
    verifier = hook.verifier()
    assert await verifier.verify(ADA) == Verified("ada")
    hook.answer = {"allowed": True, "name": "Ada", "expires_in_s": 60, "colour": "blue"}
    assert await verifier.verify(ADA) == Verified("Ada", 5_160.0)
    tokens = hook.verifier("jwt")
    hook.answer = {"allowed": True, "name": "orders-7"}
    assert await tokens.verify(Credentials(BEARER, "", "opaque")) == Verified("orders-7")
    assert hook.asked == [
        {"kind": "user", "name": "ada", "secret": "lovelace"},
        {"kind": "user", "name": "ada", "secret": "lovelace"},
        {"kind": "jwt", "name": "", "secret": "opaque"},
    ]
    await verifier.close()
    await tokens.close()


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        ({"allowed": False}, NotAccepted, "the hook says: not allowed"),
        ({"allowed": False, "reason": "locked"}, NotAccepted, "the hook says: locked"),
        ({"allowed": False, "reason": "x\n" * 99}, NotAccepted, "the hook says: not allowed"),
        ({"allowed": True, "name": "a\nb"}, NotAccepted, "its name is not printable text of 1 to 255 bytes"),
        ({"allowed": True, "name": "a" * 256}, NotAccepted, "its name is not printable text of 1 to 255 bytes"),
        ({"allowed": True, "expires_in_s": -1}, Unavailable, "the hook says expires_in_s = -1"),
        ({"allowed": 1}, Unavailable, NO_ANSWER),
        ({}, Unavailable, NO_ANSWER),
        pytest.param("[" * 10_000, Unavailable, NO_ANSWER, id="deep"),
        pytest.param("x" * (1 << 15), Unavailable, "the answer of the hook is longer than 16384 bytes", id="long"),
        (web.Response(status=403), Unavailable, "the hook answers with the status 403"),
        (web.Response(status=302, headers={"Location": "/other"}), Unavailable, "the hook answers with the status 302"),
    ],
)
async def test_whatever_else_it_answers_lets_nobody_in(
    hook: Hook, answer: Any, error: type[Exception], text: str
) -> None:
    hook.answer = answer
    verifier = hook.verifier(keep_s=10.0)
    with pytest.raises(error, match=f"^{text}$"):
        await verifier.verify(ADA)
    assert len(hook.asked) == 1
    await verifier.close()


async def test_silence_lets_nobody_in_and_neither_does_nobody(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, away = hook.verifier(), HookVerifier("user", "http://127.0.0.1:1/")
    with pytest.raises(Unavailable, match="the hook cannot be asked: ClientConnectorError"):
        await away.verify(ADA)
    monkeypatch.setattr(hook_module, "ANSWER_S", 0.05)
    hook.answer = None
    with pytest.raises(Unavailable, match=r"the hook has not answered within 0\.05 s"):
        await verifier.verify(ADA)
    hook.answer = {"allowed": True}
    monkeypatch.setattr(hook_module, "ANSWER_S", 5.0)
    assert await verifier.verify(ADA) == Verified("ada")
    await verifier.close()
    await away.close()


async def test_an_answer_is_used_for_the_same_credentials_as_long_as_it_is_kept(hook: Hook) -> None:
    verifier = hook.verifier(keep_s=10.0)
    hook.answer = {"allowed": True, "expires_in_s": 60}
    assert await verifier.verify(ADA) == Verified("ada", 5_160.0)
    hook.now += 9
    assert await verifier.verify(ADA) == Verified("ada", 5_160.0)  # the same moment
    hook.answer = {"allowed": False}
    for other in (Credentials(SIMPLE, "ada", "byron"), Credentials(SIMPLE, "adal", "ovelace")):
        with pytest.raises(NotAccepted):
            await verifier.verify(other)
    hook.now += 1
    with pytest.raises(NotAccepted):
        await verifier.verify(ADA)
    assert len(hook.asked) == 4
    assert "lovelace" not in repr(verifier._kept)
    verifier.prepare()
    assert verifier.commit() == set()  # by a signal
    with pytest.raises(NotAccepted):
        await verifier.verify(ADA)
    assert len(hook.asked) == 5
    await verifier.close()


async def test_no_more_than_so_many_answers_are_kept(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_module, "MAX_KEPT", 3)
    verifier = hook.verifier(keep_s=10.0)
    for number in range(5):
        await verifier.verify(Credentials(SIMPLE, f"user-{number}", "x"))
    assert len(verifier._kept) == 3
    hook.now += 10
    await verifier.verify(ADA)
    assert len(verifier._kept) == 1  # the others are too old
    await verifier.close()

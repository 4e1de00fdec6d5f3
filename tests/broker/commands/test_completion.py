"""Completion: commands, options, contexts and services that a broker tells; and silence when something is wrong."""

from __future__ import annotations

import asyncio
import os
import socket

import click
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from admin_api.ctl import completion
from broker.commands.main import main


def complete(*words: str) -> list[str]:
    """What a shell offers for the last word."""
    found = ShellComplete(main, {}, "rsocket-broker", "_X").get_completions(list(words[:-1]), words[-1])
    return [item.value for item in found]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_source(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert (result.exit_code, f"_RSOCKET_BROKER_COMPLETE={shell}_complete" in result.stdout) == (0, True)


def test_commands_and_options_are_completed() -> None:
    assert complete("s") == ["samwise", "serve", "shard-plan", "simulate"]
    assert complete("ctl", "un") == ["undrain", "unredirect", "unrevoke"]
    assert "--service" in complete("call", "--se")


def test_contexts_are_completed(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("prod", "preview", "test"):
        CliRunner().invoke(main, ["context", "add", name, "--url", "tcp://a:1"])
    assert complete("call", "--context", "pr") == ["preview", "prod"]
    assert complete("context", "use", "t") == ["test"]


async def served(answer: web.StreamResponse | None) -> list[str]:
    """What is offered for `call --service o` while an admin API gives this answer; None: none, for ever."""

    async def services(request: web.Request) -> web.StreamResponse:
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        return answer

    app = web.Application()
    app.router.add_get("/api/v1/services", services)
    async with TestServer(app) as server:
        os.environ["RSB_ADMIN"] = str(server.make_url(""))
        try:
            return await asyncio.to_thread(complete, "call", "--service", "o")
        finally:
            del os.environ["RSB_ADMIN"]


async def test_services_are_those_that_the_broker_tells() -> None:
    items = [{"service": name} for name in ("orders", "offers", "billing", "o\x1b[31m")]
    assert await served(web.json_response({"items": items})) == ["offers", "orders"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"items": [1]}', "<html>"])
async def test_an_answer_that_is_none_is_silence(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert await served(web.Response(text=text)) == []
    assert capfd.readouterr() == ("", "")


async def test_nobody_is_waited_for_longer_than_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "WAIT_S", 0.05)
    assert await served(None) == []


def test_nobody_there_is_silence(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:  # bound and not listening
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RSB_ADMIN", f"http://127.0.0.1:{probe.getsockname()[1]}")
        assert complete("call", "--service", "") == []
    monkeypatch.setenv("RSB_ADMIN", "ftp://x")
    assert complete("call", "--service", "") == []
    assert capfd.readouterr() == ("", "")


def test_a_group_completes_without_importing_its_commands() -> None:
    assert isinstance(main, click.Group)
    assert "access" in complete("")

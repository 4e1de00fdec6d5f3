"""Contexts: what wins over what, and that nobody sees a secret or is sent one that is not for him."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from admin_api.ctl.place import DEFAULT_ADMIN
from admin_api.ctl.place import place_of as admin_place_of
from broker.commands import terminal
from broker.commands.main import main
from broker.commands.terminal import PASSWORD_VARIABLE, TOKEN_VARIABLE, Place, place_of
from broker.contexts import contexts_path
from client_sdk import Password, Token
from rsocket_wire.ports import DEFAULT_URL

URL = "tcp://orders.example:7878"
ADMIN = "http://orders.example:7070"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def run(*words: str, given: str = "") -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(main, ["context", *words], prog_name="rsocket-broker", input=given)


def add(name: str, *words: str, given: str = "") -> None:
    result = run("add", name, *words, given=given)
    assert result.exit_code == 0, result.output


def place(url: str | None = None, context: str | None = None, user: str | None = None) -> Place:
    return place_of(url, ca=None, cert=None, key=None, token_file=None, user=user, context_name=context)


def test_an_option_wins_over_a_variable_over_a_context_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (place().url, admin_place_of(None, None, None)[0]) == (DEFAULT_URL, DEFAULT_ADMIN)
    add("prod", "--url", URL, "--admin", ADMIN, "--use")
    assert (place().url, admin_place_of(None, None, None)[0]) == (URL, ADMIN)
    monkeypatch.setenv("RSB_URL", "tcp://b:1")
    monkeypatch.setenv("RSB_ADMIN", "b:2")
    assert (place().url, admin_place_of(None, None, None)[0]) == ("tcp://b:1", "http://b:2")
    assert (place("tcp://c:1").url, admin_place_of("http://c:2", None, None)[0]) == ("tcp://c:1", "http://c:2")


def test_a_context_is_named_by_an_option_or_a_variable_or_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "three"):
        add(name, "--url", f"tcp://{name}:1")
    run("use", "one")
    assert place().url == "tcp://one:1"
    monkeypatch.setenv("RSB_CONTEXT", "two")
    assert place().url == "tcp://two:1"
    assert place(context="three").url == "tcp://three:1"
    with pytest.raises(click.UsageError, match="there is no context 'four'; there are: one, three, two"):
        place(context="four")


def test_credentials_of_a_context_are_sent_to_its_own_broker_only(monkeypatch: pytest.MonkeyPatch) -> None:
    add("prod", "--url", URL, "--admin", ADMIN, "--ask-token", "--ask-admin-token", "--use", given="secret\nother\n")
    assert (place().credentials, admin_place_of(None, None, None)) == (Token("secret"), (ADMIN, "other"))
    assert (place("tcp://b:1").credentials, admin_place_of("http://b:2", None, None)[1]) == (None, "")
    monkeypatch.setenv("RSB_URL", "tcp://b:1")
    assert place().credentials is None
    with pytest.raises(click.UsageError, match="--context prod has its own URL; leave out tcp://b:1"):
        place(context="prod")


def test_a_user_of_a_context_logs_in_and_variables_win(monkeypatch: pytest.MonkeyPatch) -> None:
    add("prod", "--url", URL, "--user", "ada", "--ask-password", "--use", given="lovelace\n")
    assert place().credentials == Password("ada", "lovelace")
    monkeypatch.setenv(PASSWORD_VARIABLE, "byron")
    assert place().credentials == Password("ada", "byron")
    assert place(user="bob").credentials == Password("bob", "byron")
    monkeypatch.setenv(TOKEN_VARIABLE, "token")
    assert place().credentials == Token("token")


def test_credentials_that_cannot_be_sent_are_told_with_their_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "byron")
    with pytest.raises(click.UsageError, match="--user: the name is empty"):
        place(user="")
    monkeypatch.setenv(TOKEN_VARIABLE, "Bearer token")
    with pytest.raises(click.UsageError, match=f"^{TOKEN_VARIABLE}: the token begins with the word Bearer: leave that"):
        place()
    for given, credentials in ((" token\n", Token("token")), ("", None)):
        monkeypatch.setenv(TOKEN_VARIABLE, given)
        assert place().credentials == credentials


def test_a_certificate_of_a_context_needs_a_url_that_is_encrypted(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    add("prod", "--url", "tcp://127.0.0.1:1", "--ca", str(tmp_path / "ca.pem"), "--use")
    with pytest.raises(click.UsageError, match=r"--ca is for tls:// and wss://; tcp://127\.0\.0\.1:1 is not encrypted"):
        place()


def test_secrets_are_never_shown_and_the_file_is_for_its_user_only(home: Path) -> None:
    words = ("--url", URL, "--user", "ada", "--ask-password", "--ask-token", "--ask-admin-token")
    add("prod", *words, given="hidden-1\nhidden-2\nhidden-3\n")
    path = contexts_path(os.environ)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().count("hidden") == 3
    shown = [run(*each) for each in (("list",), ("list", "--json"), ("show", "prod"), ("show", "prod", "--json"))]
    assert [each.exit_code for each in shown] == [0] * 4
    assert not any("hidden" in each.output for each in shown)
    assert json.loads(shown[3].stdout) == {
        "name": "prod", "is_in_use": False, "url": URL, "user": "ada",
        "token": True, "password": True, "admin_token": True,
    }  # fmt: skip
    path.chmod(0o640)
    result = run("list")
    assert (result.exit_code, f"chmod 600 {path}" in result.stderr, result.stdout) == (2, True, "")


def test_contexts_are_added_used_listed_replaced_and_removed() -> None:
    add("b", "--url", URL)
    add("a", "--admin", "orders.example:7070", "--use")
    assert json.loads(run("list", "--json").stdout)["items"] == [
        {"name": "a", "is_in_use": True, "admin": ADMIN},
        {"name": "b", "is_in_use": False, "url": URL},
    ]
    assert run("add", "b", "--url", URL).exit_code == 2
    add("b", "--url", "tcp://c:1", "--replace")
    assert json.loads(run("show", "b", "--json").stdout)["url"] == "tcp://c:1"
    assert json.loads(run("use", "b", "--json").stdout) == {"name": "b", "is_kept": True, "is_in_use": True}
    assert run("use", "a").stdout == "a is in use\n"
    assert json.loads(run("remove", "a", "--json").stdout) == {"name": "a", "is_kept": False, "is_in_use": False}
    assert run("show").exit_code == 2
    assert run("list").stdout.count("tcp://c:1") == 1


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("--url", "http://x"), "write tcp://x, or ws://x"),
        (("--url", "tcp://x:78780"), "the port must be a number of 1..65535"),
        (("--url", "tcp://ada:secret@x"), "a URL holds no user and no password"),
        (("--url", "tcp://ada:12/secret@x"), "a URL holds no user and no password"),
        (("--admin", "http://ada:secret@x"), "a URL holds no password"),
        (("--url", URL, "--ask-password"), "--ask-password needs --user"),
        (("--url", URL, "--ask-token"), "the token is empty"),
        ((), "give --url, --admin or both"),
    ],
)
def test_mistakes_of_add_are_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    result = run("add", "x", *words)
    assert (result.exit_code, sentence in result.stderr, "secret" in result.stderr) == (2, True, False), result.stderr


@pytest.mark.parametrize("text", ["selected = 7", "[context]\nx = 1", "[context.x]\ncolour = 'red'", "= ="])
def test_a_file_that_is_none_is_one_sentence(text: str) -> None:
    path = contexts_path(os.environ)
    path.parent.mkdir()
    path.touch(mode=0o600)
    path.write_text(text)
    result = run("list")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.stderr


@pytest.mark.parametrize(
    ("words", "variable", "text"),
    [
        ("call --service a", "RSB_URL=http://x:7070", "RSB_URL: 'http://x:7070': the scheme must be"),
        ("call --service a", "RSB_URL=unix:///no", "start the broker or correct RSB_URL"),
        ("call --service a", "RSB_CONTEXT=prod", "start the broker or correct the context prod"),
        ("call --service a --context prod", "", "start the broker or correct the context prod"),
        ("call --service a", "", "start the broker or give its URL, behind the command or in RSB_URL"),
        ("call --service a unix:///no", "RSB_URL=unix:///other", "start the broker or correct the URL"),
        ("ctl status", "RSB_ADMIN=tcp://x:7878", "for RSB_ADMIN: 'tcp://x:7878' is no URL like"),
        ("ctl status", "RSB_ADMIN=tcp://x:7878", "write http://x:PORT with the port of the REST API, usually 7070"),
        ("ctl status", "RSB_ADMIN=127.0.0.1:1", "the URL is that of RSB_ADMIN"),
        ("ctl status --context prod", "", "the URL is that of the context prod"),
    ],
)
def test_a_url_that_fails_is_told_with_what_it_is_from(
    words: str, variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add("prod", "--url", "unix:///no", "--admin", "http://127.0.0.1:1")
    monkeypatch.setattr(terminal, "DEFAULT_URL", "unix:///nobody")
    if variable:
        monkeypatch.setenv(*variable.split("=", 1))
    result = CliRunner().invoke(main, words.split(" "))
    assert text in result.stderr

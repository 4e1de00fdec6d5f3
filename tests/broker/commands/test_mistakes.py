"""What is said of a command line that click cannot read; the texts themselves are golden (`test_golden`)."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

import click
import pytest

from broker.commands.main import main
from broker.commands.mistakes.examples import EXAMPLES
from broker.commands.mistakes.others import COMMANDS
from tests.broker.commands.test_golden import command_of, run, walk

LEAVES = {
    " ".join(words)
    for name in main.list_commands(click.Context(main))
    for words in walk(command_of(name), (name,))
    if not isinstance(command_of(name), click.Group) or len(words) > 1
}


def find(words: list[str]) -> click.Command:
    found: click.Command = main
    for word in words:
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), word)
        assert below is not None, words
        found = below
    return found


def test_each_command_has_an_example() -> None:
    groups = {name for name in LEAVES if isinstance(find(name.split()), click.Group)}
    assert set(EXAMPLES) == LEAVES - groups


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_read_by_its_command(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    words = shlex.split(EXAMPLES[name])
    assert " ".join(words[: len(name.split())]) == name
    find(name.split()).make_context(name, words[len(name.split()) :])


@pytest.mark.parametrize("group", COMMANDS)
def test_what_others_call_a_command_is_none_here_and_is_one_here(group: str) -> None:
    for name, meant in COMMANDS[group].items():
        own = find(group.split())
        assert isinstance(own, click.Group)
        assert name not in own.list_commands(click.Context(own))
        names = [*itertools.takewhile(lambda word: not word.startswith("-"), meant.split())]
        command, options = find([*group.split(), *names]), meant.split()[len(names) :]
        if names and options:
            command.make_context(name, options)


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("--config x serve", "serve --config x"),
        ("ctl --watch=5 status", "ctl status --watch=5"),
        ("samwise --dead messages list", "samwise messages list --dead"),
        ("call --port 7000 --service orders", "call tcp://127.0.0.1:7000 --service orders"),
    ],
)
def test_a_corrected_line_holds_all_that_was_given(typed: str, advice: str) -> None:
    said = run(*typed.split()).stderr.strip().splitlines()[-1]
    assert said.endswith(f": rsocket-broker {advice}")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            "stop",
            "No such command 'stop'. A broker ends by Ctrl-C or SIGTERM, and ctl drain broker takes it out of service; "
            "a service ends where it runs: rsocket-broker ctl drain tag service=NAME takes it out of service",
        ),
        ("ctl logs", "No such command 'logs'. A broker writes its log to its own standard error"),
        (
            "ctl delete route 7",
            "No such command 'delete'. A service has its routes as long as it is connected: rsocket-broker ctl drain",
        ),
        ("ctl remove redirect orders", "No such command 'remove'. Did you mean 'rsocket-broker ctl unredirect'?"),
        ("ctl pause orders", "No such command 'pause'. Did you mean 'rsocket-broker ctl drain'?"),
        ("ctl create route", "No such command 'create'. A service makes its routes by connecting"),
        ("ctl create redirect orders", "No such command 'create'. Did you mean 'rsocket-broker ctl redirect'?"),
        ("call orders.create", "write --service orders --route create if 'orders.create', taken as the URL, is that"),
        ("subscribe orders", "No such command 'subscribe'. Did you mean 'rsocket-broker call --stream'?"),
        ("ctl traffic --since 1h", "No such option '--since'. It counts from the start of the broker on"),
        (
            "call -u tcp://a:1 --service b",
            "The URL stands without an option: rsocket-broker call tcp://a:1 --service b",
        ),
        ('offer stock --json --answer {"left": 3}', "quote what has spaces: --answer '{\"left\": 3}'"),
        (
            "bench --service orders",
            "No such option '--service'. It calls services of its own, which echo: leave it out",
        ),
        ("ctl drain connection 3", "A connection is ended: rsocket-broker ctl close 3"),
        ("pub orders", "No such command 'pub'. Did you mean 'rsocket-broker call'?"),
        ("serve --verbose", "No such option '--verbose'. More log: RSB_LOG__LEVEL=debug in front of the command"),
        ("ctl services demo", "Got unexpected extra argument (demo). Write rsocket-broker ctl service demo"),
        (
            "call --service a --model stream",
            "Invalid value for '--model': 'stream' is not one of 'request_response', 'fire_and_forget', "
            "'request_stream', 'request_channel', 'metadata_push'. Did you mean 'request_stream'?",
        ),
        (
            "serve --auth off",
            "No such option '--auth'. Write mode in [auth] of the file of --config, or RSB_AUTH__MODE=off (or "
            "required) in front of the command",
        ),
        ("call --service a --multicast", "No such option '--multicast'. Write --all"),
        (
            "call tcp://127.0.0.1:1 --host 127.0.0.1",
            "No such option '--host'. Leave --host out, the URL says where the broker is",
        ),
        (
            "ctl status --admin 26070",
            "Invalid value for --admin: '26070' is a port without a host; write 127.0.0.1:26070",
        ),
        *(
            (
                f"ctl status --admin {url}",
                f"Invalid value for --admin: {url!r} has no host and port as in http://127.0.0.1:7070",
            )
            for url in ("http://127.0.0.1:7070x", "http://127.0.0.1:99999", "[::1")
        ),
        ("ctl services list", "Got unexpected extra argument (list). Write rsocket-broker ctl services"),
        ("ctl list routes", "Did you mean 'rsocket-broker ctl routes'?"),
        ("ctl get service orders", "Did you mean 'rsocket-broker ctl service'?"),
        ("ctl show connection", "Did you mean 'rsocket-broker ctl connections'?"),
        ("ctl delete drain", "Did you mean 'rsocket-broker ctl undrain'?"),
        ("get routes", "Did you mean 'rsocket-broker ctl routes'?"),
        ("pipeline run --events e --out tables", "No such option '--out'. Write --tables tables"),
        ("bench --requests 10", "It measures for a time and not for a number of requests: write --seconds 5"),
        ("bench --stream", "Write --model request_stream"),
        ("call --chooser random", "Write --lb random"),
        ("-v serve", "More log: RSB_LOG__LEVEL=debug in front of the command"),
        ("shard-plan demo", "Write rsocket-broker shard-plan --service demo"),
        ("ctl close demo", "rsocket-broker ctl connections lists the numbers"),
        ("ctl drain route", "a route needs its id; ctl routes lists all"),
    ],
)
def test_what_is_done_otherwise_here_is_said(typed: str, said: str) -> None:
    assert said in " ".join(run(*typed.split()).stderr.split())

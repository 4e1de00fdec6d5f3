"""What every command says of itself, and how mistakes end it: the golden files beside this one are the law.

`pytest --write-golden tests/broker/commands/test_golden.py` writes them anew.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from broker import exit_status
from broker.commands.main import COMMANDS, main
from tests.golden import Golden

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "rsocket-broker"
# What no command needs to say its help.
HEAVY = ("aiohttp", "aiomqtt", "aiormq", "numpy", "pandas", "plotly", "pyarrow", "pyspark", "rich", "sqlite3", "zmq")
NEVER = (
    "asyncio",
    "urllib.request",
    "client_sdk.client",
    "broker.core",
    "broker.config.load",
    "broker.config.options",
    "spark_sink.tables",
)
# Mistakes and failures that need nobody else, each with its exit status and what is said.
ENDS = [
    "",
    "nonsense",
    "serv",
    "start",
    "serve --port 18900",
    "serve 18900",
    "check /nowhere/broker.toml",
    "check --config broker.toml",
    "call",
    "call --password secret",
    "call orders create x",
    "call unix:///nowhere/socket --service orders",
    "call tcp://127.0.0.1:1 --service orders --gather --stream",
    "call --service orders --token-file /nowhere",
    "call tls://127.0.0.1:1 --service orders --ca /nowhere",
    f"call tls://127.0.0.1:1 --service orders --ca {os.devnull}",
    f"call tls://127.0.0.1:1 --service orders --cert {os.devnull} --key {os.devnull}",
    "offer",
    "bench ftp://nowhere",
    "bench --rate nan",
    "context use nobody",
    "context add x",
    "context add x --url ftp://nowhere",
    "ctl status --admin http://127.0.0.1:1",
    "ctl status --admin ftp://nowhere",
    "ctl status --watch inf",
    "ctl routes --region eu",
    "ctl drain broker eu-1",
    "ctl close first",
    "ctl revoke jwt:ada --before yesterday",
    "completion tcsh",
    "access why --as ada --announce service=orders",
    "feed status --dir /nowhere/feed",
    "samwise messages list --dir /nowhere",
    "pipeline run --events /nowhere --tables /nowhere --every 5",
    "report /nowhere",
    "simulate",
    "table",
    "shard-plan --routes 2",
    "token list --file /nowhere/tokens",
    # What click cannot read, with what to write instead.
    "call --url tcp://127.0.0.1:21878 --service orders",
    "call --url --service orders",
    "call --host 127.0.0.1 --port 21878 --service orders",
    "offer orders --url tcp://127.0.0.1:21878",
    "offer --service orders",
    "bench --broker=tcp://127.0.0.1:2",
    "ctl --url http://127.0.0.1:2 routes",
    "ctl routes --url tcp://127.0.0.1:2",
    "samwise ping tcp://127.0.0.1:2",
    "--config x serve",
    "samwise --dir x messages list",
    "-v",
    "help",
    "help call",
    "version",
    "report --tables X",
    "access why ada",
    "table ls",
    "ctl drain orders",
    "ctl drain tag region eu",
    "ctl drain service orders",
    "ctl drain",
    "token list",
    "token create x",
    "token new ci operator",
    "context rm prod",
    "completion",
    "call --option",
    "serve --max-connections 5",
    "serve broker.toml",
    "serve --log-level debug",
    "call --insecure",
    "call --tls",
    "call --tag",
    "call --stream=yes",
    "ctl rotues",
    "ctl routes orders",
    "ctl routes --grace 5",
    "password ada secret",
    "call --header x",
    "bench --duration 5",
    "call --model request-response",
    "pipeline evdir",
    "pipeline run evdir",
    "call --region eu",
    "call --timeout 5s --service x",
    "samwise serve",
    "--nonsense",
    "serve --events /dev/null",
    "serve --config /",
    "serve --listen localhost",
    "serve --admin 21091",
    "shard-plan 8",
    "shard-plan --route-ids /nowhere --join 1",
    "call --take 1,000 --service x",
    "call --timeout soon --service x",
    "bench --payload-bytes 1KB",
    "bench --rate 100/s",
    "ctl drain broker --grace 30s",
    "token new ci --days 90d --file /nowhere/tokens",
    "offer tcp://127.0.0.1:21878",
    "offer tcp://127.0.0.1:21878 orders",
    "offer 127.0.0.1:21878",
    "call --meta tenant --service x",
    "call --meta text/plain:x --service x",
    "call --service tcp://127.0.0.1:1",
    "context add tcp://127.0.0.1:1",
    "call help",
    "ctl routes --grace 4",
    "call --tag region: --service x tcp://127.0.0.1:1",
]


# They run until they are stopped, tell a story, or print a script.
NO_JSON = {
    *("completion", "demo", "feed post", "feed serve", "feed subscribe", "feed watch", "feed winnow"),
    *("pipeline run", "samwise serve", "serve"),
}


# What is told as JSON with nobody to ask; that of `ctl` is what the API gives (tests/admin_api/test_golden.py).
TOLD = [
    "check --json",
    "check --json /nowhere/broker.toml",
    "access why --as uid:7 --announce service=orders --json",
    "context list --json",
    "shard-plan --routes 3 --join 1 --keys 100 --json",
]


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, words, prog_name=PROGRAM)


def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command, and all below it, as they are when no other test has run them without `main`: click keeps the option
    for help that it made the first time."""
    command._help_option = None
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk(below, (*words, name))


def command_of(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


def test_the_list_of_commands_is_as_it_was(golden: Golden) -> None:
    golden.check("help.txt", run("-h").stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_is_as_it_was_and_fits_80_columns(golden: Golden, name: str) -> None:
    shown = []
    for words in walk(command_of(name), (name,)):
        short, long = run(*words, "-h"), run(*words, "--help")
        assert (short.exit_code, short.stdout) == (exit_status.DONE, long.stdout)
        shown.append(short.stdout)
        listed = short.stdout.partition("Commands:\n")[2]
        assert not re.search(r"\.\.\.$", listed, re.MULTILINE), listed
    text = "\n".join(shown)
    assert max(map(len, text.splitlines())) <= 80
    golden.check(f"help-{name}.txt", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_in_the_list_says_it_in_one_line(name: str) -> None:
    listed = run("-h").stdout.partition("Commands:\n")[2]
    assert re.search(rf"^  {name} +{re.escape(COMMANDS[name].help)}$", listed, re.MULTILINE), listed


def test_mistakes_end_as_they_did(golden: Golden) -> None:
    ends = []
    for line in ENDS:
        result = run(*line.split())
        said = result.stderr.strip().splitlines() or [""]
        ends.append({"command": line, "status": result.exit_code, "says": said[-1]})
    golden.check_json("ends.json", ends)


def test_json_is_as_it_was(golden: Golden) -> None:
    golden.check_json(
        "told.json", [{"command": line, "prints": json.loads(run(*line.split()).stdout)} for line in TOLD]
    )


def test_help_and_completion_import_nothing_heavy() -> None:
    """Of all commands, in one process each way: else a person waits for them at each key."""
    code = (
        "import sys\n"
        "import click\n"
        "from broker.commands.main import COMMANDS, main\n"
        "context = click.Context(main)\n"
        "for name in COMMANDS:\n"
        "    main.get_command(context, name)\n"
        f"    found = [each for each in {(*HEAVY, *NEVER)!r} if each in sys.modules]\n"
        "    if found:\n"
        "        sys.exit(f'{name} imports {found}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_statuses_in_the_document_are_those_of_the_commands() -> None:
    document = (ROOT / "docs/commands.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", document, re.MULTILINE)
    assert {int(number): text for number, text in rows} == exit_status.MEANINGS


@pytest.mark.parametrize("module", ["broker", "admin_api", "spark_sink"])
def test_no_command_ends_with_a_number_of_its_own(module: str) -> None:
    numbers = re.compile(r"sys\.exit\(\d|SystemExit\(\d|EXIT_[A-Z_]+(: Final)? = \d")
    inner = {"broker/commands/workers/worker.py", "spark_sink/writer/process.py", "spark_sink/feed/program/program.py"}
    for path in sorted((ROOT / module).rglob("*.py")):
        if str(path.relative_to(ROOT)) not in inner:
            assert not numbers.search(path.read_text()), path


def test_an_interruption_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("broker.routing.sharding.methods.ShardMethods.find", interrupted)
    result = run("shard-plan", "--routes", "2", "--join", "1")
    assert (result.exit_code, result.output) == (exit_status.INTERRUPTED, "")


def test_whatever_finds_something_prints_it_as_json() -> None:
    leaves = [words for name in COMMANDS for words in walk(command_of(name), (name,))]
    groups = {words[:-1] for words in leaves}
    lacking = {" ".join(words) for words in leaves if words not in groups and "--json" not in run(*words, "-h").stdout}
    assert lacking == NO_JSON

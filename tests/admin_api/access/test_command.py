"""`rsocket-broker token`: what it prints, and what stands in the file."""

import os
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin_api.access.command import token
from broker.config.load import ConfigErrors, load
from broker.config.sections.admin_checks import OPERATOR, find_token, read_tokens, tokens_of
from rsocket_wire.errors import BrokerError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def run(file: Path, *words: str) -> Result:
    return CliRunner().invoke(token, [*words, "--file", str(file)])


def test_a_token_is_printed_once_and_the_file_knows_it_without_holding_it(file: Path) -> None:
    printed = run(file, "new", "ann", "--role", "operator").output.strip()
    assert (printed.startswith("rsb_"), len(printed)) == (True, 47)
    assert printed not in file.read_text()
    found = find_token(read_tokens(str(file)), printed)
    assert found is not None
    assert (found.name, found.role, file.stat().st_mode & 0o777) == ("ann", OPERATOR, 0o600)
    assert find_token(read_tokens(str(file)), printed + "x") is None


def test_tokens_are_listed_and_revoked_by_name(file: Path) -> None:
    file.write_text("# ours\n\nold viewer 2020-01-01T00:00:00Z " + "0" * 64)
    run(file, "new", "ann", "--days", "1")
    assert [row.split()[0] for row in run(file, "list").output.splitlines() if "viewer" in row] == ["old", "ann"]
    assert "expired" in run(file, "list").output
    assert run(file, "revoke", "old").output == "old is revoked\n"
    assert (file.read_text().splitlines()[0], [each.name for each in read_tokens(str(file))]) == ("# ours", ["ann"])
    assert os.listdir(file.parent) == ["tokens"]


def test_an_advised_command_works_as_it_stands(file: Path) -> None:
    run(file, "new", "ann")
    advice = run(file, "new", "ann").stderr
    words = shlex.split(advice.partition("; rsocket-broker token ")[2].partition(" removes it")[0])
    assert CliRunner().invoke(token, words).output == "ann is revoked\n"


def test_a_token_that_is_not_there_is_told_with_those_that_are(file: Path) -> None:
    run(file, "new", "grafana")
    assert run(file, "revoke", "grafna").stderr.endswith(" has no token grafna; did you mean grafana?\n")
    assert run(file, "revoke", "bob").stderr.endswith(" has no token bob; it has grafana\n")
    run(file, "revoke", "grafana")
    assert run(file, "revoke", "bob").stderr.endswith(" has no token bob; it has none\n")


def test_mistakes_are_told_in_a_sentence(file: Path) -> None:
    assert "no such file" in run(file, "list").output
    run(file, "new", "ann")
    assert [run(file, *words).exit_code for words in (("new", "ann"), ("new", "local"), ("revoke", "bob"))] == [2, 2, 2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rsb_planted", "in line 1"),
        (f"ann root 2027-01-01T00:00:00Z {'0' * 64}", "in line 1"),
        (f"ann viewer soon {'0' * 64}", "in line 1"),
        (f"ann viewer 2027-01-01T00:00:00Z {'0' * 64}\n" * 2, "name of line 2 twice"),
    ],
)
def test_a_file_with_a_mistake_is_refused_and_not_quoted(file: Path, text: str, why: str) -> None:
    file.write_text(text)
    with pytest.raises(BrokerError, match=why) as refused:
        tokens_of(str(file))
    with pytest.raises(ConfigErrors, match=why):
        load(None, {"RSB_ADMIN__TOKENS": str(file)}, {})
    assert "planted" not in str(refused.value)


def test_a_token_in_the_environment_is_no_option_of_a_broker(file: Path) -> None:
    file.write_text("")
    config = load(None, {"RSB_TOKEN": "rsb_x", "RSB_ADMIN__TOKENS": str(file)}, {})
    assert (config.admin.tokens, tokens_of(str(file)), tokens_of("")) == (str(file), (), None)

"""broker.config.toml: in which line a mistake stands, and how a wrong value is shown."""

from pathlib import Path

import pytest

from broker.config.load import ConfigErrors, load
from tests.broker.config.sources import mistakes_of

AS_TOML = (
    'the configuration is TOML: a line [server], then listen = ["tcp://127.0.0.1:7878"]; rsocket-broker check '
    "--options prints one"
)
NO_HEADER = "invalid TOML: Expected ']' at the end of a table declaration"
NO_END = "invalid TOML: Expected newline or end of document after a statement"


@pytest.mark.parametrize(
    "text, sentence",
    [
        (
            '[server]\nlisten ["tcp://a:1"]\n',
            '2: invalid TOML: Expected \'=\' after a key in a key/value pair: "listen [\\"tcp://a:1\\"]"; '
            "a line is KEY = VALUE or [SECTION]",
        ),
        ("[log]\nlevel = \n", '2: invalid TOML: Invalid value: "level ="; an option without a value is left out'),
        ('[log]\nlevel = "info', '2: invalid TOML: Unterminated string: "level = \\"info"'),
        (
            "[log]\n[log]\n",
            "2: invalid TOML: Cannot declare ('log',) twice: \"[log]\"; [log] stands in line 1 already, its keys "
            "belong there",
        ),
        (
            "[log]\nlevel = debug\n",
            '2: invalid TOML: Invalid value: "level = debug"; '
            'a text needs quotes, as in "text", or ["text"] for a list',
        ),
        (
            "[server]\nlisten = [tcp://a:1]",
            '2: invalid TOML: Invalid value: "listen = [tcp://a:1]"; '
            'a text needs quotes, as in "text", or ["text"] for a list',
        ),
        (
            "server:\n  workers: 1\n",
            "1: invalid TOML: Expected '=' after a key in a key/value pair: \"server:\"; this looks like YAML, the "
            + AS_TOML.removeprefix("the "),
        ),
        ('{"server": 1}', '1: invalid TOML: Invalid statement: "{\\"server\\": 1}"; this is JSON, ' + AS_TOML),
        ("<server/>", '1: invalid TOML: Invalid statement: "<server/>"; this is XML, ' + AS_TOML),
        ("[service.billing/v2]", f'1: {NO_HEADER}: "[service.billing/v2]"; write [service."billing/v2"]'),
        ("[samwise.exchange.a b]", f'1: {NO_HEADER}: "[samwise.exchange.a b]"; write [samwise.exchange."a b"]'),
        ("[server", f'1: {NO_HEADER}: "[server"; write [server]'),
        (
            "[log]\nlevel = None",
            '2: invalid TOML: Invalid value: "level = None"; an option without a value is left out',
        ),
        (
            "[log]\nlevel: debug",
            "2: invalid TOML: Expected '=' after a key in a key/value pair: \"level: debug\"; write level = VALUE, "
            "with the value as rsocket-broker check --options shows it",
        ),
        (
            "[server]\nlisten = [0.0.0.0:1]",
            '2: invalid TOML: Unclosed array: "listen = [0.0.0.0:1]"; '
            'a text needs quotes, as in "text", or ["text"] for a list',
        ),
        ("[a]\nb = .5", '2: invalid TOML: Invalid value: "b = .5"; a number is written as in 0.5'),
        (
            "export RSB_LOG__LEVEL=debug",
            "1: invalid TOML: Expected '=' after a key in a key/value pair: \"export RSB_LOG__LEVEL=debug\"; this is a "
            "variable of the environment, " + AS_TOML,
        ),
        ("[a]\nb = True", '2: invalid TOML: Invalid value: "b = True"; write true'),
        (
            "[server]\nstop_grace_s = 5s",
            f'2: {NO_END}: "stop_grace_s = 5s"; write 5, or "5s" where the option takes a text with a unit',
        ),
        ("[server]\nstop_grace_s = 5;", f'2: {NO_END}: "stop_grace_s = 5;"; leave out the ; at its end'),
        ("[server]\n; why", '2: invalid TOML: Invalid statement: "; why"; a comment begins with #'),
        (
            "[a]\nb = 1\nb = 2",
            '3: invalid TOML: Cannot overwrite a value: "b = 2"; b stands in line 2 already, leave one of them out',
        ),
    ],
)
def test_a_text_that_is_no_toml_is_told_with_its_line(folder: Path, text: str, sentence: str) -> None:
    assert mistakes_of(folder, text) == [f"broker.toml:{sentence}"]


def test_a_line_that_may_hold_a_secret_is_not_quoted(folder: Path) -> None:
    (line,) = mistakes_of(folder, '[cluster]\nsecret = "a: b')
    assert line == "broker.toml:2: invalid TOML: Unterminated string"
    (line,) = mistakes_of(folder, "[cluster]\nsecret = 15s")
    assert line == f"broker.toml:2: {NO_END}"


def test_a_mark_of_the_byte_order_is_no_part_of_the_text(folder: Path) -> None:
    assert mistakes_of(folder, "\ufeff[log]\nlevel = 1\n")[0].startswith("broker.toml:2: log.level: must be")


@pytest.mark.parametrize("text", ["[limits]\nmax_connections = " + "9" * 5000, "a = " + "[" * 5000])
def test_a_text_that_toml_chokes_on_is_a_mistake_as_well(folder: Path, text: str) -> None:
    (line,) = mistakes_of(folder, text)
    assert line.startswith("broker.toml:")


def test_keys_of_an_inline_table_have_the_line_of_the_table(folder: Path) -> None:
    assert mistakes_of(folder, '\nlog = { level = "loud" }\n') == [
        'broker.toml:2: log.level: must be "debug", "info", "warning" or "error", not "loud"'
    ]


def test_a_long_wrong_value_is_shortened() -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(None, {"RSB_LOG__LEVEL": "x" * 1000}, {})
    assert str(caught.value).endswith(f'not "{"x" * 78}…')

"""broker.config.toml: in which line a mistake stands, and how a wrong value is shown."""

from pathlib import Path

import pytest

from broker.config.load import ConfigErrors, load
from tests.broker.config.sources import mistakes_of


@pytest.mark.parametrize(
    "text, sentence",
    [
        (
            '[server]\nlisten ["tcp://a:1"]\n',
            '2: invalid TOML: Expected \'=\' after a key in a key/value pair: "listen [\\"tcp://a:1\\"]"',
        ),
        ("[log]\nlevel = \n", '2: invalid TOML: Invalid value: "level ="'),
        ('[log]\nlevel = "info', '2: invalid TOML: Unterminated string: "level = \\"info"'),
        ("[log]\n[log]\n", '2: invalid TOML: [log] stands in line 1 already, its keys belong there: "[log]"'),
        ("[log]\nlevel = debug\n", '2: invalid TOML: Invalid value; a text needs quotes: "level = debug"'),
        (
            "[server]\nlisten = [tcp://a:1]",
            '2: invalid TOML: Invalid value; a text needs quotes: "listen = [tcp://a:1]"',
        ),
        (
            "server:\n  workers: 1\n",
            "1: invalid TOML: Expected '=' after a key in a key/value pair; this looks like YAML, in TOML it is "
            '[server] or server = …: "server:"',
        ),
    ],
)
def test_a_text_that_is_no_toml_is_told_with_its_line(folder: Path, text: str, sentence: str) -> None:
    assert mistakes_of(folder, text) == [f"broker.toml:{sentence}"]


def test_a_line_that_may_hold_a_secret_is_not_quoted(folder: Path) -> None:
    (line,) = mistakes_of(folder, '[cluster]\nsecret = "a: b')
    assert line == "broker.toml:2: invalid TOML: Unterminated string"


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

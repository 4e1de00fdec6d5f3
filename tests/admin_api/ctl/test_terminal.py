"""What commands print: names with what they stand for, in whatever width a terminal has."""

import pytest

from admin_api.ctl.terminal import print_table
from tests.system.support.processes import run_python


def test_facts_are_folded_beside_their_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    facts = [("listens on", "tcp://127.0.0.1:7878 ws://127.0.0.1:7879"), ("note", ""), ("x\x1b", "y\x1b")]
    print_table((), facts)
    assert capsys.readouterr().out.splitlines() == [
        "listens on  tcp://127.0.0.1:7878",
        "            ws://127.0.0.1:7879",
        "note",
        "x\N{REPLACEMENT CHARACTER}          y\N{REPLACEMENT CHARACTER}",
    ]


def test_facts_do_without_the_library_for_tables() -> None:
    lines = "print_table((), [('state', 'ready')])\nprint('rich' in sys.modules)"
    done = run_python("-c", f"import sys\nfrom admin_api.ctl.terminal import print_table\n{lines}")
    assert done.stdout == "state  ready\nFalse\n"

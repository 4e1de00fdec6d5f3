"""What commands print: tables, and names with what they stand for; nothing is cut, whatever width a terminal has."""

import contextlib
import signal

import pytest
from rich.console import Console

from spark_sink.terminal import console_of, heeding_interruptions, print_facts, print_rows
from tests.system.support.processes import run_python

COLUMNS = ("service", "peer", ">requests")
ROW = ("orders", "tcp 127.0.0.1:43482", "1,234")


def printed(columns: tuple[str, ...], rows: list[tuple[str, ...]], width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        print_rows(console, columns, rows)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_table_stands_in_columns_where_it_fits() -> None:
    assert printed(COLUMNS, [ROW], 80) == [
        "service  peer                 requests",
        "──────────────────────────────────────",
        "orders   tcp 127.0.0.1:43482     1,234",
    ]


def test_cells_are_wrapped_between_words_where_that_makes_a_table_fit() -> None:
    assert printed(COLUMNS, [ROW], 35) == [
        "service  peer              requests",
        "───────────────────────────────────",
        "orders   tcp                  1,234",
        "         127.0.0.1:43482",
    ]


def test_rows_stand_one_below_the_other_where_a_table_would_be_cut() -> None:
    assert printed(COLUMNS, [ROW, ("carts", "unix", "7")], 30) == [
        "service   orders",
        "peer      tcp 127.0.0.1:43482",
        "requests  1,234",
        "",
        "service   carts",
        "peer      unix",
        "requests  7",
    ]


def test_rows_stand_one_below_the_other_where_a_cell_would_be_a_tower_of_words() -> None:
    why = "so many words that a narrow column of them would be read by nobody at all"
    assert printed(("limit", "why"), [("max_routes", why)], 30) == [
        "limit  max_routes",
        "why    so many words that a",
        "       narrow column of them",
        "       would be read by nobody",
        "       at all",
    ]


@pytest.mark.parametrize("width", range(20, 120, 7))
def test_no_word_is_cut_at_any_width(width: int) -> None:
    route_id = "00000000-0000-0000"
    lines = printed(("service", "route id", "tags", ">n"), [("orders", route_id, "region=eu canary", "1")], width)
    words = set("\n".join(lines).split())
    assert {"orders", route_id, "region=eu", "canary", "1"} <= words


def test_facts_are_folded_beside_their_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    facts = [("listens on", "tcp://127.0.0.1:7878 ws://127.0.0.1:7879"), ("note", ""), ("x\x1b", "y\x1b")]
    print_facts(facts)
    assert capsys.readouterr().out.splitlines() == [
        "listens on  tcp://127.0.0.1:7878",
        "            ws://127.0.0.1:7879",
        "note",
        "x\N{REPLACEMENT CHARACTER}          y\N{REPLACEMENT CHARACTER}",
    ]


def test_facts_do_without_the_library_for_tables() -> None:
    lines = "print_facts([('state', 'ready')])\nprint('rich' in sys.modules)"
    done = run_python("-c", f"import sys\nfrom spark_sink.terminal import print_facts\n{lines}")
    assert done.stdout == "state  ready\nFalse\n"


def test_a_reader_that_has_gone_is_for_the_command_to_tell() -> None:
    with pytest.raises(BrokenPipeError):
        console_of().on_broken_pipe()


def test_a_table_for_a_closed_output_is_printed_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    print_rows(console_of(), COLUMNS, [ROW])


def test_an_interruption_that_a_library_swallows_ends_the_work_all_the_same() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), heeding_interruptions(), contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interruption_of_which_a_library_makes_an_error_is_one() -> None:
    def query() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    with pytest.raises(KeyboardInterrupt), heeding_interruptions():
        query()

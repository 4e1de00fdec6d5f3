"""What people and programs see of a simulation."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from broker.commands.main import main
from rsocket_wire.wire.frames import SHARD
from rsocket_wire.wire.keys import SHARD_KEY
from spark_sink import terminal
from spark_sink.report import texts
from spark_sink.what_if.output import as_json, percent, print_simulation
from spark_sink.what_if.page import page_of
from spark_sink.what_if.question import Question
from tests.fakes import address
from tests.spark_sink.what_if.histories import History, asked, name_of
from tests.system.support.chromium import browser

SCRIPT = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    history = (
        History().start().join(1, "orders", zone="a").join(2, "orders", zone="b").join(3, "st\x1b[2Jock<b>", zone="b")
    )
    for number in range(10):
        history.ask(1 + number % 2, "orders")
        raw = address(SHARD, [(SHARD_KEY, "user")], service="st\x1b[2Jock<b>", user=str(number))
        history.ask(3, "st\x1b[2Jock<b>", raw, routing="shard")
    history.ask(0, "billing")
    return history.write(tmp_path / "events")


def printed(folder: Path, question: Question) -> str:
    out = io.StringIO()
    print_simulation(asked(folder, question), Console(file=out, width=140))
    return out.getvalue()


def test_a_terminal_shows_both_side_by_side(folder: Path) -> None:
    text = printed(folder, Question(without=(("zone", "b"),)))
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    assert lines[0] == "What if: without zone=b"
    assert "With the real settings the replay reproduces 21 of 21 real choices (100.0 %)." in lines
    assert "orders 2 1 10 10 1.00 1.00 0.000 0.000 1 1" in lines
    assert f"orders {name_of(1)} 5 10 50.0 % 100.0 % 1 1" in lines  # its first digits are those of the others
    assert f"orders {name_of(2)} 5 0 50.0 % 0.0 % 1 0" in lines
    assert "refused, no route 1 1 100.0 %" in lines
    assert any(line.endswith("10 10 100.0 % 10 10 100.0 %") for line in lines)  # keys that have moved: nobody is there


def test_names_of_strangers_do_nothing_to_a_terminal(folder: Path) -> None:
    text = printed(folder, Question())
    assert "\x1b" not in text
    assert "st\N{REPLACEMENT CHARACTER}[2Jock<b>" in text


def test_json_has_the_same_numbers(folder: Path) -> None:
    found = as_json(asked(folder, Question(without=(("zone", "b"),))))
    assert found["services"][0] == {
        "service": "orders",
        "real": {"routes": 2, "requests": 10, "max_over_mean": 1.0, "gini": 0.0, "peak_in_flight": 1},
        "simulated": {"routes": 1, "requests": 10, "max_over_mean": 1.0, "gini": 0.0, "peak_in_flight": 1},
        "routes": [
            {
                "route_id": name_of(1),
                "is_copy": False,
                "real": {"requests": 5, "peak_in_flight": 1},
                "simulated": {"requests": 10, "peak_in_flight": 1},
            },
            {
                "route_id": name_of(2),
                "is_copy": False,
                "real": {"requests": 5, "peak_in_flight": 1},
                "simulated": {"requests": 0, "peak_in_flight": 0},
            },
        ],
    }
    assert found["reproduced"]["choices"] == found["reproduced"]["same"] == 21
    assert found["unroutable"] == {"st\x1b[2Jock<b>": {"service=st\x1b[2Jock<b>": 10}}
    json.dumps(found)


def test_a_page_works_alone_and_escapes_names(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    simulation = asked(folder, Question(without=(("zone", "b"),)))
    (tmp_path / "page.html").write_text(page_of(simulation), encoding="utf-8")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    plots = text[text.index("</script>") :]  # behind plotly's own program
    assert not re.search(r'(src|href)="?(https?:)?//', plots)
    assert "Jock<b>" not in plots.replace("\\u003c", "<").replace("\\u003e", ">")
    assert "<h2>Routes of orders</h2>" in plots
    assert "<h2>Requests that would find no route</h2>" in plots
    assert plots.count('class="plotly-graph-div"') == 5
    assert {f"'sha256-{digest_of(script)}'" for script in SCRIPT.findall(text)} == set(policy_of(text).split()[8:])


def policy_of(page: str) -> str:
    """`default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src` and the hashes."""
    found = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert found is not None
    assert found.start() < page.index("<script")
    return html.unescape(found[1])


def digest_of(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def test_routes_are_called_alike_by_the_report_and_by_what_if() -> None:
    ids = ["49fa8fbb-0000-4000-8000-0000c6097a46", "5e0a77d1-0000-4000-8000-0000c6097a46", name_of(1), name_of(2)]
    names = dict(zip(ids, ("49fa8fbb", "5e0a77d1", name_of(1), name_of(2)), strict=True))
    assert (terminal.short_ids(ids), texts.short_ids(ids)) == (names, names)
    assert terminal.short_ids(["\x1b[2J"]) == {"\x1b[2J": "\N{REPLACEMENT CHARACTER}[2J"}
    assert texts.short_ids([""]) == {"": "-"}


@pytest.mark.interop
@pytest.mark.slow
async def test_the_page_is_drawn_under_its_policy_and_asks_nobody(
    folder: Path, needs_chromium: str, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_of(asked(folder, Question(without=(("zone", "b"),)))), encoding="utf-8")
    plots = "[...document.querySelectorAll('.plotly-graph-div')]"
    drawn = f"{plots}.filter((plot) => plot.querySelector('.mlayer path') != null).length == 5"
    async with browser(needs_chromium, tmp_path / "browser") as page:
        await page.open(path.as_uri(), drawn)
        assert page.errors == []
        assert {url for url in page.requests if not url.startswith("data:")} == {path.as_uri()}
        assert not await page.obeys_scripts()


def test_nearly_all_is_not_all() -> None:
    assert [percent(*pair) for pair in ((1, 0), (0, 9), (9, 9), (99_999, 100_000), (1, 100_000), (1, 8))] == [
        "-", "0.0 %", "100.0 %", "99.9 %", "0.1 %", "12.5 %",
    ]  # fmt: skip


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["simulate", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_prints_json(folder: Path) -> None:
    code, out, _ = run("--events", str(folder), "--no-spark", "--json", "--chooser", "p2c", "--since", "2023-11-14")
    assert code == 0
    assert json.loads(out)["question"] == "chooser p2c"


def test_the_command_writes_a_page(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    code, out, _ = run("--events", str(folder), "--no-spark", "--html", str(tmp_path / "page.html"))
    assert code == 0
    assert out.endswith(f"written to {tmp_path / 'page.html'}\n")
    nowhere = tmp_path / "no" / "page.html"
    code, _, err = run("--events", str(folder), "--no-spark", "--html", str(nowhere))
    assert (code, err) == (2, f"{nowhere} cannot be written: no such file or directory\n")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--no-spark"], "give either --events or --tables"),
        (["--events", "a", "--tables", "b"], "give either --events or --tables"),
        (["--events", "nowhere", "--no-spark"], "there is no events folder nowhere"),
        (["--events", __file__, "--no-spark"], f"{__file__} is a file: name the folder of events"),
        (["--events", "nowhere"], "there is no events folder nowhere"),
        (["--tables", "nowhere"], "nowhere holds no tables"),
        (["--events", ".", "--no-spark"], ". is no folder of events"),
        (["--events", ".", "--no-spark", "--chooser", "best"], "unknown chooser 'best'"),
        (["--events", ".", "--no-spark", "--shard", "best"], "unknown shard method 'best'"),
        (["--events", ".", "--no-spark", "--without", "b"], "'b' is not a tag"),
        (["--events", ".", "--no-spark", "--since", "noon"], "--since': 'noon' is not a time"),
        (["--events", ".", "--no-spark", "--copies", "101"], "101 is not in the range 1<=x<=100"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err


def test_a_segment_that_is_none_is_named(folder: Path) -> None:
    (folder / "requests" / "bad-1-0000000009.parquet").write_bytes(b"PAR1")
    code, out, _ = run("--events", str(folder), "--no-spark")
    assert code == 0
    assert "bad-1-0000000009.parquet is passed over: it is no whole Parquet file" in out

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker.commands.main import main
from spark_sink.errors import SinkError
from spark_sink.timestamps import moment_at, moment_text
from tests.spark_sink.time_travel.histories import History, write_segments
from tests.spark_sink.time_travel.tables import write_tables

A, B, C = (f"00000000-0000-0000-0000-00000000000{digit}" for digit in "abc")
ID = "7f3a0000-0000-4000-8000-000000000001"
OTHER = "7f3a0000-0000-4000-8000-000000000002"


def sample() -> History:
    """A is there from noon on, the B of another broker from 12:00:10; A has other tags from 12:00:30 on."""
    history = History(name="one")
    own = [("io.rsocket.routing.ServiceName", "orders"), ("io.rsocket.routing.RouteId", A)]
    history.join(A, "orders", [("io.rsocket.routing.Zone", "a"), ("bad\x1b[31m", "[red]"), *own], "tcp 10.0.0.4:5123")
    history.at_ms += 10_000
    history.join(B, "stock", [("zone", "b")], f"broker {OTHER}")
    history.snapshot()
    history.at_ms += 20_000
    history.change(A, [("io.rsocket.routing.Zone", "c"), *own])
    history.at_ms += 10_000
    history.flow()
    return history


def run(*options: str) -> Result:
    return CliRunner(env={"COLUMNS": "250"}).invoke(main, ["table", *options])


@pytest.fixture
def events(tmp_path: Path) -> str:
    write_segments(tmp_path / "events", sample())
    return str(tmp_path / "events")


def test_table_shows_routes_as_they_were_and_what_the_digest_says(events: str) -> None:
    result = run("--events", events, "--at", "2023-11-15 12:00:20")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == f"broker one ({ID}), run 1700000000000, at 2023-11-15 12:00:20 UTC: 2 routes, running"
    assert lines[1] == "made from a snapshot of 2023-11-15 12:00:10 up to record 6 of 2023-11-15 12:00:10"
    assert lines[2].endswith(": equal to the broker's own of 2023-11-15 12:00:10 (10 s before)")
    rows = [line.split() for line in lines if line.startswith(("orders ", "stock "))]
    assert rows[0][:3] == ["orders", A, "Zone=a"]
    assert "bad�[31m=[red]" in result.stdout
    assert rows[1] == ["stock", B, "zone=b", "2023-11-15", "12:00:10", "10", "s", OTHER, "-", "0"]
    assert "\x1b" not in result.stdout


def test_only_routes_that_are_asked_for_are_shown(events: str) -> None:
    at = ("--events", events, "--at", "2023-11-15 12:00:20")
    for options, shown in (
        (("--service", "stock"), [B]),
        (("--tag", "zone=a"), [A]),
        (("--tag", "io.rsocket.routing.Zone=a", "--tag", "zone=b"), []),
    ):
        body = json.loads(run(*at, *options, "--json").stdout)
        assert [route["route_id"] for route in body["routes"]] == shown
        assert body["verdict"] == "equal"
    assert "1 of 2 routes are shown." in run(*at, "--service", "stock").stdout
    assert "none of the 2 routes matches" in run(*at, "--service", "none").stdout


def test_tag_without_a_value_is_refused(events: str) -> None:
    result = run("--events", events, "--tag", "zone")
    assert result.exit_code == 2
    assert "'zone' is not a tag: write it as name=value" in result.stderr


def test_json_has_all_of_it(events: str) -> None:
    body = json.loads(run("--events", events, "--at", "2023-11-15T12:00:20Z", "--json").stdout)
    assert body["broker"] == {"id": ID, "name": "one", "epoch": 1_700_000_000_000, "life": "running"}
    assert (body["is_complete"], body["gaps"], body["problems"], body["notes"]) == (True, [], [], [])
    assert body["routes"][1] == {
        "route_id": B,
        "service": "stock",
        "tags": {"zone": "b"},
        "peer": f"broker {OTHER}",
        "broker_id": OTHER,
        "joined_at": "2023-11-15T12:00:10+00:00",
        "uptime_ms": 10_000,
        "requests": 0,
        "requests_at": "2023-11-15T12:00:10+00:00",
    }


def test_diff_of_two_moments(events: str) -> None:
    options = ("--events", events, "--at", "2023-11-15 12:00:05", "--diff", "2023-11-15 12:00:35")
    text = run(*options).stdout
    assert [line.split()[:4] for line in text.splitlines() if line.startswith(("+ ", "~ "))] == [
        ["+", "joined", "stock", B],
        ["~", "changed", "orders", A],
    ]
    assert "Zone=a bad�[31m=[red] → Zone=c" in text
    assert "1 joined, 1 changed" in text
    body = json.loads(run(*options, "--json", "--service", "orders").stdout)
    assert [len(body[word]) for word in ("joined", "left", "replaced", "changed")] == [0, 0, 0, 1]
    same = run("--events", events, "--at", "2023-11-15 12:00:05", "--diff", "2023-11-15 12:00:06")
    assert "no difference" in same.stdout


def test_tables_do_as_well(tmp_path: Path) -> None:
    write_tables(tmp_path, sample())
    result = run("--tables", str(tmp_path), "--at", "2023-11-15 12:00:20")
    assert "2 routes, running" in result.stdout


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    history = sample()
    write_segments(tmp_path, history, [row for row in history.rows if row.seq not in (4, 8)])
    text = run("--events", str(tmp_path), "--at", "2023-11-15 12:00:30").stdout
    assert "INCOMPLETE: records are missing between the start and the instant" in text
    assert "  record 4: missing\n  record 8: missing\n" in text


def test_of_a_history_without_its_beginning_is_said_when_it_begins(tmp_path: Path) -> None:
    history = sample()
    write_segments(tmp_path, history, [row._replace(seq=row.seq - 6) for row in history.rows if row.seq > 6])
    text = run("--events", str(tmp_path), "--at", "2023-11-15 12:00:30").stdout
    assert "made from the first record that is there of 2023-11-15 12:00:30" in text
    assert (
        "INCOMPLETE: the beginning is missing, so routes may be missing\n"
        "  the history begins at 2023-11-15 12:00:30: neither BrokerStarted nor a whole snapshot is there\n"
    ) in text
    assert "passed over" not in text


def test_now_is_the_default(tmp_path: Path) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1000) - 30_000
    history = History(at_ms=now_ms)
    history.join(A, "orders", [], "unix")
    write_segments(tmp_path, history)
    text = run("--events", str(tmp_path)).stdout
    assert "1 route, no later record" in text
    assert f"nothing newer is there: its last record is of {moment_text(moment_at(now_ms * 1000))}" in text


@pytest.mark.parametrize("option", ["--at", "--diff"])
def test_what_is_no_moment_is_a_bad_option(events: str, option: str) -> None:
    result = run("--events", events, option, "noon")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Invalid value for '{option}': 'noon' is not a time; write" in result.stderr


@pytest.mark.parametrize(
    ("options", "text", "status"),
    [
        (("--at", "2020-01-01"), "nothing is known of broker one", 2),
        (("--broker", "two"), f"there is no broker 'two'; there are broker one ({ID})", 2),
        (("--epoch", "3"), "has no run 3", 2),
    ],
)
def test_what_is_not_known_is_one_sentence(events: str, options: tuple[str, ...], text: str, status: int) -> None:
    result = run("--events", events, *options)
    assert (result.exit_code, result.stderr.count("\n"), result.stdout) == (status, 1, "")
    assert text in result.stderr


def test_folders_must_be_one_of_two(tmp_path: Path) -> None:
    for options in ((), ("--events", str(tmp_path), "--tables", str(tmp_path))):
        result = run(*options)
        assert result.exit_code == 2
        assert "give either --events DIR or --tables DIR" in result.stderr
    assert "is no folder of events" in run("--events", str(tmp_path)).stderr


def test_spark_reads_where_it_is_asked_to(events: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def no_session(master: str, name: str) -> None:
        opened.append((master, name))
        raise SinkError("no Spark here")

    monkeypatch.setattr("spark_sink.session.open_session", no_session)
    for options in (("--spark",), ("--master", "spark://x:1")):
        assert run("--events", events, *options).stderr == "no Spark here\n"
    assert opened == [("local[2]", "rsocket-broker table"), ("spark://x:1", "rsocket-broker table")]

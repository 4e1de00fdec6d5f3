"""The report's numbers against plain Python, from tables written without Spark."""

import io
import math
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from broker.events import EVENTS_DROPPED, FlowRecord, LifecycleEvent, bucket_of
from spark_sink.errors import BadFolder
from spark_sink.publishing import publish
from spark_sink.report import Report, Section, build_report, markdown_report, print_report
from spark_sink.tables import CALLERS, FAILED_OUTCOMES, LIFECYCLE, PARTIALS, TRAFFIC, Partial, table_schema
from tests.spark_sink.records import NOON_MS, Event, events, tables
from tests.spark_sink.reference import CALLER_KEYS, TRAFFIC_KEYS, Groups, of_records

PARTIAL = {partial.name: partial for partial in PARTIALS}


def partial_table(partial: Partial, groups: Groups) -> pa.Table:
    names = [column.name for column in partial.keys]
    rows = [
        dict(zip(names, key, strict=True))
        | made.sums
        | {"latency_max_us": made.max}
        | {"latency_buckets": sorted(made.histogram), "latency_counts": [n for _, n in sorted(made.histogram.items())]}
        for key, made in groups.items()
    ]
    return pa.Table.from_pylist(rows, schema=table_schema(partial.name))


def make_tables(folder: Path, records: list[Event], batch: int = 0) -> None:
    """What the pipeline would make of one batch."""
    name = f"batch-{batch:010d}.parquet"
    traffic = of_records(records, TRAFFIC_KEYS, with_histogram=True)
    publish(folder, TRAFFIC, name, partial_table(PARTIAL[TRAFFIC], traffic))
    callers = of_records(records, CALLER_KEYS, with_histogram=False)
    publish(folder, CALLERS, name, partial_table(PARTIAL[CALLERS], callers))
    made = tables(records)
    if LIFECYCLE in made:
        publish(folder, LIFECYCLE, name, made[LIFECYCLE])


def section(report: Report, title: str) -> list[list[str]]:
    [found] = [one for one in report.sections if one.title == title]
    return found.rows


def latencies_of(report: Report, service: str, model: str) -> list[str]:
    [row] = [row for row in section(report, "Traffic per service and model") if row[:2] == [service, model]]
    return row[4:]


def test_traffic_adds_up_over_batches_to_the_last_request(tmp_path: Path) -> None:
    first, second = events(1, 300), events(2, 200, NOON_MS + 86_400_000, first_seq=301)
    make_tables(tmp_path, first)
    make_tables(tmp_path, second, batch=1)
    flows = [record for record in [*first, *second] if isinstance(record, FlowRecord)]
    expected = []
    for service, model in sorted({(flow.service, flow.model) for flow in flows}):
        mine = [flow for flow in flows if (flow.service, flow.model) == (service, model)]
        failed = sum(flow.requests for flow in mine if flow.outcome in FAILED_OUTCOMES)
        expected.append([service, model, f"{sum(flow.requests for flow in mine):,}", f"{failed:,}"])
    report = build_report(tmp_path)
    assert [row[:4] for row in section(report, "Traffic per service and model")] == expected
    total = sum(flow.requests for flow in flows)
    assert report.headline.startswith(f"{total:,} requests through 1 broker, 2023-11-15 ")


def test_outcomes_add_up_to_all_requests(tmp_path: Path) -> None:
    records = events(1, 300)
    make_tables(tmp_path, records)
    rows = section(build_report(tmp_path), "Outcomes")
    counts = {(row[0], row[1]): int(row[2].replace(",", "")) for row in rows}
    expected: dict[tuple[str, str], int] = {}
    for record in records:
        if isinstance(record, FlowRecord):
            key = (record.outcome, record.word or "-")
            expected[key] = expected.get(key, 0) + record.requests
    assert counts == expected
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    assert sum(float(row[3].removesuffix(" %")) for row in rows) == pytest.approx(100, abs=0.05)


def one_flow(latencies: list[int], seq: int = 1) -> FlowRecord:
    counts: dict[int, int] = {}
    for latency in latencies:
        counts[bucket_of(latency)] = counts.get(bucket_of(latency), 0) + 1
    names = ("", "", "r", "orders", "service=orders", "request_response", "unicast", "completed", "", "")
    numbers = (len(latencies), len(latencies), 0, 0, 0, 0, sum(latencies), max(latencies))
    return FlowRecord(seq, NOON_MS, 1000, *names, *numbers, sorted(counts.items()), "")


def test_percentiles_are_of_all_requests_and_not_of_batches(tmp_path: Path) -> None:
    fast, slow = [100] * 98, [50_000, 80_000]
    make_tables(tmp_path, [one_flow(fast)])
    make_tables(tmp_path, [one_flow(slow, seq=2)], batch=1)
    p50, p99, largest = latencies_of(build_report(tmp_path), "orders", "request_response")
    truth = sorted(fast + slow)
    assert float(p50.removesuffix(" µs")) == pytest.approx(truth[49], rel=1 / 32)
    assert float(p99.removesuffix(" ms")) * 1000 == pytest.approx(truth[math.ceil(0.99 * 100) - 1], rel=1 / 32)
    assert largest == "80.00 ms"


def test_percentile_is_never_beyond_the_slowest(tmp_path: Path) -> None:
    make_tables(tmp_path, [one_flow([65])])  # the first of the values 65 and 64 that share a bucket of 64 to 67
    assert latencies_of(build_report(tmp_path), "orders", "request_response") == ["65 µs", "65 µs", "65 µs"]


def test_top_callers_are_the_ten_with_most_requests(tmp_path: Path) -> None:
    flows: list[Event] = []
    for number in range(1, 15):
        flow = one_flow([10] * number, seq=number)
        values = list(flow.row()[1:])
        values[3], values[4] = f"{number:08d}-rest-of-the-id", "web"
        flows.append(FlowRecord(*values))  # type: ignore[arg-type]
    make_tables(tmp_path, flows)
    [callers] = [one for one in build_report(tmp_path).sections if one.title == "Top callers"]
    assert [(row[1], row[3]) for row in callers.rows] == [(f"{n:08d}", str(n)) for n in range(14, 4, -1)]
    assert callers.note == "10 of 14 are shown."


def test_missing_records_are_said(tmp_path: Path) -> None:
    dropped = LifecycleEvent(EVENTS_DROPPED, 9, NOON_MS, tags=[("records", "120"), ("first_seq", "1")])
    make_tables(tmp_path, [*events(1, 8), dropped])
    [made] = [one for one in build_report(tmp_path).sections if one.title == "Lifecycle events"]
    assert made.note.startswith("120 records are missing")


def test_tables_without_traffic_or_without_lifecycle_are_enough(tmp_path: Path) -> None:
    make_tables(tmp_path / "a", [LifecycleEvent(1, 1, NOON_MS)])
    make_tables(tmp_path / "b", [one_flow([5])])
    headlines = [build_report(tmp_path / folder).headline for folder in "ab"]
    assert headlines == [
        "0 requests through 1 broker, 2023-11-15 12:00:00 to 2023-11-15 12:00:00 UTC",
        "1 request through 1 broker, 2023-11-15 11:59:00 to 2023-11-15 11:59:00 UTC",
    ]


def test_file_that_is_no_table_is_one_sentence(tmp_path: Path) -> None:
    make_tables(tmp_path, events(1, 20))
    (tmp_path / TRAFFIC / "date=2023-11-15" / "foreign.parquet").write_text("no parquet")
    with pytest.raises(BadFolder, match="table traffic") as raised:
        build_report(tmp_path)
    assert "\n" not in str(raised.value)


def test_terminal_and_markdown_hold_every_cell(tmp_path: Path) -> None:
    make_tables(tmp_path, events(1, 100))
    report = build_report(tmp_path)
    out = io.StringIO()
    print_report(report, Console(file=out, width=200))
    markdown = markdown_report(report)
    for one in report.sections:
        assert f"## {one.title}" in markdown
        for row in one.rows:
            assert all(cell in out.getvalue() for cell in row)
            assert f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" in markdown


def test_names_of_strangers_cannot_steer_the_terminal_or_the_page() -> None:
    report = Report("x", [Section("t", ["name"], [], [["\x1b[31m[bold]<b>\n|"]])])
    out = io.StringIO()
    print_report(report, Console(file=out, width=80))
    assert "\x1b" not in out.getvalue()
    assert "[31m[bold]<b>" in out.getvalue()
    assert "[31m[bold]&lt;b>\N{REPLACEMENT CHARACTER}\\|" in markdown_report(report)

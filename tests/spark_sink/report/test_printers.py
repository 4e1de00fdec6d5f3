"""What a person reads: every number in its cell, at most 100 columns, and nothing that a name can steer."""

import io
import re
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from spark_sink.report import texts
from spark_sink.report.chapters import chapters, headline, warning
from spark_sink.report.facts import Facts, read_facts
from spark_sink.report.printers import WIDTH, markdown_report, print_report
from spark_sink.report.section import Section
from tests.spark_sink.report import reference
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import NOON, Made, event_row, traffic_row, write

EVIL = "\x1b[31m[bold]</script><img src=x onerror=alert(1)>\n|`*\u202e"


def printed(facts: Facts, width: int = WIDTH) -> str:
    out = io.StringIO()
    print_report(facts, Console(file=out, width=width))
    return out.getvalue()


def section(facts: Facts, title: str) -> Section:
    [found] = [one for chapter in chapters(facts) for one in chapter.sections if one.title == title]
    return found


def numbers_in(text: str) -> list[int]:
    return [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", text)]


def test_headline_tells_the_numbers_of_the_facts(case: Case) -> None:
    told = {one.label: one for one in headline(case.facts)}
    rows = case.rows["traffic"]
    total, failed = sum(map(reference.requests, rows)), sum(map(reference.errors, rows))
    assert told["requests"].value == f"{total:,}"
    assert (told["errors"].value, told["errors"].note) == (f"{failed:,}", f"{100 * failed / total:.2f} %")
    assert case.facts.traffic.latencies.all_us is not None
    assert told["p99"].value == texts.latency_of(case.facts.traffic.latencies.all_us[2])
    counts = reference.sums(rows, ["service"], reference.requests)
    [busiest] = reference.top(counts, 1)
    assert (told["busiest service"].value, told["busiest service"].note) == (
        busiest[0] or "-",
        f"{texts.share_of(counts[busiest], total)} of the requests",
    )
    assert (told["brokers"].value, told["gaps"].value) == ("4", "5")
    assert told["gaps"].is_bad
    missing = sum(row["records"] for row in case.rows["gaps"])
    lost = sum(row["requests"] for row in case.rows["gaps"])
    assert numbers_in(warning(case.facts))[:3] == [5, missing, lost]


def test_tables_hold_the_numbers_of_the_facts(case: Case) -> None:
    """Each number that a section shows, read back from its cell."""
    facts = case.facts
    traffic = section(facts, "Requests per service and model")
    assert [(row[0], row[1], numbers_in(row[2]), numbers_in(row[3])) for row in traffic.rows] == [
        (one.service or "-", one.model, [one.requests], [one.errors]) for one in facts.traffic.rows
    ]
    for row, one in zip(traffic.rows, facts.traffic.rows, strict=True):
        assert row[4:8] == [texts.latency_of(us) for us in one.latencies_us or (None,) * 4]
    volume = section(facts, "Payloads and bytes")
    assert [row[2:] for row in volume.rows] == [
        [f"{one.sizes[0]:,}", f"{one.sizes[1]:,}", texts.bytes_of(one.sizes[2]), texts.bytes_of(one.sizes[3])]
        for one in facts.traffic.rows
    ]
    busiest = section(facts, "Busiest services").rows
    assert sum(numbers_in(row[1])[0] for row in busiest) == facts.traffic.requests
    outcomes = section(facts, "Outcomes").rows
    assert [numbers_in(row[2])[0] for row in outcomes] == [one.requests for one in facts.traffic.outcomes]
    assert sum(float(row[3].removesuffix(" %")) for row in outcomes) == pytest.approx(100, abs=0.05)
    balance = section(facts, "Requests per route").rows
    assert [(numbers_in(row[2])[0], row[6], row[7]) for row in balance] == [
        (one.routes, f"{one.max_per_mean:.2f}", f"{one.gini:.3f}") for one in facts.balances.rows
    ]
    fanout = section(facts, "Multicast fan-out").rows
    assert [(numbers_in(row[1])[0], row[2]) for row in fanout] == [
        (one.multicasts, f"{one.branches / one.multicasts:.2f}") for one in facts.fanouts.rows
    ]
    callers = section(facts, "Top callers").rows
    assert [(numbers_in(row[3])[0], numbers_in(row[4])[0]) for row in callers] == [
        (one.requests, one.errors) for one in facts.callers.rows
    ]
    rejected = section(facts, "Rejected requests").rows
    assert [numbers_in(row[5])[0] for row in rejected] == [one.requests for one in facts.rejections.rows]
    brokers = section(facts, "Brokers").rows
    assert [numbers_in(row[5])[0] for row in brokers] == [one.requests for one in facts.cluster.brokers]
    links = section(facts, "Brokers and links").rows
    assert [(row[2] == "up", numbers_in(row[3])[0]) for row in links] == [
        (link.is_up, link.ups) for link in facts.cluster.links
    ]
    flapping = section(facts, "Flapping routes").rows
    assert [numbers_in(row[2])[0] for row in flapping] == [len(one.ends_us) for one in facts.lifetimes.flapping]
    lifetimes = section(facts, "Route lifetimes per service").rows
    assert [[numbers_in(cell)[0] for cell in row[1:5]] for row in lifetimes] == [
        [one.routes, one.open, one.ended, one.short] for one in facts.lifetimes.services
    ]


def test_tables_over_time_add_up(case: Case) -> None:
    facts = case.facts
    made = {one.plot: one for chapter in chapters(facts) for one in chapter.sections if one.plot}
    for name, columns in (("services", slice(1, None)), ("outcomes", slice(1, -1))):
        cells = [cell for row in made[name].rows for cell in row[columns]]
        assert sum(numbers_in(cell)[0] for cell in cells) == facts.traffic.requests
    assert len(made["percentiles"].rows) == len(made["p99"].rows) == facts.traffic.bins.count
    assert len(made["routes"].rows) == facts.cluster.bins.count
    counted = sum(numbers_in(row[2])[0] for row in made["fanout-counts"].rows)
    assert counted == sum(count for one in facts.fanouts.rows for _, count in one.counts)
    assert len(made["stays"].rows) == sum(len(route.lifetimes) for route in facts.lifetimes.shown)


def test_rows_that_are_left_out_are_said(case: Case) -> None:
    facts = case.facts
    for title, shown, total in (
        ("Requests per service and model", len(facts.traffic.rows), facts.traffic.row_count),
        ("Requests per route", len(facts.balances.rows), facts.balances.count),
        ("Top callers", len(facts.callers.rows), facts.callers.count),
        ("Rejected requests", len(facts.rejections.rows), facts.rejections.count),
    ):
        assert shown < total
        assert f"{shown} of {total:,} row" in section(facts, title).note
    assert f"40 of {facts.lifetimes.route_count} routes are shown." in section(facts, "Route lifetimes").note


def test_terminal_fits_100_columns_and_tells_the_headline(case: Case) -> None:
    text = printed(case.facts)
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    for one in headline(case.facts):
        assert one.value in text
    assert warning(case.facts)[:60] in text
    assert re.search("[▁▂▃▄▅▆▇█]{20}", text)


def test_long_names_do_not_break_the_terminal(tmp_path: Path) -> None:
    rows = Made(6).rows
    for mine in rows.values():
        for row in mine:
            row |= {name: "x" * 150 + row[name][-20:] for name in ("service", "address", "detail") if name in row}
    write(tmp_path, rows)
    text = printed(read_facts(tmp_path))
    assert max(len(line) for line in text.splitlines()) <= WIDTH


def test_markdown_holds_every_row(case: Case) -> None:
    text = markdown_report(case.facts)
    for chapter in chapters(case.facts):
        assert f"\n## {chapter.title}\n" in text
    for row in section(case.facts, "Requests per service and model").rows:
        cells = [re.sub(r"([\\`*_\[\]|])", r"\\\1", cell).replace("<", "&lt;") for cell in row]
        assert f"\n| {' | '.join(cells)} |\n" in text
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("| great")}
    assert len(widths) <= 1


def test_names_of_strangers_steer_neither_terminal_nor_markdown(tmp_path: Path) -> None:
    event = event_row("LinkDown", detail=EVIL, reason=EVIL) | {"broker_name": EVIL}
    write(tmp_path, {"traffic": [traffic_row(EVIL, route_id=EVIL)], "lifecycle": [event]})
    facts = read_facts(tmp_path)
    text, markdown = printed(facts, 200), markdown_report(facts)
    for forbidden in ("\x1b", "\u202e"):
        assert forbidden not in text + markdown
    assert "[31m[bold]</script>" in text
    assert "<" not in markdown
    assert all(re.fullmatch(r"(\|([^|\\]|\\.)*)+\|", line) for line in markdown.splitlines() if line.startswith("|"))


def test_heads_are_the_names_as_they_are(tmp_path: Path) -> None:
    """`>` before a head says that its column has numbers."""
    minutes = (NOON, NOON + timedelta(minutes=1))
    write(tmp_path, {"traffic": [traffic_row(">a | b = c(d)", route_id="r", minute=minute) for minute in minutes]})
    facts = read_facts(tmp_path, tag=">zone")
    assert section(facts, "Requests per minute and service").columns == ["from (UTC)", ">a | b = c(d)", "others"]
    by_tag = section(facts, "Requests by >zone")
    assert (by_tag.columns[0], by_tag.numeric[0]) == (">zone", "routes")


def test_nothing_is_said_in_a_sentence(tmp_path: Path) -> None:
    write(tmp_path, {"callers": Made(5).rows["callers"]})
    assert printed(read_facts(tmp_path)) == "The tables hold no records.\n"
    later = read_facts(tmp_path, NOON.replace(year=2030))
    assert printed(later) == "The tables hold no records since 2030-11-20 12:00:00 UTC.\n"
    assert "no records since 2030" in markdown_report(later)


def test_sections_without_rows_say_so(tmp_path: Path) -> None:
    write(tmp_path, {"lifecycle": [event_row("BrokerStarted")]})
    facts = read_facts(tmp_path)
    text = printed(facts)
    assert "No requests are recorded." in text
    assert "No gap is known" in text
    for chapter in chapters(facts):
        for one in chapter.sections:
            assert one.rows or one.nothing


@pytest.mark.parametrize(
    "told, expected",
    [
        (texts.latency_of(None), "-"),
        (texts.latency_of(999), "999 µs"),
        (texts.latency_of(1000), "1.00 ms"),
        (texts.latency_of(2_500_000), "2.50 s"),
        (texts.duration_of(59_999), "60.0 s"),
        (texts.duration_of(61_000), "1 min 1 s"),
        (texts.duration_of(2 * 3_600_000), "2 h 0 min"),
        (texts.duration_of(50 * 3_600_000), "2 d 2 h"),
        (texts.bytes_of(1023), "1023 B"),
        (texts.bytes_of(1 << 20), "1.0 MiB"),
        (texts.bytes_of(5 << 50), "5120.0 TiB"),
        (texts.share_of(1, 3), "33.33 %"),
        (texts.share_of(0, 0), "0.00 %"),
        (texts.step_of(60), "minute"),
        (texts.step_of(7200), "2 hours"),
        (texts.step_of(28 * 86_400), "28 days"),
        (texts.length_of(60), "1 minute"),
        (texts.length_of(300), "5 minutes"),
        (texts.plain("grüße\t你好\x7f"), "grüße\N{REPLACEMENT CHARACTER}你好\N{REPLACEMENT CHARACTER}"),
        (texts.shortened("abcdefghij", 5), "ab…ij"),
        (texts.shortened("abcde", 5), "abcde"),
        (texts.sparkline([0, 1, 7], 10), "▁▂█"),
        (texts.sparkline([1, 1, 7, 7], 2), "▂█"),
        (texts.sparkline([0, 0], 10), "▁▁"),
        (texts.sparkline([3], 10), ""),
    ],
)
def test_texts(told: str, expected: str) -> None:
    assert told == expected

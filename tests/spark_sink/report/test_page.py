"""The page without a browser: names are harmless, no host is asked, plots are as plotly wants them."""

import base64
import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from spark_sink.report.chapters import chapters, headline
from spark_sink.report.facts import Facts, read_facts
from spark_sink.report.figures import COLOURS, label, latency_axis
from spark_sink.report.page import html_report
from spark_sink.report.routes.plots import END_COLOURS, STATE_COLOURS
from spark_sink.report.traffic.plots import OUTCOME_COLOURS, PERCENTILE_COLOURS
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import NOON, Made, Rows, event_row, histogram, traffic_row, write

EVIL = "</script><img src=x onerror=alert(1)>"
TAGS = """
html head meta title style body header h1 p a dl div dt dd nav ul li main section h2 figure figcaption h3
details summary table thead tr th tbody td footer code script noscript
"""
PLOTS = [
    *("services", "outcomes", "errors", "percentiles", "latencies", "p99", "instances", "balance", "fanouts"),
    *("fanout-counts", "stays", "flapping", "callers", "tags", "words", "cluster", "routes", "loads"),
]
FIELDS = "x y y:, x:, y:.2f x:.2f text hovertext customdata customdata:,"  # of templates
MADE_AT = datetime(2026, 11, 22, 21, 0, tzinfo=UTC)


class TableReader(HTMLParser):
    """What a browser would find in the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.cells: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts[-1] += data
        elif self._open and self._open[-1] in ("td", "dd"):
            self.cells.append(data)


def page_of(facts: Facts) -> TableReader:
    return TableReader(html_report(facts, MADE_AT))


def plots_of(facts: Facts) -> dict[str, Any]:
    plots: dict[str, Any] = json.loads(page_of(facts).scripts[0])
    return plots


def evil_facts(folder: Path, rows: Rows | None = None) -> Facts:
    """Every text that a stranger may choose is a program, a template and markup. `rows`: random ones."""
    rows = Made(7).rows if rows is None else rows
    names = ("service", "caller_service", "address", "emptied_by", "broker_name", "reason", "detail", "route_id")
    for mine in rows.values():
        for row in mine:
            row |= {name: f"{EVIL}%{{x}}<b>{row[name]}\u202e" for name in names if name in row}
    write(folder, rows)
    return read_facts(folder)


def test_names_of_strangers_are_neither_tags_nor_scripts(tmp_path: Path) -> None:
    page = html_report(evil_facts(tmp_path), MADE_AT)
    read = TableReader(page)
    assert {tag for tag, _ in read.tags} <= set(TAGS.split())
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]
    assert len(read.scripts) == page.count("<script") == page.count("</script>") == 3
    assert any(EVIL in cell for cell in read.cells)
    assert "\u202e" not in page


def test_plots_show_names_as_they_are(tmp_path: Path) -> None:
    """No text of a plot holds markup of its own but line breaks, and no template a stranger's field."""

    def texts(value: Any) -> list[str]:
        if isinstance(value, str):
            return [value]
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return [text for item in items for text in texts(item)]

    for plot in plots_of(evil_facts(tmp_path)).values():
        for text in texts(plot):
            assert not re.search(r"<(?!br>|extra>|/extra>)", text)
            assert set(re.findall(r"%\{([^}]*)\}", text)) <= set(FIELDS.split())


def test_a_label_is_shown_as_it_is() -> None:
    assert label("<b>&{x}") == "&lt;b&gt;&amp;&#123;x}"
    assert label("") == label(None) == "-"
    assert label("a" * 40) == "a" * 15 + "…" + "a" * 14


def test_the_policy_allows_the_two_scripts_and_no_host(case: Case) -> None:
    read = page_of(case.facts)
    [policy] = [one["content"] for tag, one in read.tags if tag == "meta" and "http-equiv" in one]
    assert policy is not None
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in read.scripts[1:]]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    assert policy.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        f"script-src {allowed}",
    ]
    for _, attributes in read.tags:
        assert not {"src", "srcset", "action", "data", "poster"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")


def test_every_plot_is_what_plotly_knows(case: Case) -> None:
    plots = plots_of(case.facts)
    assert list(plots) == list(PLOTS)
    for plot in plots.values():
        go.Figure(data=plot["data"], layout=plot["layout"])  # ValueError: a property that it does not know


def test_every_plot_has_a_title_words_and_a_table(case: Case) -> None:
    read = page_of(case.facts)
    ids = {attributes["id"] for _, attributes in read.tags if "id" in attributes}
    drawn = [one for tag, one in read.tags if one.get("class") == "drawing"]
    assert [one["id"] for one in drawn] == [f"plot-{name}" for name in PLOTS]
    for one in drawn:
        assert one["role"] == "img"
        assert {one["aria-labelledby"], one["aria-describedby"]} <= ids
    assert sum(1 for tag, _ in read.tags if tag == "details") == len(PLOTS)


def test_the_tables_hold_every_cell(case: Case) -> None:
    cells = set(page_of(case.facts).cells)
    for chapter in chapters(case.facts):
        for section in chapter.sections:
            assert {cell for row in section.rows for cell in row if cell} <= cells
    assert {one.value for one in headline(case.facts)} <= cells


def test_plots_draw_the_numbers_of_the_facts(case: Case) -> None:
    facts, plots = case.facts, plots_of(case.facts)
    traffic = facts.traffic
    rates = [[count / traffic.bins.step_s for count in counts] for counts in traffic.over_time]
    assert [trace["y"] for trace in plots["services"]["data"]] == rates
    assert [trace["customdata"] for trace in plots["services"]["data"]] == traffic.over_time
    failed = [counts for counts in traffic.service_errors_over_time if any(counts)]
    assert [trace["y"] for trace in plots["errors"]["data"]] == failed
    its, own = plots["instances"]["data"]
    drawn = [(max(1, one.p99_us), max(1, one.median_p99_us)) for one in facts.instances.rows]
    assert list(zip(own["x"], its["x"], strict=True)) == drawn
    bars = {trace["name"]: trace["y"] for trace in plots["outcomes"]["data"]}
    shares = bars.pop("share of errors")
    assert bars == dict(zip(traffic.outcome_names, traffic.outcomes_over_time, strict=True))
    for share, errors, count in zip(shares, traffic.errors_over_time, traffic.all_over_time, strict=True):
        assert share is None if not count else share == 100 * errors / count
    for place, trace in enumerate(plots["percentiles"]["data"]):
        assert trace["y"] == [None if one is None else max(1, one[place]) for one in traffic.latencies.over_time]
    for place, trace in enumerate(plots["latencies"]["data"][1:]):
        assert trace["x"] == [max(1, one[place]) for one in traffic.latencies.of_services]
    [heat] = plots["p99"]["data"]
    shown = [[None if z is None else round(10**z) for z in row] for row in heat["z"]]
    assert shown == [[None if us is None else max(1, us) for us in row] for row in traffic.latencies.p99_over_time]
    for trace, one in zip(plots["balance"]["data"], facts.balances.rows, strict=False):
        assert trace["customdata"] == one.loads
        assert trace["x"] == pytest.approx([load * one.routes / one.requests for load in one.loads])
    assert plots["fanouts"]["data"][0]["x"] == [one.branches / one.multicasts for one in facts.fanouts.rows]
    counted = [fanout.counts for fanout in facts.fanouts.rows if fanout.counts]
    for trace, counts in zip(plots["fanout-counts"]["data"], counted, strict=False):
        assert list(zip(trace["x"], trace["y"], strict=True)) == list(map(tuple, counts))
    lifetimes = sum(len(route.lifetimes) for route in facts.lifetimes.shown)
    assert sum(len(trace["x"]) for trace in plots["stays"]["data"]) == lifetimes
    assert len(plots["flapping"]["data"][0]["x"]) == sum(len(one.ends_us) for one in facts.lifetimes.flapping)
    well, failed = (trace["x"] for trace in plots["callers"]["data"])
    assert [(x + y, y) for x, y in zip(well, failed, strict=True)] == [
        (x.requests, x.errors) for x in facts.callers.rows
    ]
    for name, ranking in (("tags", facts.rejections.by_tag), ("words", facts.rejections.by_word)):
        assert plots[name]["data"][0]["x"] == ranking.requests
    nodes = [trace for trace in plots["cluster"]["data"] if trace["mode"] == "markers+text"]
    assert sum(len(trace["x"]) for trace in nodes) == len(facts.cluster.brokers)
    assert [trace["y"] for trace in plots["routes"]["data"]] == [one.routes_over_time for one in facts.cluster.brokers]
    for axis, name, size in (("y", "cpu_permille", 10), ("y2", "loop_lag_max_us", 1000), ("y3", "connections", 1)):
        lines = [trace["y"] for trace in plots["loads"]["data"] if trace["yaxis"] == axis]
        counts = [getattr(row, name) for row in facts.loads.rows]
        assert lines == [[None if count is None else count / size for count in line] for line in counts]


def test_records_of_one_minute_are_bars_and_no_lines_of_one_dot(tmp_path: Path) -> None:
    services = [traffic_row(f"service-{number}", 20 - number) for number in range(12)]
    refused = traffic_row("service-0", 5, outcome="rejected", word="no-route")
    write(tmp_path, {"traffic": [*services, refused], "lifecycle": [event_row("TableDigest", tags=[("local", "3")])]})
    facts = read_facts(tmp_path)
    plots = plots_of(facts)
    assert list(plots) == ["services", "outcomes", "latencies", "cluster"]
    assert [trace["type"] for trace in plots["latencies"]["data"]] == ["scatter"] * 5
    [bars] = plots["services"]["data"]
    assert (bars["x"], len(plots["services"]["layout"]["yaxis"]["ticktext"])) == ([25, *range(19, 12, -1), 42], 9)
    [ended] = plots["outcomes"]["data"]
    assert (ended["x"], plots["outcomes"]["layout"]["yaxis"]["ticktext"]) == (
        [174, 5],
        ["completed", "rejected: no-route"],
    )
    drawn = {section.plot for chapter in chapters(facts) for section in chapter.sections if section.plot}
    assert set(plots) <= drawn
    assert not drawn & {"percentiles", "p99", "routes"}


@pytest.mark.parametrize("paper", ["#ffffff", "#1b212a"])
def test_colours_are_told_from_the_paper(paper: str) -> None:
    """WCAG 1.4.11: a contrast of 3."""

    def light(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    outcomes, ends = OUTCOME_COLOURS.values(), [colour for colour, _ in END_COLOURS.values()]
    for colour in {*COLOURS, *PERCENTILE_COLOURS, *outcomes, *ends, *STATE_COLOURS.values()}:
        low, high = sorted((light(colour), light(paper)))
        assert (high + 0.05) / (low + 0.05) >= 3, colour


def test_answers_within_a_microsecond_are_drawn(tmp_path: Path) -> None:
    minutes = (NOON + timedelta(minutes=minute) for minute in range(3))
    write(tmp_path, {"traffic": [traffic_row(minute=minute) | histogram([0]) for minute in minutes]})
    facts = read_facts(tmp_path)
    assert plots_of(facts)["p99"]["data"][0]["z"] == [[0, 0, 0]]
    assert "The highest is 0 µs: orders at 2026-11-20 12:00 UTC." in html_report(facts, MADE_AT)


def test_many_routes_of_a_multicast_share_bars(tmp_path: Path) -> None:
    singles = [
        event_row("PeerConnected", event_time=NOON)
        | {"service": "orders", "routing": "multicast", "branches": n, "weight": 1}
        for n in range(1, 1001)
    ]
    traffic = [traffic_row(requests=1000, routing="multicast", branches=500_500)]
    write(tmp_path, {"traffic": traffic, "requests": [one | {"outcome": "completed"} for one in singles]})
    [trace] = plots_of(read_facts(tmp_path))["fanout-counts"]["data"]
    assert (sum(trace["y"]), len(trace["y"]) <= 41, trace["customdata"][-1]) == (1000, True, "988 to 1013")


def test_tables_without_records_are_a_page_that_says_so(tmp_path: Path) -> None:
    write(tmp_path, {"callers": Made(5).rows["callers"]})
    page = html_report(read_facts(tmp_path), MADE_AT)
    assert "The tables hold no records." in page
    assert 'class="drawing"' not in page


def test_a_table_without_requests_is_a_page_without_broken_plots(tmp_path: Path) -> None:
    write(tmp_path, {"lifecycle": [event_row("BrokerStarted")]})
    assert list(plots_of(read_facts(tmp_path))) == ["cluster"]


@pytest.mark.parametrize("table", ["traffic", "sessions", "lifecycle", "routes", "rejections", "gaps"])
def test_a_page_of_any_table_alone_can_be_made(tmp_path: Path, table: str) -> None:
    write(tmp_path, {table: Made(8).rows[table], "lifecycle": [event_row("BrokerStarted")]})
    for plot in plots_of(read_facts(tmp_path)).values():
        go.Figure(data=plot["data"], layout=plot["layout"])


@pytest.mark.parametrize("values", [[0], [5], [1, 10**9], [100, 450], [990, 1010]])
def test_an_axis_of_latencies_has_ticks_within_its_range(values: list[int]) -> None:
    axis = latency_axis(values)
    low, high = (10**power for power in axis["range"])
    assert sum(1 for tick in axis["tickvals"] if low <= tick <= high) in range(1, 13)

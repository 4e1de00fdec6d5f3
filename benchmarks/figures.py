"""Rows of the comparison: what is run, what each run gave, medians over the rounds, the table and the JSON file."""

import json
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.contestants import COMPILED, NATS, OURS
from benchmarks.machine import describe_commit, describe_machine

MODELS: Final = ("request_response", "fire_and_forget", "metadata_push", "request_stream", "request_channel")
PAYLOAD_BYTES: Final = 100
_MIDDLES: Final = (
    *("cpu_us_per_request", "cpu_us_per_item", "requests_per_s", "items_per_s"),
    *("p50_us", "p99_us", "p999_us", "load_busy"),
)
_COLUMNS: Final = (
    *("CPU µs/request", "min … max", "µs/item", "vs nats-server"),
    *("requests/s", "p50 µs", "p99 µs", "errors"),
)


class Row:
    """One kind of traffic. `name` is what a person reads: `request_response, 16 x 64`."""

    def __init__(
        self, model: str, connections: int, in_flight: int, routing: str = "unicast", services: int = 1
    ) -> None:
        self.model: Final = model
        self.connections: Final = connections
        self.in_flight: Final = in_flight
        self.routing: Final = routing
        self.services: Final = services

    @property
    def name(self) -> str:
        kind = self.model if self.routing == "unicast" else f"{self.model}, {self.routing} of {self.services}"
        return f"{kind}, {self.connections} x {self.in_flight}"

    def arguments(self, seconds: float) -> list[str]:
        """For the load generator."""
        return [
            *("--model", self.model, "--connections", str(self.connections), "--in-flight", str(self.in_flight)),
            *("--payload-bytes", str(PAYLOAD_BYTES), "--seconds", str(seconds)),
            *("--routing", self.routing, "--services", str(self.services)),
        ]


class Figures:
    """What the load generator reported of each round for one broker and one row. At least one round."""

    def __init__(self, name: str, row: Row) -> None:
        self.name: Final = name
        self.row: Final = row
        self.rounds: Final[list[dict[str, Any]]] = []

    def middle(self, key: str) -> float | None:
        """The median over the rounds; None for a figure that this model has not (cpu_us_per_item)."""
        values = self.values(key)
        return float(median(values)) if values else None

    def values(self, key: str) -> list[float]:
        return [run[key] for run in self.rounds if key in run]

    @property
    def errors(self) -> int:
        return int(sum(self.values("errors")))

    def ratio_to(self, other: "Figures") -> float:
        """CPU time per request compared round by round, which runs side by side: the median of the ratios."""
        pairs = zip(self.values("cpu_us_per_request"), other.values("cpu_us_per_request"), strict=False)
        return median(mine / theirs for mine, theirs in pairs)

    def as_row(self) -> dict[str, Any]:
        """The row of latest.json."""
        cpu = self.values("cpu_us_per_request")
        result: dict[str, Any] = {
            "name": self.name,
            "model": self.row.model,
            "connections": self.row.connections,
            "in_flight": self.row.in_flight,
            "payload_bytes": PAYLOAD_BYTES,
            "routing": self.row.routing,
            "services": self.row.services,
        }
        for key in _MIDDLES:
            middle = self.middle(key)
            if middle is not None:
                result[key] = round(middle, 3)
        result |= {"cpu_us_per_request_min": min(cpu), "cpu_us_per_request_max": max(cpu), "rounds": len(cpu)}
        result["errors"] = self.errors
        return result


def rows_for(name: str, is_quick: bool) -> list[Row]:
    """What is measured of a broker: request/response of everybody, of ours every model and routing, too."""
    sizes = [(1, 1), (16, 64)] if is_quick else [(1, 1), (1, 64), (16, 16), (16, 64)]
    rows = [Row("request_response", connections, in_flight) for connections, in_flight in sizes]
    if name not in OURS or (is_quick and name != COMPILED):
        return rows
    rows += [Row(model, 16, 64) for model in ("fire_and_forget", "metadata_push")]
    # 64 streams of 1024 items: with 1024 streams a window of some seconds would see few of them from begin to end.
    rows += [Row(model, 16, 4) for model in ("request_stream", "request_channel")]
    rows += [Row("request_response", 16, 16, routing=routing, services=3) for routing in ("shard", "multicast")]
    return rows


def table_of(title: str, *columns: str, left_n: int = 1) -> Table:
    """Without rows; all columns but the first ones hold numbers."""
    table = Table(title=title)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < left_n else "right", no_wrap=True)
    return table


def print_table(console: Console, results: list[Figures]) -> None:
    """One table, rows of the same traffic together, in the order in which they were measured."""
    title = "CPU time of the broker per request, and latency (medians over the rounds)"
    table = table_of(title, "traffic, connections x in flight", "broker", *_COLUMNS, left_n=2)
    before = ""
    for figures in results:
        name = figures.row.name
        if before and name != before:
            table.add_section()
        cpu = figures.values("cpu_us_per_request")
        table.add_row(
            "" if name == before else name,
            figures.name,
            _shown(figures.middle("cpu_us_per_request")),
            f"{_shown(min(cpu))} … {_shown(max(cpu))}",
            _shown(figures.middle("cpu_us_per_item")),
            _ratio(figures, results),
            _shown(figures.middle("requests_per_s")),
            _shown(figures.middle("p50_us")),
            _shown(figures.middle("p99_us")),
            str(figures.errors or ""),
            style="bold" if figures.name in OURS else None,
        )
        before = name
    console.print(table)


def write_json(path: Path, results: list[Figures], python: str) -> None:
    """The unicast rows as `rows`; other routings apart, so that (name, model, connections, in_flight) stays unique."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": describe_machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": python,
        "commit": describe_commit(),
        "rows": [figures.as_row() for figures in results if figures.row.routing == "unicast"],
        "routing_rows": [figures.as_row() for figures in results if figures.row.routing != "unicast"],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def _ratio(figures: Figures, results: list[Figures]) -> str:
    for other in results:
        if other.name == NATS and other.row.name == figures.row.name:
            return "1" if other is figures else f"{figures.ratio_to(other):.2f}"
    return ""


def _shown(figure: float | None) -> str:
    if figure is None:
        return ""
    if figure >= 100:
        return f"{figure:,.0f}".replace(",", " ")
    return f"{figure:.2f}" if figure < 10 else f"{figure:.1f}"

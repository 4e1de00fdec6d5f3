"""The table of figures in README.md, made of results/latest.json: `python -m benchmarks.readme` writes it there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
README = ROOT / "README.md"
BEGIN = "<!-- figures of benchmarks/results/latest.json -->\n"
END = "<!-- end of figures -->\n"

COLUMNS = ("1 × 1", "1 × 64", "16 × 16", "16 × 64")
BROKERS = {
    "rsocket-broker compiled": "**rsocket-broker**, compiled",
    "nats-server": "nats-server, request-reply",
    "rsocket-broker interpreted": "**rsocket-broker**, interpreted",
    "naive rsocket-py broker": "a naive broker on rsocket-py",
    "c relay": "a bare relay in C: the floor",
}


def figure(microseconds: float) -> str:
    """Three digits, and no more exactness than there is."""
    return f"{microseconds:.2f}" if microseconds < 10 else f"{microseconds:.0f}"


def table(results: dict[str, Any]) -> str:
    """Markdown: a line per broker, a column per connections × requests in flight."""
    cells = {
        (row["name"], f"{row['connections']} × {row['in_flight']}"): figure(row["cpu_us_per_request"])
        for row in results["rows"]
        if row["model"] == "request_response"
    }
    lines = ["| connections × in flight | " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for name, shown in BROKERS.items():
        lines.append(f"| {shown} | " + " | ".join(cells.get((name, column), "") for column in COLUMNS) + " |")
    return "\n".join(lines) + "\n"


def section() -> str:
    """What stands between the two marks in README.md."""
    return table(json.loads(RESULTS.read_text()))


def main() -> None:
    """Writes the section into README.md."""
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(before + BEGIN + section() + END + after)


if __name__ == "__main__":
    main()

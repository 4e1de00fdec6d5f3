"""What all plots are built of: plotly's figures as plain values, colours for light and dark paper, names made harmless.

Plotly reads a small HTML in every text and fills `%{…}` in templates: `label` makes a stranger's name mean nothing of
it. Colours of paper, grid and letters are not here, the page sets them by what the reader prefers.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from spark_sink.report.cluster.gaps import Gap
from spark_sink.report.texts import NO_NAME, number_of, plain, shortened
from spark_sink.report.times import Bins
from spark_sink.timestamps import moment_at

Values: TypeAlias = dict[str, Any]  # of JSON

# Colours are told from light and from dark paper by a contrast of 3 or more.
ORANGE: Final = "#d97512"
# Eight that stand on white and on black, and that people who see fewer colours can tell apart at their borders.
COLOURS: Final = ("#3b7dd8", ORANGE, "#2f9e58", "#a05bd0", "#12a1a8", "#d0478e", "#a98307", "#7d6a58")
GREY: Final = "#8a94a3"  # others, and what is over
GREEN: Final = "#2f9e58"
RED: Final = "#d93b3b"
MAX_LABEL: Final = 30  # characters beside an axis
MAX_GAP_LINES: Final = 20
MIN_BINS: Final = 10  # that an axis of time has place for
ROW_PX: Final = 24  # height of a row of a horizontal plot
LEGEND_PX: Final = 52  # two rows of names: on paper they are laid out after the margins
FRAME_PX: Final = 110  # height of all but the rows


@dataclass(frozen=True)
class Plot:
    """One figure for plotly, and what it shows in a sentence for those who do not see it."""

    data: list[Values]
    layout: Values
    summary: str


def label(text: str | None, limit: int = MAX_LABEL) -> str:
    """A name as plotly shall show it: shortened, and nothing in it is markup."""
    return harmless(shortened(plain(text) if text else NO_NAME, limit))


def harmless(text: str) -> str:
    return html.escape(text, quote=False).replace("{", "&#123;")


def time_of(at: datetime) -> str:
    """As plotly's axes of time read it: UTC without saying so."""
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds")


def time_us(us: int) -> str:
    return time_of(moment_at(us))


def layout(height: int, **values: Any) -> Values:
    """Of every figure."""
    common: Values = {
        "height": height,
        "margin": {"l": 60, "r": 20, "t": LEGEND_PX if values.get("showlegend") else 16, "b": 50},
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        "hoverlabel": {"align": "left"},
    }
    return common | values


def row_layout(names: Sequence[str], **values: Any) -> Values:
    """Of a figure with a row for each name, the first one on top."""
    axis = {
        "tickvals": list(range(len(names))),
        "ticktext": list(names),
        "range": [len(names) - 0.4, -0.6],
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }
    return layout(FRAME_PX + ROW_PX * max(2, len(names)), yaxis=axis, **values)


def time_axis() -> Values:
    return {"type": "date", "title": {"text": "UTC"}, "hoverformat": "%Y-%m-%d %H:%M:%S"}


def bins_axis(bins: Bins) -> Values:
    """A time axis of these bins; of few of them wider, or a single bar would fill the plot."""
    margin_s = bins.step_s * max(0, MIN_BINS - bins.count) / 2
    first = moment_at(bins.first_us) - timedelta(seconds=margin_s)
    last = moment_at(bins.first_us) + timedelta(seconds=bins.count * bins.step_s + margin_s)
    return time_axis() | {"range": [time_of(first), time_of(last)]}


def count_axis(title: str) -> Values:
    return {"title": {"text": title}, "rangemode": "tozero", "separatethousands": True, "tickformat": ",~f"}


def count_bars(names: Sequence[str], counts: Sequence[float], colours: str | Sequence[str]) -> Values:
    """A lying bar for each name, with its count behind it. `names`: as `label` makes them."""
    return {
        "type": "bar",
        "orientation": "h",
        "x": list(counts),
        "y": list(range(len(names))),
        "width": 0.7,
        "text": [number_of(count) if isinstance(count, int) else "" for count in counts],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertext": list(names),
        "marker": {"color": colours if isinstance(colours, str) else list(colours)},
        "hovertemplate": "%{hovertext}<br>%{x:,} requests<extra></extra>",
        "showlegend": False,
    }


def bar_axis(title: str, counts: Sequence[float]) -> Values:
    """Of `count_bars`: with place behind the longest."""
    return count_axis(title) | {"range": [0, 1.1 * max(1, *counts)]}


def latency_axis(values_us: Sequence[int]) -> Values:
    """Logarithmic; ticks read like `5 ms`. `values_us`: all that is drawn."""
    low, high = max(1, min(values_us)), max(1, *values_us)
    ticks = latency_ticks(low, high)
    return {
        "type": "log",
        "range": [math.log10(low) - 0.1, math.log10(high) + 0.1],
        "tickvals": ticks,
        "ticktext": [short_latency(tick) for tick in ticks],
        "automargin": True,
        "zeroline": False,
    }


def latency_ticks(low: int, high: int) -> list[float]:
    """Round latencies (µs), as many as can be read on a logarithmic scale from `low` to `high`."""
    span = math.log10(high / low)
    steps = (1,) if span > 3 else (1, 2, 5) if span > 0.7 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    return [step * 10**power for power in range(13) for step in steps]


def short_latency(us: float) -> str:
    """`5 ms`, for axes."""
    for size, unit in ((1_000_000, "s"), (1000, "ms")):
        if us >= size:
            return f"{us / size:,g} {unit}"
    return f"{us:g} µs"


def bars_over_time(bins: Bins, counts: Sequence[int], name: str, colour: str) -> Values:
    """One series of stacked bars, each as wide as its bin."""
    return {
        "type": "bar",
        "name": name,
        "x": [time_of(start) for start in bins.starts()],
        "y": list(counts),
        "offset": 0,
        "width": bins.step_s * 1000,
        "marker": {"color": colour, "line": {"width": 0}},
        "hovertemplate": "%{x}<br>%{y:,}<extra>" + name + "</extra>",
    }


def line_over_time(
    name: str, x: Sequence[str], y: Sequence[float | None], colour: str, hover: str, **values: Any
) -> Values:
    """A line with a dot for each value. `hover`: what a dot says of itself."""
    common: Values = {"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y}
    line = {"color": colour, "width": 2}
    return common | values | {"line": line, "marker": {"size": 5}, "hovertemplate": hover}


def gap_lines(gaps: Sequence[Gap], bins: Bins) -> list[Values]:
    """Shapes: where records are missing."""
    first, last = bins.first_us, bins.first_us + bins.count * bins.step_s * 1_000_000
    shapes: list[Values] = []
    for gap in gaps:
        if first <= gap.at_us <= last and len(shapes) < MAX_GAP_LINES:
            shapes.append(upright(time_us(gap.at_us), {"color": RED, "width": 1.5, "dash": "dot"}))
    return shapes


def upright(x: Any, line: Values) -> Values:
    """A shape: a line from the bottom to the top."""
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}

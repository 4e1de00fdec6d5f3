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

from spark_sink.report.reading import Record
from spark_sink.report.texts import NO_NAME, number_of, plain, short_ids, shortened
from spark_sink.report.times import Bins
from spark_sink.timestamps import moment_at

Values: TypeAlias = dict[str, Any]  # of JSON

# Colours are told from light and from dark paper by a contrast of 3 or more. Each has one meaning:
GREEN: Final = "#2f9e58"  # it went well, or is there
RED: Final = "#d93b3b"  # an error, or a loss
ORANGE: Final = "#d97512"  # refused
BROWN: Final = "#b3541e"  # a route that was lost
GREY: Final = "#8a94a3"  # others, and what is over
SLATE: Final = "#6d7684"  # by somebody's will: the caller's, or the route's
BLUE: Final = "#3b7dd8"  # a quantity
COLOURS: Final = (
    BLUE,
    "#a98307",
    "#a05bd0",
    "#12a1a8",
    "#d0478e",
    "#6f9a2a",
    "#7d6a58",
    "#5b9bb5",
)  # services, brokers
MAX_LABEL: Final = 30  # characters beside an axis
NARROW_LABEL: Final = 17  # the same on a phone
MAX_GAP_LINES: Final = 20
MIN_BINS: Final = 10  # that an axis of time has place for
ROW_PX: Final = 24  # height of a row of a horizontal plot
LEGEND_PX: Final = 52  # two rows of names: on paper they are laid out after the margins
FRAME_PX: Final = 110  # height of all but the rows
DIGIT_PX: Final = 8


@dataclass(frozen=True)
class Plot:
    """One figure for plotly, and what it shows in a sentence for those who do not see it."""

    data: list[Values]
    layout: Values
    summary: str


def label(text: str | None, limit: int = MAX_LABEL) -> str:
    """A name as plotly shall show it: shortened, and nothing in it is markup."""
    return harmless(shortened(plain(text) if text else NO_NAME, limit))


def route_labels(rows: Sequence[Record]) -> list[str]:
    """Of rows with a service and a route."""
    short = short_ids(row.route_id for row in rows)
    return [f"{label(row.service, 20)} {harmless(short[row.route_id])}" for row in rows]


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
        "margin": {"l": 60, "r": values.pop("right", 24), "t": LEGEND_PX if values.get("showlegend") else 16, "b": 50},
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
    return layout(
        FRAME_PX + ROW_PX * max(2, len(names)), yaxis=axis, meta={"narrow": list(map(_narrow, names))}, **values
    )


def _narrow(name: str) -> str:
    """What the page's script puts in its place on a phone: of two words the first is shortened."""
    head, space, tail = html.unescape(name).rpartition(" ")
    left = NARROW_LABEL - len(space + tail)
    return harmless(shortened(head, left) + space + tail if left > 5 else shortened(head + space + tail, NARROW_LABEL))


def time_axis() -> Values:
    title = {"text": "UTC", "standoff": 8}  # pixels below the date, which is a second line of labels
    return {
        "type": "date",
        "title": title,
        "automargin": True,
        "hoverformat": "%Y-%m-%d %H:%M:%S",
        "tickangle": 0,
    }


def bins_axis(bins: Bins) -> Values:
    """A time axis of these bins; of few of them wider, or a single bar would fill the plot."""
    margin_s = bins.step_s * max(0, MIN_BINS - bins.count) / 2
    first = moment_at(bins.first_us) - timedelta(seconds=margin_s)
    last = moment_at(bins.first_us) + timedelta(seconds=bins.count * bins.step_s + margin_s)
    return time_axis() | {"range": [time_of(first), time_of(last)]}


def count_axis(title: str, most: float = 0) -> Values:
    """`most`: the largest of the counts; from 10,000 on ticks are thousands and millions, 20k and 1.5M."""
    form = "~s" if most >= 10_000 else ",~f"
    return {"title": {"text": title}, "rangemode": "tozero", "tickformat": form, "automargin": True, "tickangle": 0}


def bar_plot(
    names: Sequence[str], counts: Sequence[float], colours: str | Sequence[str], title: str, summary: str, **values: Any
) -> Plot:
    """A lying bar for each name, with its count behind it and place for that behind the longest. `names`: as `label`
    makes them; `values`: what is other than in bars of requests."""
    most = max(1, *counts)
    axis = count_axis(title, most) | {"range": [0, most]}
    bars = {
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
    right = 20 + DIGIT_PX * len(number_of(round(most)))
    return Plot([bars | values], row_layout(names, xaxis=axis, right=right), summary)


def is_one_bar(data: Sequence[Values]) -> bool:
    """Or nothing: a sentence says as much."""
    places = {place for trace in data for place in trace["y" if trace.get("orientation") == "h" else "x"]}
    return len(places) < 2 and all(trace["type"] == "bar" for trace in data)


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
        "tickangle": 0,
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


def marks(
    name: str, x: Sequence[Any], y: Sequence[Any], told: Sequence[Any], hover: str, marker: Values, **values: Any
) -> Values:
    """Dots. `told`: of each what `hover` says of it, as `%{customdata}`."""
    common: Values = {"type": "scatter", "mode": "markers", "name": name, "x": x, "y": y, "customdata": told}
    return common | {"marker": marker, "hovertemplate": hover} | values


def bars_over_time(bins: Bins, counts: Sequence[int], name: str, colour: str, seconds: int = 1) -> Values:
    """One series of stacked bars, each as wide as its bin. `seconds`: that a count is drawn as the rate of."""
    return {
        "type": "bar",
        "name": name,
        "x": [time_of(start) for start in bins.starts()],
        "y": [count / seconds for count in counts],
        "customdata": list(counts),
        "offset": 0,
        "width": bins.step_s * 1000,
        "marker": {"color": colour, "line": {"width": 0}},
        "hovertemplate": "%{x}<br>%{customdata:,} requests<extra>" + name + "</extra>",
    }


def stacked_over_time(title: str, most: float, bins: Bins, gaps: Sequence[Record]) -> Values:
    """The layout of `bars_over_time`."""
    shapes = gap_lines(gaps, bins)
    axis = count_axis(title, most)
    return layout(380, barmode="stack", xaxis=bins_axis(bins), yaxis=axis, shapes=shapes, showlegend=True)


def line_over_time(
    name: str, x: Sequence[str], y: Sequence[float | None], colour: str, hover: str, size: int = 5, **values: Any
) -> Values:
    """A line with a dot for each value. `hover`: what a dot says of itself; `size`: of dots."""
    common: Values = {"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y}
    return common | values | {"line": {"color": colour, "width": 2}, "marker": {"size": size}, "hovertemplate": hover}


def gap_lines(gaps: Sequence[Record], bins: Bins) -> list[Values]:
    """Shapes: where records are missing."""
    first, last = bins.first_us, bins.first_us + bins.count * bins.step_s * 1_000_000
    inside = [gap.at_us for gap in gaps if first <= gap.at_us <= last]
    return [upright(time_us(us), {"color": RED, "width": 1.5, "dash": "dot"}) for us in inside[:MAX_GAP_LINES]]


def upright(x: Any, line: Values) -> Values:
    """A shape: a line from the bottom to the top."""
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}

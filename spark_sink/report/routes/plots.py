"""Plots of routes and brokers: stays as a Gantt, flapping, the cluster, routes over time.

But for the cluster, each is made only where the table that it belongs to has rows.
"""

import math
from typing import Final

from spark_sink.history.records import DIED, RUNNING, STOPPED
from spark_sink.report.facts import Facts
from spark_sink.report.figures import (
    BLUE,
    BROWN,
    COLOURS,
    GREEN,
    GREY,
    RED,
    SLATE,
    Plot,
    Values,
    bins_axis,
    count_axis,
    harmless,
    label,
    layout,
    line_over_time,
    marks,
    route_labels,
    row_layout,
    time_axis,
    time_of,
    time_us,
)
from spark_sink.report.reading import Record
from spark_sink.report.routes.lifetimes import BROKER_DIED, BROKER_STOPPED, STILL_THERE
from spark_sink.report.texts import count_of, duration_of, end_of, latency_of, named, number_of

LOST: Final = "lost"  # left, and not by its own will
# how a stay ended -> its colour, and the pattern of those whose end nobody recorded
END_COLOURS: Final = {
    "left": (SLATE, ""),
    LOST: (BROWN, ""),
    "replaced": (BLUE, ""),
    STILL_THERE: (GREEN, "/"),
    BROKER_STOPPED: (GREY, "/"),
    BROKER_DIED: (RED, "x"),
}
STATE_COLOURS: Final = {RUNNING: GREEN, STOPPED: GREY, DIED: RED}
MAX_LINES: Final = 8  # brokers with a line of their own
# panel: number of a broker's load, title, and what it is divided by
LOADS: Final = (
    ("cpu_permille", "CPU, %", 10),
    ("loop_lag_max_us", "lag, ms", 1000),
    ("connections", "connections", 1),
    ("in_flight", "in flight", 1),
)


def lifetimes_plot(facts: Facts) -> Plot:
    lifetimes = facts.lifetimes
    rows = sorted(lifetimes.shown, key=lambda route: (route.service, route.lifetimes[0].from_us))
    names = route_labels(rows)
    stays = [(place, lifetime) for place, route in enumerate(rows) for lifetime in route.lifetimes]
    data: list[Values] = []
    for word, (colour, pattern) in END_COLOURS.items():
        mine = [(place, lifetime) for place, lifetime in stays if _end_word(lifetime) == word]
        if not mine:
            continue
        told = [
            f"{names[place]}<br>{duration_of(_length_ms(lifetime))}, "
            f"{harmless(end_of(lifetime.ended_as, lifetime.reason))}"
            f"<br>{time_us(lifetime.from_us)[:19]} to {time_us(lifetime.to_us)[:19]}"
            for place, lifetime in mine
        ]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": word,
                "base": [time_us(lifetime.from_us) for _, lifetime in mine],
                "x": [_length_ms(lifetime) for _, lifetime in mine],
                "y": [place for place, _ in mine],
                "width": 0.7,
                "hovertext": told,
                "hovertemplate": "%{hovertext}<extra></extra>",
                # the line keeps a stay of a second visible in a plot of a day
                "marker": {"color": colour, "line": {"color": colour, "width": 1}, "pattern": {"shape": pattern}},
            }
        )
    figure = row_layout(names, barmode="overlay", xaxis=time_axis(), showlegend=True)
    summary = (
        f"{count_of(lifetimes.ended, 'lifetime')} ended and {number_of(lifetimes.open)} have no end in the records."
    )
    if lifetimes.route_count > len(rows):
        summary += (
            f" {len(rows)} of {number_of(lifetimes.route_count)} routes are shown: those that came most often, then "
            "those that stayed longest."
        )
    if lifetimes.left_out:
        summary += f" {count_of(lifetimes.left_out, 'earlier lifetime')} of theirs are left out."
    return Plot(data, figure, summary)


def flapping_plot(facts: Facts) -> Plot:
    rows = facts.lifetimes.flapping
    names = route_labels(rows)
    x = [time_us(end_us) for row in rows for end_us in row.ends_us]
    y = [place for place, row in enumerate(rows) for _ in row.ends_us]
    told = [name for name, row in zip(names, rows, strict=True) for _ in row.ends_us]
    marker = {"color": RED, "size": 8, "symbol": "line-ns", "line": {"color": RED, "width": 2}}
    data = [marks("ends", x, y, told, "%{customdata}<br>left at %{x}<extra></extra>", marker)]
    summary = (
        f"{count_of(facts.lifetimes.flapping_count, 'route')} came and went; each mark is the end of a short lifetime."
    )
    if facts.lifetimes.flapping_count > len(rows):
        summary += f" {len(rows)} are shown, those with most."
    return Plot(data, row_layout(names, xaxis=time_axis()), summary)


def cluster_plot(facts: Facts) -> Plot | None:
    """Brokers on a ring, links as lines."""
    cluster = facts.cluster
    if not cluster.brokers:
        return None
    count = len(cluster.brokers)
    places: dict[str, tuple[float, float]] = {}
    for number, broker in enumerate(sorted(cluster.brokers, key=lambda broker: (len(broker.name), broker.name))):
        angle = 2 * math.pi * number / count
        places[broker.broker_id] = (0.0, 0.0) if count == 1 else (math.sin(angle), math.cos(angle))
    data: list[Values] = []
    pairs: dict[tuple[str, str], bool] = {}
    for link in cluster.links:
        if link.broker_id in places and link.neighbour_id in places and link.broker_id != link.neighbour_id:
            pair = min(link.broker_id, link.neighbour_id), max(link.broker_id, link.neighbour_id)
            pairs[pair] = pairs.get(pair, True) and link.is_up  # whoever does not know yet that it fell says up
    for is_up, name, line in (
        (True, "link up", {"color": GREEN, "width": 2}),
        (False, "link down", {"color": RED, "width": 1.5, "dash": "dot"}),
    ):
        edges = [pair for pair, up in pairs.items() if up is is_up]
        if edges:
            x, y = zip(*(at for one, other in edges for at in (places[one], places[other], (None, None))), strict=True)
            data.append(
                {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": line, "hoverinfo": "skip"}
            )
    largest_px = min(34, 500 // count)
    busiest = max(1, *(broker.requests for broker in cluster.brokers))
    for state, colour in STATE_COLOURS.items():
        mine = [broker for broker in cluster.brokers if broker.state == state]
        if not mine:
            continue
        told = [
            f"{label(broker.name)}<br>{count_of(broker.requests, 'request')}, {number_of(broker.errors)} errors"
            + ("" if broker.local is None else f"<br>{number_of(broker.local)} routes of its own")
            for broker in mine
        ]
        size = [14 + largest_px * math.sqrt(broker.requests / busiest) for broker in mine]
        marker = {"color": colour, "opacity": 1, "size": size, "line": {"width": 1, "color": GREY}}
        across, up = zip(*(places[broker.broker_id] for broker in mine), strict=True)
        names = {
            "text": [label(broker.name, 20) for broker in mine],
            "textposition": [_beside(*places[broker.broker_id]) for broker in mine],
        }
        dots = marks(f"broker {state}", across, up, told, "%{customdata}<extra></extra>", marker, **names)
        data.append(dots | {"mode": "markers+text", "cliponaxis": False})
    axis = {"visible": False, "range": [-1.5, 1.5], "fixedrange": True}
    height = 200 if count == 1 else 420 if count <= 8 else 560
    figure = layout(height, xaxis=axis, yaxis=axis | {"range": [-1.25, 1.25]}, showlegend=True)
    ups = sum(pairs.values())
    summary = count_of(cluster.broker_count, "broker")
    if pairs:
        summary += f"; {count_of(ups, 'link')} up, {number_of(len(pairs) - ups)} down at the end of the records"
    if count > 1:
        summary += ". The larger, the more requests came to it from callers of its own"
    summary += "."
    if cluster.broker_count > count:
        summary += f" {count} are shown."
    return Plot(data, figure, summary)


def routes_plot(facts: Facts) -> Plot:
    """Own routes of each broker, from its snapshots."""
    cluster = facts.cluster
    told = [broker for broker in cluster.brokers if any(count is not None for count in broker.routes_over_time)]
    x = [time_of(start) for start in cluster.bins.starts()]
    data: list[Values] = []
    for broker, colour in zip(told, COLOURS, strict=False):
        name = label(broker.name)
        hover = "%{x}<br>%{y:,} routes<extra>" + name + "</extra>"
        line = line_over_time(name, x, broker.routes_over_time, colour, hover, 4, connectgaps=True)
        data.append(line | {"line": line["line"] | {"shape": "hv"}})
    largest = max(count or 0 for broker in told for count in broker.routes_over_time)
    figure = layout(340, xaxis=bins_axis(cluster.bins), yaxis=count_axis("own routes", largest), showlegend=True)
    last = [next(count for count in reversed(broker.routes_over_time) if count is not None) for broker in told]
    most = max(range(len(told)), key=lambda place: last[place])
    summary = f"In the last snapshot {named(told[0].name)} has {count_of(last[0], 'route')} of its own."
    if len(told) > 1:
        summary = (
            f"In the last snapshots {named(told[most].name)} has the most routes of its own, {number_of(last[most])}."
        )
    left = len(told) - min(len(told), MAX_LINES)
    return Plot(data, figure, summary + (f" {left} brokers with fewer requests are left out." if left else ""))


def loads_plot(facts: Facts) -> Plot | None:
    """Four panels, a line for each broker."""
    loads = facts.loads
    if not loads.rows or loads.bins.count < 2:
        return None
    x = [time_of(start) for start in loads.bins.starts()]
    share = 1 / len(LOADS)
    data: list[Values] = []
    panels: Values = {}
    for panel, (name, title, size) in enumerate(LOADS):
        axis = "y" if panel == 0 else f"y{panel + 1}"
        lines = [[None if value is None else value / size for value in getattr(row, name)] for row in loads.rows]
        most = max((value for line in lines for value in line if value is not None), default=0)
        top = 1 - panel * share
        panels[f"yaxis{axis[1:]}"] = count_axis(title, most) | {"domain": [top - 0.84 * share, top]}
        for row, line, colour in zip(loads.rows, lines, COLOURS, strict=False):
            broker = label(row.broker)
            hover = "%{x}<br>" + title + " %{y:,}<extra>" + broker + "</extra>"
            group = {"legendgroup": broker, "showlegend": panel == 0, "yaxis": axis}
            data.append(line_over_time(broker, x, line, colour, hover, 4, **group))
    bottom = f"y{len(LOADS)}"
    figure = layout(680, xaxis=bins_axis(loads.bins) | {"anchor": bottom}, showlegend=True, **panels)
    cpu = [(value, row.broker) for row in loads.rows for value in row.cpu_permille if value is not None]
    lag = [(value, row.broker) for row in loads.rows for value in row.loop_lag_max_us if value is not None]
    told = []
    if cpu:
        told.append(f"Most CPU: {named(max(cpu)[1])} with {max(cpu)[0] / 10:.0f} % of a core")
    if lag:
        told.append(f"largest lag of an event loop: {latency_of(max(lag)[0])} at {named(max(lag)[1])}")
    left = loads.count - len(loads.rows)
    summary = "; ".join(told) + "." if told else ""
    return Plot(data, figure, summary + (f" {left} brokers with fewer requests are left out." if left else ""))


def _end_word(lifetime: Record) -> str:
    if lifetime.ended_as == "left" and lifetime.reason not in ("", "left"):
        return LOST
    return lifetime.ended_as if lifetime.ended_as in END_COLOURS else LOST


def _beside(x: float, y: float) -> str:
    """Where a broker's name stands: outside of the ring."""
    if abs(x) < 0.2:
        return "top center" if y > 0 else "bottom center"
    return "middle right" if x > 0 else "middle left"


def _length_ms(lifetime: Record) -> int:
    return int(max(0, lifetime.to_us - lifetime.from_us) // 1000)

"""Plots of requests: traffic, outcomes, latencies, balance, multicasts, callers, rejections.

Each is made only where the table that it belongs to has rows.
"""

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from spark_sink.report.facts import Facts
from spark_sink.report.figures import (
    BLUE,
    BROWN,
    COLOURS,
    FRAME_PX,
    GREEN,
    GREY,
    ORANGE,
    RED,
    SLATE,
    Plot,
    Values,
    bar_plot,
    bars_over_time,
    bins_axis,
    count_axis,
    gap_lines,
    harmless,
    label,
    latency_axis,
    latency_ticks,
    layout,
    line_over_time,
    marks,
    route_labels,
    row_layout,
    short_latency,
    stacked_over_time,
    time_of,
    upright,
)
from spark_sink.report.reading import Record
from spark_sink.report.texts import (
    PERCENTILES,
    count_of,
    latency_of,
    named,
    number_of,
    rate_of,
    share_of,
    short_ids,
    step_of,
)
from spark_sink.report.times import Bins
from spark_sink.report.traffic.latencies import P99

OUTCOME_COLOURS: Final = {
    "completed": GREEN,
    "error": RED,
    "rejected": ORANGE,
    "route_lost": BROWN,
    "caller_lost": SLATE,
    "cancelled": GREY,
}
PERCENTILE_COLOURS: Final = ("#12a1a8", BLUE, "#a05bd0", "#d0478e")
PERCENTILE_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up")
MAX_BALANCE_ROWS: Final = 15
MAX_OUTCOME_BARS: Final = 15
TICK_PX: Final = 18  # that the label of a colour takes
MAX_FANOUT_BARS: Final = 40  # of different numbers of routes; more are put together


def services_plot(facts: Facts) -> Plot | None:
    """Over time; where all is of one minute, bars beside each other."""
    traffic = facts.traffic
    if not traffic.requests:
        return None
    bins, step = traffic.bins, step_of(traffic.bins.step_s)
    others = traffic.service_count - len(traffic.services)
    names = [*map(label, traffic.services), *([f"{number_of(others)} others"] if others > 0 else [])]
    busiest = f"{named(traffic.services[0])} had the most, {number_of(traffic.service_requests[0])}"
    requests = count_of(traffic.requests, "request")
    if bins.count == 1:
        counts = [sum(counts) for counts in traffic.over_time[: len(names)]]
        return bar_plot(names, counts, BLUE, "requests", f"{requests}, all within one {step}; {busiest}.")
    data = [
        bars_over_time(bins, counts, name, colour, bins.step_s)
        for name, counts, colour in zip(names, traffic.over_time, service_colours(facts), strict=False)
    ]
    most = max(traffic.all_over_time)
    figure = stacked_over_time("requests per second", most / bins.step_s, bins, facts.gaps.rows)
    summary = (
        f"{requests} to {count_of(traffic.service_count, 'service')}, {rate_of(traffic.requests, traffic.seconds)} on "
        f"average and {rate_of(most, bins.step_s)} in the busiest {step}; {busiest}."
    )
    if others > 0:
        summary += f" {number_of(others)} services with fewer requests are put together as others."
    if figure["shapes"]:
        summary += " Dotted red lines: records are missing."
    return Plot(data, figure, summary)


def outcomes_plot(facts: Facts) -> Plot | None:
    """Counts above, and the share of errors below, which a stack of thousands would hide; bars where all is of one
    minute."""
    traffic = facts.traffic
    if not traffic.requests:
        return None
    said = f"{number_of(traffic.errors)} of {count_of(traffic.requests, 'request')} were errors"
    said += f" ({share_of(traffic.errors, traffic.requests)})"
    bins, step = traffic.bins, step_of(traffic.bins.step_s)
    if bins.count == 1:
        rows = traffic.outcomes[:MAX_OUTCOME_BARS]
        names = [label(": ".join(filter(None, row.pick("outcome word")))) for row in rows]
        colours = [OUTCOME_COLOURS.get(row.outcome, GREY) for row in rows]
        return bar_plot(names, [row.requests for row in rows], colours, "requests", f"{said}, all within one {step}.")
    order = list(OUTCOME_COLOURS)
    series = dict(zip(traffic.outcome_names, traffic.outcomes_over_time, strict=True))
    data = [
        bars_over_time(bins, series[name], label(name), OUTCOME_COLOURS.get(name, GREY))
        for name in sorted(series, key=lambda name: order.index(name) if name in order else len(order))
    ]
    shares = [
        100 * errors / count if count else None
        for errors, count in zip(traffic.errors_over_time, traffic.all_over_time, strict=True)
    ]
    hover = "%{x}<br>%{y:.2f} % errors<extra></extra>"
    line = line_over_time("share of errors", _middles(bins), shares, RED, hover, xaxis="x", yaxis="y2")
    figure = layout(
        440,
        barmode="stack",
        xaxis=bins_axis(bins) | {"anchor": "y2"},
        yaxis=count_axis(f"requests per {step}", max(traffic.all_over_time)) | {"domain": [0.36, 1]},
        yaxis2=count_axis("errors, %") | {"domain": [0, 0.26]},
        shapes=gap_lines(facts.gaps.rows, bins),
        showlegend=True,
    )
    if traffic.errors:
        worst = max(share or 0 for share in shares)
        at = bins.starts()[shares.index(worst)]
        said += f"; the worst {step} began at {at:%Y-%m-%d %H:%M} UTC with {worst:.2f} %"
    return Plot([*data, line], figure, f"{said}.")


def errors_plot(facts: Facts) -> Plot:
    """Errors by service over time, in the colours that services have."""
    traffic = facts.traffic
    names = [*map(label, traffic.services), "others"]
    data = [
        bars_over_time(traffic.bins, counts, name, colour)
        for name, counts, colour in zip(names, traffic.service_errors_over_time, service_colours(facts), strict=True)
        if any(counts)
    ]
    step = step_of(traffic.bins.step_s)
    most = max(traffic.errors_over_time)
    figure = stacked_over_time(f"errors per {step}", most, traffic.bins, facts.gaps.rows)
    totals = [sum(counts) for counts in traffic.service_errors_over_time]
    worst = max(totals)
    summary = f"{count_of(traffic.errors, 'error')}, {number_of(worst)} of them at {named(names[totals.index(worst)])}"
    return Plot(data, figure, f"{summary}. Up to {number_of(most)} per {step}.")


def service_colours(facts: Facts) -> list[str]:
    """Of the services that have one, and of all others."""
    return [*COLOURS[: len(facts.traffic.services)], GREY]


def instances_plot(facts: Facts) -> Plot:
    """The p99 of each route beside that of the median route."""
    rows = facts.instances.rows
    names = route_labels(rows)
    series = (
        ("median route of the service", [row.median_p99_us for row in rows], SLATE, "line-ns", 22),
        ("this route", [row.p99_us for row in rows], PERCENTILE_COLOURS[P99], PERCENTILE_SYMBOLS[P99], 9),
    )
    data = []
    for name, values, colour, symbol, size in series:
        marker = {"color": colour, "size": size, "symbol": symbol, "line": {"color": colour, "width": 2}}
        data.append(_latency_marks(name, names, values, "p99 %{customdata}<extra>" + name + "</extra>", marker))
    axis = latency_axis([us for _, values, *_ in series for us in values]) | {"title": {"text": "p99"}}
    slowest, short = rows[0], short_ids(row.route_id for row in rows)
    summary = (
        f"{named(slowest.service)} {short[slowest.route_id]} is slowest beside its service: p99 "
        f"{latency_of(slowest.p99_us)} and {latency_of(slowest.median_p99_us)} for the median route."
    )
    return Plot(data, row_layout(names, xaxis=axis, showlegend=True), summary)


def _latency_marks(name: str, names: Sequence[str], values: Sequence[int], hover: str, marker: Values) -> Values:
    """A dot in the row of each of the names."""
    x = [max(1, us) for us in values]  # the axis is logarithmic
    told = list(map(latency_of, values))
    return marks(name, x, list(range(len(x))), told, "%{text}<br>" + hover, marker, text=names)


def percentiles_plot(facts: Facts) -> Plot:
    traffic = facts.traffic
    latencies = traffic.latencies
    x = _middles(traffic.bins)
    data: list[Values] = []
    drawn: list[int] = []
    for place, (name, colour) in enumerate(zip(PERCENTILES, PERCENTILE_COLOURS, strict=True)):
        values = [None if bin_us is None else bin_us[place] for bin_us in latencies.over_time]
        drawn += [value for value in values if value is not None]
        y = [None if value is None else max(1, value) for value in values]
        hover = "%{x}<br>" + name + " %{customdata}<extra></extra>"
        data.append(line_over_time(name, x, y, colour, hover, customdata=list(map(latency_of, values))))
    shapes = gap_lines(facts.gaps.rows, traffic.bins)
    figure = layout(380, xaxis=bins_axis(traffic.bins), yaxis=latency_axis(drawn), shapes=shapes)
    told = ", ".join(f"{name} {latency_of(us)}" for name, us in zip(PERCENTILES, latencies.all_us, strict=True))
    return Plot(data, figure, f"{latencies.model} over the whole time: {told}.")


def latencies_plot(facts: Facts) -> Plot:
    latencies = facts.traffic.latencies
    names = [label(service) for service in latencies.services]
    rows = latencies.of_services
    line_x = [edge for row in rows for edge in (max(1, row[0]), max(1, row[-1]), None)]
    line_y = [edge for place in range(len(rows)) for edge in (place, place, None)]
    line = {"type": "scatter", "mode": "lines", "x": line_x, "y": line_y, "showlegend": False, "hoverinfo": "skip"}
    data: list[Values] = [line | {"line": {"color": GREY, "width": 2}}]
    for place, (name, colour) in enumerate(zip(PERCENTILES, PERCENTILE_COLOURS, strict=True)):
        values = [us[place] for us in rows]
        marker = {"color": colour, "size": 10, "symbol": PERCENTILE_SYMBOLS[place]}
        data.append(_latency_marks(name, names, values, name + " %{customdata}<extra></extra>", marker))
    figure = row_layout(names, xaxis=latency_axis([us for row in rows for us in row]))
    slowest = max(range(len(rows)), key=lambda place: rows[place][2])
    summary = f"The slowest p99 is that of {named(latencies.services[slowest])}: {latency_of(rows[slowest][2])}."
    if latencies.service_count > len(rows):
        summary += f" {len(rows)} of {number_of(latencies.service_count)} services are shown, those with most requests."
    return Plot(data, figure, summary)


def p99_plot(facts: Facts) -> Plot:
    """Service by time, colour by p99: where and when it was slow."""
    traffic = facts.traffic
    latencies = traffic.latencies
    names = [label(service) for service in latencies.services]
    values = [[None if us is None else math.log10(max(1, us)) for us in row] for row in latencies.p99_over_time]
    drawn = [us for row in latencies.p99_over_time for us in row if us is not None]
    low, high = max(1, min(drawn)), max(1, *drawn)
    ticks = [us for us in latency_ticks(low, high) if low * 0.8 <= us <= high * 1.25]
    height = row_layout(names)["height"]
    ticks = ticks[:: -(-len(ticks) * TICK_PX // (height - FRAME_PX))]
    edges = [*traffic.bins.starts(), traffic.bins.starts()[-1] + timedelta(seconds=traffic.bins.step_s)]
    colours = {"tickvals": list(map(math.log10, ticks)), "ticktext": list(map(short_latency, ticks))}
    data: list[Values] = [
        {
            "type": "heatmap",
            "x": [time_of(edge) for edge in edges],
            "y": list(range(len(names))),
            "z": values,
            "zmin": math.log10(low) - 0.1,
            "zmax": math.log10(high) + 0.1,
            "customdata": [list(map(latency_of, row)) for row in latencies.p99_over_time],
            "text": [[name] * traffic.bins.count for name in names],
            "colorscale": [[place / 3, colour] for place, colour in enumerate(PERCENTILE_COLOURS)],
            "xgap": 1,
            "ygap": 1,
            "hoverongaps": False,
            "colorbar": colours | {"title": {"text": "p99"}, "thickness": 14},
            "hovertemplate": "%{text}<br>%{x}<br>p99 %{customdata}<extra></extra>",
        }
    ]
    row, place = next(
        (row, line.index(max(drawn))) for row, line in enumerate(latencies.p99_over_time) if max(drawn) in line
    )
    summary = (
        f"{latencies.model}; an empty field had no such request. The highest is {latency_of(max(drawn))}: "
        f"{named(latencies.services[row])} at {traffic.bins.starts()[place]:%Y-%m-%d %H:%M} UTC."
    )
    return Plot(data, row_layout(names, xaxis=bins_axis(traffic.bins) | {"showgrid": False}), summary)


def balance_plot(facts: Facts) -> Plot:
    """Each route a dot at its share of the mean."""
    rows = facts.balances.rows[:MAX_BALANCE_ROWS]
    names = [f"{label(row.service, 22)} · {label(row.routing)}" for row in rows]
    data: list[Values] = []
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        mean = row.requests / row.routes
        marker = {"color": BLUE, "size": 9, "opacity": 0.7}
        hover = name + "<br>%{customdata:,} requests, %{x:.2f} of the mean<extra></extra>"
        x, y = [load / mean for load in row.loads], [place] * len(row.loads)
        data.append(marks(name, x, y, row.loads, hover, marker, showlegend=False))
    told = [
        {
            "text": f"max/mean {row.max_per_mean:.2f} · Gini {row.gini:.2f} · {count_of(row.routes, 'route')}",
            "x": 1.01,
            "xref": "paper",
            "xanchor": "left",
            "y": place,
            "showarrow": False,
            "font": {"size": 11},
        }
        for place, row in enumerate(rows)
    ]
    if all(row.routes == 1 for row in rows):
        data = []  # a dot for each says nothing
    line = upright(1, {"color": GREY, "dash": "dash"})
    most = max(row.max_per_mean for row in rows)
    axis = {"title": {"text": "requests / mean of the service"}, "range": [-0.02 * most, 1.04 * most]}
    figure = row_layout(names, xaxis=axis, annotations=told, shapes=[line], right=230)
    worst = max(rows, key=lambda row: row.gini)
    summary = (
        f"Most uneven: {named(worst.service)} ({worst.routing}), Gini {worst.gini:.2f}, its busiest route has "
        f"{worst.max_per_mean:.2f} times the mean. Routes differ in their tags and in how long they were there, too."
    )
    if facts.balances.count > len(rows):
        summary += f" {len(rows)} of {number_of(facts.balances.count)} are shown, those with most requests."
    return Plot(data, figure, summary)


def fanouts_plot(facts: Facts) -> Plot:
    rows = facts.fanouts.rows
    names = [label(row.service) for row in rows]
    averages = [row.branches / row.multicasts for row in rows]
    widest = max(averages)
    service = rows[averages.index(widest)].service
    summary = f"The widest on average is {named(service)}: {widest:.2f} routes."
    if facts.fanouts.count > len(rows):
        summary += f" {len(rows)} of {number_of(facts.fanouts.count)} services are shown, those with most multicasts."
    return bar_plot(
        names,
        averages,
        BLUE,
        "routes per multicast, average",
        summary,
        text=[f"{average:.2f}" for average in averages],
        customdata=[row.multicasts for row in rows],
        hovertemplate="%{hovertext}<br>%{x:.2f} routes on average<br>%{customdata:,} multicasts<extra></extra>",
    )


def fanout_counts_plot(facts: Facts) -> Plot:
    rows = [row for row in facts.fanouts.rows if row.counts][: len(COLOURS)]
    most = max(row.counts[-1][0] for row in rows)
    width = -(-(most + 1) // MAX_FANOUT_BARS)
    data: list[Values] = []
    colours = dict(zip(facts.traffic.services, COLOURS, strict=False))
    for row in rows:
        sums: dict[int, int] = {}
        for routes, count in row.counts:
            sums[routes // width] = sums.get(routes // width, 0) + count
        name = label(row.service)
        ranges = [str(place) if width == 1 else f"{place * width} to {place * width + width - 1}" for place in sums]
        data.append(
            {
                "type": "bar",
                "name": name,
                "x": [place * width + (width - 1) / 2 for place in sums],
                "y": list(sums.values()),
                "width": width * 0.9,
                "customdata": ranges,
                "marker": {"color": colours.get(row.service, GREY)},
                "hovertemplate": "%{customdata} routes<br>%{y:,} multicasts<extra>" + name + "</extra>",
            }
        )
    axis = {"title": {"text": "routes that a multicast went to"}} | ({"dtick": 1} if most <= 20 else {})
    figure = layout(360, barmode="stack", xaxis=axis, yaxis=count_axis("multicasts"), showlegend=True)
    left = sum(1 for row in facts.fanouts.rows if row.counts) - len(rows)
    single = sum(count for row in rows for _, count in row.counts)
    summary = (
        f"{count_of(single, 'multicast')} recorded as single requests; the widest went to {number_of(most)} routes."
    )
    return Plot(data, figure, summary + (f" {left} services with fewer are left out." if left else ""))


def callers_plot(facts: Facts) -> Plot:
    rows = facts.callers.rows
    short = short_ids(row.caller_route for row in rows)
    names = [
        f"{label(row.caller_service, 16)} {harmless(short[row.caller_route])} → {label(row.service, 16)}"
        for row in rows
    ]
    series = (
        ("no errors", [row.requests - row.errors for row in rows], BLUE),
        ("errors", [row.errors for row in rows], RED),
    )
    data: list[Values] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "x": counts,
            "y": list(range(len(rows))),
            "hovertext": names,
            "marker": {"color": colour},
            "hovertemplate": "%{hovertext}<br>%{x:,} requests<extra>" + name + "</extra>",
        }
        for name, counts, colour in series
    ]
    axis = count_axis("requests", rows[0].requests)
    figure = row_layout(names, barmode="stack", xaxis=axis, showlegend=True)
    shown = sum(row.requests for row in rows)
    summary = (
        f"{len(rows)} of {number_of(facts.callers.count)} pairs of caller and service, with "
        f"{share_of(shown, facts.callers.requests)} of all requests. Most: {named(rows[0].caller_service)} "
        f"{short[rows[0].caller_route]} to {named(rows[0].service)}, {number_of(rows[0].requests)}."
    )
    return Plot(data, figure, summary)


def tags_plot(facts: Facts) -> Plot:
    return _ranking_plot(facts.rejections.by_tag, "tags")


def words_plot(facts: Facts) -> Plot:
    return _ranking_plot(facts.rejections.by_word, "code words")


def _ranking_plot(ranking: Record, noun: str) -> Plot:
    names = [label(name) for name in ranking.names]
    summary = f"Most: {named(ranking.names[0])} with {count_of(ranking.requests[0], 'request')}."
    left = ranking.count - len(names)
    if left > 0:
        summary += f" {number_of(left)} more {noun} with {count_of(ranking.others, 'request')} are left out."
    return bar_plot(names, ranking.requests, ORANGE, "rejected requests", summary)


def _middles(bins: Bins) -> list[str]:
    """The middle of each bin, where a line's dot stands."""
    return [time_of(start + timedelta(seconds=bins.step_s / 2)) for start in bins.starts()]

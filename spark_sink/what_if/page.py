"""A simulation as one HTML file with plots, which works without a network.

Needs plotly (the extra `report`); its program is in the file, some 4.5 MB. A policy in the head names the scripts that
may run, see `pages`.
"""

import html
from collections.abc import Sequence
from typing import Any, Final

from spark_sink.pages import html_page, plotly_script, scripts_in
from spark_sink.terminal import short_ids
from spark_sink.what_if.output import REPRODUCED, ServiceLoads, reproduced_rows, services_of, trust_text
from spark_sink.what_if.simulation import Simulation

MAX_SERVICES: Final = 20  # with a plot of their routes; those with the most requests
MAX_BARS: Final = 100  # routes of one plot

REAL: Final = "#7f8c9b"  # what was, in grey; what would be, in colour
ASKED: Final = "#d9622b"
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1100px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em; margin-bottom: 0 } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse; margin: .5em 0 } th, td { padding: .25em .8em; text-align: right }
th:first-child, td:first-child { text-align: left } tr { border-bottom: 1px solid #ddd }
.note { color: #666; font-size: .9em } .trust { font-weight: 600 }
"""


def page_of(simulation: Simulation) -> str:
    """The page. MissingPart: plotly is not installed."""
    plotly = plotly_script()
    parts = "".join(_parts(simulation))
    title = f"What if: {simulation.question.as_text()}"
    body = f"<h1>{html.escape(title)}</h1><script>{plotly}</script>{parts}"
    return html_page(title, _STYLE, body, (plotly, *scripts_in(parts)))


def _parts(simulation: Simulation) -> list[str]:
    result = simulation.result
    services = sorted(services_of(simulation), key=lambda service: (-service.real.requests, service.service))
    parts = [
        f"<p>{result.requests:,} requests, {html.escape(simulation.span)}.</p>",
        f"<p class=trust>{html.escape(trust_text(simulation))}</p>",
    ]
    if services:
        parts += ["<h2>How even the load is</h2>", _plot(_evenness(services[:MAX_SERVICES]))]
    parts += [_about(service) for service in services[:MAX_SERVICES]]
    if len(services) > MAX_SERVICES:
        parts.append(f"<p class=note>{MAX_SERVICES} of {len(services):,} services are shown.</p>")
    if result.shards:
        parts += ["<h2>Shard keys whose owner changes</h2>", _plot(_moves(simulation)), _moves_table(simulation)]
    if result.unroutable:
        parts += ["<h2>Requests that would find no route</h2>", _plot(_unroutable(simulation))]
    if simulation.checked.compared:
        parts += ["<h2>Real choices that the replay reproduces</h2>", _table(REPRODUCED, reproduced_rows(simulation))]
    parts += [f"<p class=note>{html.escape(note)}.</p>" for note in simulation.notes]
    return parts


def _about(service: ServiceLoads) -> str:
    name = html.escape(service.service or "without a name")
    shown = service.routes[:MAX_BARS]
    note = (
        f"<p class=note>{MAX_BARS} of {len(service.routes):,} routes are shown.</p>" if shown != service.routes else ""
    )
    return f"<h2>Routes of {name}</h2>{_plot(_routes(shown))}{note}"


def _evenness(services: list[ServiceLoads]) -> Any:
    """Max/mean and Gini, as it was and as asked, side by side."""
    names = [_label(service.service) for service in services]
    sides = [(service.real, service.asked) for service in services]
    max_over_mean = ("max_over_mean", "requests of the most loaded route / mean", ".2f")
    figure = _side_by_side(names, sides, max_over_mean, ("gini", "Gini coefficient", ".3f"))
    figure.add_hline(y=1, line_dash="dot", line_color="#999", row=1, col=1)
    return figure


def _routes(routes: list[tuple[str, Any]]) -> Any:
    """Requests and peaks in flight of each route, as it was and as asked, side by side."""
    ids = [_label(route_id) for route_id, _ in routes]
    short = short_ids(route_id for route_id, _ in routes)
    names = [_label(short[route_id]) + (" copy" if load.is_copy else "") for route_id, load in routes]
    sides = [(load.real, load.asked) for _, load in routes]
    figure = _side_by_side(ids, sides, ("requests", "requests", ",d"), ("peak", "most in flight at once", ",d"))
    figure.update_xaxes(tickmode="array", tickvals=ids, ticktext=names)
    return figure


def _moves(simulation: Simulation) -> Any:
    shards = sorted(simulation.result.shards.items())
    names = [_label(service) for service, _ in shards]
    keys = [100 * moves.keys.moved_n / max(1, moves.keys.keys_n) for _, moves in shards]
    requests = [100 * moves.moved_requests / max(1, moves.requests) for _, moves in shards]
    figure = _figure()
    for label, values, color in (("keys", keys, ASKED), ("requests", requests, "#f0b48f")):
        figure.add_bar(x=names, y=values, name=label, marker_color=color, texttemplate="%{y:.1f} %")
    figure.update_yaxes(title_text="% that another route owns", range=[0, 108])
    return figure


def _unroutable(simulation: Simulation) -> Any:
    rows = [
        (f"{_label(service)}: {_label(tag)}", number)
        for service, tags in simulation.result.unroutable.items()
        for tag, number in tags.items()
    ]
    rows = sorted(rows, key=lambda row: row[1])[-MAX_BARS:]
    figure = _figure()
    figure.add_bar(
        x=[number for _, number in rows],
        y=[name for name, _ in rows],
        orientation="h",
        marker_color=ASKED,
        texttemplate="%{x:,d}",
        showlegend=False,
    )
    figure.update_layout(height=max(200, 90 + 28 * len(rows)))
    figure.update_yaxes(type="category", automargin=True)
    return figure


def _figure() -> Any:
    from plotly import graph_objects as go  # optional: the extra report

    return go.Figure()


def _side_by_side(names: list[str], sides: list[tuple[Any, Any]], *columns: tuple[str, str, str]) -> Any:
    """A plot for each of the columns, (attribute of a side, title, form), with two bars for each name."""
    titles = [title for _, title, _ in columns]
    figure = _figure().set_subplots(rows=1, cols=len(columns), subplot_titles=titles, horizontal_spacing=0.08)
    for place, (name, color) in enumerate((("as it was", REAL), ("as asked", ASKED))):
        for column, (attribute, _, form) in enumerate(columns, 1):
            figure.add_bar(
                x=names,
                y=[getattr(side[place], attribute) for side in sides],
                name=name,
                marker_color=color,
                legendgroup=str(not place),
                showlegend=column == 1,
                hovertemplate=f"%{{x}}: %{{y:{form}}}",
                row=1,
                col=column,
            )
    return figure


def _label(name: str) -> str:
    """A name from a stranger: plotly takes some of HTML for markup."""
    return html.escape(name) or "-"


def _plot(figure: Any) -> str:
    if not figure.layout.yaxis.type:
        figure.update_xaxes(type="category")
    figure.update_layout(
        barmode="group",
        height=figure.layout.height or 380,
        template="plotly_white",
        margin={"l": 60, "r": 20, "t": 50, "b": 50},
        legend={"orientation": "h", "y": 1.18, "x": 0},
    )
    text: str = figure.to_html(include_plotlyjs=False, full_html=False, config={"displaylogo": False})
    return text


def _moves_table(simulation: Simulation) -> str:
    rows = [
        [
            service or "-",
            *(f"{count:,}" for count in (moves.keys.keys_n, moves.keys.moved_n, moves.requests, moves.moved_requests)),
        ]
        for service, moves in sorted(simulation.result.shards.items())
    ]
    return _table(["service", "keys", "moved", "requests", "moved"], rows)


def _table(columns: Sequence[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{html.escape(column)}" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}' for cell in row)}" for row in rows)
    return f"<table><tr>{head}{body}</table>"

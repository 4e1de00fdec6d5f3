"""The page at /: what this is, how it is, and where the rest is. Plain HTML without scripts; it reloads itself."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final
from urllib.parse import quote

import msgspec

from admin_api.answers.sentences import load_texts
from broker.views.samwise import MessageView
from broker.views.schemas import BrokerView, LinksView, LinkView, Listed, ServiceView, StatusView

RELOAD_S: Final = 5
DIALS: Final = 20  # that are shown
DEAD_LETTERS: Final = 20  # likewise
BUSIEST: Final = 10  # services, likewise

_STYLE: Final = """
html { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }
h1 { margin: 0 0 .5rem; overflow-wrap: anywhere }
h2 { font-size: 1.15rem; margin: 2rem 0 .25rem }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .3rem 1.5rem .3rem 0; font-weight: normal; vertical-align: top }
tr { border-bottom: 1px solid light-dark(#e6e6e6, #333) }
td:last-child, th.number:last-child { overflow-wrap: anywhere; padding-right: 0 }
td:first-child { overflow-wrap: anywhere }
code { white-space: nowrap; font-size: .8rem }
th { color: light-dark(#666, #aaa) }
.facts th { width: 7rem }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.state { font-weight: 600; padding: .15rem .6rem; border-radius: 1rem; color: #fff; background: #8a4b00 }
.ready { background: #1a6b34 }
@media (max-width: 30rem) {
  body { margin: 1rem auto }
  td, th { padding-right: .75rem }
  .paths td { display: block; padding: 0 }
  .paths tr { display: block; padding: .4rem 0 }
}
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# The Content-Security-Policy of all answers: no script runs, and no page of another site has one of them in a frame.
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="{reload_s}">
<title>{name} · rsocket-broker</title>
<style>{style}</style>
</head>
<body>
<h1>{name}</h1>
<p><span class="state {state}">{state}</span></p>
<table class="facts">
{facts}
</table>
{services}{cluster}{gateways}{dead}<h2>API</h2>
<table class="paths">
{links}
</table>
</body>
</html>
"""


# The page itself may not change anything (`changes.check_allowed`).
_CHANGES: Final = """<p>On the broker's machine, <code>rsocket-broker ctl samwise requeue ID</code> tries one again,
<code>rsocket-broker ctl samwise requeue --all</code> all of them,
<code>rsocket-broker ctl samwise remove ID</code> removes one,
and <code>rsocket-broker ctl samwise remove --dead</code> all of them.</p>
"""


def index_page(
    status: StatusView,
    services: Listed[ServiceView],
    brokers: Listed[BrokerView],
    links: LinksView,
    gateways: Mapping[str, Mapping[str, str]],
    dead: Sequence[MessageView],
    dead_n: int,
    paths: Iterable[tuple[str, str]],
) -> str:
    """The page; whatever a peer or an operator named is escaped. `services`: the busiest; `brokers`, `links`: the first
    of them; `gateways`: by name, how each is, empty where there is none; `dead`: the first of `dead_n` dead letters of
    the Samwise gateway; `paths`: those of the API, with what is there."""
    facts = {
        "broker": f"rsocket-broker {status.version}, core: {status.core}",
        "id": status.broker_id,
        "listens on": " ".join(status.listeners) or "nothing",
        "up": up_text(status.uptime_s),
        **load_texts(msgspec.to_builtins(status)),
    }
    return _PAGE.format(
        reload_s=RELOAD_S,
        style=_STYLE,
        name=escape(status.name),
        state=escape(status.state),
        services=_services(services),
        facts="\n".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in facts.items()),
        cluster=_cluster(brokers, links),
        gateways="".join(_table(name, len(texts), list(texts.items())) for name, texts in gateways.items()),
        dead=_dead_letters(dead, dead_n),
        links="\n".join(
            f'<tr><td><a href="{path}">{path}</a></td><td>{escape(what)}</td></tr>' for path, what in paths
        ),
    )


def up_text(uptime_s: float) -> str:
    """`3 d 4 h`, `4 h 12 min`, `12 min`, `40 s`: as exact as one wants to know it."""
    minutes = int(uptime_s) // 60
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days:,} d {hour} h"
    if hours:
        return f"{hours} h {minute} min"
    return f"{minutes} min" if minutes else f"{uptime_s:,.0f} s"


def counted(number: int, noun: str) -> str:
    """`1 route`, `2 routes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _services(services: Listed[ServiceView]) -> str:
    """A table; nothing where there are none."""
    if not services.total:
        return ""
    rows = [
        f'<tr><td><a href="/api/v1/services/{quote(each.service, safe="")}">{escape(each.service)}</a></td>'
        f'<td class="number">{each.routes:,}</td><td class="number">{each.requests:,}</td>'
        f'<td class="number">{each.in_flight:,}</td></tr>'
        for each in services.items
    ]
    if services.total > len(rows):
        rows.append(f'<tr><td>and <a href="/api/v1/services">{services.total - len(rows):,} more</a></td></tr>')
    heads = "".join(f'<th class="number">{each}</th>' for each in ("routes", "requests", "in flight"))
    lines = "\n".join(rows)
    return f"<h2>Services</h2>\n<table>\n<tr><th>the busiest first</th>{heads}</tr>\n{lines}\n</table>\n"


def _cluster(brokers: Listed[BrokerView], links: LinksView) -> str:
    """Three tables; nothing where the broker is alone and calls nobody."""
    if brokers.total <= 1 and not links.total and not links.dials:
        return ""
    known = [(each.name, each.state, _way(each), counted(each.routes, "route")) for each in brokers.items]
    linked = [(each.name or each.peer, each.state, up_text(each.since_s), _lag(each)) for each in links.items]
    called = [(each.url, counted(each.attempts, "time"), each.error) for each in links.dials[:DIALS]]
    return (
        _table("Brokers", brokers.total, known)
        + _table("Links", links.total, linked)
        + _table("Dials that fail", len(links.dials), called)
    )


def _dead_letters(letters: Sequence[MessageView], total: int) -> str:
    """A table, and what can be done with them; nothing where there are none."""
    if not letters:
        return ""
    rows = [(f"{each.id}", _dead_letter(each)) for each in letters]
    return _table("Dead letters", max(total, len(rows)), rows) + _CHANGES


def _table(head: str, total: int, rows: Sequence[tuple[str, ...]]) -> str:
    """Nothing where there are none."""
    if not total:
        return ""
    cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    if total > len(rows):
        cells.append(f"<td>and {total - len(rows):,} more</td>")
    lines = "\n".join(f"<tr>{each}</tr>" for each in cells)
    return f"<h2>{head}</h2>\n<table>\n{lines}\n</table>\n"


def _dead_letter(letter: MessageView) -> str:
    acknowledged = f"{len(letter.acknowledged_by):,} of {letter.acknowledgements:,} have acknowledged it"
    to = f"{letter.exchange} {letter.routing_key}".rstrip()
    return f"to {to}, {letter.payload_bytes:,} bytes; {acknowledged}, {letter.tries:,} tries; {letter.reason}"


def _way(broker: BrokerView) -> str:
    if broker.hops is None:
        return "no way"
    return f"{counted(broker.hops, 'hop')} by way of {broker.next_hop}" if broker.hops else "this one"


def _lag(link: LinkView) -> str:
    return f"{link.lag_us / 1000:,.1f} ms round trip" if link.lag_us is not None else ""

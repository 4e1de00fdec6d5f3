"""The page at /: what this is, how it is, and where the rest is. Plain HTML without scripts; it reloads itself."""

from collections.abc import Mapping
from html import escape
from typing import Final

from broker.views import StatusView

RELOAD_S: Final = 5
LINKS: Final = (
    ("/api/v1/status", "the broker in one look"),
    ("/api/v1/routes", "who offers what: ?service=orders&amp;tag.region=eu"),
    ("/api/v1/services", "services that have a route"),
    ("/api/v1/connections", "connections"),
    ("/api/v1/connections/closed", "connections that ended of late, with the reason"),
    ("/api/v1/drains", "what gets no new requests, because somebody said so"),
    ("/api/v1/limits", "limits in use, and why they are there"),
    ("/api/v1/traffic", "ended requests by service, model, routing and outcome"),
    ("/metrics", "for Prometheus"),
    ("/livez", "does it live?"),
    ("/readyz", "does it take requests?"),
)

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="{reload_s}">
<title>{name} · rsocket-broker</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse }}
td, th {{ text-align: left; padding: .15rem 1.5rem .15rem 0; font-weight: normal; vertical-align: top }}
th {{ color: #777 }}
</style>
</head>
<body>
<h1>{name}</h1>
<table>
{facts}
</table>
<h2>API</h2>
<table>
{links}
</table>
</body>
</html>
"""


def states_text(states: Mapping[str, int]) -> str:
    """`2 draining, 1 ejected`; empty when all routes are as they should be."""
    return ", ".join(f"{number:,} {state}" for state, number in states.items() if number)


def index_page(status: StatusView) -> str:
    """The page; whatever a peer or an operator named is escaped."""
    facts = {
        "state": status.state,
        "broker": f"rsocket-broker {status.version}, core: {status.core}",
        "id": status.broker_id,
        "listens on": " ".join(status.listeners) or "nothing",
        "up": f"{status.uptime_s:,.0f} s",
        "connections": f"{status.connections:,} now, {status.connections_accepted:,} ever",
        "routes": f"{status.routes:,} of {status.services:,} services",
        "kept away from": states_text(status.route_states) or "none of them",
        "requests": f"{status.streams:,} in flight, {status.waiting.requests:,} wait, {status.requests:,} ended",
        "drained": f"{status.drains:,}" if status.drains else "nothing",
    }
    return _PAGE.format(
        reload_s=RELOAD_S,
        name=escape(status.name),
        facts="\n".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in facts.items()),
        links="\n".join(f'<tr><td><a href="{path}">{path}</a></td><td>{what}</td></tr>' for path, what in LINKS),
    )

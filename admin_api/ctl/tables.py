"""Tables of `rsocket-broker ctl`: which path of the API has which columns. A list that is added is added here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from admin_api.ctl.terminal import age

Item: TypeAlias = dict[str, Any]  # as the API gives it


class Column(NamedTuple):
    """One column."""

    head: str  # begins with >: right-aligned
    cell: Callable[[Item], str]


class Table(NamedTuple):
    """One list of the API."""

    path: str
    columns: tuple[Column, ...]
    empty: str = ""  # printed in place of a table without rows; empty: the table is


def text(head: str, field: str, absent: str = "") -> Column:
    """`absent`: in place of an empty text."""
    return Column(head, lambda item: item[field] or absent)


def count(head: str, field: str) -> Column:
    """`12,345`; `-` for None."""
    return Column(f">{head}", lambda item: "-" if item[field] is None else f"{item[field]:,}")


def number(head: str, field: str) -> Column:
    """A number that identifies something."""
    return Column(f">{head}", lambda item: str(item[field]))


def duration(head: str, field: str) -> Column:
    """`3 min 20 s`."""
    return Column(head, lambda item: age(item[field]))


def moment(at_ms: int | None) -> str:
    """`2026-03-01 08:30:00`, of UTC; `-` for None."""
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(" ", "seconds")[:19]


def seconds(head: str, field: str) -> Column:
    """`1.5 s`, as it was configured."""
    return Column(f">{head}", lambda item: f"{item[field]:g} s")


def tags_text(route: Item) -> str:
    """`region=eu zone=a`: without the default tags, whose values have columns of their own."""
    own = (("io.rsocket.routing.ServiceName", route["service"]), ("io.rsocket.routing.RouteId", route["route_id"]))
    shown = [tag for tag in route["tags"] if (tag["key"], tag["value"]) not in own]
    return " ".join(tag["name"] if tag["value"] is None else f"{tag['name']}={tag['value']}" for tag in shown)


def state_text(route: Item) -> str:
    """`draining ejected(12 s)`; `ready` when the route is in no such state."""
    shown = [f"{state}({age(route['ejected_s'])})" if state == "ejected" else state for state in route["states"]]
    return " ".join(shown) or "ready"


ROUTES: Final = Table(
    "/api/v1/routes",
    (
        text("service", "service"),
        text("route id", "route_id"),
        Column("tags", tags_text),
        Column("state", state_text),
        text("broker", "broker"),
        text("peer", "peer", absent="-"),
        duration("age", "age_s"),
        count("in flight", "in_flight"),
        count("requests", "requests"),
    ),
    "no routes",
)
SERVICES: Final = Table(
    "/api/v1/services",
    (
        text("service", "service"),
        count("routes", "routes"),
        count("remote", "remote"),
        count("ejected", "ejected"),
        count("in flight", "in_flight"),
        count("requests", "requests"),
        count("refused", "refused"),
    ),
    "no services",
)
TRAFFIC: Final = Table(
    "/api/v1/traffic",
    (
        text("service", "service"),
        text("model", "model"),
        text("routing", "routing"),
        text("outcome", "outcome"),
        text("code", "code", absent="-"),
        count("requests", "requests"),
        count("items in", "items_in"),
        count("items out", "items_out"),
        count("bytes in", "bytes_in"),
        count("bytes out", "bytes_out"),
        count("p50 µs", "latency_p50_us"),
        count("p99 µs", "latency_p99_us"),
        count("max µs", "latency_max_us"),
    ),
    "no request has ended",
)
LIMITS: Final = Table(
    "/api/v1/limits",
    (
        text("limit", "name"),
        Column(">value", lambda item: f"{item['value']}"),
        text("unit", "unit"),
        Column(">default", lambda item: f"{item['default']}"),
        text("why", "why"),
    ),
)
CONNECTIONS: Final = Table(
    "/api/v1/connections",
    (
        number("id", "connection_id"),
        text("peer", "peer"),
        text("state", "state"),
        text("service", "service"),
        duration("age", "age_s"),
        duration("idle", "idle_s"),
        count("asking", "streams_begun"),
        count("serving", "streams_served"),
        count("requests", "requests"),
    ),
    "no connections",
)
CLOSED: Final = Table(
    "/api/v1/connections/closed",
    (
        number("id", "connection_id"),
        text("peer", "peer"),
        text("service", "service"),
        duration("lasted", "duration_s"),
        text("reason", "reason"),
        text("detail", "detail"),
    ),
    "no closed connections",
)
DRAINS: Final = Table(
    "/api/v1/drains",
    (
        text("what", "kind"),
        text("name", "name"),
        duration("age", "age_s"),
        seconds("grace", "grace_s"),
        seconds("spread", "spread_s"),
        count("routes", "routes"),
        Column(">to close", lambda item: f"{item['connections_left']:,}" if item["close"] else "stay open"),
    ),
    "nothing is drained",
)
BROKERS: Final = Table(
    "/api/v1/brokers",
    (
        text("broker", "name"),
        text("state", "state"),
        count("hops", "hops"),
        count("cost", "cost"),
        Column("next hop", lambda item: "this one" if item["is_self"] else item["next_hop"] or "-"),
        count("routes", "routes"),
        text("broker id", "broker_id"),
        Column("urls", lambda item: " ".join(item["urls"]) or "-"),
    ),
)
LINKS: Final = Table(
    "/api/v1/links",
    (
        number("id", "connection_id"),
        text("broker", "name", absent="-"),
        text("peer", "peer"),
        text("direction", "direction"),
        text("state", "state"),
        duration("since", "since_s"),
        Column(">lag", lambda item: "-" if item["lag_us"] is None else f"{item['lag_us'] / 1000:.1f} ms"),
        Column("agreed", lambda item: "yes" if item["is_agreed"] else "no"),
        count("mismatches", "mismatches"),
        Column("roles", lambda item: "differ" if item["has_other_roles"] else "-"),
        count("streams", "streams"),
        count("pending", "pending_bytes"),
    ),
    "no links",
)
DIALS: Final = Table(  # of the field `dials` there
    "/api/v1/links",
    (text("failed dials", "url"), count("attempts", "attempts"), duration("next in", "next_s"), text("error", "error")),
)
PATHS: Final = Table(
    "/api/v1/paths",
    (
        text("ingress", "ingress", absent="(other)"),
        Column("way", lambda item: " > ".join(item["way"])),
        Column(">hops", lambda item: str(item["hops"]) if item["way"] else "-"),
        count("requests", "requests"),
        Column("last seen", lambda item: f"{age(item['idle_s'])} ago"),
    ),
    "no request came from another broker",
)
MESSAGES: Final = Table(
    "/api/v1/samwise/messages",
    (
        number("id", "id"),
        text("exchange", "exchange"),
        text("routing key", "routing_key"),
        count("bytes", "payload_bytes"),
        Column("acknowledged", lambda item: f"{len(item['acknowledged_by'])} of {item['acknowledgements']}"),
        count("tries", "tries"),
        text("reason", "reason"),
    ),
    "no messages",
)
DESTINATIONS: Final = Table(  # of the field `destinations` there
    "/api/v1/samwise",
    (
        text("destination", "name"),
        Column("state", lambda item: {True: "up", False: "down", None: "-"}[item["is_up"]]),
        count("waiting", "waiting"),
        count("acknowledged", "acknowledged"),
        count("retried", "retried"),
        count("failed", "failed"),
        text("detail", "detail"),
    ),
)
POSTED: Final = Table(  # of the field `posted` there
    "/api/v1/feed",
    (
        text("folder", "name"),
        text("posts", "what"),
        count("announced", "files"),
        count("waiting", "waiting"),
        count("last post", "last_post"),
        text("fetched from", "base_url"),
        text("problem", "problem"),
    ),
    "no folder is announced",
)
SINKS: Final = Table(  # of the fields `sinks` of these, with the folder
    "/api/v1/feed",
    (
        text("folder", "folder"),
        text("sink", "name"),
        text("state", "state"),
        count("confirmed to", "confirmed_to"),
        count("behind", "waiting"),
    ),
)
CONSUMERS: Final = Table(  # of the fields `consumers`, likewise
    "/api/v1/feed",
    (
        text("folder", "folder"),
        text("consumer", "name"),
        count("has", "has"),
        count("lacks", "missing"),
        count("failed", "failed"),
        Column("last report", lambda item: moment(item["last_report_at_ms"])),
        Column(
            "lacks since",
            lambda item: moment(item["missing_since_ms"]) if item["missing_since_ms"] is not None else "-",
        ),
    ),
)
MIRRORS: Final = Table(  # of the field `mirrors` there
    "/api/v1/feed",
    (
        text("mirror", "name"),
        count("received", "received"),
        count("done", "done"),
        count("repeats", "repeats"),
        count("refused", "refused"),
        count("wait", "retries"),
        count("given up", "given_up"),
        text("into", "folder"),
        text("problem", "problem"),
    ),
)
WINNOWED: Final = Table(  # of the field `winnowed` there
    "/api/v1/feed",
    (
        text("winnower", "name"),
        count("received", "received"),
        count("passed on", "passed"),
        count("repeats", "repeats"),
        count("refused", "refused"),
        text("problem", "problem"),
    ),
)
SOURCES: Final = Table(  # of the fields `sources` of these, with the name of which it is
    "/api/v1/feed",
    (text("of", "of"), text("source", "name"), text("state", "state")),
)
POSTS: Final = Table(  # of a folder
    "/api/v1/feed/{folder}/posts",
    (
        count("number", "number"),
        text("path", "path"),
        Column(">block", lambda item: "-" if item["block"] is None else str(item["block"])),
        text("state", "state"),
        Column("posted", lambda item: moment(item["posted_at_ms"])),
        Column("has it", lambda item: " ".join(each["consumer"] for each in item["reports"] if each["has_it"])),
        Column(
            "has not",
            lambda item: " ".join(
                f"{each['consumer']}: {each['code']}" for each in item["reports"] if not each["has_it"]
            ),
        ),
    ),
    "no posts",
)
REVOCATIONS: Final = Table(
    "/api/v1/revocations",
    (
        text("identity", "principal"),
        Column("issued before", lambda item: moment(item["before_ms"])),
        Column("set at", lambda item: "the file" if item["is_of_file"] else item["broker"] or item["broker_id"]),
    ),
    "nothing is revoked",
)
REDIRECTS: Final = Table(
    "/api/v1/redirects",
    (
        text("service", "service"),
        text("to", "to"),
        duration("age", "age_s"),
        Column("set at", lambda item: item["broker"] or item["broker_id"]),
    ),
    "nothing is redirected",
)

"""A table at an instant, and what two of them differ in, for people: sentences, then rows.

Names come from strangers: they are shown without control characters and are no markup.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console

from spark_sink.history.records import DIED, RUNNING, STOPPED
from spark_sink.terminal import print_rows, say
from spark_sink.time_travel import values
from spark_sink.timestamps import moment_text, span_text

OWN_TAGS: Final = ("io.rsocket.routing.ServiceName", "io.rsocket.routing.RouteId")  # said in columns of their own
LIVES: Final = {RUNNING: "running", values.SILENT: "no later record", STOPPED: "stopped", DIED: "died"}
MAX_GAPS: Final = 5  # that are shown; the JSON has more


def filtered(
    routes: Iterable[values.SeenRoute], service: str | None, tags: Sequence[tuple[str, str]]
) -> list[values.SeenRoute]:
    """Those of this service with all these tags. A repeated tag stands as "eu,us", and each of its values counts."""
    return [
        route
        for route in routes
        if service in (None, route.service)
        and all(value == (found := tag_of(route, name)) or value in (found or "").split(",") for name, value in tags)
    ]


def tag_of(route: values.SeenRoute, name: str) -> str | None:
    """The value of a tag, by its name or the last part of a well-known one; None: the route has no such tag."""
    if name in route.tags:
        return route.tags[name]
    return next((value for key, value in route.tags.items() if key.rpartition(".")[2].lower() == name.lower()), None)


def print_table_at(table: values.TableAt, routes: Sequence[values.SeenRoute], console: Console) -> None:
    """`routes`: those of its routes that are to be shown."""
    say(console, headline(table), "bold")
    for sentence in sentences(table):
        say(console, sentence)
    for sentence in warnings(table):
        say(console, sentence, "yellow")
    if not routes:
        say(console, "no routes" if not table.routes else f"none of the {len(table.routes):,} routes matches")
        return
    rows = [_cells(route, table) for route in routes]
    console.print()
    print_rows(console, ("service", "route id", "tags", "since", ">uptime", "broker", "peer", ">requests"), rows)
    console.print()
    if len(routes) < len(table.routes):
        say(console, f"{len(routes):,} of {len(table.routes):,} routes are shown.", "dim")
    say(console, "requests: as of the broker's last snapshot, or of the time when the route joined.", "dim")


def print_difference(
    before: values.TableAt, after: values.TableAt, difference: values.Difference, console: Console
) -> None:
    """`difference`: what of it is to be shown."""
    for table in (before, after):
        say(console, headline(table), "bold")
        for sentence in (*sentences(table), *warnings(table)):
            say(console, sentence)
    if difference.is_empty:
        say(console, "no difference")
        return
    rows = [("+ joined", *_short_cells(route, after)) for route in difference.joined]
    rows += [("- left", *_short_cells(route, before)) for route in difference.left]
    rows += [("~ replaced", *_changed_cells(change, before, after)) for change in difference.replaced]
    rows += [("~ changed", *_changed_cells(change, before, after)) for change in difference.changed]
    console.print()
    print_rows(console, ("", "service", "route id", "tags", "since", "broker", "peer"), rows)
    console.print()
    counts = ", ".join(f"{len(routes):,} {word}" for word, routes in difference._asdict().items() if routes)
    say(console, counts, "dim")


def headline(table: values.TableAt) -> str:
    """Whose table, and when."""
    return (
        f"broker {table.broker_name} ({table.broker_id}), run {table.epoch}, at {moment_text(table.at)} UTC: "
        f"{len(table.routes):,} route{'' if len(table.routes) == 1 else 's'}, {LIVES[table.life]}"
    )


def sentences(table: values.TableAt) -> list[str]:
    """What it is made of, and what the broker's own digests say."""
    kind = {values.SNAPSHOT: "a snapshot", values.BROKER_START: "the broker's start"}.get(
        table.start, "the first record that is there"
    )
    return [
        f"made from {kind} of {moment_text(table.start_at)} "
        f"up to record {table.last_seq:,} of {moment_text(table.last_at)}",
        f"digest {table.digest}: {_verdict(table)}",
        *table.notes,
    ]


def warnings(table: values.TableAt) -> list[str]:
    """What is missing; empty: nothing is."""
    if table.is_complete:
        return []
    found = [_gap_text(gap) for gap in table.gaps[:MAX_GAPS]]
    if len(table.gaps) > MAX_GAPS:
        found.append(f"{len(table.gaps) - MAX_GAPS:,} more gaps, see --json")
    if table.start == values.FIRST_RECORD:
        head = "the beginning is missing, so routes may be missing"
    elif table.gaps:
        head = "records are missing between the start and the instant, so routes may be missing or too many"
    else:
        head = "files were passed over, though no number is missing"
    return [f"INCOMPLETE: {head}", *(f"  {text}" for text in (*found, *table.problems))]


def _verdict(table: values.TableAt) -> str:
    if table.verdict == values.NONE_NEAR:
        return "the broker wrote none near this moment, so it is not checked"
    if table.verdict == values.EQUAL:
        return "equal to the broker's own " + " and ".join(_check_text(check, table) for check in table.checks)
    parts = [
        f"{'equal' if check.is_equal else f'NOT EQUAL ({check.recorded} written, {check.rebuilt} rebuilt)'} to the "
        f"broker's own {_check_text(check, table)}"
        for check in table.checks
    ]
    return ", ".join(parts)


def _check_text(check: values.Check, table: values.TableAt) -> str:
    seconds = (check.at - table.at).total_seconds()
    where = "before" if seconds <= 0 else "later"
    return f"of {moment_text(check.at)} ({span_text(abs(round(seconds * 1_000_000)))} {where})"


def _gap_text(gap: values.Gap) -> str:
    which = (
        f"record {gap.first_seq:,}"
        if gap.first_seq == gap.last_seq
        else f"records {gap.first_seq:,} to {gap.last_seq:,}"
    )
    how_many = "" if gap.records == gap.last_seq - gap.first_seq + 1 else f", {gap.records:,} of them"
    return f"{which}{how_many}: {gap.reason}{f' ({gap.detail})' if gap.detail else ''}"


def _cells(route: values.SeenRoute, table: values.TableAt) -> tuple[str, ...]:
    return (
        route.service,
        route.route_id,
        _tags_text(route),
        moment_text(route.joined_at),
        span_text(round(route.uptime.total_seconds() * 1_000_000)),
        "local" if not route.broker_id else table.names.get(route.broker_id) or route.broker_id,
        "-" if route.broker_id else route.peer,
        f"{route.requests:,}",
    )


def _short_cells(route: values.SeenRoute, table: values.TableAt) -> tuple[str, ...]:
    cells = _cells(route, table)
    return (*cells[:4], *cells[5:7])


def _changed_cells(change: values.Change, before: values.TableAt, after: values.TableAt) -> tuple[str, ...]:
    """Both values where they differ."""
    old, new = _short_cells(change.before, before), _short_cells(change.after, after)
    return tuple(
        new_cell if old_cell == new_cell else f"{old_cell} → {new_cell}"
        for old_cell, new_cell in zip(old, new, strict=True)
    )


def _tags_text(route: values.SeenRoute) -> str:
    tags = sorted(
        (name.rpartition(".")[2] if name.startswith("io.rsocket.") else name, value)
        for name, value in route.tags.items()
        if name not in OWN_TAGS
    )
    return " ".join(f"{name}={value}" if value else name for name, value in tags) or "-"

"""A simulation for people and for programs: tables on a terminal, and one JSON value with the same numbers.

Knows what the numbers mean, and nothing of how they came about.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, to_builtins
from rich.console import Console

from broker.routing.balance import gini, max_over_mean
from spark_sink.terminal import print_rows, say, short_ids
from spark_sink.what_if.results import Compared, Load, RouteLoad
from spark_sink.what_if.simulation import Simulation

MAX_ROUTES: Final = 40  # of a terminal's table; JSON and the page have all
REPRODUCED: Final = ("chosen by", "choices", "reproduced", "")


class Side(Struct):
    """The routes of one service together: as it was, or as asked."""

    routes: int  # that were there
    requests: int
    max_over_mean: float
    gini: float
    peak_in_flight: int  # the largest number at one route

    @classmethod
    def of(cls, loads: Sequence[Load]) -> "Side":
        requests = [load.requests for load in loads if load.is_there or load.requests]
        peak = max((load.peak for load in loads), default=0)
        return cls(len(requests), sum(requests), max_over_mean(requests), gini(requests), peak)


class ServiceLoads(NamedTuple):
    """Both sides of one service."""

    service: str
    routes: list[tuple[str, RouteLoad]]  # by Route Id; those with the most requests first
    real: Side
    asked: Side


def services_of(simulation: Simulation) -> list[ServiceLoads]:
    """The services that have requests, by name; their routes by requests, the most first."""
    by_service: dict[str, list[tuple[str, RouteLoad]]] = {}
    for route_id, load in simulation.result.routes.items():
        by_service.setdefault(load.service, []).append((route_id, load))
    found = []
    for service, routes in sorted(by_service.items()):
        routes.sort(key=lambda pair: (-pair[1].real.requests, -pair[1].asked.requests, pair[0]))
        real, asked = (Side.of(loads) for loads in zip(*((load.real, load.asked) for _, load in routes), strict=True))
        if real.requests or asked.requests:
            found.append(ServiceLoads(service, routes, real, asked))
    return found


def print_simulation(simulation: Simulation, console: Console) -> None:
    """To a terminal."""
    result = simulation.result
    say(console, f"What if: {simulation.question.as_text()}", "bold")
    say(console, f"{result.requests:,} requests, {simulation.span}")
    say(console, trust_text(simulation))
    services = services_of(simulation)
    _print(
        console,
        "Load per service",
        ["service", *_both("routes", "requests", "max/mean", "Gini", "peak in flight")],
        [_service_cells(service) for service in services],
    )
    routes = [(route_id, load) for service in services for route_id, load in service.routes]
    short = short_ids(route_id for route_id, _ in routes)
    totals = {service.service: service for service in services}
    _print(
        console,
        "Load per route",
        ["service", "route", *_both("requests", "share", "peak in flight")],
        [_route_cells(short[route_id], load, totals[load.service]) for route_id, load in routes[:MAX_ROUTES]],
        f"{MAX_ROUTES} of {len(routes):,} are shown." if len(routes) > MAX_ROUTES else "",
    )
    _print(
        console,
        "Shard keys whose owner changes",
        ["service", "requests", "moved", "", "keys", "moved", ""],
        [
            [
                service,
                *_parted(moves.requests, moves.moved_requests),
                *_parted(keys.keys_n, keys.moved_n, keys.is_exact),
            ]
            for service, moves in sorted(result.shards.items())
            for keys in [moves.keys]
        ],
    )
    _print(
        console,
        "Would find no route",
        ["service", "because of", "requests"],
        [
            [service, tag, f"{number:,}"]
            for service, tags in sorted(result.unroutable.items())
            for tag, number in sorted(tags.items(), key=lambda pair: (-pair[1], pair[0]))
        ],
        texts=2,
    )
    _print(
        console,
        "Found no route, and would find one",
        ["service", "requests"],
        [[service, f"{number:,}"] for service, number in sorted(result.newly_routed.items())],
    )
    if result.multicast_requests:
        branches = f"{result.real_branches:,} branches, and would to {result.branches:,}"
        say(console, f"{result.multicast_requests:,} multicast requests go to all that match: {branches}")
    title = "Real choices that a replay of the real settings reproduces"
    _print(console, title, REPRODUCED, reproduced_rows(simulation))
    for note in simulation.notes:
        say(console, note, "dim")


def reproduced_rows(simulation: Simulation) -> list[list[str]]:
    """The real choices of each method, under `REPRODUCED`."""
    return [
        [name, *_parted(compared.choices, compared.same)]
        for name, compared in sorted(simulation.checked.compared.items())
    ]


def trust_text(simulation: Simulation) -> str:
    """How far to trust it, in one sentence."""
    total = compared_in_all(simulation)
    if not total.choices:
        return "No single requests were recorded, so nothing says how many real choices a replay reproduces."
    share = percent(total.same, total.choices)
    return f"With the real settings the replay reproduces {total.same:,} of {total.choices:,} real choices ({share})."


def compared_in_all(simulation: Simulation) -> Compared:
    """Of all methods together."""
    compared = simulation.checked.compared.values()
    return Compared(sum(each.choices for each in compared), sum(each.same for each in compared))


def as_json(simulation: Simulation) -> dict[str, Any]:
    """One plain value; docs/spark/what-if.md says what is in it."""
    result = simulation.result
    total = compared_in_all(simulation)
    return {
        "question": simulation.question.as_text(),
        "requests": result.requests,
        "first_us": result.first_us,
        "last_us": result.last_us,
        "moved_requests": result.moved_requests,
        "services": [
            {
                "service": service.service,
                "real": _json_side(service.real),
                "simulated": _json_side(service.asked),
                "routes": [
                    {
                        "route_id": route_id,
                        "is_copy": load.is_copy,
                        "real": {"requests": load.real.requests, "peak_in_flight": load.real.peak},
                        "simulated": {"requests": load.asked.requests, "peak_in_flight": load.asked.peak},
                    }
                    for route_id, load in service.routes
                ],
            }
            for service in services_of(simulation)
        ],
        "shards": {
            service: {
                "requests": moves.requests,
                "moved_requests": moves.moved_requests,
                "keys": moves.keys.keys_n,
                "moved_keys": moves.keys.moved_n,
                "is_exact": moves.keys.is_exact,
            }
            for service, moves in sorted(result.shards.items())
        },
        "unroutable": result.unroutable,
        "newly_routed": result.newly_routed,
        "still_refused": result.still_refused,
        "multicast": {
            "requests": result.multicast_requests,
            "real_branches": result.real_branches,
            "simulated_branches": result.branches,
        },
        "reproduced": to_builtins(total)
        | {"by_method": to_builtins(dict(sorted(simulation.checked.compared.items())))},
        "not_replayed": result.not_replayed,
        "notes": simulation.notes,
    }


def percent(part: int, whole: int) -> str:
    """`12.3 %`; never 100 % or 0 % for what is nearly so."""
    if not whole:
        return "-"
    share = 100 * part / whole
    text = f"{share:.1f}"
    if text == "100.0" and part < whole:
        text = "99.9"
    elif text == "0.0" and part:
        text = "0.1"
    return f"{text} %"


def _parted(whole: int, part: int, is_exact: bool = True) -> list[str]:
    return [("" if is_exact else "about ") + f"{whole:,}", f"{part:,}", percent(part, whole)]


def _json_side(side: Side) -> dict[str, Any]:
    rounded = {"max_over_mean": round(side.max_over_mean, 4), "gini": round(side.gini, 4)}
    return to_builtins(side) | rounded  # type: ignore[no-any-return]


def _service_cells(loads: ServiceLoads) -> list[str]:
    sides = (loads.real, loads.asked)
    forms = (("routes", ","), ("requests", ","), ("max_over_mean", ".2f"), ("gini", ".3f"), ("peak_in_flight", ","))
    return [loads.service or "-", *(format(getattr(side, name), form) for name, form in forms for side in sides)]


def _route_cells(name: str, load: RouteLoad, service: ServiceLoads) -> list[str]:
    name += " (copy)" if load.is_copy else ""
    sides = ((load.real, service.real), (load.asked, service.asked))
    requests = [f"{mine.requests:,}" for mine, _ in sides]
    shares = [percent(mine.requests, all_of.requests) for mine, all_of in sides]
    return [load.service or "-", name, *requests, *shares, *(f"{mine.peak:,}" for mine, _ in sides)]


def _both(*columns: str) -> list[str]:
    """Each as it was, and as it would be."""
    return [name for column in columns for name in (column, "would be")]


def _print(
    console: Console,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    note: str = "",
    texts: int = 1,
) -> None:
    """A table; nothing when it has no rows. `texts`: its first columns that are no numbers."""
    if not rows:
        return
    console.print()
    say(console, title, "bold")
    console.print()
    print_rows(console, [*columns[:texts], *(f">{column}" for column in columns[texts:])], rows)
    if note:
        say(console, note, "dim")

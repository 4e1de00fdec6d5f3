"""A simulation for people and for programs: tables on a terminal, and one JSON value with the same numbers.

Knows what the numbers mean, and nothing of how they came about.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, to_builtins
from rich.console import Console

from broker.routing.balance import gini, max_over_mean
from spark_sink.terminal import print_rows, say, short_ids
from spark_sink.what_if.results import Compared, RouteLoad
from spark_sink.what_if.simulation import Simulation

MAX_ROUTES: Final = 40  # of a terminal's table; JSON and the page have all
REPRODUCED: Final = ("chosen by", "choices", "reproduced", "")


class ServiceLoads(Struct):
    """The routes of one service together, as it was and as asked."""

    service: str
    routes: list[tuple[str, RouteLoad]]  # by Route Id, those that were there, or are as asked

    def loads(self, *, real: bool) -> list[int]:
        """Requests of each route that was there."""
        if real:
            return [load.real_requests for _, load in self.routes if load.was_there or load.real_requests]
        return [load.requests for _, load in self.routes if load.is_there or load.requests]

    def peak(self, *, real: bool) -> int:
        """The largest number in flight at one route."""
        return max((load.real_peak if real else load.peak for _, load in self.routes), default=0)


def services_of(simulation: Simulation) -> list[ServiceLoads]:
    """The services that have requests, by name; their routes by requests, the most first."""
    found: dict[str, ServiceLoads] = {}
    for route_id, load in simulation.result.routes.items():
        found.setdefault(load.service, ServiceLoads(load.service, [])).routes.append((route_id, load))
    for service in found.values():
        service.routes.sort(key=lambda pair: (-pair[1].real_requests, -pair[1].requests, pair[0]))
    return [
        found[name]
        for name in sorted(found)
        if any(load.requests or load.real_requests for _, load in found[name].routes)
    ]


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
    totals = {service.service: (sum(service.loads(real=True)), sum(service.loads(real=False))) for service in services}
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
                f"{moves.requests:,}",
                f"{moves.moved_requests:,}",
                percent(moves.moved_requests, moves.requests),
                ("" if moves.keys.is_exact else "about ") + f"{moves.keys.keys_n:,}",
                f"{moves.keys.moved_n:,}",
                percent(moves.keys.moved_n, moves.keys.keys_n),
            ]
            for service, moves in sorted(result.shards.items())
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
        [name, f"{compared.choices:,}", f"{compared.same:,}", percent(compared.same, compared.choices)]
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
    total = Compared()
    for compared in simulation.checked.compared.values():
        total.choices += compared.choices
        total.same += compared.same
    return total


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
                "real": _json_loads(service, real=True),
                "simulated": _json_loads(service, real=False),
                "routes": [
                    {
                        "route_id": route_id,
                        "is_copy": load.is_copy,
                        "real": {"requests": load.real_requests, "peak_in_flight": load.real_peak},
                        "simulated": {"requests": load.requests, "peak_in_flight": load.peak},
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


def _json_loads(service: ServiceLoads, *, real: bool) -> dict[str, Any]:
    loads = service.loads(real=real)
    return {
        "routes": len(loads),
        "requests": sum(loads),
        "max_over_mean": round(max_over_mean(loads), 4),
        "gini": round(gini(loads), 4),
        "peak_in_flight": service.peak(real=real),
    }


def _service_cells(service: ServiceLoads) -> list[str]:
    was, then = service.loads(real=True), service.loads(real=False)
    cells = [service.service or "-", f"{len(was):,}", f"{len(then):,}", f"{sum(was):,}", f"{sum(then):,}"]
    cells += [f"{max_over_mean(was):.2f}", f"{max_over_mean(then):.2f}", f"{gini(was):.3f}", f"{gini(then):.3f}"]
    return [*cells, f"{service.peak(real=True):,}", f"{service.peak(real=False):,}"]


def _route_cells(name: str, load: RouteLoad, totals: tuple[int, int]) -> list[str]:
    name += " (copy)" if load.is_copy else ""
    cells = [load.service or "-", name, f"{load.real_requests:,}", f"{load.requests:,}"]
    cells += [percent(load.real_requests, totals[0]), percent(load.requests, totals[1])]
    return [*cells, f"{load.real_peak:,}", f"{load.peak:,}"]


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
    print_rows(console, [*columns[:texts], *(f">{column}" for column in columns[texts:])], rows)
    if note:
        say(console, note, "dim")

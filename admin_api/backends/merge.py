"""What several workers of one machine answer, as the one answer that an operator gets. Plain values, no I/O.

Decides per path and field what becomes of N answers: numbers of what each worker has for itself are added up; of what
all workers know alike (the table of routes, the brokers, the redirects) there is one; what cannot be put together, as
percentiles, is the largest. Does not know who answered, nor how it was asked (`workers_ask`).

A request that passes two workers is counted by both where the frames, the bytes and the requests of a service are; in
the traffic and at its route it is counted once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from broker.views.schemas import Part

Body: TypeAlias = dict[str, Any]  # a JSON object as a worker sent it

WORKER_STRIDE: Final = 1000  # connection 42 of worker 3 is 42003 for operators
MAX_GATHERED: Final = 10_000  # items of one list that one worker is asked for, where the whole list is needed


class Answer(NamedTuple):
    """What one worker said."""

    worker: int  # its number, from 1
    body: Body


class PagePlan(NamedTuple):
    """The part of one of several lists."""

    at: int  # which list
    offset: int
    limit: int


class Gathered(NamedTuple):
    """How a list is put together that is gathered whole from all workers."""

    key: Callable[[Body], object]  # items of different workers with equal keys are one
    join: Callable[[Sequence[Body]], Body]  # of at least one
    order: Callable[[Body], Any]  # by which the whole is sorted; the sort is stable


def plan_pages(totals: Mapping[int, int], part: Part) -> list[PagePlan]:
    """The parts of lists that, one behind the other, are the part of the whole; `totals`: how long each list is."""
    offset, left = part.offset, part.limit
    plans: list[PagePlan] = []
    for at, total in totals.items():
        here = min(max(0, total - offset), left)
        if here:
            plans.append(PagePlan(at, offset, here))
        offset = max(0, offset - total)
        left -= here
    return plans


def outer_id(worker: int, connection_id: int) -> int:
    """The number that operators know a worker's connection by."""
    return connection_id * WORKER_STRIDE + worker


def inner_id(text: str) -> tuple[int, int] | None:
    """Worker and its own number of a connection; None when no connection can have this number."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        return None
    connection_id, worker = divmod(int(text), WORKER_STRIDE)
    return worker, connection_id


def placed(answer: Answer) -> Body:
    """An item of one worker: with its number, and its connection's number made unique."""
    body = dict(answer.body)
    if body.get("connection_id") is not None:
        body["connection_id"] = outer_id(answer.worker, body["connection_id"])
    body["worker"] = answer.worker
    return body


def gathered(rule: Gathered, answers: Iterable[Answer], part: Part) -> Body:
    """One list of the items of all workers; `answers` are items."""
    groups: dict[object, list[Body]] = {}
    for number, answer in enumerate(answers):
        key = rule.key(answer.body)
        groups.setdefault((number,) if key is None else (key,), []).append(answer.body)
    items = sorted((rule.join(group) for group in groups.values()), key=rule.order)
    return listed(items[part.offset : part.offset + part.limit], len(items), part)


def listed(items: list[Body], total: int, part: Part) -> Body:
    """As `views.Listed`."""
    return {"items": items, "total": total, "offset": part.offset, "limit": part.limit}


def join_services(group: Sequence[Body]) -> Body:
    """One service; all workers know its routes, each its own requests."""
    return group[0] | {
        "routes": _max(group, "routes"),
        "remote": _outside(group),
        "requests": _sum(group, "requests"),
        "in_flight": _sum(group, "in_flight"),
        "awaited": _sum(group, "awaited"),
        "ejected": _max(group, "ejected"),
        "is_refusing": any(body["is_refusing"] for body in group),
        "refused": _sum(group, "refused"),
    }


def join_traffic(group: Sequence[Body]) -> Body:
    """One row; percentiles are the largest of the workers'."""
    requests = _sum(group, "requests")
    waited_us = sum(body["latency_mean_us"] * body["requests"] for body in group)
    return (
        group[0]
        | {key: _sum(group, key) for key in ("requests", "items_in", "items_out", "bytes_in", "bytes_out")}
        | {key: _max(group, key) for key in group[0] if key.startswith("latency_")}
        | {"latency_mean_us": waited_us // requests if requests else 0}
    )


def join_drains(group: Sequence[Body]) -> Body:
    """One drain, that each worker has begun; all know the same routes, each closes its own connections."""
    return group[0] | {
        "began_at_ms": min(body["began_at_ms"] for body in group),
        "age_s": _max(group, "age_s"),
        "routes": _max(group, "routes"),
        "connections_left": _sum(group, "connections_left"),
    }


def join_brokers(group: Sequence[Body]) -> Body:
    """One broker, as that worker sees it that is nearest: itself, if it is one."""
    return min(group, key=lambda body: (body["hops"] is None, body["hops"] or 0))


def join_paths(group: Sequence[Body]) -> Body:
    """One way."""
    return group[0] | {"requests": _sum(group, "requests"), "idle_s": min(body["idle_s"] for body in group)}


def first(group: Sequence[Body]) -> Body:
    """What all say alike."""
    return group[0]


GATHERED: Final[dict[str, Gathered]] = {
    "/api/v1/services": Gathered(lambda body: body["service"], join_services, lambda body: body["service"]),
    "/api/v1/traffic": Gathered(
        lambda body: tuple(body[key] for key in ("service", "model", "routing", "outcome", "code")),
        join_traffic,
        lambda body: 0,
    ),
    "/api/v1/connections/closed": Gathered(lambda body: None, first, lambda body: -body["closed_at_ms"]),
    "/api/v1/drains": Gathered(
        lambda body: (body["kind"], body["name"]), join_drains, lambda body: body["began_at_ms"]
    ),
    "/api/v1/brokers": Gathered(
        lambda body: body["broker_id"], join_brokers, lambda body: (not body["is_self"], body["name"])
    ),
    "/api/v1/paths": Gathered(lambda body: (body["ingress"], *body["way"]), join_paths, lambda body: 0),
    "/api/v1/redirects": Gathered(lambda body: body["service"], first, lambda body: body["service"]),
}


def service_detail(answers: Sequence[Answer], routes: Body) -> Body:
    """One service; `routes`: the list of its routes, put together already."""
    bodies = [answer.body for answer in answers]
    rows = [Answer(answer.worker, row) for answer in answers for row in answer.body["traffic"]]
    return {
        "service": join_services([body["service"] for body in bodies]),
        "policy": bodies[0]["policy"],
        "routes": routes,
        "traffic": gathered(GATHERED["/api/v1/traffic"], rows, Part(0, len(rows)))["items"],
    }


# Of the status: what all workers know alike, and what only one can be. All other numbers are added up.
ALIKE_STATES: Final = frozenset({"draining", "congested", "unhealthy"})  # of routes: brokers tell each other of them
_ALIKE: Final = ALIKE_STATES | {
    "routes",
    "services",
    "tags",
    "generation",
    "drains",
    "brokers",
    "reachable",
    "redirects",
}
_LARGEST: Final = frozenset({"p50_us", "p99_us", "max_us", "free_bytes"})


def status(bodies: Sequence[Body], own: Body) -> Body:
    """The status of all workers; `own`: fields that the supervisor knows better. At least one."""
    joined = _joined(bodies)
    joined["cluster"]["remote_routes"] = _remote_routes(bodies)
    joined["event_files"] = _event_files([body["event_files"] for body in bodies if body["event_files"] is not None])
    return joined | own


def _joined(bodies: Sequence[Body]) -> Body:
    """Number by number; whatever is no number as the first one says."""
    joined: Body = {}
    for key, value in bodies[0].items():
        values = [body[key] for body in bodies]
        if isinstance(value, dict) and key not in ("config", "event_files"):
            joined[key] = _joined(values)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            joined[key] = value
        elif key in _ALIKE or key in _LARGEST:
            joined[key] = max(values)
        else:
            joined[key] = sum(values)
    return joined


def _remote_routes(bodies: Sequence[Body]) -> int:
    """Routes of brokers that are no workers here."""
    return _outside([{"routes": body["routes"], "remote": body["cluster"]["remote_routes"]} for body in bodies])


def _event_files(states: Sequence[Body]) -> Body | None:
    """One writer for each worker; the first error that there is. None: no event files are written."""
    if not states:
        return None
    joined = _joined(states)
    errors = [state["error"] for state in states if state["error"]]
    return joined | {"pid": states[0]["pid"], "error": errors[0] if errors else ""}


def _outside(group: Sequence[Body]) -> int:
    """Of the routes that all know those that no worker has."""
    local = sum(int(body["routes"]) - int(body["remote"]) for body in group)
    return max(0, max(int(body["routes"]) for body in group) - local)


def _sum(group: Sequence[Body], key: str) -> int:
    return sum(int(body[key]) for body in group)


def _max(group: Sequence[Body], key: str) -> float:
    largest: float = max(body[key] for body in group)
    return largest

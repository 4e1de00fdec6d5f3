"""How two tables differ, route by route."""

from spark_sink.time_travel.values import Change, Difference, SeenRoute, TableAt


def diff(a: TableAt, b: TableAt) -> Difference:
    """From `a` to `b`; they may be of different brokers or runs."""
    before = {route.route_id: route for route in a.routes}
    after = {route.route_id: route for route in b.routes}
    both = [Change(route, after[route.route_id]) for route in a.routes if route.route_id in after]
    changed = [change for change in both if _says_other(change)]
    return Difference(
        [route for route in b.routes if route.route_id not in before],
        [route for route in a.routes if route.route_id not in after],
        [change for change in both if not _says_other(change) and _is_other_stay(change.before, change.after)],
        changed,
    )


def _says_other(change: Change) -> bool:
    return (change.before.service, change.before.tags) != (change.after.service, change.after.tags)


def _is_other_stay(before: SeenRoute, after: SeenRoute) -> bool:
    """Of another connection, or the same peer joined again in between."""
    if before.peer != after.peer:
        return True
    return before.is_exact and after.is_exact and before.joined_at != after.joined_at

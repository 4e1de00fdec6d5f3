"""The options of routing: sections [routing] and [protection]. See `broker.config.options`."""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

from dataclasses import dataclass
from typing import Literal

from broker.config.option import CORE, POLICY, option
from rsocket_wire.wire.tags import MAX_VALUE_BYTES

ShardMethod = Literal["rendezvous", "maglev", "ring", "jump", "modulo"]
NoRoute = Literal["reject", "wait"]
OnLeave = Literal["ignore", "error"]


@dataclass(frozen=True)
class RoutingOptions:
    """Who answers when several could, and what happens when nobody does."""

    chooser: str = option(
        POLICY.chooser,
        "How one of several matching routes is chosen for a unicast request that does not say it itself.",
        '"zone_first:peak_ewma"',
        form="chooser",
    )
    shard_method: ShardMethod = option(
        POLICY.shard_method,
        "How the owner of a shard key is found for a request that does not say it itself. With rendezvous the fewest "
        "keys move when routes come and go.",
        '"maglev"',
    )
    sticky_ttl_s: float = option(
        POLICY.sticky_ttl_s,
        "How long a choice by StickyRouteKey is kept without being used. 0: none is kept.",
        "3600.0",
        "seconds",
        within=(0, 86_400),
    )
    slow_start_s: float = option(
        POLICY.slow_start_s,
        "The share of a new route grows for so long from a tenth to the whole, so that it can warm up. 0: the whole "
        "at once.",
        "30.0",
        "seconds",
        within=(0, 3600),
    )
    panic_percent: int = option(
        POLICY.panic_percent,
        "When more than so many of a hundred matching routes are ejected or call themselves unhealthy, something else "
        "is wrong, and requests go to all of them as if none was. 0 or 100: never.",
        "30",
        "percent",
        within=(0, 100),
    )
    zone: str = option(
        CORE.zone,
        "The zone that this broker is in: the value of the tag Zone that routes nearby have. Empty: it is in none.",
        '"eu-1a"',
        within=(0, MAX_VALUE_BYTES),
    )
    no_route: NoRoute = option(
        CORE.no_route,
        "What becomes of a request that no route matches now: reject, it is refused at once; wait, it waits for one.",
        '"wait"',
    )
    no_route_timeout_s: float = option(
        CORE.no_route_timeout_s,
        "How long such a request waits at most, then it is refused. No longer than callers usually wait.",
        "1.5",
        "seconds",
        within=(0.001, 3600),
    )
    strict_hints: bool = option(
        CORE.strict_hints,
        "Whether hints (LBMethod, ShardKey, ShardMethod, StickyRouteKey) among an ADDRESS's tags must match a "
        "route's tags like any other. Off, because clients that write the one-map ADDRESS can say hints nowhere "
        "else.",
        "true",
    )
    multicast_on_leave: OnLeave = option(
        CORE.multicast_on_leave,
        "What a route that is lost in the middle of a multicast stream does to it: ignore, it counts as complete; "
        "error, the stream ends with route-lost.",
        '"error"',
    )


@dataclass(frozen=True)
class ProtectionOptions:
    """When a route gets no requests for its own good, or that of its callers. The defaults are Envoy's."""

    eject_after_errors: int = option(
        POLICY.eject_after_errors,
        "A route that answers so many requests in a row with an error is ejected: it gets none for a while. 0: never.",
        "20",
        "errors",
        within=(0, 1_000_000),
    )
    eject_s: float = option(
        POLICY.eject_s,
        "How long a route is ejected for the first time; for the second time twice as long, and so on.",
        "5.0",
        "seconds",
        within=(0.001, 86_400),
    )
    eject_max_s: float = option(
        POLICY.eject_max_s,
        "How long a route is ejected at most, however often it was before.",
        "60.0",
        "seconds",
        within=(0.001, 86_400),
    )
    eject_max_percent: int = option(
        POLICY.eject_max_percent,
        "At most so many of a hundred routes of a service are ejected at one time, but one always may be: what hits "
        "all of them is no fault of a route. 0: none is.",
        "50",
        "percent",
        within=(0, 100),
    )
    max_in_flight_per_route: int = option(
        POLICY.max_in_flight_per_route,
        "Request/responses that may be in flight at one route; one more goes to another route or, when all have as "
        "many, is refused with over-limit. While others ask, one caller gets no more than half. 0: no limit.",
        "64",
        "requests",
        within=(0, 1_000_000),
    )
    max_in_flight_per_service: int = option(
        POLICY.max_in_flight_per_service,
        "Request/responses that may be in flight at all routes of a service together; one more is refused with "
        "over-limit. While others ask, one caller gets no more than half. 0: no limit, because the routes have theirs.",
        "4096",
        "requests",
        within=(0, 100_000_000),
    )

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
    """Load balancing, and requests that match no route."""

    chooser: str = option(
        POLICY.chooser,
        "Load-balancing policy for unicast requests that name none.",
        '"zone_first:peak_ewma"',
        form="chooser",
    )
    shard_method: ShardMethod = option(
        POLICY.shard_method,
        "Sharding method for requests that name none. With rendezvous the fewest keys move when routes come and go.",
        '"maglev"',
    )
    sticky_ttl_s: float = option(
        POLICY.sticky_ttl_s,
        "Time after which an unused choice by StickyRouteKey is forgotten. 0: choices are not kept.",
        "3600.0",
        within=(0, 86_400),
    )
    slow_start_s: float = option(
        POLICY.slow_start_s,
        "Time in which the share of a new route grows from a tenth to the whole, so that it can warm up. 0: the "
        "whole share at once.",
        "30.0",
        within=(0, 3600),
    )
    panic_percent: int = option(
        POLICY.panic_percent,
        "Percentage of matching routes that may be ejected or unhealthy. Above it, requests go to all routes as "
        "if none were (panic mode): the cause is then hardly the routes. 0 or 100: never.",
        "30",
        within=(0, 100),
    )
    zone: str = option(
        CORE.zone,
        "Zone of this broker: the value of the Zone tag of routes nearby. Empty: none.",
        '"eu-1a"',
        within=(0, MAX_VALUE_BYTES),
    )
    no_route: NoRoute = option(
        CORE.no_route,
        "What happens to a request that matches no route: reject, it is refused at once; wait, it waits for a route.",
        '"wait"',
    )
    no_route_timeout_s: float = option(
        CORE.no_route_timeout_s,
        "Time for which such a request waits at most before it is refused. No longer than callers usually wait.",
        "1.5",
        within=(0.001, 3600),
    )
    identity: bool = option(
        POLICY.identity,
        "Whether each request tells its service who the caller is, in an entry of its metadata: see [security]"
        "(security.md#who-is-calling). Routes of such a service need composite metadata; others are refused.",
        "true",
    )
    strict_hints: bool = option(
        CORE.strict_hints,
        "Whether hints (LBMethod, ShardKey, ShardMethod, StickyRouteKey) among the tags of an ADDRESS must match "
        "the tags of a route. Off, because clients that write the one-map ADDRESS have no other place for hints.",
        "true",
    )
    multicast_on_leave: OnLeave = option(
        CORE.multicast_on_leave,
        "Effect of a route that is lost during a multicast stream: ignore, it counts as complete; error, the "
        "stream ends with route-lost.",
        '"error"',
    )


@dataclass(frozen=True)
class ProtectionOptions:
    """Outlier ejection and circuit breaking. The defaults are Envoy's."""

    eject_after_errors: int = option(
        POLICY.eject_after_errors,
        "Consecutive errors after which a route is ejected: it gets no requests for a while. 0: never.",
        "20",
        "errors",
        within=(0, 1_000_000),
    )
    eject_s: float = option(
        POLICY.eject_s,
        "Duration of the first ejection of a route; the second is twice as long, the third three times, and so on.",
        "5.0",
        within=(0.001, 86_400),
    )
    eject_max_s: float = option(POLICY.eject_max_s, "Longest ejection of a route.", "60.0", within=(0.001, 86_400))
    eject_max_percent: int = option(
        POLICY.eject_max_percent,
        "Percentage of the routes of a service that may be ejected at the same time; one always may. An outage of "
        "the whole service is not an outlier. 0: no route is ejected.",
        "50",
        within=(0, 100),
    )
    max_in_flight_per_route: int = option(
        POLICY.max_in_flight_per_route,
        "Request/responses in flight at one route. The next one goes to another route or, when all are at the "
        "limit, is refused with over-limit. While several callers compete, none gets more than half. 0: no limit.",
        "64",
        "requests",
        within=(0, 1_000_000),
    )
    max_in_flight_per_service: int = option(
        POLICY.max_in_flight_per_service,
        "Request/responses in flight at all routes of a service together; the next one is refused with "
        "over-limit. While several callers compete, none gets more than half. 0: no limit, because routes have "
        "their own.",
        "4096",
        "requests",
        within=(0, 100_000_000),
    )

"""What can be set about a service: how its routes are chosen, judged and protected. Plain values, no files.

One policy is the default; services may have their own, by name (`Policies`).
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Policy:
    """One service's settings. Everything that protects can be switched off: 0 means off."""

    chooser: str = "round_robin"  # of unicast requests without a hint
    shard_method: str = "rendezvous"  # of shard requests without a hint
    sticky_ttl_s: float = 300.0  # a sticky choice that is not used for so long is forgotten
    slow_start_s: float = 0.0  # a new route's share grows from a tenth to the whole; 0: at once
    # If more than so many of a hundred candidates are masked as ejected or unhealthy, something else is wrong and the
    # mask is ignored; 0 or 100: never.
    panic_percent: int = 50
    eject_after_errors: int = 5  # in a row; 0: never
    eject_s: float = 30.0  # times the number of ejections so far
    eject_max_s: float = 300.0
    eject_max_percent: int = 10  # of a service's routes, but one may always be
    max_in_flight_per_route: int = 1024  # request/responses; 0: no limit
    max_in_flight_per_service: int = 0
    identity: bool = False  # its requests say who the caller is


class Policies:
    """The policy of each service."""

    def __init__(self, default: Policy, by_name: dict[str, Policy]) -> None:
        self.default: Final = default
        self._by_name: Final = by_name  # bounded by the configuration
        # Some service has `max_in_flight_per_service`; without one nobody looks.
        self.limits_services: Final = default.max_in_flight_per_service > 0 or any(
            policy.max_in_flight_per_service > 0 for policy in by_name.values()
        )

        # Some service wants to know who its callers are.
        self.tells_callers: Final = default.identity or any(policy.identity for policy in by_name.values())

    def of(self, service: str) -> Policy:
        """The policy of a service name."""
        return self._by_name.get(service, self.default)

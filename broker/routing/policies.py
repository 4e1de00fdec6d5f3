"""What can be set about a service: how its routes are chosen, judged and protected. Plain values, no files.

One policy is the default; services may have their own, by name (`Policies`).
"""

from typing import Final


class Policy:
    """One service's settings. Everything that protects can be switched off: 0 means off."""

    def __init__(
        self,
        chooser: str = "round_robin",
        shard_method: str = "rendezvous",
        sticky_ttl_s: float = 300.0,
        slow_start_s: float = 0.0,
        panic_percent: int = 50,
        eject_after_errors: int = 5,
        eject_s: float = 30.0,
        eject_max_s: float = 300.0,
        eject_max_percent: int = 10,
        max_in_flight_per_route: int = 1024,
        max_in_flight_per_service: int = 0,
    ) -> None:
        self.chooser: Final = chooser  # of unicast requests without a hint
        self.shard_method: Final = shard_method  # of shard requests without a hint
        self.sticky_ttl_s: Final = sticky_ttl_s  # a sticky choice that is not used for so long is forgotten
        self.slow_start_s: Final = slow_start_s  # a new route's share grows from a tenth to the whole; 0: at once
        # If more than so many of a hundred candidates are masked as ejected or unhealthy, something else is wrong and
        # the mask is ignored; 0 or 100: never.
        self.panic_percent: Final = panic_percent
        self.eject_after_errors: Final = eject_after_errors  # in a row; 0: never
        self.eject_s: Final = eject_s  # times the number of ejections so far
        self.eject_max_s: Final = eject_max_s
        self.eject_max_percent: Final = eject_max_percent  # of a service's routes, but one may always be
        self.max_in_flight_per_route: Final = max_in_flight_per_route  # request/responses; 0: no limit
        self.max_in_flight_per_service: Final = max_in_flight_per_service


class Policies:
    """The policy of each service."""

    def __init__(self, default: Policy, by_name: dict[str, Policy]) -> None:
        self.default: Final = default
        self._by_name: Final = by_name  # bounded by the configuration
        # Some service has `max_in_flight_per_service`; without one nobody looks.
        self.limits_services: Final = default.max_in_flight_per_service > 0 or any(
            policy.max_in_flight_per_service > 0 for policy in by_name.values()
        )

    def of(self, service: str) -> Policy:
        """The policy of a service name."""
        return self._by_name.get(service, self.default)

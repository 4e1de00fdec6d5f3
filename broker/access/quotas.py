"""Quotas: how much one identity may have of a broker, over all its connections.

    [role.orders]
    who = ["certificate:spiffe://acme/orders"]
    requests_per_s = 5000
    max_in_flight = 1000

Knows numbers and the names of their options; who counts, and what follows, the callers know.
"""

from typing import Final


class Quota:
    """Of each identity that has the role; 0 is no bound."""

    def __init__(
        self,
        max_connections: int = 0,
        max_routes: int = 0,
        requests_per_s: int = 0,
        max_in_flight: int = 0,
        max_multicast_routes: int = 0,
    ) -> None:
        self.max_connections: Final = max_connections
        self.max_routes: Final = max_routes
        self.requests_per_s: Final = requests_per_s
        self.max_in_flight: Final = max_in_flight
        self.max_multicast_routes: Final = max_multicast_routes

    @property
    def is_on(self) -> bool:
        """It bounds something."""
        return (
            self.max_connections
            + self.max_routes
            + self.requests_per_s
            + self.max_in_flight
            + self.max_multicast_routes
            > 0
        )


NO_QUOTA: Final = Quota()

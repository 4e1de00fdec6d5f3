"""Loads: what is going on at a route and at a service now. The routes of the table say who they are, loads how they do.

A load stays the same while the tags of its route change. Decides when a route is full; who failed too often is only put
on a list (`Loads.suspects`), `outliers` judges.
"""

from typing import Final

from broker.routing.leases import Lease
from broker.routing.masks import Masks
from broker.routing.policies import Policies, Policy

# How a request ended, as far as it says something about the route.
GOOD: Final = 0
BAD: Final = 1
NEITHER: Final = 2  # cancelled, or the caller's own fault


class ServiceLoad:
    """All routes of one service name together."""

    __slots__ = ("awaited_n", "ejected_n", "name", "policy", "routes_n")

    def __init__(self, name: str, policy: Policy) -> None:
        self.name: Final = name
        self.policy: Final = policy
        self.routes_n = 0  # in the table
        self.ejected_n = 0  # of them
        self.awaited_n = 0  # request/responses in flight


class Load:
    """One offered route."""

    __slots__ = (
        "_limit",
        "_loads",
        "awaited_n",
        "ejected_until",
        "ejections_n",
        "errors_n",
        "ewma_at",
        "ewma_us",
        "in_flight",
        "is_measured",
        "joined_at",
        "lease",
        "requests",
        "service",
        "slot",
        "weight",
    )

    def __init__(self, loads: "Loads", service: ServiceLoad, now: float) -> None:
        self.service: Final = service
        self.slot = -1  # -1 unless its route is in the table
        self.joined_at: Final = now  # seconds, monotonic
        self.requests = 0  # served, begun
        self.in_flight = 0  # begun and not ended
        self.awaited_n = 0  # request/responses among them: a stream is no work that is waited for
        self.weight = 1
        self.errors_n = 0  # in a row
        self.ejections_n = 0
        self.ejected_until = 0.0  # seconds, monotonic; 0: it is not ejected
        self.is_measured = False  # somebody chooses by its latency
        self.ewma_us = 0.0  # of request/responses, see `latency`
        self.ewma_at = 0.0
        self.lease: Lease | None = None  # when its connection grants requests by LEASE
        self._limit: Final = service.policy.max_in_flight_per_route
        self._loads: Final = loads

    def take(self) -> None:
        """A request was given to the route, of any model."""
        self.requests += 1
        if self.lease is not None:
            self.lease.spend()

    def began(self, is_awaited: bool) -> None:
        """A request was sent to the route. `is_awaited`: it is a request/response."""
        self.in_flight += 1
        if is_awaited:
            self.service.awaited_n += 1
            self.awaited_n += 1
            if self.awaited_n == self._limit:
                self._loads.masks.put(self._loads.masks.full, self.slot)

    def ended(self, is_awaited: bool, verdict: int, latency_us: int, now: float) -> None:
        """A request that it served has ended: GOOD, BAD or NEITHER."""
        self.in_flight -= 1
        if is_awaited:
            self.service.awaited_n -= 1
            if self.awaited_n == self._limit:
                self._loads.masks.take(self._loads.masks.full, self.slot)
            self.awaited_n -= 1
        if verdict == GOOD:
            self.errors_n = 0
        elif verdict == BAD:
            self.errors_n += 1
            if self.errors_n == self.service.policy.eject_after_errors:
                self._loads.suspects.append(self)


class Loads:
    """The loads of one table."""

    __slots__ = ("_policies", "masks", "services", "suspects")

    def __init__(self, policies: Policies) -> None:
        self.masks: Final = Masks()
        self.suspects: Final[list[Load]] = []  # failed too often in a row; emptied by `outliers` after each turn
        self.services: Final[dict[str, ServiceLoad]] = {}  # of routes in the table: bounded by them
        self._policies: Final = policies

    def open(self, service: str, now: float) -> Load:
        """The load of a route that is about to join."""
        load = self.services.get(service)
        if load is None:
            load = ServiceLoad(service, self._policies.of(service))
        return Load(self, load, now)

    def joined(self, load: Load, slot: int) -> None:
        """Its route is in the table now, in this slot; or in another one than before, when its tags have changed."""
        if load.slot >= 0:
            self.masks.move(load.slot, slot)
        else:
            load.service.routes_n += 1
            self.services[load.service.name] = load.service
        load.slot = slot
        if load.lease is not None:
            load.lease.join(slot)

    def left(self, load: Load) -> None:
        """Its route is in the table no more."""
        service = load.service
        self.masks.forget(load.slot)
        load.slot = -1
        if load.lease is not None:
            load.lease.slot = -1
            load.lease = None
        service.routes_n -= 1
        if not service.routes_n:
            del self.services[service.name]

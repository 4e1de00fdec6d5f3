"""Requests that were dropped without anybody to tell: fire-and-forgets and pushes for which there was no room.

Counts them by service, so that each service is told of at most once a second. Does not know why there was no room.
"""

from typing import Final

TOLD_S: Final = 1.0  # between two events of one service
MAX_SERVICES: Final = 1_000  # that are counted apart in this time; the others together, without a name


class Drops:
    """The dropped requests of one broker."""

    __slots__ = ("_by_service", "_next_at", "total_n")

    def __init__(self) -> None:
        self.total_n = 0  # ever
        self._by_service: dict[str, int] = {}  # since they were told of; bounded by MAX_SERVICES
        self._next_at = 0.0  # when they may be told of again, seconds, monotonic

    def add(self, service: str) -> None:
        """One that was meant for a route of this service."""
        self.total_n += 1
        if service not in self._by_service and len(self._by_service) >= MAX_SERVICES:
            service = ""
        self._by_service[service] = self._by_service.get(service, 0) + 1

    def take(self, now: float) -> dict[str, int]:
        """How many of each service since the last time; empty before TOLD_S are over."""
        taken = self._by_service
        if not taken or now < self._next_at:
            return {}
        self._by_service = {}
        self._next_at = now + TOLD_S
        return taken

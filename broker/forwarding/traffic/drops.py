"""Requests that were dropped without anybody to tell: fire-and-forgets and pushes for which there was no room.

Counts them by service, or by the broker that they were to go to where no service is known any more, so that of each is
told at most once a second. Does not know why there was no room.
"""

from typing import Final

TOLD_S: Final = 1.0  # between two events of one service
MAX_SERVICES: Final = 1_000  # that are counted apart in this time; the others together, without a name


class Dropped:
    """What was dropped on the way to one service or broker, since it was told of."""

    def __init__(self, service: str, peer: str, broker: str) -> None:
        self.service: Final = service  # empty: of one that is not counted apart, or not known
        self.peer: Final = peer  # name of the link; empty where it was a service
        self.broker: Final = broker  # at the other end of it
        self.requests_n = 0


class Drops:
    """The dropped requests of one broker."""

    def __init__(self) -> None:
        self.total_n = 0  # ever
        self._by_service: dict[str, Dropped] = {}  # since they were told of; bounded by MAX_SERVICES
        self._by_link: dict[str, Dropped] = {}  # likewise; bounded by the links
        self._next_at = 0.0  # when they may be told of again, seconds, monotonic

    def add(self, service: str) -> None:
        """Counts one that was meant for a route of this service."""
        self.total_n += 1
        if service not in self._by_service and len(self._by_service) >= MAX_SERVICES:
            service = ""
        dropped = self._by_service.get(service)
        if dropped is None:
            dropped = self._by_service[service] = Dropped(service, "", "")
        dropped.requests_n += 1

    def add_of_link(self, peer: str, broker: str) -> None:
        """Counts one that was to go to this broker, over the link of that name."""
        self.total_n += 1
        dropped = self._by_link.get(peer)
        if dropped is None:
            dropped = self._by_link[peer] = Dropped("", peer, broker)
        dropped.requests_n += 1

    def take(self, now: float) -> list[Dropped]:
        """Takes what was dropped since the last time; empty before TOLD_S are over."""
        if now < self._next_at or not (self._by_service or self._by_link):
            return []
        taken = [*self._by_service.values(), *self._by_link.values()]
        self._by_service = {}
        self._by_link = {}
        self._next_at = now + TOLD_S
        return taken

"""Breakers: services whose requests are refused because as many are in flight as may be (D-38).

The limits themselves are held by `loads` (a route that has reached its own is masked `full`); this decides when that is
worth telling: with the first request that is refused, and again when none was for `QUIET_S`. In between a breaker is
open: a word for people, nothing depends on it, and the next request is tried like any other.
"""

from typing import Final

from broker.routing.health.loads import ServiceLoad
from rsocket_wire.errors import Refusal
from rsocket_wire.timers import NEVER

QUIET_S: Final = 1.0  # without a refusal; a service at its limit refuses many a second, and each is no change
# Whose refusals are counted by name; those of later ones are counted together, without. Who has no route any more gives
# its name to one that has.
MAX_SERVICES: Final = 1_000


class BreakerChange:
    """The breaker of a service opened or closed; `detail` says it to people, with the numbers."""

    def __init__(self, service: str, is_open: bool, detail: str) -> None:
        self.service: Final = service
        self.is_open: Final = is_open
        self.detail: Final = detail


class Open:
    """A breaker that is open."""

    def __init__(self, service: ServiceLoad, now: float) -> None:
        self.service: Final = service
        self.opened_at: Final = now  # seconds, monotonic
        self.latest_at = now  # of its refusals
        self.refused_n = 0


class Breakers:
    """The breakers of one table's services."""

    def __init__(self, services: dict[str, ServiceLoad]) -> None:
        """`services`: the services that have routes."""
        self._services: Final = services
        self.changes: Final[list[BreakerChange]] = []  # opened since somebody emptied it: bounded by `_open`
        self.opened = 0  # ever
        self.refused: dict[str, int] = {}  # requests, ever, by service, see MAX_SERVICES
        # By name. Each had a route that was full within the last QUIET_S.
        self._open: dict[str, Open] = {}
        self._look_at = NEVER  # not later than the first of them may close
        self._fold_at = 0.0  # seconds, monotonic: before that nobody looks for names of services that are gone

    def refuse(self, service: ServiceLoad, refusal: Refusal, now: float) -> None:
        """A request to this service is refused for a limit in flight; `refusal` says which."""
        name = service.name
        breaker = self._open.get(name)
        if breaker is None:
            breaker = self._open[name] = Open(service, now)
            self.opened += 1
            self.changes.append(BreakerChange(name, True, refusal.text))
            self._look_at = min(self._look_at, now + QUIET_S)
        breaker.refused_n += 1
        breaker.latest_at = now
        if name not in self.refused and self._is_full() and now >= self._fold_at:
            self._fold_at = now + QUIET_S
            self._fold()
        counted = name if name in self.refused or not self._is_full() else ""
        self.refused[counted] = self.refused.get(counted, 0) + 1

    def _is_full(self) -> bool:
        """No more services are counted by name."""
        return len(self.refused) - (1 if "" in self.refused else 0) >= MAX_SERVICES

    def _fold(self) -> None:
        """Counts those of services that are gone together, so that those that are there have room."""
        for name in list(self.refused):
            if name and name not in self._services:
                self.refused[""] = self.refused.get("", 0) + self.refused.pop(name)

    def close(self, now: float) -> list[BreakerChange]:
        """Those that have refused nothing for `QUIET_S`, in the order in which they opened."""
        found: list[BreakerChange] = []
        if now < self._look_at:
            return found
        self._look_at = NEVER
        for name, breaker in list(self._open.items()):
            if breaker.latest_at + QUIET_S > now:
                self._look_at = min(self._look_at, breaker.latest_at + QUIET_S)
                continue
            del self._open[name]
            span_s = breaker.latest_at - breaker.opened_at
            text = f"requests refused in {span_s:.1f} s: {breaker.refused_n}"
            found.append(BreakerChange(name, False, f"{text}; in flight now: {breaker.service.awaited_n}"))
        return found

    def next_at(self) -> float:
        """When `close` may have something to do, seconds, monotonic; NEVER when none is open."""
        return self._look_at

    def is_open(self, service: str) -> bool:
        """A request to the service was refused for a limit in flight within the last `QUIET_S`."""
        return service in self._open

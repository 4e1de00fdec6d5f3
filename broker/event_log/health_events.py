"""Events of the health of routes and services: ejected and reinstated routes, opened and closed breakers.

`routing.health.outliers` and `routing.health.breakers` decide; this asks them in time and logs what they decided.
"""

from typing import Final

from broker.event_log.log import EventLog
from broker.events import BREAKER_CLOSED, BREAKER_OPENED, ROUTE_EJECTED, ROUTE_RELIEVED
from broker.forwarding.peer import Peer
from broker.routing.health.breakers import BreakerChange, Breakers
from broker.routing.health.outliers import Judgement, Outliers
from broker.routing.table import Table


class HealthEvents:
    """What one broker decides of the health of its routes, as events."""

    def __init__(self, table: Table, breakers: Breakers, event_log: EventLog) -> None:
        self.outliers: Final = Outliers(table)
        self.breakers: Final = breakers
        self._event_log: Final = event_log

    def judge(self, now: float) -> None:
        """Judges those that are suspected of failing too often."""
        for judgement in self.outliers.judge(now):
            self._tell_route(judgement, now)

    def tick(self, now: float) -> None:
        """Relieves those whose ejection is over, and closes breakers without refusals."""
        for judgement in self.outliers.relieve(now):
            self._tell_route(judgement, now)
        self.tell_opened(now)
        for change in self.breakers.close(now):
            self._tell_breaker(change, now)

    def tell_opened(self, now: float) -> None:
        """Breakers that have opened since the last call."""
        for change in self.breakers.changes:
            self._tell_breaker(change, now)
        self.breakers.changes.clear()

    def next_at(self) -> float:
        """Returns when to tick at the latest, seconds, monotonic."""
        return min(self.outliers.next_at(), self.breakers.next_at())

    def _tell_route(self, judgement: Judgement, now: float) -> None:
        route = judgement.route
        owner = route.owner
        self._event_log.tell(
            ROUTE_EJECTED if judgement.is_ejected else ROUTE_RELIEVED,
            self._event_log.wall(now),
            route.id_text,
            route.service,
            peer=owner.name if isinstance(owner, Peer) else "",
            reason="errors-in-row" if judgement.is_ejected else "",
            detail=judgement.detail,
            requests=route.load.requests,
        )

    def _tell_breaker(self, change: BreakerChange, now: float) -> None:
        kind = BREAKER_OPENED if change.is_open else BREAKER_CLOSED
        reason = "over-limit" if change.is_open else ""
        self._event_log.tell(
            kind, self._event_log.wall(now), service=change.service, reason=reason, detail=change.detail
        )

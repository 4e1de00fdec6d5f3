"""Outliers: routes that fail while others would not, and so get nothing for a while (D-37).

Decides about those whom `loads` suspects: who fails `eject_after_errors` times in a row, two of its callers or the
only one that it has, is ejected, for `eject_s`, the next time for twice as long and so on up to `eject_max_s`; each
`eject_s` that it then stays in takes one time back. Of a service's routes at most `eject_max_percent` are ejected, but
one may always be: when most of them fail it is not a route that is ill. Who is spared begins to count anew. Does not
choose: it puts the mask `ejected`, which requests ignore when too much of what they could reach stands behind it.

    joined ──► in use ── errors in a row ──► suspected ── room left ──► ejected ── its time is over ──┐
                 ▲                               └─ no room: spared ─┐                                │
                 └───────────────────────────────────────────────────┴────────────────────────────────┘
"""

from typing import Final

from broker.routing.health.loads import Load
from broker.routing.policies import Policy
from broker.routing.table import Route, Table
from rsocket_wire.timers import Timers


class Judgement:
    """A route was ejected or relieved; `detail` says it to people, with the numbers."""

    def __init__(self, route: Route, is_ejected: bool, detail: str) -> None:
        self.route: Final = route
        self.is_ejected: Final = is_ejected
        self.detail: Final = detail


class Outliers:
    """The judge of one table's routes."""

    def __init__(self, table: Table) -> None:
        self.ejected = 0  # ejections, ever
        self.relieved = 0  # of them: whose time was over; the others' routes left before
        self.spared = 0  # suspects that had to stay, because enough of their service's routes were ejected
        self._table: Final = table
        self._terms: Final = Timers()  # when ejections are over

    def judge(self, now: float) -> list[Judgement]:
        """Empties the list of suspects; those who are ejected, in the order in which they were suspected."""
        found: list[Judgement] = []
        suspects = self._table.loads.suspects
        for load in suspects:
            errors_n = max(load.errors_n, load.service.policy.eject_after_errors)
            load.errors_n = 0  # ejected or spared: what comes now counts anew
            if load.slot < 0 or load.ejected_until:  # its route has left; or it was used for want of better ones
                continue
            if load.service.ejected_n < most_ejected(load.service.policy, load.service.routes_n):
                found.append(self._eject(load, errors_n, now))
            else:
                self.spared += 1
        suspects.clear()
        return found

    def relieve(self, now: float) -> list[Judgement]:
        """Those whose time is over, the earliest first."""
        found: list[Judgement] = []
        while (load := self._terms.take_due(now)) is not None:
            assert isinstance(load, Load)  # see `_eject`
            load.ejected_until = 0.0
            load.relieved_at = now
            load.errors_n = 0
            load.service.ejected_n -= 1
            self._table.masks.take(self._table.masks.ejected, load.slot)
            self.relieved += 1
            text = f"ejection {load.ejections_n} is over; {_standing(load)}"
            found.append(Judgement(self._table.route_at(load.slot), False, text))
        return found

    def next_at(self) -> float:
        """When `relieve` may have something to do, seconds, monotonic; NEVER when nobody is ejected."""
        return self._terms.first()

    def waiting(self) -> int:
        """How many ends of ejections are kept, those of routes that have left included."""
        return self._terms.size()

    def _eject(self, load: Load, errors_n: int, now: float) -> Judgement:
        policy = load.service.policy
        most_s = max(policy.eject_s, policy.eject_max_s)
        load.ejections_n = ejections_left(load, now)
        if load.ejections_n * policy.eject_s < most_s:  # else so many good times would have to pass before it counts
            load.ejections_n += 1
        span_s = min(load.ejections_n * policy.eject_s, most_s)
        load.ejected_until = now + span_s
        load.service.ejected_n += 1
        self._table.masks.put(self._table.masks.ejected, load.slot)
        self.ejected += 1
        load.term = self._terms.put(load.ejected_until, load)
        text = f"{errors_n} errors in a row; ejection {load.ejections_n}, for {span_s:g} s"
        return Judgement(self._table.route_at(load.slot), True, f"{text}; {_standing(load)}")


def most_ejected(policy: Policy, routes_n: int) -> int:
    """How many of a service's routes may be ejected at once; 0 when that is switched off."""
    if not policy.eject_max_percent or policy.eject_s <= 0:
        return 0
    return max(1, routes_n * policy.eject_max_percent // 100)


def ejections_left(load: Load, now: float) -> int:
    """The ejections of a route that count now; one less for each `eject_s` since it was relieved."""
    if load.ejected_until or not load.ejections_n:
        return load.ejections_n
    return max(0, load.ejections_n - int((now - load.relieved_at) / load.service.policy.eject_s))


def _standing(load: Load) -> str:
    service = load.service
    return f"{service.ejected_n} of {service.routes_n} routes of {service.name} are ejected"

"""Loads: what is going on at a route and at a service now. The routes of the table say who they are, loads how they do.

A load stays the same while the tags of its route change. Decides when a route is full; who failed too often is only put
on a list (`Loads.suspects`), `outliers` judges.
"""

from math import exp
from typing import Final

from broker.routing.fair_shares import NOBODY, Shares
from broker.routing.health.leases import Lease
from broker.routing.health.masks import Masks
from broker.routing.policies import Policies, Policy
from rsocket_wire.timers import Timed, Timer

# How a request ended, as far as it says something about the route.
GOOD: Final = 0
BAD: Final = 1
NEITHER: Final = 2  # cancelled, or the caller's own fault

NEVER_N: Final = 1 << 60  # more than there can be
LAZY_N: Final = 128  # places; to count who holds those of a route with fewer costs less than to find it out again

FIRST_SHARE: Final = 0.1  # of a full share, for a route that has just joined and warms up; Envoy's least
DECAY_S: Final = 10.0  # a latency seen so long ago counts 1/e; Finagle's time for its peak EWMA
KNOWN_US: Final = 1.0  # a latency that has decayed below this says nothing any more
FAILED_US: Final = 1e6  # what an ERROR counts as when nothing is known of a route
_TOLD_APART: Final = 61  # callers, by their numbers; more of them share bits of an int that needs no memory of its own
_OTHERS: Final = 1 << _TOLD_APART  # callers behind a link that were served well; they meet no error of those we know
_LONG_AGO: Final = -1e9  # seconds, monotonic
MAX_FAILED_US: Final = 60e6  # up to which errors in a row double a latency: it is 5 ms again after 94 s


class ServiceLoad:
    """All routes of one service name together."""

    __slots__ = ("awaited_n", "ejected_n", "name", "policy", "routes_n", "shares")

    def __init__(self, name: str, policy: Policy) -> None:
        self.name: Final = name
        self.policy: Final = policy
        self.routes_n = 0  # in the table
        self.ejected_n = 0  # of them
        self.awaited_n = 0  # request/responses in flight
        limit = policy.max_in_flight_per_service
        self.shares: Final = Shares(limit, True) if limit > 0 else None  # of them; None: there is no limit


class Load(Timed):
    """One offered route."""

    __slots__ = (
        "_counts_all",
        "_elsewhere_at",
        "_error_callers",
        "_good_at",
        "_good_caller",
        "_good_callers",
        "_good_callers_before",
        "_good_origin",
        "_good_until",
        "_half_n",
        "_limit",
        "_slow_start_s",
        "_watch_n",
        "_loads",
        "awaited_n",
        "ejected_until",
        "ejections_n",
        "error_caller",
        "error_origin",
        "errors_n",
        "ewma_at",
        "ewma_us",
        "in_flight",
        "is_behind",
        "is_joint",
        "is_leaving",
        "is_measured",
        "is_suspected",
        "is_watched",
        "joined_at",
        "lease",
        "relieved_at",
        "requests",
        "service",
        "shares",
        "slot",
        "term",
        "wants_caller",
        "warm_at",
        "weight",
    )

    def __init__(self, loads: "Loads", service: ServiceLoad, now: float) -> None:
        self.service: Final = service
        self.slot = -1  # -1 unless its route is in the table
        self.joined_at: Final = now  # seconds, monotonic
        self.requests = 0  # served, begun
        self.in_flight = 0  # begun and not ended
        self.awaited_n = 0  # request/responses among them: a stream is no work that is waited for
        self.weight = 1  # 1..65535, its tag `weight`
        self.warm_at: Final = now + service.policy.slow_start_s  # from then on it gets a full share
        self.errors_n = 0  # in a row
        self.error_caller = NOBODY  # who met the first of them
        self.error_origin = ""  # and where that is, see `ended`
        self._error_callers = 0  # all who met some of them, a bit for each
        self.is_joint = False  # others, elsewhere, have met some of them, too
        self.is_suspected = False  # it is among the suspects for them
        # Whom it served well, a bit for each: until `_good_until`, and in the `eject_s` before that began.
        self._good_callers = 0
        self._good_callers_before = 0
        self._good_until = 0.0
        self._good_caller = NOBODY  # the last of them
        # Where the last of them was, and when; and when the last one that was elsewhere: seconds, monotonic.
        self._good_origin = ""
        self._good_at = _LONG_AGO
        self._elsewhere_at = _LONG_AGO
        self.ejections_n = 0  # that counted when it was ejected the last time, see `outliers.ejections_left`
        self.ejected_until = 0.0  # seconds, monotonic; 0: it is not ejected
        self.term: Timer | None = None  # of its latest ejection; None until there was one
        self.relieved_at = 0.0  # when its latest ejection was over
        self.is_behind = False  # its own broker, another one, says that callers that send it more had better wait
        self.is_leaving = False  # its own broker, another one, says that it gets no new requests
        self.is_measured = False  # somebody chooses by its latency
        self.ewma_us = 0.0  # of request/responses, as it was at `ewma_at`
        self.ewma_at = 0.0
        self.lease: Lease | None = None  # when its connection grants requests by LEASE
        self.wants_caller: Final = service.policy.identity
        self._slow_start_s: Final = service.policy.slow_start_s
        limit = service.policy.max_in_flight_per_route
        self._limit: Final = limit
        self._loads: Final = loads
        self._half_n: Final = (limit + 1) // 2 if limit > 0 else NEVER_N
        # Who holds how many of its places is counted once half of them are taken, and until only a quarter is.
        self._counts_all: Final = 0 < limit < LAZY_N
        self.shares: Shares | None = Shares(limit, True) if self._counts_all else None
        # It may be full, or a caller may have its share, of it or of its service: look at `awaited_n` and `shares`.
        self.is_watched = self._counts_all or service.shares is not None
        self._watch_n = 0 if self.is_watched else self._half_n  # with so many in flight there is more to do

    @property
    def limit_text(self) -> str:
        """How many request/responses it may have in flight, and where that is said."""
        return f"protection.max_in_flight_per_route is {self._limit}"

    def take(self) -> None:
        """A request was given to the route that is over with it."""
        self.requests += 1
        if self.lease is not None:
            self.lease.spend()

    def began(self, is_awaited: bool, caller: int = 0) -> None:
        """A request was given to the route, and `ended` will follow. `is_awaited`: it is a request/response.

        `caller`: a number that stands for who asks.
        """
        self.requests += 1
        if self.lease is not None:
            self.lease.spend()
        self.in_flight += 1
        if is_awaited:
            self.service.awaited_n += 1
            self.awaited_n += 1
            if self.awaited_n >= self._watch_n:
                self._count_begun(caller)

    def ended(
        self, is_awaited: bool, verdict: int, latency_us: int, now: float, caller: int = 0, origin: str = ""
    ) -> None:
        """A request that it served has ended: GOOD, BAD or NEITHER. `now` 0.0: in a multicast, some time ago.

        `origin`: what the caller shares with its other connections; empty: nothing.
        """
        self.in_flight -= 1
        if is_awaited:
            self.service.awaited_n -= 1
            if self.awaited_n >= self._watch_n:
                self._count_ended(caller)
            self.awaited_n -= 1
            if self.is_measured and now > 0.0 and (latency_us > 0 or verdict == BAD):
                self._measure(float(latency_us), verdict, now)
        if verdict == GOOD:
            self.errors_n = 0
            if now > 0.0:
                if caller != self._good_caller or now >= self._good_until:
                    self._serve_well(caller, origin, now)
                self._good_at = now
        elif verdict == BAD:
            self._erred(caller, origin, now)

    def spare(self, link: int) -> None:
        """A request of this link is about to end BAD: those that were served well over it may be other callers.

        Their own broker, which has chosen the route, knows, and ejects it for them. D-37
        """
        if self._good_callers & 1 << link % _TOLD_APART:
            self._good_callers |= _OTHERS

    def is_believed(self, now: float) -> bool:
        """Its errors in a row say something about it: two callers met them, or the only one that it has (D-37).

        One caller among others could pin a few requests to it that it must answer so, on as many connections as it
        likes. So two callers are two origins; and one origin is the only one when nobody else was served well lately,
        within the time that an ejection takes: nobody elsewhere, nor on a connection that has met no error since.
        """
        if self.is_joint:
            return True
        eject_s = self.service.policy.eject_s
        if now - self._good_at >= eject_s:
            return True
        if self._good_origin != self.error_origin or now - self._elsewhere_at < eject_s:
            return False
        lately = self._good_callers if now >= self._good_until else self._good_callers | self._good_callers_before
        return lately & ~self._error_callers == 0

    def take_blame(self, old: "Load") -> None:
        """Its errors, and who met them, are those of another load: its connection offered that route before."""
        self.errors_n = old.errors_n
        self.error_caller = old.error_caller
        self.error_origin = old.error_origin
        self._error_callers = old._error_callers
        self.is_joint = old.is_joint
        self._good_callers = old._good_callers
        self._good_callers_before = old._good_callers_before
        self._good_until = old._good_until
        self._good_caller = old._good_caller
        self._good_origin = old._good_origin
        self._good_at = old._good_at
        self._elsewhere_at = old._elsewhere_at

    def _serve_well(self, caller: int, origin: str, now: float) -> None:
        """It is somebody else's turn to be served well, or the bits of those that were long ago are to be forgotten."""
        if now >= self._good_until:
            eject_s = self.service.policy.eject_s
            self._good_callers_before = self._good_callers if now < self._good_until + eject_s else 0
            self._good_callers = 0
            self._good_until = now + eject_s
        self._good_caller = caller
        self._good_callers |= 1 << caller % _TOLD_APART
        if origin != self._good_origin:
            self._elsewhere_at = self._good_at
            self._good_origin = origin

    def _erred(self, caller: int, origin: str, now: float) -> None:
        self.errors_n += 1
        if self.errors_n == 1:
            self.error_caller = caller
            self.error_origin = origin
            self._error_callers = 0
            self.is_joint = False
            self.is_suspected = False
        elif origin != self.error_origin or (not origin and caller != self.error_caller):
            self.is_joint = True
        self._error_callers |= 1 << caller % _TOLD_APART
        limit = self.service.policy.eject_after_errors
        if 0 < limit <= self.errors_n and not self.is_suspected and self.is_believed(now):
            self.is_suspected = True
            self._loads.suspects.append(self)

    def share(self, now: float) -> float:
        """The part of a full share that it gets: 1, or less while it warms up, growing evenly from `FIRST_SHARE`."""
        left_s = self.warm_at - now
        if left_s <= 0.0 or self._slow_start_s <= 0.0:
            return 1.0
        return 1.0 - (1.0 - FIRST_SHARE) * min(1.0, left_s / self._slow_start_s)

    def latency_us(self, now: float) -> float:
        """Peak EWMA: at least the latest latencies, and less with each moment that brings no new one."""
        return self.ewma_us * exp(min(0.0, self.ewma_at - now) / DECAY_S)

    def _count_begun(self, caller: int) -> None:
        if self.service.shares is not None:
            self.service.shares.began(caller)
        if self.shares is not None:
            if self.shares.is_counting:
                self.shares.began(caller)
        elif self.awaited_n >= self._half_n:
            self.shares = Shares(self._limit, False)
            self._watch_n = 0
            self.is_watched = True
        if self.awaited_n == self._limit:
            self._loads.masks.put(self._loads.masks.full, self.slot)

    def _count_ended(self, caller: int) -> None:
        if self.service.shares is not None:
            self.service.shares.ended(caller)
        if self.shares is not None:
            if self.shares.is_counting:
                self.shares.ended(caller)
            if not self._counts_all and self.awaited_n - 1 <= self._half_n // 2:
                self.shares = None
                if self.service.shares is None:
                    self._watch_n = self._half_n
                    self.is_watched = False
        if self.awaited_n == self._limit:
            self._loads.masks.take(self._loads.masks.full, self.slot)

    def _measure(self, latency_us: float, verdict: int, now: float) -> None:
        """Up at once, down slowly. What was refused or given up early is no sign of speed, only its slowness counts.

        Nor may an ERROR ever make a route look fast, or who fails at once would get all requests: it keeps the average
        from coming down, and each further one in a row doubles it.
        """
        average = self.latency_us(now)
        if verdict == BAD:
            # A single one may be bad luck; of a route that nobody knows it is all that is known.
            average = self.ewma_us if average >= KNOWN_US else FAILED_US
            if self.errors_n:
                average = max(average, min(2.0 * average, MAX_FAILED_US))
            average = max(average, latency_us)
        elif latency_us > average:
            average = latency_us
        elif verdict == GOOD:
            kept = exp(min(0.0, self.ewma_at - now) / DECAY_S)
            average += latency_us * (1.0 - kept)
        else:
            return
        self.ewma_us = average
        self.ewma_at = now


class Loads:
    """The loads of one table."""

    def __init__(self, policies: Policies) -> None:
        self.masks: Final = Masks()
        self.suspects: Final[list[Load]] = []  # failed too often in a row; emptied by `outliers` after each turn
        self.services: Final[dict[str, ServiceLoad]] = {}  # of routes in the table: bounded by them
        self.warm_at = 0.0  # seconds, monotonic: from then on no route that has joined so far warms up any more
        self.policies: Final = policies

    def open(self, service: str, now: float) -> Load:
        """The load of a route that is about to join."""
        load = self.services.get(service)
        if load is None:
            load = ServiceLoad(service, self.policies.of(service))
        made = Load(self, load, now)
        if load.policy.slow_start_s > 0:
            self.warm_at = max(self.warm_at, made.warm_at)
        return made

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

    def told(self, load: Load, weight: int, is_down: bool) -> None:
        """What the tags of its route say: how much it takes, and whether it calls itself unhealthy."""
        load.weight = weight
        self.masks.set(self.masks.unhealthy, load.slot, is_down)

    def left(self, load: Load) -> None:
        """Its route is in the table no more."""
        service = load.service
        if load.ejected_until:
            load.ejected_until = 0.0
            service.ejected_n -= 1
            assert load.term is not None  # it is ejected
            load.term.cancel()
        self.masks.forget(load.slot)
        load.slot = -1
        if load.lease is not None:
            load.lease.slot = -1
            load.lease = None
        service.routes_n -= 1
        if not service.routes_n:
            del self.services[service.name]

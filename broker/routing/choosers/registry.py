"""The names of the choosers: what an LBMethod hint or a policy may say (D-35).

    round_robin     random     weighted     least_busy     power_of_two     peak_ewma
    zone_first      zone_first:power_of_two     (within a zone: the chooser behind the colon, else the service's)
    sticky          sticky:random               (the first time: the chooser behind the colon, else the service's)

Upper case, `-`, `_` and blanks do not matter. Who is used to Envoy, Finagle or Java may say `zone`, `rr`, `p2c`,
`ewma`, `least_request` or `WeightedStats`. The configuration takes the names above as they are written, and no others.
"""

from typing import Final

from broker.routing.choosers.chooser import Chooser
from broker.routing.choosers.least_busy import LeastBusy
from broker.routing.choosers.peak_ewma import PeakEwma
from broker.routing.choosers.power_of_two import PowerOfTwo
from broker.routing.choosers.random import Random
from broker.routing.choosers.round_robin import RoundRobin
from broker.routing.choosers.weighted import Weighted
from broker.routing.choosers.zone_first import ZoneFirst
from rsocket_wire.methods import CHOOSERS_ALIASES, plain_name

ROUND_ROBIN: Final = "roundrobin"
RANDOM: Final = "random"
WEIGHTED: Final = "weighted"
LEAST_BUSY: Final = "leastbusy"
POWER_OF_TWO: Final = "poweroftwo"
PEAK_EWMA: Final = "peakewma"
STICKY: Final = "sticky"
ZONE_FIRST: Final = "zonefirst"


class Method:
    """How one of the candidates is chosen."""

    def __init__(self, chooser: Chooser, is_sticky: bool) -> None:
        self.chooser: Final = chooser
        self.is_sticky: Final = is_sticky  # who was chosen is chosen again


class Methods:
    """All choosers. They keep nothing of an address, so that one of each is enough."""

    def __init__(self) -> None:
        self._plain: Final[dict[str, Chooser]] = {
            ROUND_ROBIN: RoundRobin(),
            RANDOM: Random(),
            WEIGHTED: Weighted(),
            LEAST_BUSY: LeastBusy(),
            POWER_OF_TWO: PowerOfTwo(),
            PEAK_EWMA: PeakEwma(),
        }
        self._zone_first: Final[dict[str, Chooser]] = {
            name: ZoneFirst(chooser) for name, chooser in self._plain.items()
        }

    def find(self, name: str, service_method: str) -> Method | None:
        """The method of a name; None when nobody knows it. `service_method`: what it may leave to the service."""
        outer, _, inner = name.partition(":")
        outer = _canonical(outer)
        if outer in self._plain:
            return Method(self._plain[outer], False) if not inner else None
        if outer not in (STICKY, ZONE_FIRST):
            return None
        within = _canonical(inner) if inner else self._inner_of(service_method)
        if outer == ZONE_FIRST:
            return Method(self._zone_first[within], False) if within in self._plain else None
        if within in self._plain:
            return Method(self._plain[within], True)
        if within == ZONE_FIRST:
            return Method(self._zone_first[self._inner_of(service_method)], True)
        return None

    def _inner_of(self, service_method: str) -> str:
        """The plain chooser that the method of a service comes down to; round robin when it names none."""
        for part in reversed(service_method.split(":")):
            name = _canonical(part)
            if name in self._plain:
                return name
        return ROUND_ROBIN


def _canonical(name: str) -> str:
    plain = plain_name(name)
    return CHOOSERS_ALIASES.get(plain, plain)

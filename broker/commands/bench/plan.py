"""What a bench measures: the interaction model, who is addressed, how many at once and how fast."""

from __future__ import annotations

from typing import Final, NamedTuple

UNICAST: Final = "unicast"
SHARD: Final = "shard"
MULTICAST: Final = "multicast"
TARGETS: Final = (UNICAST, SHARD, MULTICAST)
MAX_RATE: Final = 1_000_000  # requests a second; no process begins so many
WARM_UP: Final = 0.2  # of the time of measuring, before it
MAX_WARM_UP_S: Final = 2.0


class Plan(NamedTuple):
    """What the command line asks for."""

    model: str
    target: str
    services_n: int
    callers_n: int
    in_flight_n: int  # of each caller
    rate_per_s: float | None  # of all callers; None: each begins another request when one has ended
    payload_bytes: int
    items_n: int
    keys_n: int
    seconds: float

    @property
    def warm_up_s(self) -> float:
        """Of requests that are not counted: connections, caches and this process get warm."""
        return min(self.seconds * WARM_UP, MAX_WARM_UP_S)

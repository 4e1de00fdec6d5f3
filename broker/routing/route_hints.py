"""What a route's own tags say about how it wants to be used (D-35). Callers may ask for them like for any other tag.

weight   1..65535   how many requests it takes, measured by the others' weights
health   down, out  it asks for no requests; anything else: it is well
"""

from typing import Final

from rsocket_wire.wire.keys import Key
from rsocket_wire.wire.tags import Tag

WEIGHT: Final = Key.text("weight")
HEALTH: Final = Key.text("health")
MAX_WEIGHT: Final = 65_535
_DOWN: Final = (b"down", b"out")


def weight_of(tags: list[Tag]) -> int:
    """The first weight that is one; 1 without. 0 is none: who wants no requests at all says so by `health`."""
    for tag in tags:
        if tag.key.wire == WEIGHT.wire and tag.raw is not None:
            weight = _whole(tag.raw)
            if 1 <= weight <= MAX_WEIGHT:
                return weight
    return 1


def is_down(tags: list[Tag]) -> bool:
    """The route calls itself unhealthy, in upper or lower case."""
    return any(tag.key.wire == HEALTH.wire and tag.raw is not None and tag.raw.lower() in _DOWN for tag in tags)


def _whole(raw: bytes) -> int:
    """The number of up to five digits; -1 for anything else."""
    return int(raw) if len(raw) <= 5 and raw.isdigit() else -1

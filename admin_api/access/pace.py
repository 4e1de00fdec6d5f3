"""How often a caller of the REST API may ask: a bucket for each, by its token, or by its address where it has none.

Decides which request is one too many. What a request may cost, its answer bounds: a list is a page.
"""

from collections import OrderedDict
from typing import Final

from broker.connections.rate_limits import SPENT, TokenBucket

MAX_CALLERS: Final = 1024  # that are remembered; whoever was not heard of for longest has a full bucket again


class Pace:
    """Of one API."""

    def __init__(self, per_s: int) -> None:
        """`per_s`: admin.max_requests_per_s."""
        self._bucket: Final = TokenBucket(per_s, "admin.max_requests_per_s")
        self._full_at: Final[OrderedDict[str, float]] = OrderedDict()  # by caller; who asked last is last

    def refusal_of(self, caller: str, now: float) -> str:
        """Counts one more request of that caller. Returns what it is told when that is too many, else nothing."""
        if not self._bucket.per_s:
            return ""
        full_at = self._bucket.spend(self._full_at.get(caller, 0.0), now)
        if full_at == SPENT:
            return self._bucket.too_many
        self._full_at[caller] = full_at
        self._full_at.move_to_end(caller)
        if len(self._full_at) > MAX_CALLERS:
            self._full_at.popitem(last=False)
        return ""

"""Guards against floods: how often a peer may say something, and how many connections one origin may have.

Decides when it is too much; what happens then is the core's. Knows no frames and no sockets. D-43
"""

from typing import Final

BURST_S: Final = 10.0  # a bucket holds what comes in so many seconds: what a network held up for that long is no flood
SPENT: Final = -1.0  # no moment: the bucket is empty


class TokenBucket:
    """A token bucket of `per_s` tokens a second that holds BURST_S seconds' worth of them; 0 is no bound.

    Who spends keeps one number, not two: the moment at which its bucket will be full again, 0.0 at first.

            now                    full again
         ────┼─────────────────────────┼────────────────┼──────►
             │◄── tokens spent / per_s ──►              now + BURST_S: later than that is too much
    """

    def __init__(self, per_s: int, option: str = "") -> None:
        """`option`: its name, for texts."""
        self.per_s: Final = per_s
        self._option: Final = option
        self.burst_n: Final = int(per_s * BURST_S)
        self._cost_s: Final = 1.0 / per_s if per_s > 0 else 0.0

    @property
    def too_many(self) -> str:
        """Returns what whoever spends too much is told."""
        return f"more than {self.burst_n} came faster than {self.per_s} a second ({self._option})"

    def spend(self, full_at: float, now: float) -> float:
        """Spends a token of a bucket that is full again at `full_at`. Returns the new time; SPENT: there was none."""
        cost_s = self._cost_s
        at = (full_at if full_at > now else now) + cost_s
        return at if at <= now + BURST_S + cost_s / 10 else SPENT  # a tenth is more than adding up can get wrong


class TokenBuckets:
    """A TokenBucket for each of many names; `max_n` are remembered, and whose name was spent for longest ago goes."""

    def __init__(self, per_s: int, max_n: int, option: str = "") -> None:
        """`per_s`, `option`: see TokenBucket."""
        self._bucket: Final = TokenBucket(per_s, option)
        self._max_n: Final = max_n
        self.full_at: Final[dict[str, float]] = {}  # by name: when its bucket is full again; spent last is last

    @property
    def too_many(self) -> str:
        """Returns what whoever spends too much is told."""
        return self._bucket.too_many

    def spend(self, name: str, now: float) -> None:
        """Spends a token; of an empty bucket, which stays empty, none."""
        bucket = self._bucket
        if not bucket.per_s:
            return
        full_at = bucket.spend(self.full_at.pop(name, 0.0), now)
        self.full_at[name] = full_at if full_at != SPENT else now + bucket.burst_n / bucket.per_s
        if len(self.full_at) > self._max_n:
            del self.full_at[next(iter(self.full_at))]

    def has_room(self, name: str, now: float, others_n: int = 0) -> bool:
        """One more token could be spent, should `others_n` be, too."""
        bucket = self._bucket
        if not bucket.per_s:
            return True
        full_at = self.full_at.get(name, 0.0)
        if full_at <= now:
            self.full_at.pop(name, None)
            full_at = now
        return bucket.spend(full_at + others_n / bucket.per_s, now) != SPENT


class ConnectionCounter:
    """How many connections each origin has: an address, a principal. An empty name is none and has no bound.

    Connections without a socket, which may be resumed, are counted too, but do not keep away the sockets that could be
    theirs: whoever then asks for a connection of its own is measured again (`is_over`).
    """

    def __init__(self, limit: int, option: str = "", shown: str = "") -> None:
        """`limit` connections of one origin; 0 is no bound. `option`: its name, for texts. `shown`: what stands in
        them for the names of origins; empty: they do themselves.
        """
        self.limit: Final = limit
        self._option: Final = option
        self._shown: Final = shown
        self._numbers: dict[str, int] = {}  # bounded by the connections
        self._away: dict[str, int] = {}  # of them, without a socket

    def refusal_of(self, name: str) -> str:
        """Returns what one is told that is too many."""
        who = self._shown or name
        return f"{self._numbers[name] - 1} connections of {who} are open, {self._option} is {self.limit}"

    def enter(self, name: str) -> bool:
        """Counts one more until it leaves; False when it is one too many."""
        if not name:
            return True
        number = self._numbers.get(name, 0) + 1
        self._numbers[name] = number
        return not self.limit or number - self._away.get(name, 0) <= self.limit

    def number_with_socket(self, name: str) -> int:
        """Returns how many of them have a socket."""
        return self._numbers.get(name, 0) - self._away.get(name, 0)

    def is_over(self, name: str) -> bool:
        """Tells whether there are too many, those without a socket counted."""
        return self.limit > 0 and self._numbers.get(name, 0) > self.limit

    def set_away(self, name: str, is_away: bool) -> None:
        """Notes that one of them has no socket any more, or has one again or ends."""
        if not name:
            return
        number = self._away.get(name, 0) + (1 if is_away else -1)
        if number:
            self._away[name] = number
        else:
            del self._away[name]

    def leave(self, name: str) -> None:
        """Counts one less."""
        if not name:
            return
        number = self._numbers[name] - 1
        if number:
            self._numbers[name] = number
        else:
            del self._numbers[name]

    def size(self) -> int:
        """Returns how many origins there are."""
        return len(self._numbers)

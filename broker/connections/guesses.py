"""Wrong secrets by address: proofs of brokers, passwords and tokens of logins, tokens of the REST API.

Decides which address has had too many wrong ones, and how long it has to wait. What the wait is, whoever asks decides:
for an answer that comes late, or for its turn. An address is what `edge.origins` calls one: of IPv6 a /64.
"""

from typing import Final

from broker.connections.rate_limits import TokenBuckets

WRONG_PER_S: Final = 1  # of one address, and ten times as many at once: more slow it down
SLOW_S: Final = 1.0  # by so much: less than GREET_S, so that a broker behind the same address is linked all the same
MAX_SLOWED: Final = 1024  # addresses of which wrong ones are remembered


class Guesses:
    """Of one kind of asking."""

    def __init__(self, wrong_per_s: int = WRONG_PER_S) -> None:
        """0: nobody is slowed down."""
        self._wrong: Final = TokenBuckets(wrong_per_s, MAX_SLOWED)

    def count_wrong(self, address: str, now: float) -> None:
        """One more of that address."""
        self._wrong.spend(address, now)

    def has_room(self, address: str, tried_n: int, now: float) -> bool:
        """One more of that address may be tried beside `tried_n` others, should all of them be wrong."""
        return self._wrong.has_room(address, now, tried_n)

    def delay_s(self, address: str, now: float) -> float:
        """Returns how long whoever comes from there waits for an answer, seconds."""
        return 0.0 if self._wrong.has_room(address, now) else SLOW_S

"""Which calls are made again, how often and when.

    call ──► try ──► error ──► safe? ──► attempts left? ──► time left? ──► budget? ──► wait ──► try
                                └── no ────────┴────────────────┴────────────┴──► the error

Safe is what nobody has processed: REJECTED, and what was never sent (`NotConnected`). Whatever else may be over by a
second try (`ConnectionLost`, `Canceled`, a try's own time-out) is tried again only when the call is marked
`idempotent=True`. What the handler says itself (`ApplicationError`, `BadRequest`) never is. Knows no connections.
"""

from collections.abc import Callable
from typing import Final

from client_sdk.errors import Canceled, ClientError, ConnectionLost, DeadlineExceeded, TooLate
from client_sdk.mistakes.arguments import advised
from client_sdk.mistakes.kinds import kind_of

WINDOW_S: Final = 10  # seconds that a budget looks back
FINAL_WORDS: Final = ("closed", "replaced")  # the client is closed for ever: no try can succeed


class RetryBudget:
    """How many retries there may be: those of many callers at once must not bury a service that has trouble.

    In any ten seconds at most `ratio` of the requests, and `min_per_s` a second on top (for programs that call rarely).
    One budget may serve several clients.

    >>> budget = RetryBudget(ratio=0.1, min_per_s=1)
    """

    @advised("RetryBudget(ratio=0.2)", is_hot=False)
    def __init__(self, ratio: float = 0.2, min_per_s: float = 10.0) -> None:
        """ValueError for negative numbers."""
        if not (ratio >= 0 and min_per_s >= 0):
            raise ValueError(f"ratio is {ratio} and min_per_s is {min_per_s}, neither may be below 0")
        self.ratio: Final = ratio
        self.min_per_s: Final = min_per_s
        self._requests: Final = [0] * WINDOW_S  # per second of the window
        self._retries: Final = [0] * WINDOW_S
        self._second = 0  # the newest one

    def note_request(self, now: float) -> None:
        """A call was made, for the first time, at this moment (seconds, monotonic).

        >>> RetryBudget().note_request(now=17.5)
        """
        self._turn(int(now))
        self._requests[self._second % WINDOW_S] += 1

    def take(self, now: float) -> bool:
        """Whether one more try may be made now (seconds, monotonic); then it is counted.

        >>> budget = RetryBudget(ratio=0, min_per_s=0.1)  # one in ten seconds
        >>> budget.take(now=17.5), budget.take(now=18.5)
        (True, False)
        """
        self._turn(int(now))
        if sum(self._retries) + 1 > self.ratio * sum(self._requests) + self.min_per_s * WINDOW_S:
            return False
        self._retries[self._second % WINDOW_S] += 1
        return True

    def _turn(self, second: int) -> None:
        """Forgets what is older than the window."""
        for passed in range(min(second - self._second, WINDOW_S)):
            slot = (second - passed) % WINDOW_S
            self._requests[slot] = self._retries[slot] = 0
        self._second = max(second, self._second)


def check_budget(given: object) -> None:
    """TypeError for what is none."""
    if given is None or isinstance(given, RetryBudget):
        return
    example = "RetryBudget()"
    if isinstance(given, int | float) and not isinstance(given, bool) and given > 0:
        example = f"RetryBudget(ratio={given})" if given < 1 else f"RetryBudget(min_per_s={given})"
    raise TypeError(f"budget= is {kind_of(given)}, it must be {example}")


class RetryPolicy:
    """Tries a call again where that is safe: `connect(retry=RetryPolicy())`, or of one call.

    attempts       in all, the first one included; eight go on for 2 to 4 s, after which what was restarted is back
    first_delay_s  before the second attempt; doubles up to max_delay_s, each shortened to a half at most, by chance
    try_timeout_s  for each attempt; None: an attempt may take what is left of the deadline
    budget         shared by all calls with this policy; its own when absent

    Streams are tried again only before their first item, channels never (their items are used up), fire-and-forget
    only when it was not sent.

    >>> policy = RetryPolicy(attempts=5, try_timeout_s=0.5)
    >>> answer = await client.request_response(address("orders"), b"42", idempotent=True, retry=policy)
    """

    @advised("RetryPolicy(attempts=3)", is_hot=False)
    def __init__(
        self,
        attempts: int = 8,
        *,
        first_delay_s: float = 0.05,
        max_delay_s: float = 1.0,
        try_timeout_s: float | None = None,
        budget: RetryBudget | None = None,
    ) -> None:
        """ValueError for numbers that make no sense."""
        check_budget(budget)
        if attempts < 1:
            raise ValueError(f"attempts is {attempts}, it must be at least 1 (which means no retry)")
        if not 0 <= first_delay_s <= max_delay_s:
            text = f"first_delay_s is {first_delay_s} and max_delay_s is {max_delay_s}, it must be 0 <= first <= max"
            mend = "; lower first_delay_s=, or raise max_delay_s=" if 0 <= max_delay_s < first_delay_s else ""
            raise ValueError(text + mend)
        if try_timeout_s is not None and not try_timeout_s > 0:
            raise ValueError(f"try_timeout_s is {try_timeout_s}, it must be more than 0")
        self.attempts: Final = attempts
        self.first_delay_s: Final = first_delay_s
        self.max_delay_s: Final = max_delay_s
        self.try_timeout_s: Final = try_timeout_s
        self.budget: Final = RetryBudget() if budget is None else budget

    def is_safe(self, error: ClientError, idempotent: bool) -> bool:
        """Whether a call that ended like this may be made again.

        >>> RetryPolicy().is_safe(ConnectionLost("it broke"), idempotent=False)
        False
        """
        if error.word in FINAL_WORDS:
            return False
        if error.is_retry_safe:
            return True
        return idempotent and isinstance(error, AGAIN) and not isinstance(error, TooLate)

    def delay_s(self, failed_n: int, chance: Callable[[], float]) -> float:
        """Seconds to wait after so many failed attempts, 1 or more.

        >>> RetryPolicy().delay_s(3, lambda: 1.0)
        0.2
        """
        whole_s = min(self.first_delay_s * 2.0 ** min(failed_n - 1, 30), self.max_delay_s)
        return whole_s * (0.5 + chance() / 2)


AGAIN: Final = (ConnectionLost, Canceled, DeadlineExceeded)  # may be over by a second try, and may have been processed
NO_RETRY: Final = RetryPolicy(attempts=1)  # for one call of a client that retries otherwise

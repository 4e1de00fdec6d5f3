"""The time without a broker, as the log tells it: each new reason, and every minute that it goes on.

    WARNING service orders, 7f3a…: cannot reconnect: connect-failed: tcp://…: connection refused
    WARNING service orders, 7f3a…: cannot reconnect for 60 s (44 attempts): connect-failed: tcp://…: connection refused
    WARNING service orders, 7f3a…: connected again to tcp://… after 65.3 s

Decides what is said and when. Knows no connections.
"""

import logging
from typing import Final

from client_sdk.clock import Clock
from client_sdk.errors import ClientError

SAID_EVERY_S: Final = 60.0
_log: Final = logging.getLogger("client_sdk")


class Outage:
    """Attempts to connect that failed, one after the other."""

    def __init__(self, what: str, clock: Clock) -> None:
        """`what` cannot be done, for the log: "service orders, 7f3a…: cannot reconnect". It begins now."""
        self._what: Final = what
        self._clock: Final = clock
        self._began_at: Final = clock.now()
        self._said_at = self._began_at
        self._said = ""  # the last reason; empty before the first
        self._attempts_n = 0

    @property
    def lasted_s(self) -> float:
        """Seconds since it began."""
        return self._clock.now() - self._began_at

    @property
    def has_failed(self) -> bool:
        """Whether there was an attempt."""
        return self._attempts_n > 0

    def failed(self, error: ClientError) -> None:
        """One more attempt."""
        self._attempts_n += 1
        now = self._clock.now()
        if error.text != self._said:
            _log.warning("%s: %s: %s", self._what, error.word, error.text)
        elif now - self._said_at >= SAID_EVERY_S:
            so_far = f"{self.lasted_s:.0f} s ({self._attempts_n} attempts)"
            _log.warning("%s for %s: %s: %s", self._what, so_far, error.word, error.text)
        else:
            return
        self._said, self._said_at = error.text, now

    def ended(self, text: str) -> None:
        """It is over. Said as a warning where a warning came before, so that who has read that reads this, too."""
        _log.log(logging.WARNING if self.has_failed else logging.INFO, "%s after %.1f s", text, self.lasted_s)

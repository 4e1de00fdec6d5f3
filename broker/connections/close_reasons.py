"""Why connections ended whose clients may not have been told: not all that goes before the ERROR was taken (D-73).

Told to the client when it comes again, if it said who it is in both SETUPs. Does not know how it is told.
"""

from typing import Final

MAX_CLOSE_REASONS: Final = 1_000  # that are remembered; the oldest is forgotten for one more
KEPT_S: Final = 300.0  # who comes later than that is told nothing


class CloseReasons:
    """The reasons, by client."""

    def __init__(self) -> None:
        self._by_client: Final[dict[bytes, tuple[str, float]]] = {}  # text, and until when; the oldest first

    def remember(self, client_id: bytes, text: str, now: float) -> None:
        """Remembers why the connection of that client ends, which it may not hear."""
        self._by_client.pop(client_id, None)
        self._by_client[client_id] = (text, now + KEPT_S)
        if len(self._by_client) > MAX_CLOSE_REASONS:
            del self._by_client[next(iter(self._by_client))]

    def take(self, client_id: bytes, now: float) -> str:
        """Takes why its connection before this one ended; empty: it was told, or it is too long ago."""
        last = self._by_client.pop(client_id, None)
        if last is None or now >= last[1]:
            return ""
        return last[0]

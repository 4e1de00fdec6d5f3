"""How often a broker contradicts what others say in its name (D-47).

Who meets a word of its own that does not hold any more, of an earlier life, outdoes it: one answer, and all know. Two
brokers with one id, by a configuration that was copied, would outdo each other for ever, as fast as the network carries
it; so each key has one answer in CONTRADICTION_S. What is not answered comes again when neighbours compare what they
know.
"""

from typing import Final

CONTRADICTION_S: Final = 5.0
MAX_CONTRADICTIONS: Final = 200_000  # keys in that time; more are not answered


class Contradictions:
    """Those of one broker."""

    def __init__(self) -> None:
        self._begun_at = 0.0  # seconds, monotonic
        self._keys: set[bytes] = set()  # answered since; bounded by MAX_CONTRADICTIONS

    def may(self, key: bytes, now: float) -> bool:
        """Returns whether the word that has this key may be answered; it counts as answered from now on."""
        if now - self._begun_at >= CONTRADICTION_S:
            self._begun_at = now
            self._keys = set()
        if key in self._keys or len(self._keys) >= MAX_CONTRADICTIONS:
            return False
        self._keys.add(key)
        return True

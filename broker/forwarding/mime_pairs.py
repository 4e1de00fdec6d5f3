"""The pairs of mime types (metadata, data) of connections, and of callers at other brokers: numbers for those in use.

Decides how long a pair is known: as long as somebody uses it, so that nobody who made pairs up and is gone takes room
from others. A number is never used again: what is remembered under one that is gone means nothing, and nothing else.
Does not know what is done about pairs that differ: that is `translate`.
"""

from typing import Final

from broker.forwarding.mime_translation import Mimes


class MimePairs:
    """The pairs of one broker."""

    def __init__(self) -> None:
        self.by_number: Final[dict[int, Mimes]] = {}  # bounded by who uses them: connections, and `ingress`
        self._by_pair: Final[dict[tuple[str, str], Mimes]] = {}  # the same
        self.lost_entries_n = 0  # of composite metadata, that routes of another pair could not be given (D-70)
        self._given_n = 0  # numbers, ever

    def take(self, metadata_mime: str, data_mime: str) -> int:
        """The number of a pair, for one more user."""
        pair = (metadata_mime, data_mime)
        mimes = self._by_pair.get(pair)
        if mimes is None:
            mimes = self._by_pair[pair] = self.by_number[self._given_n] = Mimes(self._given_n, metadata_mime, data_mime)
            self._given_n += 1
        mimes.users_n += 1
        return mimes.number

    def give_back(self, number: int) -> None:
        """One user less."""
        mimes = self.by_number[number]
        mimes.users_n -= 1
        if not mimes.users_n:
            del self.by_number[number]
            del self._by_pair[(mimes.metadata_mime, mimes.data_mime)]

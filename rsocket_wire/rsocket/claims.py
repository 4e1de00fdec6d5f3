"""Takes out of composite metadata what only brokers may write: entries that say who the caller is (D-102).

    | entry | entry that claims … | entry |   ──►   | entry | entry |

Metadata may come in pieces, as fragments carry it: what has come of a name that may be such a one waits until it can be
judged. All other bytes pass as they came, also those that are no composite metadata. Decides nothing about who is
believed.
"""

from typing import Final

from rsocket_wire.rsocket.metadata import MAX_ENTRIES
from rsocket_wire.rsocket.mimes import MAX_MIME_BYTES
from rsocket_wire.wire.caller import RESERVED, is_reserved
from rsocket_wire.wire.ints import u24_at

_LENGTH_N: Final = 3  # bytes of a length
_N_RESERVED: Final = len(RESERVED)


class ClaimFilter:
    """Of the metadata of one item."""

    __slots__ = ("_entries_n", "_head", "_is_claim", "_left_bytes", "is_over")

    def __init__(self) -> None:
        self.is_over = False  # nothing more of it passes: it is whole, or has more entries than anybody needs
        self._head = b""  # of an entry, as far as it has come; at most 132 bytes
        self._left_bytes = 0  # of the content of the entry that has begun
        self._is_claim = False  # which does not pass
        self._entries_n = 0

    def feed(self, data: bytes) -> bytes:
        """More of the metadata: what passes of it, and of what waited."""
        passed: list[bytes] = []
        at = 0
        end = len(data)
        while at < end and not self.is_over:
            if self._left_bytes:
                to = min(end, at + self._left_bytes)
                if not self._is_claim:
                    passed.append(data[at:to])
                self._left_bytes -= to - at
                at = to
                continue
            to = min(end, at + self._missing_bytes())
            self._head += data[at:to]
            if not self._is_doubtful():
                passed.append(data[at:to])
            at = to
            if not self._missing_bytes():
                self._begin(passed)
        return b"".join(passed)

    def finish(self) -> bytes:
        """The metadata is whole: what passes of the head that waited. No more will pass."""
        head = self._head
        is_held = len(head) > 0 and self._is_doubtful() and not is_reserved(head[1:])
        self._head = b""
        self.is_over = True
        return head if is_held else b""

    def _missing_bytes(self) -> int:
        """So many are missing of the head that is waited for; 0: none are."""
        head = self._head
        if not head:
            return 1
        size = 1 + _LENGTH_N if head[0] >= 0x80 else 2 + head[0] + _LENGTH_N
        return size - len(head)

    def _is_doubtful(self) -> bool:
        """The entry whose head is coming may be one that claims: it has a name that is long enough."""
        return _N_RESERVED <= self._head[0] + 1 <= MAX_MIME_BYTES

    def _begin(self, passed: list[bytes]) -> None:
        """An entry begins, whose head has come."""
        is_doubtful = self._is_doubtful()
        head = self._head
        self._head = b""
        self._entries_n += 1
        if self._entries_n > MAX_ENTRIES:
            self.is_over = True
            return
        self._left_bytes = u24_at(head, len(head) - _LENGTH_N)
        self._is_claim = is_doubtful and is_reserved(head[1 : len(head) - _LENGTH_N])
        if is_doubtful and not self._is_claim:
            passed.append(head)


def without_claims(metadata: bytes) -> bytes:
    """Whole composite metadata without entries that only brokers may write."""
    claims = ClaimFilter()
    passed = claims.feed(metadata)
    return passed + claims.finish()

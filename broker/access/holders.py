"""Holders: whose a Route Id is, as brokers tell each other (D-97).

     ABCDEFGHIJKLMNOPABCDEFGHIJKLMNOP     32 letters for an identity, at a broker that requires them
    oABCDEFGHIJKLMNOPABCDEFGHIJKLMNOP     at one that only observes
                                          none: at one that judges nobody, or knows nothing of this

An identity may be longer than what brokers have room for, so a hash stands for it. Decides who is kept out by which
letters; where they stand, `cluster.replication` knows.
"""

from hashlib import blake2b
from typing import Final

from broker.access.identities import ANONYMOUS

OBSERVED: Final = b"o"
_MARK_BYTES: Final = 16  # of the hash: nobody finds a name that has the same as another's
_MARK_N: Final = 2 * _MARK_BYTES  # letters
# Capital letters, since small ones say what state a route is in (D-63).
_LETTERS: Final = bytes.maketrans(b"0123456789abcdef", b"ABCDEFGHIJKLMNOP")


def holder_of(principal: str, observes: bool) -> bytes:
    """The letters of an identity; an empty text is ANONYMOUS. `observes`: its broker lets everybody in."""
    mark = blake2b((principal or ANONYMOUS).encode(), digest_size=_MARK_BYTES).hexdigest().encode()
    return (OBSERVED if observes else b"") + mark.translate(_LETTERS)


def holder_in(state: bytes) -> bytes:
    """The letters of an identity among those of a state, in any order of both; empty: there are none."""
    mark = bytes([each for each in state if 0x41 <= each <= 0x5A])
    if len(mark) != _MARK_N:
        return b""
    return OBSERVED + mark if OBSERVED in state else mark


def is_kept(holder: bytes) -> bool:
    """The Route Id is kept for this holder."""
    return len(holder) == _MARK_N


def keeps_out(holder: bytes, principal: str, observes: bool) -> bool:
    """This identity is not the holder, who is known. `observes`: also where the Route Id is not kept."""
    if not holder or not (observes or is_kept(holder)):
        return False
    return holder[-_MARK_N:] != holder_of(principal, False)

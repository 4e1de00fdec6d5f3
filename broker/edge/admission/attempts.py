"""What came of logins, by address: whoever guesses there has to wait, and those who have been right do not.

    wrong   one token of the bucket of its address (`connections.guesses`)
    right   remembered by a keyed hash of the address and of the user's name or the token: behind an address that many
            share, as that of a load balancer, these logins wait for no bucket that others have emptied

Decides who has to wait. A token that is signed by a known key and does not hold is no guess: it has expired somewhere.
"""

import hashlib
import secrets
from collections import OrderedDict
from typing import Final

from broker.connections.guesses import Guesses
from rsocket_wire.wire.authentication import BEARER, Credentials

MAX_RIGHT: Final = 16_384  # logins that are remembered; the one that was not seen for longest is forgotten


class Attempts:
    """Of one broker, with credentials of all kinds."""

    def __init__(self, wrong_per_s: int) -> None:
        """`wrong_per_s`: limits.max_wrong_logins_per_s."""
        self._guesses: Final = Guesses(wrong_per_s)
        self._right: Final[OrderedDict[bytes, None]] = OrderedDict()
        self._salt: Final = secrets.token_bytes(32)

    def key_of(self, origin: str, credentials: Credentials) -> bytes:
        """By which a login is known again, whatever its password is."""
        who = credentials.secret if credentials.type == BEARER else credentials.name
        said = f"{credentials.type} {origin} {who}".encode(errors="surrogatepass")
        return hashlib.blake2b(said, key=self._salt, digest_size=16).digest()

    def was_right(self, key: bytes) -> bool:
        """The last login like this one was right."""
        return key in self._right

    def may_try(self, origin: str, tried_n: int, now: float) -> bool:
        """One more login of that origin may be verified beside `tried_n` others."""
        return self._guesses.has_room(origin, tried_n, now)

    def came_right(self, key: bytes) -> None:
        """The credentials hold."""
        self._right[key] = None
        self._right.move_to_end(key)
        if len(self._right) > MAX_RIGHT:
            self._right.popitem(last=False)

    def came_wrong(self, origin: str, key: bytes, now: float) -> None:
        """They were a guess."""
        self._right.pop(key, None)
        self._guesses.count_wrong(origin, now)

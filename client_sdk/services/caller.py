"""Who calls, as the broker has verified it."""

from dataclasses import dataclass
from typing import Final

from rsocket_wire.wire.caller import CALLER_MIME as _CALLER_MIME
from rsocket_wire.wire.caller import decode_caller

CALLER_MIME: Final = _CALLER_MIME.decode()  # of the entry that says it


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a caller is: `kind` and `name` of its identity, and its `role`.

    >>> Caller("jwt", "orders-7", "orders").identity
    'jwt:orders-7'
    """

    kind: str  # certificate, jwt, user, uid or anonymous; or unknown, where another broker did not say it
    name: str = ""  # empty of anonymous and unknown
    role: str = ""  # empty: it has none

    @property
    def identity(self) -> str:
        """Its identity as roles and tables write it.

        >>> Caller("anonymous").identity
        'anonymous'
        """
        return f"{self.kind}:{self.name}" if self.name else self.kind


def read_caller(content: bytes) -> Caller:
    """The content of an entry; InvalidFrame for anything else."""
    said = decode_caller(content)
    return Caller(said.kind, said.name, said.role)

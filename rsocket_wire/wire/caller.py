"""Who a caller is, as its broker tells a service in the composite metadata of a request (D-102).

    +------------+----------------+--------+-----------------+--------+----------------+--------+
    | version, 8 | kind length, 8 | kind … | name length, 16 | name … | role length, 8 | role … |
    +------------+----------------+--------+-----------------+--------+----------------+--------+

Version is 0. Kind and name are those of its identity, `jwt` and `orders-7`; the name is empty where nobody vouches for
it, and the role where it has none. All are UTF-8. Decides the layout, and which names of entries only brokers may
write. Who is told, and what is done about others that write such an entry, is for forwarding.
"""

from typing import Final

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.buffer import Reader, utf8_bytes
from rsocket_wire.wire.ints import u16_bytes

CALLER_MIME: Final = b"message/x.rsocket.broker.caller.v0"
# However it is spelt, and whatever follows: other versions and parameters, too.
RESERVED: Final = b"message/x.rsocket.broker.caller."

VERSION: Final = 0
UNKNOWN: Final = "unknown"  # a kind: another broker has not said who it is
MAX_CALLER_NAME_BYTES: Final = 1024  # of an identity; as many as can be revoked. A longer one is UNKNOWN
MAX_ROLE_BYTES: Final = 255  # the 8 bits of its length; names of tables have no more


class Caller:
    """Who a broker says that a caller is, immutable. Equal when all three fields are."""

    def __init__(self, kind: str, name: str, role: str) -> None:
        self.kind: Final = kind  # certificate, jwt, user, uid or anonymous; or UNKNOWN
        self.name: Final = name  # empty of anonymous and UNKNOWN
        self.role: Final = role  # empty: it has none

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caller) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def encode(self) -> bytes:
        """The content of an entry; BrokerError "bad-name" for what it cannot hold."""
        kind = utf8_bytes(self.kind, "bad-name", "kind of the caller")
        name = utf8_bytes(self.name, "bad-name", "name of the caller")
        role = utf8_bytes(self.role, "bad-name", "role of the caller")
        if not 1 <= len(kind) <= 255 or len(name) > MAX_CALLER_NAME_BYTES or len(role) > MAX_ROLE_BYTES:
            text = f"kind, name and role of the caller have {len(kind)}, {len(name)} and {len(role)} bytes"
            text += f", 1..255, 0..{MAX_CALLER_NAME_BYTES} and 0..{MAX_ROLE_BYTES} can be said"
            raise BrokerError("bad-name", text)
        return bytes([VERSION, len(kind)]) + kind + u16_bytes(len(name)) + name + bytes([len(role)]) + role

    def _fields(self) -> tuple[str, str, str]:
        return (self.kind, self.name, self.role)


def decode_caller(raw: bytes) -> Caller:
    """The content of an entry; InvalidFrame for anything else."""
    reader = Reader(raw)
    version = reader.pull_u8("version")
    if version != VERSION:
        raise InvalidFrame(f"version: is {version}, {VERSION} is known")
    kind = reader.pull_text(reader.pull_u8("kind"), "kind")
    name = reader.pull_text(reader.pull_u16("name"), "name")
    role = reader.pull_text(reader.pull_u8("role"), "role")
    reader.check_end("caller")
    return Caller(kind, name, role)


def is_reserved(mime: bytes) -> bool:
    """Some reader might take an entry of this mime type for one that a broker has written: only brokers may write it.

    Capital letters, blanks, and letters that a reader of Unicode holds for those of ASCII make no difference.
    """
    if not mime.isascii():
        mime = mime.decode("utf-8", "ignore").casefold().encode()
    return b"".join(mime.split()).lower().startswith(RESERVED)

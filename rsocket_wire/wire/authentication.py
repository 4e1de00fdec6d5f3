"""Credentials as entries of metadata carry them: RSocket's extension "Authentication", mime id 0x7C.

    +-+-------------+----------- … +
    |1| type id     |  payload     |   0x00 simple, 0x01 bearer
    +-+-------------+----------- … +
    +-+-------------+----------- … +----------- … +
    |0| length      |  type, ASCII |  payload     |   the same types may be written by their names (D-96)
    +-+-------------+----------- … +----------- … +

    simple   | length of the name (16) | name, UTF-8 | password, UTF-8 |
    bearer   | token, UTF-8 |

Decides what an entry says, not whether it is true. No error quotes a name, a password or a token.
"""

from typing import Final

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.buffer import Reader, utf8_bytes
from rsocket_wire.wire.ints import u16_bytes

AUTHENTICATION_ID: Final = 0x7C  # message/x.rsocket.authentication.v0
AUTHENTICATION_MIME: Final = b"message/x.rsocket.authentication.v0"

SIMPLE: Final = "simple"
BEARER: Final = "bearer"
TYPE_IDS: Final[dict[str, int]] = {SIMPLE: 0x00, BEARER: 0x01}  # extension "Well-known Authentication Types"
MAX_NAME_BYTES: Final = 255  # of a user: 65,535 could be said, and each is shown to operators

_NAMED_BYTES: Final = 6  # of the name of a type: both have as many
_TYPES_BY_ID: Final[dict[int, str]] = {number: name for name, number in TYPE_IDS.items()}


class Credentials:
    """What a peer says to prove who it is; nothing shows `secret`."""

    __slots__ = ("name", "secret", "type")

    def __init__(self, type: str, name: str, secret: str) -> None:
        """`name` is empty with a token. `secret`: the password, or the token."""
        self.type: Final = type  # SIMPLE or BEARER
        self.name: Final = name
        self.secret: Final = secret

    def encode(self) -> bytes:
        """The content of an entry; BrokerError "unauthenticated" for what cannot be written."""
        head = bytes([0x80 | TYPE_IDS[self.type]])
        secret = utf8_bytes(self.secret, "unauthenticated", "password" if self.type == SIMPLE else "token")
        if self.type == BEARER:
            return head + secret
        name = utf8_bytes(self.name, "unauthenticated", "user name")
        if not 1 <= len(name) <= MAX_NAME_BYTES:
            text = f"a user name has {len(name)} bytes, 1 to {MAX_NAME_BYTES} can be sent"
            raise BrokerError("unauthenticated", text)
        return head + u16_bytes(len(name)) + name + secret


def decode_authentication(raw: bytes) -> Credentials:
    """The content of an entry; InvalidFrame with a sentence."""
    reader = Reader(raw)
    head = reader.pull_u8("authentication type")
    if head & 0x80:
        kind = _TYPES_BY_ID.get(head & 0x7F, "")
        if not kind:
            raise InvalidFrame(f"authentication type: id 0x{head & 0x7F:02x} is unknown, 0x00 and 0x01 are known")
    else:
        # D-96: the extension says its length, those who write it say one less. No type of five bytes is known.
        length = _NAMED_BYTES if head == _NAMED_BYTES - 1 else head
        kind = reader.pull_bytes(length, "authentication type").decode("ascii", "replace")
        if kind not in TYPE_IDS:
            raise InvalidFrame(f"authentication type: a name of {length} bytes is unknown, simple and bearer are known")
    if kind == BEARER:
        token = reader.pull_text(reader.left, "token")
        if not token:
            raise InvalidFrame("token: is empty")
        return Credentials(BEARER, "", token)
    length = reader.pull_u16("user name")
    if not 1 <= length <= MAX_NAME_BYTES:
        raise InvalidFrame(f"user name: has {length} bytes, 1 to {MAX_NAME_BYTES} are read")
    name = reader.pull_text(length, "user name")
    return Credentials(SIMPLE, name, reader.pull_text(reader.left, "password"))

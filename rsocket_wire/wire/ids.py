"""Route Ids and Broker Ids: 16 bytes on the wire, a uuid for people.

    11223344-5566-7788-99aa-bbccddeeff00     canonical text, and the value of the RouteId tag (D-18)
    112233445566778899aabbccddeeff00         the same without dashes
    Id{11223344-5566-7788-99aa-bbccddeeff00} how the Java broker and its clients write it

Any 16 bytes are an id; versions and variants of uuids are not looked at, because other programs send all kinds.
"""

from typing import Final

from rsocket_wire.errors import BrokerError

ID_BYTES: Final = 16
HEX_DIGITS: Final = "0123456789abcdefABCDEF"


def id_text(raw: bytes) -> str:
    """The canonical text of 16 bytes, in lower case; BrokerError "bad-id" for another length."""
    check_id(raw, "id")
    digits = raw.hex()
    return f"{digits[0:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def parse_id(text: str) -> bytes:
    """The 16 bytes of any of the three texts above, in upper or lower case; BrokerError "bad-id" for another text."""
    plain = text
    if plain.startswith("Id{") and plain.endswith("}"):
        plain = plain[3:-1]
    if len(plain) == 36 and plain[8] == plain[13] == plain[18] == plain[23] == "-":
        plain = plain[0:8] + plain[9:13] + plain[14:18] + plain[19:23] + plain[24:36]
    if len(plain) != 32:
        raise not_an_id(text)
    for digit in plain:
        # bytes.fromhex would skip blanks.
        if digit not in HEX_DIGITS:
            raise not_an_id(text)
    return bytes.fromhex(plain)


def check_id(raw: bytes, subject: str) -> None:
    """BrokerError "bad-id" unless `raw` has 16 bytes."""
    if len(raw) != ID_BYTES:
        raise BrokerError("bad-id", f"{subject}: has {len(raw)} bytes, an id has {ID_BYTES}")


def not_an_id(text: str) -> BrokerError:
    """The error of a text that is no id; a long text is cut."""
    shown = text if len(text) <= 64 else text[:64] + "…"
    return BrokerError("bad-id", f"{shown!r} is no id: a uuid, 32 hexadecimal digits or Id{{uuid}} is")

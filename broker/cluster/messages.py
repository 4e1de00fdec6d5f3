"""What brokers say to each other beside the specification's frames: entries of a METADATA_PUSH on a link (D-47).

    DIGEST     1 | entries, 4 bytes | digest, 8 bytes                             what I know, in short
    TABLE      2 | hashes: a roaring bitmap of 64 bit, up to the end              what I know, see `hashes`
    REDIRECT   3 | timestamp, 8 bytes: ms since the epoch | broker id, 16 bytes
                 | length, 1 byte | service, 1..255 bytes of UTF-8
                 | length, 1 byte | where to, 0..255 bytes of UTF-8; empty: removed
    ROLES      4 | digest, 8 bytes                                                my roles, in short (D-98)
    REVOCATION 5 | timestamp, 8 bytes: ms since the epoch | broker id, 16 bytes
                 | what was issued before, 8 bytes: ms since the epoch; 0: removed
                 | length, 2 bytes | principal, 1..1024 bytes of UTF-8

Bytes to values and back; what is done with them is for others to decide.
"""

from typing import Final, TypeAlias

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.buffer import Reader, Writer, utf8_bytes
from rsocket_wire.wire.frames import MAX_NAME_BYTES, pull_name, pull_timestamp, push_id, push_name, push_timestamp
from rsocket_wire.wire.ids import ID_BYTES

CLUSTER_MIME: Final = b"message/x.rsocket.broker.cluster.v0"

DIGEST: Final = 1
TABLE: Final = 2
REDIRECT: Final = 3
ROLES: Final = 4
REVOCATION: Final = 5

DIGEST_BYTES: Final = 8
MAX_PRINCIPAL_BYTES: Final = 1024  # subjects of certificates may be long; those of the field have a hundred


class DigestMessage:
    """What one broker knows, in short: equal digests mean equal tables."""

    def __init__(self, entries_n: int, digest: bytes) -> None:
        self.entries_n: Final = entries_n
        self.digest: Final = digest  # 8 bytes

    def encode(self) -> bytes:
        """The entry's bytes."""
        assert len(self.digest) == DIGEST_BYTES  # it is our own, see `GossipState.digest`
        writer = start(DIGEST)
        writer.push_u32(self.entries_n, "DIGEST entries")
        writer.push_bytes(self.digest)
        return writer.to_bytes()


class RolesMessage:
    """The roles of one broker, in short: equal digests mean equal roles."""

    def __init__(self, digest: bytes) -> None:
        self.digest: Final = digest  # 8 bytes

    def encode(self) -> bytes:
        """The entry's bytes."""
        assert len(self.digest) == DIGEST_BYTES  # it is our own, see `Roles.digest`
        return bytes([ROLES]) + self.digest


class TableMessage:
    """The hashes of all that one broker knows."""

    def __init__(self, table: bytes) -> None:
        self.table: Final = table  # not looked into here, see `hashes.decode_hashes`

    def encode(self) -> bytes:
        """The entry's bytes."""
        return bytes([TABLE]) + self.table


class RedirectMessage:
    """An operator's word: requests for one service go to another; without another: no longer."""

    def __init__(self, timestamp_ms: int, broker_id: bytes, service: str, to: str) -> None:
        self.timestamp_ms: Final = timestamp_ms  # when it was said, since the epoch, 0..2**63-1
        self.broker_id: Final = broker_id  # where it was said, 16 bytes
        self.service: Final = service
        self.to: Final = to  # empty: the redirect is removed

    def encode(self) -> bytes:
        """The entry's bytes; BrokerError for a field that cannot be written."""
        writer = start(REDIRECT)
        push_timestamp(writer, self.timestamp_ms, "REDIRECT timestamp")
        push_id(writer, self.broker_id, "REDIRECT broker id")
        push_name(writer, self.service, "REDIRECT service")
        raw = utf8_bytes(self.to, "bad-name", "REDIRECT target")
        if len(raw) > MAX_NAME_BYTES:
            raise BrokerError("bad-name", f"REDIRECT target: has {len(raw)} bytes, 0..{MAX_NAME_BYTES} are allowed")
        writer.push_u8(len(raw), "REDIRECT target")
        writer.push_bytes(raw)
        return writer.to_bytes()


class RevocationMessage:
    """An operator's word: credentials of a principal that were issued before some moment hold no longer."""

    def __init__(self, timestamp_ms: int, broker_id: bytes, principal: str, before_ms: int) -> None:
        self.timestamp_ms: Final = timestamp_ms  # when it was said, since the epoch, 0..2**63-1
        self.broker_id: Final = broker_id  # where it was said, 16 bytes
        self.principal: Final = principal
        self.before_ms: Final = before_ms  # that moment, since the epoch; 0: the revocation is removed

    def encode(self) -> bytes:
        """The entry's bytes; BrokerError for a field that cannot be written."""
        writer = start(REVOCATION)
        push_timestamp(writer, self.timestamp_ms, "REVOCATION timestamp")
        push_id(writer, self.broker_id, "REVOCATION broker id")
        push_timestamp(writer, self.before_ms, "REVOCATION moment")
        raw = utf8_bytes(self.principal, "bad-name", "REVOCATION principal")
        if not 0 < len(raw) <= MAX_PRINCIPAL_BYTES:
            text = f"REVOCATION principal: has {len(raw)} bytes, 1..{MAX_PRINCIPAL_BYTES} are allowed"
            raise BrokerError("bad-name", text)
        writer.push_u16(len(raw), "REVOCATION principal")
        writer.push_bytes(raw)
        return writer.to_bytes()


Message: TypeAlias = DigestMessage | TableMessage | RedirectMessage | RolesMessage | RevocationMessage


def decode_message(raw: bytes) -> Message:
    """Decodes all of `raw` as one of the messages above; InvalidFrame for anything else."""
    reader = Reader(raw)
    kind = reader.pull_u8("cluster entry kind")
    if kind == DIGEST:
        entries_n = reader.pull_u32("DIGEST entries")
        digest = reader.pull_bytes(DIGEST_BYTES, "DIGEST digest")
        reader.check_end("DIGEST")
        return DigestMessage(entries_n, digest)
    if kind == TABLE:
        return TableMessage(reader.rest())
    if kind == REDIRECT:
        timestamp_ms = pull_timestamp(reader, "REDIRECT timestamp")
        broker_id = reader.pull_bytes(ID_BYTES, "REDIRECT broker id")
        service = pull_name(reader, "REDIRECT service")
        to = reader.pull_text(reader.pull_u8("REDIRECT target"), "REDIRECT target")
        reader.check_end("REDIRECT")
        return RedirectMessage(timestamp_ms, broker_id, service, to)
    if kind == ROLES:
        digest = reader.pull_bytes(DIGEST_BYTES, "ROLES digest")
        reader.check_end("ROLES")
        return RolesMessage(digest)
    if kind == REVOCATION:
        timestamp_ms = pull_timestamp(reader, "REVOCATION timestamp")
        broker_id = reader.pull_bytes(ID_BYTES, "REVOCATION broker id")
        before_ms = pull_timestamp(reader, "REVOCATION moment")
        size = reader.pull_u16("REVOCATION principal")
        if not 0 < size <= MAX_PRINCIPAL_BYTES:
            text = f"REVOCATION principal: has {size} bytes, 1..{MAX_PRINCIPAL_BYTES} are allowed"
            raise InvalidFrame(text)
        principal = reader.pull_text(size, "REVOCATION principal")
        reader.check_end("REVOCATION")
        return RevocationMessage(timestamp_ms, broker_id, principal, before_ms)
    raise InvalidFrame(f"cluster entry of kind {kind} is unknown, {DIGEST}..{REVOCATION} are known")


def start(kind: int) -> Writer:
    """A writer that holds the kind."""
    writer = Writer()
    writer.push_u8(kind, "cluster entry kind")
    return writer

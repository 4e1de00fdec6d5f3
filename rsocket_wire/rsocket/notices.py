"""What a broker and its clients say to each other of other brokers (D-54).

    client -> broker   SETUP           entry message/x.rsocket.broker.client.v0: |version|         "you may tell me"
    broker -> client   METADATA_PUSH   entry message/x.rsocket.forwarding: BROKER_INFO of the broker itself, with

        client-url       where clients reach another broker; as often as there are some, none that is leaving
        state            `draining` while the broker is about to leave
        move-within-ms   and then: for how long clients may spread their moving, a decimal number
        last-end         why the client's connection before this one ended, if it could not be told then (D-73)

    client -> broker   METADATA_PUSH   entry message/x.rsocket.broker.client.v0: |version|1|       "I have moved"
    client -> broker   SETUP           the same entry: |version|2|16 bytes|    "you may tell me, and I am this one"
    client -> broker   METADATA_PUSH   the same entry: |version|3|credentials| "I log in anew" (D-100)
    broker -> client   METADATA_PUSH   as above, with

        expires-in-ms    for how long the credentials of the connection hold, a decimal number
        login            `renewed`, or why credentials that were sent anew are refused: a code word, a colon, a sentence

Who does not know the mime type ignores it, as composite metadata demands. Decides only what stands there.
"""

from typing import Final

from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.frames import encode_metadata_push
from rsocket_wire.rsocket.metadata import encode_entry, entries, is_broker_mime
from rsocket_wire.wire.frames import MIME_TYPE, BrokerInfo, decode_frame
from rsocket_wire.wire.keys import Key
from rsocket_wire.wire.tags import MAX_VALUE_BYTES, Tag

CLIENT_MIME: Final = b"message/x.rsocket.broker.client.v0"
VERSION: Final = 1
MAX_NOTICE_URLS: Final = 64  # of other brokers, that clients are told; the others are not needed to get away
MAX_MOVE_MS: Final = 24 * 3600 * 1000  # a day; longer is taken for that

CLIENT_URL: Final = Key.text("client-url")
STATE: Final = Key.text("state")
MOVE_WITHIN_MS: Final = Key.text("move-within-ms")
LAST_END: Final = Key.text("last-end")
EXPIRES_IN_MS: Final = Key.text("expires-in-ms")
LOGIN: Final = Key.text("login")
DRAINING: Final = "draining"
CLIENT_ID_BYTES: Final = 16
RENEWED: Final = "renewed"
MAX_EXPIRES_MS: Final = 999_999_999_999  # 31 years; longer is taken for that
_IS_CLIENT: Final = 2  # behind the version: the id follows
_RENEWS: Final = 3  # behind the version: credentials follow

# What a client says of itself.
NOTHING: Final = 0
MAY_BE_TOLD: Final = 1
HAS_MOVED: Final = 2

MAY_BE_TOLD_ENTRY: Final = encode_entry(CLIENT_MIME, bytes([VERSION]))
HAS_MOVED_ENTRY: Final = encode_entry(CLIENT_MIME, bytes([VERSION, 1]))

_CLIENT_HEAD: Final = bytes([VERSION, _IS_CLIENT])
_RENEWAL_HEAD: Final = bytes([VERSION, _RENEWS])


class Notice:
    """What a broker tells its clients."""

    def __init__(
        self,
        urls: list[str],
        is_draining: bool,
        move_within_ms: int,
        last_end: str = "",
        expires_in_ms: int = 0,
        login: str = "",
    ) -> None:
        self.urls: Final = urls  # of other brokers
        self.is_draining: Final = is_draining  # the broker is about to leave
        self.move_within_ms: Final = move_within_ms  # 0 unless it is
        self.last_end: Final = last_end  # why the connection before this one ended; empty: it was told, or did not end
        self.expires_in_ms: Final = expires_in_ms  # its credentials; 0: that is not told
        self.login: Final = login  # RENEWED, or why its new credentials are refused; empty: none were sent

    def encode(self, broker_id: bytes, at_ms: int) -> bytes:
        """The METADATA_PUSH; URLs that no tag can hold, and those beyond MAX_NOTICE_URLS, are left out."""
        metadata: list[Tag] = []
        for url in self.urls:
            raw = url.encode()
            if len(raw) <= MAX_VALUE_BYTES and len(metadata) < MAX_NOTICE_URLS:
                metadata.append(Tag(CLIENT_URL, raw))
        if self.is_draining:
            metadata.append(Tag(STATE, DRAINING.encode()))
            metadata.append(Tag(MOVE_WITHIN_MS, str(self.move_within_ms).encode()))
        if self.last_end:
            metadata.append(Tag(LAST_END, _shortened(self.last_end)))
        if self.expires_in_ms:
            metadata.append(Tag(EXPIRES_IN_MS, str(min(self.expires_in_ms, MAX_EXPIRES_MS)).encode()))
        if self.login:
            metadata.append(Tag(LOGIN, _shortened(self.login)))
        info = BrokerInfo(broker_id, at_ms, metadata).encode()
        return encode_metadata_push(encode_entry(MIME_TYPE.encode(), info))


def said_by_client(metadata: bytes) -> int:
    """What composite metadata of a client says: NOTHING, MAY_BE_TOLD or HAS_MOVED."""
    if CLIENT_MIME not in metadata:  # most say nothing; the walk below makes objects
        return NOTHING
    found = entries(metadata)
    if found is None:
        return NOTHING
    for entry in found:
        if entry.mime == CLIENT_MIME and entry.end > entry.start and metadata[entry.start] == VERSION:
            is_moved = entry.end > entry.start + 1 and metadata[entry.start + 1] == 1
            return HAS_MOVED if is_moved else MAY_BE_TOLD
    return NOTHING


def client_entry(client_id: bytes) -> bytes:
    """The entry of a client's SETUP: it may be told, and has this id, 16 bytes that nobody else knows."""
    return encode_entry(CLIENT_MIME, _CLIENT_HEAD + client_id)


def client_id_of(metadata: bytes) -> bytes:
    """Who a client is, as composite metadata of its SETUP says; empty: it does not say."""
    if CLIENT_MIME not in metadata:
        return b""
    for entry in entries(metadata) or []:
        content = metadata[entry.start : entry.end]
        if entry.mime == CLIENT_MIME and len(content) == 2 + CLIENT_ID_BYTES and content[:2] == _CLIENT_HEAD:
            return content[2:]
    return b""


def renewal_entry(credentials: bytes) -> bytes:
    """The entry of a client that logs in anew; `credentials`: as `authentication` writes them."""
    return encode_entry(CLIENT_MIME, _RENEWAL_HEAD + credentials)


def renewals_in(metadata: bytes) -> list[bytes]:
    """The credentials with which a client logs in anew, as composite metadata says; more than one is a fault."""
    found: list[bytes] = []
    if CLIENT_MIME not in metadata:
        return found
    for entry in entries(metadata) or []:
        content = metadata[entry.start : entry.end]
        if entry.mime == CLIENT_MIME and content[:2] == _RENEWAL_HEAD:
            found.append(content[2:])
    return found


def find_notice(metadata: bytes) -> Notice | None:
    """What a broker says in a METADATA_PUSH; None when somebody else does, or it cannot be read.

    It must be the only broker frame in there: what a client sends to others by way of the broker has an ADDRESS, and a
    broker lets no BROKER_INFO of a client pass.
    """
    said = [entry for entry in entries(metadata) or [] if is_broker_mime(entry.mime)]
    if len(said) != 1:
        return None
    try:
        frame = decode_frame(metadata[said[0].start : said[0].end])
    except BrokerError:
        return None
    return _read(frame) if isinstance(frame, BrokerInfo) else None


def _read(info: BrokerInfo) -> Notice:
    urls: list[str] = []
    is_draining = False
    last_end = ""
    login = ""
    move_within_ms = 0
    expires_in_ms = 0
    for tag in info.metadata:
        value = tag.value or ""
        if tag.key == CLIENT_URL and len(urls) < MAX_NOTICE_URLS:
            urls.append(value)
        elif tag.key == STATE:
            is_draining = value == DRAINING
        elif tag.key == LAST_END:
            last_end = value
        elif tag.key == LOGIN:
            login = value
        elif tag.key == MOVE_WITHIN_MS:
            move_within_ms = _number(value, MAX_MOVE_MS)
        elif tag.key == EXPIRES_IN_MS:
            expires_in_ms = _number(value, MAX_EXPIRES_MS)
    return Notice(urls, is_draining, move_within_ms if is_draining else 0, last_end, expires_in_ms, login)


def _number(text: str, most: int) -> int:
    """The decimal number, `most` for a larger one; 0 for what is none."""
    if not text.isascii() or not text.isdigit():
        return 0
    return most if len(text) > 12 else min(int(text), most)


def _shortened(text: str) -> bytes:
    """As much of it as a tag can hold."""
    return text.encode()[:MAX_VALUE_BYTES].decode("utf-8", "ignore").encode()

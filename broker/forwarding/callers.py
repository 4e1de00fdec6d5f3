"""Who a caller is, for services that want to know it; and that nobody but a broker says so (D-102).

    client ── SETUP, proof ──► login ── made once ──► entry ──► in front of the metadata of each request, at its service
                                                                 or, between brokers, behind the annotations
    client ── entry of its own in a request ─────────────────► taken out, whatever service it is for

Decides what the entry says, and takes foreign ones out of what follows the first frame of a request: its further
fragments, and the items of a channel. Of first frames `engine`, `push` and `ingress` do. Chooses nothing.
"""

from typing import Final

from broker.access.identities import ANONYMOUS, kind_of
from broker.forwarding.mime_pairs import MimePairs
from broker.forwarding.mime_translation import BROKER, COMPOSITE
from broker.forwarding.peer import Peer
from broker.forwarding.reassembly import Reassembly
from broker.forwarding.stream import Stream
from broker.forwarding.unicast import Splice
from broker.routing.table import Route
from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.claims import ClaimFilter
from rsocket_wire.rsocket.frames import COMPLETE, FOLLOWS, METADATA, PAYLOAD, encode_payload, request_parts
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.metadata import encode_entry
from rsocket_wire.wire.caller import CALLER_MIME, UNKNOWN, Caller

MAX_SPARE_ITEMS: Final = 64  # beyond the open streams: items of streams that have ended, before they are looked for

UNKNOWN_ENTRY: Final = encode_entry(CALLER_MIME, Caller(UNKNOWN, "", "").encode())
# An entry's head: the length of its mime type, less one, and the mime type. Three bytes of length follow.
CALLER_HEAD: Final = bytes([len(CALLER_MIME) - 1]) + CALLER_MIME

RAW: Final = ClaimFilter()  # stands for metadata that nobody reads as composite metadata: all of it passes


def entry_of(peer: Peer) -> bytes:
    """The entry of composite metadata that says who this client is."""
    login = peer.login
    if not login.caller_entry:
        role = login.reach.role.name if login.reach is not None else ""
        kind = kind_of(peer.principal)
        name = peer.principal[len(kind) + 1 :] if kind != ANONYMOUS else ""
        try:
            login.caller_entry = encode_entry(CALLER_MIME, Caller(kind, name, role).encode())
        except BrokerError:  # the name is too long: a part of it would be that of somebody else
            login.caller_entry = UNKNOWN_ENTRY
    return login.caller_entry


def caller_for(route: Route, server: Peer, peer: Peer) -> bytes:
    """What a route of this broker is told of a client; empty: its service does not want to know."""
    return entry_of(peer) if route.load.wants_caller and server.link is None else b""


def reader_key(route: Route, server: Peer) -> int:
    """Routes with one key read the same of a request."""
    return (server.mimes << 1) | (1 if route.load.wants_caller else 0)


def is_believed(peer: Peer) -> bool:
    """What it says of callers counts: it is a broker, and takes out what clients say."""
    return peer.link is not None and peer.link.version > 0


class LaterMetadata:
    """What follows the first frames of requests of one broker's peers."""

    def __init__(self, mime_pairs: MimePairs) -> None:
        self._mimes: Final = mime_pairs.by_number
        self._cursor: Final = FrameCursor(False)  # a frame with less metadata

    def begin(self, peer: Peer, stream_id: int, metadata: bytes, is_whole: bool) -> None:
        """A request has gone on, or waits for a route, and more frames of its first item follow.

        `metadata`: so far, if more of it may follow; `is_whole`: none does.
        """
        stream = peer.streams.get(stream_id)
        if stream is None or isinstance(stream, Reassembly) or is_believed(peer):
            return
        claims = ClaimFilter()
        if is_whole:
            claims.finish()
        elif self._mimes[peer.mimes].kind == COMPOSITE:
            claims.feed(metadata)
        else:
            claims = RAW
        self._keep(peer, stream_id, claims)

    def pass_on(self, peer: Peer, frame: FrameCursor) -> bool:
        """A sound frame of an open stream: True when it goes on as it is; else it has, with other metadata."""
        stream_id = frame.stream_id
        if frame.kind != PAYLOAD or stream_id & 1 != peer.begins or is_believed(peer):
            return True
        stream = peer.streams[stream_id]
        if isinstance(stream, Reassembly):
            return True  # all of it is looked at when it goes on
        flags = frame.flags
        claims = peer.items.get(stream_id)
        ends_item = not flags & FOLLOWS or flags & COMPLETE != 0  # "implicitly ignores the F flag"
        if claims is None and ends_item and not flags & METADATA:
            return True
        if claims is None:
            claims = self._begin_item(peer, stream)
        at, to = request_parts(frame.data, frame.start, frame.end, frame.kind, flags)
        metadata = frame.data[at:to]
        passed = metadata
        is_whole = ends_item or not flags & METADATA or to < frame.end
        if claims is not RAW:
            passed = claims.feed(metadata)
            if is_whole:  # no more of it: "metadata is sent completely before data"
                passed += claims.finish()
        elif is_whole:
            claims = ClaimFilter()
            claims.finish()
        if ends_item:
            peer.items.pop(stream_id, None)
        else:
            self._keep(peer, stream_id, claims)
        if passed == metadata:
            return True
        raw = encode_payload(stream_id, flags & ~METADATA, frame.data[to : frame.end], passed)
        self._cursor.feed(raw, frame.now)
        self._cursor.advance()
        stream.from_caller(self._cursor)
        return False

    def _begin_item(self, peer: Peer, stream: Stream) -> ClaimFilter:
        """What passes of the metadata of a further item of a channel."""
        if self._mimes[peer.mimes].kind == COMPOSITE:
            return ClaimFilter()
        # Nobody translates it, and who reads composite metadata would take it for that.
        if isinstance(stream, Splice) and self._mimes[stream.server.mimes].kind == BROKER:
            return RAW
        claims = ClaimFilter()
        claims.finish()
        return claims

    def _keep(self, peer: Peer, stream_id: int, claims: ClaimFilter) -> None:
        items = peer.items
        items[stream_id] = claims
        if len(items) > len(peer.streams) + MAX_SPARE_ITEMS:  # of streams that have ended since
            for other_id in list(items):
                if other_id not in peer.streams:
                    del items[other_id]

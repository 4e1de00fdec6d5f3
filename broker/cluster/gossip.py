"""What all brokers of a cluster have to know in common: a map in which the newest word of each kind counts (D-47).

    key                         who may say it    the entry's bytes
    R route id, broker id       that broker       ROUTE_ADD, ROUTE_REMOVE
    I broker id                 that broker       BROKER_INFO
    S service name              an operator       REDIRECT (`messages`)
    V principal                 an operator       REVOCATION

    apply ──► newer than what has the key? ──► the map ──► hashes ──► digest: the same here and there?
                                                              └─────► table: what does the other lack?

A route that moves from one broker to another is two entries, so that what the old broker says late does not touch what
the new one has said. What is removed stays for a while as a tombstone, or the next neighbour would bring it back. All
brokers that have heard the same words, in whatever order and however often, have the same map.

Knows no links and no table of routes: which broker has a route, and who is there at all, is decided in `replication`.
"""

from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import Final

from pyroaring import BitMap64

from broker.cluster.hashes import decode_hashes
from broker.cluster.messages import DIGEST_BYTES
from rsocket_wire.wire.ids import ID_BYTES
from rsocket_wire.wire.ints import u64_bytes

TOMBSTONE_S: Final = 600  # by its own timestamp; longer than anything is on its way or a link is away
_TOMBSTONE_MS: Final = TOMBSTONE_S * 1000
# Steps of wall time in which tombstones are forgotten: brokers that look at other moments, with clocks that are not
# quite the same, still have the same map, but for an instant in each step.
EXPIRY_STEP_S: Final = 10
_EXPIRY_STEP_MS: Final = EXPIRY_STEP_S * 1000
_SPARE_N: Final = 64  # moments of tombstones that are gone already; more than as many as are left are thrown out

_ROUTE: Final = 0x52  # R
_INFO: Final = 0x49  # I
_REDIRECT: Final = 0x53  # S
_REVOCATION: Final = 0x56  # V
# In the order in which they are told.
_KINDS: Final[dict[int, int]] = {_INFO: 0, _ROUTE: 1, _REDIRECT: 2, _REVOCATION: 3}


class GossipEntry:
    """One word: what is said of a key, when, and as which bytes. Its hash is of key, timestamp and removal."""

    __slots__ = ("broker_id", "hash", "is_removed", "key", "raw", "timestamp_ms")

    def __init__(self, key: bytes, timestamp_ms: int, raw: bytes, is_removed: bool) -> None:
        self.key: Final = key
        self.timestamp_ms: Final = timestamp_ms  # since the epoch, 0..2**63-1
        self.raw: Final = raw  # the frame or the message, as it came
        self.is_removed: Final = is_removed
        kind = key[0]
        said = key + u64_bytes(timestamp_ms) + (b"\x01" if is_removed else b"\x00")
        if kind == _REDIRECT or kind == _REVOCATION:
            broker_id = raw[9 : 9 + ID_BYTES]  # see `messages`
            said += broker_id  # here it is not in the key
        else:
            broker_id = key[-ID_BYTES:]
        self.broker_id: Final = broker_id  # who said it
        self.hash: Final = int.from_bytes(blake2b(said, digest_size=8).digest(), "big")

    @property
    def route_id(self) -> bytes:
        """Of a route: its id."""
        return self.key[1 : 1 + ID_BYTES]


class GossipState:
    """The map."""

    def __init__(self, max_entries: int) -> None:
        self.max_entries: Final = max_entries  # tombstones included
        self.refused_n = 0  # entries of new keys for which there was no room
        self.redirects_n = 0  # entries of redirects; bounded by `redirects`
        self.revocations_n = 0  # entries of revocations; bounded by `revocations`
        self._entries: dict[bytes, GossipEntry] = {}
        self._by_broker: dict[bytes, dict[bytes, GossipEntry]] = {}  # routes and tombstones: broker id -> key -> entry
        self._by_route: dict[bytes, list[GossipEntry]] = {}  # live ones
        self._hashes: Final[BitMap64] = BitMap64()  # of all entries; equal sets have equal bytes
        self._digest = b""  # empty: the map has changed since
        # Moments and keys of tombstones, the earliest first; some may be gone, or another's, by now.
        self._tombs: list[tuple[int, bytes]] = []
        self._tombs_n = 0  # tombstones in the map

    # Changes

    def apply(self, entry: GossipEntry, at_ms: int, is_ours: bool = False) -> bool:
        """Gives the key to this entry if it is news; whether it was. `at_ms`: wall time, ms since the epoch.

        D-08: an entry as old as what has the key is no news; of redirects and revocations, which any broker may say,
        the one of the broker with the larger id is (D-47). A tombstone that is too old takes that away and does not
        stay itself. False also when there is no room for another route, unless it `is_ours`: the oldest tombstone makes
        room first.
        """
        key = entry.key
        old = self._entries.get(key)
        if old is not None:
            if entry.timestamp_ms < old.timestamp_ms:
                return False
            # Who may say it is part of all other keys, so that there it is equal.
            if entry.timestamp_ms == old.timestamp_ms and entry.broker_id <= old.broker_id:
                return False
        is_kept = not entry.is_removed or entry.timestamp_ms >= _oldest_ms(at_ms)
        if old is None:
            if not is_kept:
                return False
            is_bounded = key[0] == _ROUTE and not is_ours  # all others have bounds of their own
            if is_bounded and len(self._entries) >= self.max_entries and not self._make_room(entry):
                self.refused_n += 1
                return False
        else:
            self._drop(old)
        if is_kept:
            self._put(entry)
        return True

    def expire(self, at_ms: int) -> None:
        """Forgets the tombstones that are too old; to be called before each `digest`; costs nothing without any."""
        tombs = self._tombs
        oldest_ms = _oldest_ms(at_ms)
        while tombs and tombs[0][0] < oldest_ms:
            timestamp_ms, key = heappop(tombs)
            entry = self._entries.get(key)
            if entry is not None and entry.is_removed and entry.timestamp_ms == timestamp_ms:
                self._drop(entry)

    def forget_broker(self, broker_id: bytes) -> None:
        """Drops what that broker has said of itself and of its routes, without tombstones."""
        for entry in list(self._by_broker.get(broker_id, {}).values()):
            self._drop(entry)
        info = self._entries.get(b"I" + broker_id)
        if info is not None:
            self._drop(info)

    # Comparing with a neighbour

    def size(self) -> int:
        """How many entries, tombstones included."""
        return len(self._entries)

    def digest(self) -> bytes:
        """8 bytes that are the same where the map is the same."""
        if not self._digest:
            self._digest = blake2b(self.table(), digest_size=DIGEST_BYTES).digest()
        return self._digest

    def table(self) -> bytes:
        """The hashes of all entries, see `hashes`."""
        table: bytes = self._hashes.serialize()
        return table

    def lacking(self, table: bytes) -> list[GossipEntry]:
        """The entries whose hashes are not in another's `table`, ordered as `entries`; InvalidFrame if it is none."""
        theirs = decode_hashes(table)
        return _ordered([entry for entry in self._entries.values() if entry.hash not in theirs])

    def lacks_any(self, table: bytes) -> bool:
        """Returns whether another's `table` has hashes that are not here; InvalidFrame if it is none."""
        hashes = self._hashes
        return any(hash not in hashes for hash in decode_hashes(table))

    # Looking

    def entries(self) -> list[GossipEntry]:
        """All: brokers, then routes, redirects, revocations; each by timestamp and key, tombstones included."""
        return _ordered(list(self._entries.values()))

    def find(self, key: bytes) -> GossipEntry | None:
        """What has the key, which may be a tombstone."""
        return self._entries.get(key)

    def routes_of(self, broker_id: bytes) -> list[GossipEntry]:
        """What a broker says of the routes that it has."""
        return [entry for entry in self._by_broker.get(broker_id, {}).values() if not entry.is_removed]

    def route_entries(self, route_id: bytes) -> list[GossipEntry]:
        """What the brokers that have this route say of it, in the order in which they said so here."""
        return list(self._by_route.get(route_id, []))

    # Indexes

    def _make_room(self, entry: GossipEntry) -> bool:
        """Forgets the oldest tombstone before its time, if the entry is no older one.

        Routes that come and go in masses must not keep those out that stay. What a tombstone would have kept away is
        removed again by the broker that it is of.
        """
        tombs = self._tombs
        while tombs:
            timestamp_ms, key = tombs[0]
            oldest = self._entries.get(key)
            is_there = oldest is not None and oldest.is_removed and oldest.timestamp_ms == timestamp_ms
            if is_there and entry.is_removed and (entry.timestamp_ms, entry.key) < (timestamp_ms, key):
                return False
            heappop(tombs)
            if oldest is not None and is_there:
                self._drop(oldest)
                return True
        return False

    def _put(self, entry: GossipEntry) -> None:
        key = entry.key
        self._entries[key] = entry
        self._hashes.add(entry.hash)
        self._digest = b""
        if key[0] == _REDIRECT:
            self.redirects_n += 1
        if key[0] == _REVOCATION:
            self.revocations_n += 1
        if key[0] == _ROUTE:
            self._by_broker.setdefault(entry.broker_id, {})[key] = entry
            if not entry.is_removed:
                self._by_route.setdefault(entry.route_id, []).append(entry)
        if entry.is_removed:
            self._tombs_n += 1
            if len(self._tombs) >= 2 * self._tombs_n + _SPARE_N:
                self._tombs = [(each.timestamp_ms, each.key) for each in self._entries.values() if each.is_removed]
                heapify(self._tombs)
            else:
                heappush(self._tombs, (entry.timestamp_ms, key))

    def _drop(self, entry: GossipEntry) -> None:
        key = entry.key
        del self._entries[key]
        self._hashes.discard(entry.hash)
        self._digest = b""
        if entry.is_removed:
            self._tombs_n -= 1
        if key[0] == _REDIRECT:
            self.redirects_n -= 1
        if key[0] == _REVOCATION:
            self.revocations_n -= 1
        if key[0] != _ROUTE:
            return
        routes = self._by_broker[entry.broker_id]
        del routes[key]
        if not routes:
            del self._by_broker[entry.broker_id]
        if not entry.is_removed:
            others = self._by_route[entry.route_id]
            others.remove(entry)
            if not others:
                del self._by_route[entry.route_id]


def redirect_key(service: str) -> bytes:
    """Of what is said of the redirect of a service."""
    return b"S" + service.encode()


def revocation_key(principal: str) -> bytes:
    """Of what is said of the credentials of a principal."""
    return b"V" + principal.encode()


def _oldest_ms(at_ms: int) -> int:
    """The timestamp of the oldest tombstone that is kept at that wall time."""
    return at_ms - at_ms % _EXPIRY_STEP_MS - _TOMBSTONE_MS


def _ordered(entries: list[GossipEntry]) -> list[GossipEntry]:
    """Sorts them so that whoever hears them knows a broker before its routes."""
    keyed = [(_KINDS[entry.key[0]], entry.timestamp_ms, entry.key, place) for place, entry in enumerate(entries)]
    keyed.sort()
    return [entries[each[3]] for each in keyed]

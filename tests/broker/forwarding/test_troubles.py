"""Any requests between any brokers, whole and broken: no stream, byte or request is left over when all have gone."""

from __future__ import annotations

from random import Random

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import APPLICATION_ERROR, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, FOLLOWS, NEXT
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, UNICAST
from rsocket_wire.wire.keys import SHARD_KEY
from tests.broker.forwarding.brokers import DATA_MIME, SECTION, Broker, caller_mimes, section, to_route
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import Wire, address, addressed, composite

TO = [
    *[to_route(number) for number in (1, 2, 20, 22, 24, 26, 99)],
    None,
    "service:orders",
    f"service:orders {to_route(1)}",
    "broker:b2",
    "broker:b2,b3,b5",
    "broker:b1,b5,b9",
    "service:stock broker:b2,b4",
    "nonsense",
]
WAYS = [["b1"], ["b3"], ["b0", "b1"], ["b1", "b3"], ["b2"], ["a", "b", "c", "d", "e"]]


class Troubles:
    """b2 between three brokers, with services and callers of all kinds, and what may come from any of them."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        settings = CoreSettings(
            annotations_from_clients=chance.choice(["reject", "strip", "accept"]),
            annotations_to_clients=chance.choice(["strip", "keep"]),
            require_annotations=chance.random() < 0.5,
            no_route=chance.choice(["reject", "wait"]),
            multicast_on_leave=chance.choice(["ignore", "error"]),
            max_waiting_bytes=chance.choice([300, 4 << 20]),
        )
        self.broker = Broker("b2", settings)
        links = [self.broker.link("b1"), self.broker.link("b3"), self.broker.link("b4", version=chance.choice([0, 1]))]
        for number, name in enumerate(("b1", "b3", "b4", "b5")):
            remote = self.broker.remote(name, chance.choice([*links, None]))
            for each in (20, 21):
                self.broker.far(remote, "orders", each + number * 2)
        services = [
            self.broker.service("orders", number, chance.random() < 0.7, chance.choice([COMPOSITE_MIME, MIME_TYPE]))
            for number in range(1, chance.randrange(1, 4))
        ]
        callers = [
            self.broker.caller(chance.random() < 0.7, mime, chance.choice(["text/plain", DATA_MIME]))
            for mime in (COMPOSITE_MIME, MIME_TYPE)
        ]
        self.wires = [*links, *services, *callers]
        self.next_id = 1

    def address(self) -> bytes:
        kind = self.chance.choice([UNICAST, UNICAST, MULTICAST, SHARD])
        service = self.chance.choice(["orders", "orders", "stock"])
        if kind == SHARD:
            return address(kind, [(SHARD_KEY, "customer")], service=service, customer=str(self.chance.randrange(9)))
        return address(kind, service=service)

    def metadata(self, wire: Wire) -> bytes:
        """What may stand in front of the data; from a link, and now and then from a client, anything."""
        chance = self.chance
        if wire.mimes[0] != COMPOSITE_MIME:
            return self.address()
        if wire.peer.link is None and chance.random() < 0.7:
            return addressed(self.address())
        entries = [(SECTION, section(chance.choice(TO), *chance.choice(WAYS), flags=chance.choice([0, 1, 0x80])))]
        if chance.random() < 0.3:
            entries.append(caller_mimes(chance.choice([COMPOSITE_MIME, MIME_TYPE, "a/b"]), "text/plain"))
        entries.append((MIME_TYPE, self.address()))
        if chance.random() < 0.2:
            chance.shuffle(entries)
        found = composite(*entries)
        if chance.random() < 0.2:
            at = chance.randrange(len(found))
            found = found[:at] + chance.choice([b"", bytes([chance.randrange(256)]) + found[at + 1 :]])
        return found

    def begin(self, wire: Wire) -> None:
        """A new request, whole or in two pieces."""
        chance = self.chance
        stream_id = self.next_id
        self.next_id += 2
        kind, metadata, n = chance.choice(MODELS), self.metadata(wire), chance.randrange(1, 9)
        if chance.random() < 0.3 and len(metadata) > 2:
            cut = chance.randrange(1, len(metadata))
            wire.send(frames.encode_request(kind, stream_id, b"", metadata[:cut], n, FOLLOWS))
            wire.send(frames.encode_payload(stream_id, NEXT | chance.choice([0, FOLLOWS]), b"data", metadata[cut:]))
        else:
            wire.send(frames.encode_request(kind, stream_id, b"data", metadata, n, chance.choice([0, 0, FOLLOWS])))

    def go_on(self, wire: Wire) -> None:
        """A frame on a stream that is open."""
        chance = self.chance
        if not wire.peer.streams:
            return
        stream_id = chance.choice(list(wire.peer.streams))
        pieces = [frames.encode_payload(stream_id, flags, b"item") for flags in (NEXT, NEXT | COMPLETE, NEXT | FOLLOWS)]
        pieces += [
            frames.encode_request_n(stream_id, 3),
            frames.encode_cancel(stream_id),
            frames.encode_payload(stream_id, COMPLETE),
        ]
        pieces += [
            frames.encode_error(stream_id, REJECTED, f"{word}: text") for word in ("stale-route", "no-lease", "other")
        ]
        wire.send(chance.choice([*pieces, frames.encode_error(stream_id, APPLICATION_ERROR, "text")]))

    def lose(self, wire: Wire) -> None:
        """A connection breaks; of a link, the cluster knows it before."""
        for remote in self.broker.annotations.remotes.values():
            if remote.via is wire.peer:
                remote.via = None
        wire.lose()

    def happen(self) -> None:
        """Something."""
        wire = self.chance.choice(self.wires)
        if wire.is_lost:
            return
        what = self.chance.random()
        if what < 0.45:
            self.begin(wire)
        elif what < 0.5:
            wire.push(self.metadata(wire))
        elif what < 0.98:
            self.go_on(wire)
        else:
            self.lose(wire)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_left_over_and_no_connection_is_ended_whatever_brokers_and_callers_say(seed: int) -> None:
    troubles = Troubles(Random(seed))
    for _ in range(150):
        troubles.happen()
    assert [wire.peer.end_detail for wire in troubles.wires if wire.is_closed] == []
    for wire in troubles.wires:
        troubles.lose(wire)
    assert troubles.broker.left_over() == []
    assert [(wire.peer.waiting_bytes, wire.peer.waiting_n) for wire in troubles.wires if wire.peer.waiting_bytes] == []

"""METADATA_PUSH: to one, to the owner of a key, to all; it never has an answer."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.rsocket.frames import METADATA_PUSH, encode_metadata_push
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, UNICAST, BrokerFrame, BrokerInfo, RouteSetup
from tests.broker.forwarding.pairs import TRANSPORTS, Pair
from tests.fakes import Frame, World, address, addressed, composite, raw_frame, route_id


def push_without_m_flag(metadata: bytes) -> bytes:
    """What rsocket-js 0.0.27 sends."""
    return raw_frame(METADATA_PUSH, 0, metadata)


@pytest.mark.parametrize(("caller_framed", "service_framed"), TRANSPORTS)
@pytest.mark.parametrize("make", [encode_metadata_push, push_without_m_flag])
def test_a_push_reaches_one_route_with_all_its_metadata(make, caller_framed: bool, service_framed: bool) -> None:  # type: ignore[no-untyped-def]
    pair = Pair(caller_framed, service_framed)
    metadata = addressed(address(service="orders"), ("text/plain", b"news"))
    pair.caller.send(make(metadata))
    assert pair.received() == ([], [Frame(encode_metadata_push(metadata))])


def test_the_last_address_of_a_push_counts() -> None:
    """D-69."""
    world = World()
    stock, orders = world.service("stock", 1), world.service("orders", 2)
    metadata = composite((MIME_TYPE, address(service="stock")), (MIME_TYPE, address(service="orders")))
    world.caller().push(metadata)
    assert (stock.received(), orders.received()) == ([], [Frame(encode_metadata_push(metadata))])


@pytest.mark.parametrize("is_multicast", [False, True])
@pytest.mark.parametrize("other", [BrokerInfo(route_id(9), 1, []), RouteSetup(route_id(9), "x", []), b"", b"\0\0\0\1"])
def test_a_push_with_another_broker_frame_beside_its_address_reaches_nobody(
    other: BrokerFrame | bytes, is_multicast: bool
) -> None:
    """D-54, D-69: a client would take a BROKER_INFO for the word of its broker."""
    world = World()
    service = world.service("orders", 1)
    raw = other if isinstance(other, bytes) else other.encode()
    wanted = address(MULTICAST if is_multicast else UNICAST, service="orders")
    caller = world.caller()
    caller.push(composite((MIME_TYPE, raw), (MIME_TYPE, wanted)))
    caller.push(composite((MIME_TYPE, wanted), (MIME_TYPE, raw), (MIME_TYPE, wanted)))
    assert (service.received(), caller.received(), caller.is_closed) == ([], [], False)
    assert [(record.word, record.requests) for record in world.flows()] == [("bad-address", 2)]


def test_a_multicast_push_reaches_the_sender_too_if_it_is_one_of_the_routes() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2)]
    metadata = addressed(address(MULTICAST, service="orders"))
    wires[0].push(metadata)
    assert [wire.received() for wire in wires] == [[Frame(encode_metadata_push(metadata))]] * 2


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        b"any bytes",
        composite(("text/plain", b"nothing for a broker")),
        addressed(b""),
        addressed(b"\x00\x00\x00\x01\x14"),
        addressed(address(service="nobody")),
        addressed(address(UNICAST | MULTICAST, service="orders")),
        addressed(address(service="orders"))[:-1],
    ],
)
def test_a_push_that_cannot_be_routed_has_no_answer_and_disturbs_nothing(metadata: bytes) -> None:
    pair = Pair()
    pair.caller.push(metadata)
    assert pair.received() == ([], [])
    assert not pair.caller.is_closed


def test_a_push_on_a_stream_is_ignored() -> None:
    pair = Pair()
    raw = encode_metadata_push(addressed(address(service="orders")))
    pair.caller.send(b"\x00\x00\x00\x01" + raw[4:])
    assert pair.received() == ([], [])
    assert pair.world.core.engine.ignored == 1


def test_a_push_that_would_be_too_large_for_its_route_is_dropped() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = world.caller(metadata_mime=MIME_TYPE)
    raw = address(wrapped=bytes(0xFFFFFF - 6 - len(address(wrapped=b"x", service="orders")) + 1), service="orders")
    caller.push(raw)
    assert (caller.received(), service.received()) == ([], [])


@pytest.mark.parametrize("left", [0, 1])
def test_a_push_that_would_hold_too_much_at_all_routes_is_dropped(left: int) -> None:
    raw = encode_metadata_push(addressed(address(MULTICAST, service="orders"), ("a/b", bytes(1000))))
    world = World(CoreSettings(max_buffered_bytes=3 * len(raw) - left))
    services = [world.service("orders", number) for number in range(1, 4)]
    world.caller().send(raw)
    assert [len(service.received()) for service in services] == [1 - left] * 3
    assert [record.word for record in world.flows()] == ["over-limit" if left else ""]


def test_pushes_are_counted_with_their_outcome() -> None:
    pair = Pair()
    raw = addressed(address(service="orders"))
    pair.caller.push(raw)
    pair.caller.push(addressed(address(service="nobody")))
    records = [
        (record.model, record.routing, record.outcome, record.word, record.requests, record.items_in, record.bytes_in)
        for record in pair.world.flows()
    ]
    assert records == [
        ("metadata_push", "unicast", "completed", "", 1, 1, len(raw) + 6),
        ("metadata_push", "unicast", "rejected", "no-route", 1, 0, 0),
    ]

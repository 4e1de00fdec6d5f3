"""Which route a unicast request goes to, and the sentences with which it is refused."""

from __future__ import annotations

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import INVALID, REJECTED
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE, encode_request
from rsocket_wire.wire.frames import ENCRYPTED, MIME_TYPE, MIME_TYPE_V0, MULTICAST, SHARD, UNICAST, RouteRemove
from rsocket_wire.wire.keys import LB_METHOD
from tests.broker.forwarding.pairs import MODELS, Pair
from tests.fakes import Frame, Wire, World, address, addressed, composite, error, moved, route_id


def ask(caller: Wire, stream_id: int, raw_address: bytes, kind: int = REQUEST_RESPONSE) -> list[Frame]:
    """Sends a request; what the caller gets at once."""
    caller.request(kind, stream_id, raw_address)
    return caller.received()


def served(wires: list[Wire]) -> list[int]:
    """How many frames each got since the last call."""
    return [len(wire.received()) for wire in wires]


def test_requests_of_one_address_go_to_each_route_in_turn() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2, 3)]
    caller = world.caller()
    order: list[list[int]] = []
    for number in range(6):
        caller.request(REQUEST_RESPONSE, number * 2 + 1, address(service="orders"))
        order.append(served(wires))
    assert order == [[1, 0, 0], [0, 1, 0], [0, 0, 1]] * 2


def test_two_addresses_take_turns_of_their_own() -> None:
    world = World()
    wires = [world.service("orders", number, region="eu") for number in (1, 2)]
    caller = world.caller()
    for number in range(4):
        caller.request(REQUEST_FNF, number * 4 + 1, address(service="orders"))
        caller.request(REQUEST_FNF, number * 4 + 3, address(service="orders", region="eu"))
    assert served(wires) == [4, 4]


def test_only_routes_with_all_the_tags_get_the_request() -> None:
    world = World()
    wires = [
        world.service("orders", 1, region="eu", zone="a"),
        world.service("orders", 2, region="eu", zone="b"),
        world.service("orders", 3, region="us", zone="a"),
        world.service("stock", 4, region="eu", zone="a"),
    ]
    caller = world.caller()
    for number in range(3):
        caller.request(REQUEST_FNF, number * 2 + 1, address(service="orders", region="eu", zone="a"))
    assert served(wires) == [3, 0, 0, 0]


def test_a_route_can_be_addressed_by_its_id_however_it_is_written() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    text = "00000000-0000-0000-0000-000000000002"
    for number, written in enumerate([text, text.upper(), f"Id{{{text}}}"]):
        caller.request(REQUEST_FNF, number * 2 + 1, address(route_id=written))
    assert served(wires) == [0, 3]


def test_flags_without_a_routing_type_mean_unicast() -> None:
    pair = Pair()
    raw = pair.caller.request(REQUEST_RESPONSE, 1, address(flags=0, service="orders"))
    assert pair.received() == ([], [moved(raw, 2)])


def test_an_encrypted_request_is_routed_like_any_other() -> None:
    pair = Pair()
    raw = pair.caller.request(REQUEST_RESPONSE, 1, address(flags=ENCRYPTED | UNICAST, service="orders"))
    assert pair.received() == ([], [moved(raw, 2)])


def test_the_load_balancing_hint_is_taken() -> None:
    world = World(seed=7)
    wires = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    first: list[int] = []
    for number in range(40):
        caller.request(REQUEST_FNF, number * 2 + 1, address(hints=[(LB_METHOD, "random")], service="orders"))
        first.append(served(wires)[0])
    assert 10 <= sum(first) <= 30
    assert first != [1, 0] * 20


def test_a_load_balancing_hint_that_nobody_knows_is_counted_and_the_default_taken() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    for number in range(4):
        caller.request(REQUEST_FNF, number * 2 + 1, address(hints=[(LB_METHOD, "astrology")], service="orders"))
    assert served(wires) == [2, 2]
    assert world.core.query.unknown_methods == 1  # counted when the address is understood, not per request


def test_the_last_of_several_addresses_counts_and_all_of_them_pass() -> None:
    """D-69: Spring's client writes the configured one before that of the call."""
    world = World()
    wires = [world.service("orders", 1), world.service("stock", 2)]
    caller = world.caller()
    metadata = composite(
        ("text/plain", b"before"),
        (MIME_TYPE_V0, address(service="stock")),
        (MIME_TYPE, address(service="orders")),
        ("text/plain", b"behind"),
    )
    for stream_id in (1, 3):  # the second one is found as the latest
        raw = encode_request(REQUEST_RESPONSE, stream_id, b"", metadata)
        caller.send(raw)
        assert (wires[0].received(), wires[1].received()) == ([moved(raw, stream_id + 1)], [])


def test_a_route_that_left_is_not_chosen_again() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    caller.request(REQUEST_FNF, 1, address(service="orders"))
    wires[1].lose()
    for number in range(1, 4):
        caller.request(REQUEST_FNF, number * 2 + 1, address(service="orders"))
    assert served(wires) == [4, 0]


def test_a_route_that_joined_takes_its_turn() -> None:
    world = World()
    wires = [world.service("orders", 1)]
    caller = world.caller()
    caller.request(REQUEST_FNF, 1, address(service="orders"))
    wires.append(world.service("orders", 2))
    for number in range(1, 5):
        caller.request(REQUEST_FNF, number * 2 + 1, address(service="orders"))
    assert served(wires) == [3, 2]


# Refusals


@pytest.mark.parametrize(
    ("raw_address", "code", "text"),
    [
        (address(service="stock"), REJECTED, "no-route: no route has service=stock"),
        (address(service="orders", region="mars"), REJECTED, "no-route: no route has region=mars"),
        (
            address(service="orders", zone="c"),
            REJECTED,
            "no-route: no route has all: 1 have service=orders, 1 have zone=c",
        ),
        (
            address(flags=UNICAST | MULTICAST, service="orders"),
            INVALID,
            "bad-address: more than one of unicast, multicast and shard is set (flags 0x0c0)",
        ),
        (
            address(flags=SHARD | MULTICAST, service="orders"),
            INVALID,
            "bad-address: more than one of unicast, multicast and shard is set (flags 0x060)",
        ),
        (address(), INVALID, "bad-address: the ADDRESS names no tag to route by"),
        (
            RouteRemove(route_id(1), route_id(2), 3).encode(),
            INVALID,
            "bad-address: the request carries a broker frame of kind 3, not an ADDRESS",
        ),
        (b"\x00\x01\x00\x00\x14\x80", INVALID, "bad-address: version 1.0 is not spoken here, 0.1 is"),
        (b"\x00\x00", INVALID, "bad-address: header: needs 6 bytes, 2 are there"),
        (b"", INVALID, "bad-address: header: needs 6 bytes, 0 are there"),
    ],
)
def test_a_request_that_cannot_be_routed_is_told_why(raw_address: bytes, code: int, text: str) -> None:
    world = World()
    world.service("orders", 1, region="eu", zone="a")
    world.service("stock-eu", 2, region="eu", zone="c")
    caller = world.caller()
    assert ask(caller, 1, raw_address) == [error(1, code, text)]
    assert ask(caller, 3, raw_address) == [error(3, code, text)]  # remembered, and the same
    assert world.left_over() == []
    assert not caller.is_closed


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_but_fire_and_forget_is_told(kind: int) -> None:
    caller = World().caller()
    frames = ask(caller, 1, address(service="orders"), kind)
    assert frames == ([] if kind == REQUEST_FNF else [error(1, REJECTED, "no-route: no route has service=orders")])


def test_a_refused_stream_id_may_be_used_again() -> None:
    pair = Pair()
    pair.caller.request(REQUEST_RESPONSE, 1, address(service="stock"))
    raw = pair.caller.request(REQUEST_RESPONSE, 1, address(service="orders"))
    assert pair.received() == ([error(1, REJECTED, "no-route: no route has service=stock")], [moved(raw, 2)])


def test_a_request_without_metadata_is_refused() -> None:
    pair = Pair()
    pair.caller.send(encode_request(REQUEST_RESPONSE, 1, b"data", None))
    pair.caller.send(encode_request(REQUEST_RESPONSE, 3, b"data", b""))
    pair.caller.send(encode_request(REQUEST_RESPONSE, 5, b"data", composite(("text/plain", b"x"))))
    text = "bad-address: the metadata of the request holds no ADDRESS"
    assert pair.received() == ([error(number, INVALID, text) for number in (1, 3, 5)], [])


def test_composite_metadata_that_breaks_off_is_refused() -> None:
    pair = Pair()
    pair.caller.send(encode_request(REQUEST_RESPONSE, 1, b"data", addressed(address(service="orders"))[:-1]))
    assert pair.received() == ([error(1, INVALID, "bad-address: the composite metadata of the request breaks off")], [])


def test_composite_metadata_with_too_many_entries_is_refused() -> None:
    pair = Pair()
    metadata = b"\x85\x00\x00\x00" * 256 + addressed(address(service="orders"))
    pair.caller.send(encode_request(REQUEST_RESPONSE, 1, b"data", metadata))
    assert pair.received() == (
        [error(1, INVALID, "bad-address: the composite metadata of the request has too many entries")],
        [],
    )


def test_metadata_of_a_mime_type_that_cannot_hold_an_address_is_refused_with_its_name() -> None:
    world = World()
    world.service("orders", 1)
    caller = world.caller(metadata_mime="application/json")
    text = (
        "bad-address: metadata of the mime type 'application/json', which the SETUP announced, cannot hold an ADDRESS"
    )
    assert ask(caller, 1, address(service="orders")) == [error(1, INVALID, text)]


def test_the_text_of_an_error_survives_a_tag_that_is_no_text() -> None:
    caller = World().caller()
    raw = address(service="orders").replace(b"orders", b"\xff\xfe\xfd\xfc\xfb\xfa")
    (frame,) = ask(caller, 1, raw)
    assert (frame.code, frame.text.split(":")[0]) == (INVALID, "bad-address")


def test_hints_among_the_tags_of_one_map_do_not_take_part_unless_they_are_strict() -> None:
    for is_strict, answers in ((False, 0), (True, 1)):
        world = World(CoreSettings(strict_hints=is_strict))
        world.service("orders", 1)
        caller = world.caller()
        assert len(ask(caller, 1, address(service="orders", lb_method="random"))) == answers

"""Which route a unicast request goes to, and the sentences with which it is refused."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import INVALID, REJECTED
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE, encode_request
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0
from tests.broker.forwarding.pairs import Pair
from tests.fakes import Frame, Wire, World, address, addressed, composite, error, moved

ORDERS = addressed(address(service="orders"))


def ask(caller: Wire, stream_id: int, raw_address: bytes, kind: int = REQUEST_RESPONSE) -> list[Frame]:
    """Sends a request; what the caller gets at once."""
    caller.request(kind, stream_id, raw_address)
    return caller.received()


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


# Refusals


@pytest.mark.parametrize(
    ("raw_address", "code", "text"),
    [
        (address(service="stock"), REJECTED, "no-route: no route has service=stock"),
        (address(), INVALID, "bad-address: the ADDRESS has no tag to route by"),
        (b"", INVALID, "bad-address: header: needs 6 bytes, 0 are there"),
    ],
)
def test_a_request_that_cannot_be_routed_is_told_why_each_time(raw_address: bytes, code: int, text: str) -> None:
    world = World()
    world.service("orders", 1)
    caller = world.caller()
    assert ask(caller, 1, raw_address) == [error(1, code, text)]
    assert ask(caller, 3, raw_address) == [error(3, code, text)]  # remembered, and the same
    assert world.left_over() == []
    assert not caller.is_closed


def test_a_refused_stream_id_may_be_used_again() -> None:
    pair = Pair()
    pair.caller.request(REQUEST_RESPONSE, 1, address(service="stock"))
    raw = pair.caller.request(REQUEST_RESPONSE, 1, address(service="orders"))
    assert pair.received() == ([error(1, REJECTED, "no-route: no route has service=stock")], [moved(raw, 2)])


@pytest.mark.parametrize(
    ("metadata", "what"),
    [(ORDERS[:-1], "is truncated"), (b"\x85\x00\x00\x00" * 256 + ORDERS, "has too many entries")],
    ids=["is truncated", "too many entries"],
)
def test_composite_metadata_that_breaks_off_or_has_too_many_entries_is_refused(metadata: bytes, what: str) -> None:
    pair = Pair()
    pair.caller.send(encode_request(REQUEST_RESPONSE, 1, b"data", metadata))
    text = f"bad-address: the composite metadata of the request {what}"
    assert pair.received() == ([error(1, INVALID, text)], [])


def test_metadata_of_a_mime_type_that_cannot_hold_an_address_is_refused_with_its_name() -> None:
    world = World()
    world.service("orders", 1)
    caller = world.caller(metadata_mime="application/json")
    text = (
        "bad-address: metadata of the mime type 'application/json', which the SETUP announced, cannot hold an ADDRESS"
    )
    assert ask(caller, 1, address(service="orders")) == [error(1, INVALID, text)]


def test_hints_among_the_tags_of_one_map_do_not_take_part_unless_they_are_strict() -> None:
    for is_strict, answers in ((False, 0), (True, 1)):
        world = World(CoreSettings(strict_hints=is_strict))
        world.service("orders", 1)
        caller = world.caller()
        assert len(ask(caller, 1, address(service="orders", lb_method="random"))) == answers

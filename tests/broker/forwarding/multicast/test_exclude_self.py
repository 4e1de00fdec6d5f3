"""D-103: a multicast that its sender does not get, and what comes of it when nobody else is there."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import INVALID, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, UNICAST, Address
from rsocket_wire.wire.keys import SHARD_KEY, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.forwarding.brokers import DATA_MIME, Broker, annotated, apart, section
from tests.broker.forwarding.multicast.crowds import asked_of
from tests.broker.forwarding.pairs import ANSWERED, MODELS
from tests.fakes import Frame, World, address, addressed, composite, error, fragments, moved, route_id

HINT = Key.text("exclude_self")
TO_OTHERS = address(MULTICAST, [(HINT, "true")], service="orders")
ONLY_OWN = "the only route with service=orders is the caller's own, and the ADDRESS says exclude_self"


def said_by(number: int) -> bytes:
    """The same ADDRESS with the caller's Route Id as its origin, as clients of the SDK send it."""
    return Address(route_id(number), [Tag.of("service", "orders")], [Tag.of(HINT, "true")], flags=MULTICAST).encode()


@pytest.mark.parametrize("kind", MODELS)
def test_all_but_the_caller_get_it_once(kind: int) -> None:
    world = World()
    one, two, own = (world.service("orders", number) for number in (1, 2, 3))
    raw = own.request(kind, 1, TO_OTHERS, b"hi", 10)
    assert [one.received(), two.received(), own.received()] == [[asked_of(raw, 5)], [asked_of(raw, 5)], []]


def test_a_push_goes_to_all_but_the_caller() -> None:
    world = World()
    one, own = world.service("orders", 1), world.service("orders", 2)
    own.push(addressed(TO_OTHERS))
    assert one.one() == Frame(frames.encode_metadata_push(addressed(TO_OTHERS)))
    assert own.received() == []


def test_a_caller_that_is_no_route_reaches_all() -> None:
    world = World()
    one, two, caller = world.service("orders", 1), world.service("orders", 2), world.caller()
    raw = caller.request(REQUEST_FNF, 1, TO_OTHERS)
    assert (one.received(), two.received()) == ([moved(raw, 2)], [moved(raw, 2)])


def test_callers_of_one_address_each_leave_themselves_out() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2, 3)]
    for own in wires:
        own.request(REQUEST_FNF, 1, TO_OTHERS)
        assert [len(wire.received()) for wire in wires] == [0 if wire is own else 1 for wire in wires]


def test_a_caller_whose_metadata_others_cannot_read_is_left_out_too() -> None:
    world = World()
    one, own = world.service("orders", 1, metadata_mime=MIME_TYPE), world.service("orders", 2)
    for raw in fragments(REQUEST_FNF, 1, addressed(TO_OTHERS), b"hi", [20]):
        own.send(raw)
    assert (one.one().metadata, own.received()) == (TO_OTHERS, [])
    assert world.left_over() == []


@pytest.mark.parametrize("value", ["", "false", "1", "TRUE"])
def test_any_other_value_says_nothing(value: str) -> None:
    world = World()
    own = world.service("orders", 1)
    own.request(REQUEST_FNF, 1, address(MULTICAST, [(HINT, value)], service="orders"))
    assert len(own.received()) == 1


@pytest.mark.parametrize("kind", ANSWERED)
def test_where_nobody_else_is_there_it_is_as_if_nobody_was(kind: int) -> None:
    world = World()
    own = world.service("orders", 1)
    own.request(kind, 1, TO_OTHERS)
    assert own.received() == [error(1, REJECTED, f"no-route: {ONLY_OWN}")]
    assert world.left_over() == []


def test_it_waits_for_somebody_else_where_requests_may_wait() -> None:
    world = World(CoreSettings(no_route="wait", no_route_timeout_s=5.0))
    own = world.service("orders", 1)
    own.request(REQUEST_RESPONSE, 1, TO_OTHERS, b"hi")
    world.advance(1.0)
    world.service("carts", 2)
    assert own.received() == []
    other = world.service("orders", 3)
    assert other.one().data == b"hi"
    assert own.received() == []


def test_it_waits_no_longer_than_others() -> None:
    world = World(CoreSettings(no_route="wait", no_route_timeout_s=5.0))
    own = world.service("orders", 1)
    own.request(REQUEST_RESPONSE, 1, TO_OTHERS)
    world.advance(5.1)
    (refused,) = own.received()
    assert refused.text.startswith(f"no-route: {ONLY_OWN}, after 5.")
    assert world.left_over() == []


@pytest.mark.parametrize(("flag", "name"), [(0, "unicast"), (UNICAST, "unicast"), (SHARD, "shard")])
def test_a_request_to_one_may_not_say_it(flag: int, name: str) -> None:
    world = World()
    world.service("orders", 1)
    caller = world.caller()
    hints = [(HINT, "true"), (SHARD_KEY, "user")]
    caller.request(REQUEST_RESPONSE, 1, address(flag, hints, service="orders", user="ada"))
    text = f"bad-address: exclude_self is for multicast requests, this one is {name}"
    assert caller.received() == [error(1, INVALID, text)]


@pytest.mark.parametrize("kind", MODELS)
def test_others_behind_a_link_get_it_and_the_hint_goes_with_it(kind: int) -> None:
    broker = Broker("b1")
    own, one = (broker.service("orders", number, data_mime=DATA_MIME) for number in (1, 2))
    link = broker.link("b2")
    broker.far(broker.remote("b2", link), "orders", 7)
    own.request(kind, 1, TO_OTHERS, b"hi", 8)
    sent = link.one()
    assert (apart(sent)[0].to_override, apart(sent)[1]) == ("broker:b2", [(MIME_TYPE, TO_OTHERS)])
    assert one.one().data == b"hi"
    assert own.received() == []


def test_only_others_behind_a_link_are_enough() -> None:
    broker = Broker("b1")
    own, link = broker.service("orders", 1), broker.link("b2")
    broker.far(broker.remote("b2", link), "orders", 7)
    own.request(REQUEST_RESPONSE, 1, TO_OTHERS)
    link.one()
    link.answer(2, b"answer")
    assert own.one().data == b"answer"
    assert broker.left_over() == []


@pytest.mark.parametrize("to", ["broker:b1", None])
@pytest.mark.parametrize("kind", MODELS)
def test_a_copy_of_another_broker_leaves_the_route_of_its_origin_out(kind: int, to: str | None) -> None:
    """The caller's Route Id has joined here, while the connection that asks is still open there."""
    broker = Broker("b1")
    moved_here, one, link = broker.service("orders", 3), broker.service("orders", 2), broker.link("b2")
    metadata = annotated(section(to, "b2")) + addressed(said_by(3))
    link.send(frames.encode_request(kind, 1, b"hi", metadata, 8))
    assert one.one().data == b"hi"
    assert (moved_here.received(), link.received()) == ([], [])


def test_a_link_without_annotations_leaves_the_route_of_the_origin_out() -> None:
    broker = Broker("b1", CoreSettings(require_annotations=False))
    moved_here, one, link = broker.service("orders", 3), broker.service("orders", 2), broker.link("b2", version=0)
    link.send(frames.encode_request(REQUEST_FNF, 1, b"hi", composite((MIME_TYPE, said_by(3)))))
    assert one.one().data == b"hi"
    assert moved_here.received() == []


def test_a_copy_for_a_broker_that_has_only_the_origin_is_no_answer() -> None:
    broker = Broker("b1")
    broker.service("orders", 3)
    link = broker.link("b2")
    metadata = annotated(section("broker:b1", "b2")) + addressed(said_by(3))
    link.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", metadata))
    assert link.one().text.startswith("stale-route: ")


def test_the_callers_route_at_another_broker_gets_no_copy() -> None:
    broker = Broker("b1")
    link, caller = broker.link("b2"), broker.caller()
    broker.far(broker.remote("b2", link), "orders", 3)
    caller.request(REQUEST_RESPONSE, 1, said_by(3))
    assert caller.received() == [error(1, REJECTED, f"no-route: {ONLY_OWN}")]
    assert link.received() == []

"""What a broker does with a request of another one: passed on, refused, or decided upon (D-49)."""

from __future__ import annotations

import pytest

from broker.core import CoreSettings
from broker.events import REQUESTS_DROPPED
from broker.forwarding.interbroker import annotations as hops
from broker.routing.health.leases import Lease
from broker.routing.policies import Policy
from rsocket_wire.errors import INVALID, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.annotations import Annotations
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, UNICAST
from rsocket_wire.wire.ids import id_text
from tests.broker.forwarding.brokers import (
    CALLER_MIMES,
    DATA_MIME,
    SECTION,
    Broker,
    annotated,
    apart,
    caller_mimes,
    ingress,
    last,
    section,
    to_route,
)
from tests.fakes import Frame, Wire, address, addressed, composite, error, moved, route_id

ORDERS = address(service="orders")
REST = composite(caller_mimes("a/b", "c/d")) + addressed(ORDERS, ("text/plain", b"more"))
TO = to_route(7)


def decided(stream_id: int, kind: int = REQUEST_RESPONSE) -> bytes:
    """A request for route 7, as it comes from b1."""
    return frames.encode_request(kind, stream_id, b"", annotated(section(TO, "b1")) + REST)


class Middle:
    """b2 between b1 and b3, which has the route 7 of `orders`."""

    def __init__(self, settings: CoreSettings | None = None) -> None:
        self.broker = Broker("b2", settings)
        self.before = self.broker.link("b1")
        self.behind = self.broker.link("b3")
        self.route = self.broker.far(self.broker.remote("b3", self.behind), "orders", 7)

    def ask(self, raw: bytes, kind: int = REQUEST_RESPONSE, stream_id: int = 1, rest: bytes = REST) -> list[Frame]:
        """A request with this section comes from b1; what b1 gets at once."""
        self.before.send(frames.encode_request(kind, stream_id, b"data", annotated(raw) + rest, 8))
        return self.before.received()


# Transit


def test_fragments_are_never_gathered_on_the_way() -> None:
    middle = Middle()
    first = frames.encode_request(
        REQUEST_RESPONSE, 1, b"", annotated(section(TO, "b1", flags=1)) + REST[:9], 0, FOLLOWS
    )
    middle.before.send(first)
    expected = annotated(section(TO, "b1", "b2", flags=1)) + REST[:9]
    assert middle.behind.one() == moved(frames.encode_request(REQUEST_RESPONSE, 1, b"", expected, 0, FOLLOWS), 2)
    second = frames.encode_payload(1, NEXT, b"data", REST[9:])
    middle.before.send(second)
    assert middle.behind.one() == moved(second, 2)


def test_a_section_that_is_cut_by_fragments_is_awaited() -> None:
    middle = Middle()
    metadata = annotated(section(TO, "b1")) + REST
    middle.before.send(frames.encode_request(REQUEST_STREAM, 1, b"", metadata[:50], 4, FOLLOWS))
    assert (middle.behind.received(), middle.before.received()) == ([], [])
    middle.before.send(frames.encode_payload(1, NEXT, b"data", metadata[50:]))
    expected = annotated(section(TO, "b1", "b2")) + REST
    assert middle.behind.one() == moved(frames.encode_request(REQUEST_STREAM, 1, b"data", expected, 4), 2)
    assert middle.before.peer.gathered_bytes == 0


def test_requests_of_other_brokers_are_in_no_flow_record() -> None:
    """The broker where they came in has counted them."""
    middle = Middle()
    middle.ask(section(TO, "b1"))
    middle.behind.answer(2, b"answer")
    middle.ask(section(to_route(99), "b1"), stream_id=3)
    assert middle.broker.flows() == []


# What is refused


@pytest.mark.parametrize(
    ("raw", "text", "reason"),
    [
        (section(TO, "b1", "b2", "b3"), "loop: b1>b2>b3>b2", "loop"),
        (section(TO, "b3", "b1"), "loop: b3>b1>b2>b3", "loop"),
        (section(TO, "b1", ingress="b3"), "loop: b1>b2>b3", "loop"),
        (
            section(TO, "a", "b", "c", "d", "b1"),
            "too-many-hops: a>b>c>d>b1>b2: 5 brokers passed it on, the limit is 4",
            "too-many-hops",
        ),
        (
            section(to_route(99), "b1"),
            f"stale-route: b2 has no route {to_route(99)}, and no path to it",
            "stale-route",
        ),
        (b"\x00", "bad-annotations: descriptor: needs 1 bytes at offset 1, 0 are left", "malformed"),
        *[
            (
                section(to, "b1"),
                f"bad-annotations: to-override: '{to}' begins with none of route:, broker: and service:",
                "malformed",
            )
            for to in ("elsewhere", "route:7", f"{TO} service:orders", "broker:b2,,b3", "service:")
        ],
    ],
)
def test_what_may_not_come_in_is_refused_and_the_link_stays(raw: bytes, text: str, reason: str) -> None:
    """D-49."""
    middle = Middle()
    assert middle.ask(raw) == [error(1, REJECTED, text)]
    assert middle.ask(raw, REQUEST_FNF, 3) in ([], middle.behind.received())
    assert (middle.behind.received(), middle.before.is_closed) == ([], False)
    found = middle.broker.refusals()
    assert found == {reason: 1 if reason == "stale-route" else 2}
    assert middle.broker.annotations.loops_refused == found.get("loop", 0)
    news = middle.broker.annotations.take_refused()
    assert [(each.reason, each.peer, each.detail) for each in news] == [(reason, "tcp b1", text)]
    assert middle.broker.annotations.take_refused() == []


@pytest.mark.parametrize("limit", [1, 2])
def test_max_hops_bounds_the_trace(limit: int) -> None:
    middle = Middle(CoreSettings(max_hops=limit))
    assert middle.ask(section(TO, *[f"a{number}" for number in range(limit)])) == []
    names = [f"a{number}" for number in range(limit + 1)]
    text = f"too-many-hops: {'>'.join(names)}>b2: {limit + 1} brokers passed it on, the limit is {limit}"
    assert middle.ask(section(TO, *names), stream_id=3) == [error(3, REJECTED, text)]


def test_as_many_hops_are_allowed_as_brokers_are_known_and_one_always() -> None:
    middle = Middle()
    middle.broker.annotations.brokers_n = 0
    assert middle.ask(section(TO, "b1")) == []
    assert len(middle.ask(section(TO, "b0", "b1"), stream_id=3)) == 1


def test_a_route_without_a_lease_left_refuses_what_others_decided() -> None:
    """D-50."""
    broker, service, link = last()
    route = broker.core.table.routes()[0]
    route.load.lease = Lease(broker.core.table.masks)
    route.load.lease.join(route.slot)
    link.send(decided(1))
    text = f"no-lease: the route {route.id_text} has no lease left"
    assert (link.received(), service.received()) == ([error(1, REJECTED, text)], [])


def test_a_route_that_drains_still_serves_what_others_decided() -> None:
    """D-50."""
    broker, service, link = last()
    broker.core.table.masks.put(broker.core.table.masks.draining, broker.core.table.routes()[0].slot)
    link.send(decided(1))
    assert len(service.received()) == 1


def test_too_much_that_waits_for_a_route_is_refused_to_other_brokers() -> None:
    """D-50: a link is read from always, so a slow service must not be fed by it without end."""
    _, service, link = last(CoreSettings(max_pending_bytes=1000))
    service.fill(480)
    link.send(decided(1, REQUEST_FNF))
    waits = service.peer.pending_bytes
    link.send(decided(3))
    limit = "the limit for requests of other brokers is 500 (half of limits.max_pending_bytes)"
    text = f"over-limit: {waits} bytes wait for the route {id_text(route_id(7))}, {limit}"
    assert link.received() == [error(3, REJECTED, text)]
    service.unblock()
    assert [frame.kind for frame in service.received()] == [frames.CANCEL, REQUEST_FNF]


def test_fire_and_forgets_for_a_service_that_is_full_are_counted_and_told_once_a_second() -> None:
    """Nobody else could be told."""
    broker, service, link = last(CoreSettings(max_pending_bytes=1000))
    service.fill(500)
    broker.events()
    for stream_id in (1, 3, 5):
        link.send(decided(stream_id, REQUEST_FNF))
    broker.advance(1.0)
    told = [event for event in broker.events() if event.kind == REQUESTS_DROPPED]
    assert [(event.service, event.reason, event.requests) for event in told] == [("orders", "over-limit", 3)]
    assert broker.core.engine.drops.total_n == 3


@pytest.mark.parametrize("flags", [UNICAST, MULTICAST])
def test_fire_and_forgets_that_find_no_room_on_a_link_are_told_under_its_name(flags: int) -> None:
    """For which service they were is not known any more."""
    broker, link = ingress(CoreSettings(max_buffered_bytes=100_000))
    caller = broker.caller()
    link.block()
    broker.events()
    for number in range(5):
        caller.request(REQUEST_FNF, 1 + 2 * number, address(flags, service="orders"), bytes(30_000))
    broker.advance(1.0)
    [told] = [event for event in broker.events() if event.kind == REQUESTS_DROPPED]
    assert (told.service, told.peer, told.requests) == ("", link.peer.name, 2)
    assert told.detail == "b2: 2 fire-and-forgets or pushes dropped: too many bytes wait for the link"


def test_a_route_with_as_many_requests_as_it_may_have_refuses_one_more() -> None:
    _, service, link = last(CoreSettings(policy=Policy(max_in_flight_per_route=1)))
    for number in (1, 3):
        link.send(decided(number))
    text = f"over-limit: the route {TO[6:]} has 1 requests in flight, protection.max_in_flight_per_route is 1"
    assert (link.received(), len(service.received())) == ([error(3, REJECTED, text)], 1)


def ask_over(link: Wire, first: int, count: int) -> list[str]:
    """So many requests for route 7 over a link; what it is told."""
    for number in range(first, first + 2 * count, 2):
        link.send(decided(number))
    return [frame.text for frame in link.received()]


@pytest.mark.parametrize("limit", [8, 200])
def test_a_link_is_one_caller_among_others_where_places_are_shared(limit: int) -> None:
    """D-68: who asks behind it is known to the broker where they are connected, and shared there."""
    broker = Broker("b2", CoreSettings(policy=Policy(max_in_flight_per_route=limit)))
    service, link, other = broker.service("orders", 7), broker.link("b1"), broker.caller()
    assert ask_over(link, 1, limit) == []
    other.request(REQUEST_RESPONSE, 1, ORDERS)
    assert other.one().text.startswith("over-limit: of 1 routes")
    for number in (2, 4):
        service.answer(number, b"")
    link.received()
    text = f"over-limit: {limit - 2} requests of this connection are in flight at a route of orders: "
    text += f"protection.max_in_flight_per_route is {limit}, of which a caller gets at most half while others compete"
    assert ask_over(link, 9_001, 1) == [text]
    for number in (3, 5):
        other.request(REQUEST_RESPONSE, number, ORDERS)
    assert other.received() == []
    for stream_id in list(service.peer.streams)[: limit // 2 - 1]:
        service.answer(stream_id, b"")
    link.received()
    assert ask_over(link, 9_003, 2) == [text.replace(f"{limit - 2} ", f"{limit // 2} ", 1)]


def test_places_of_a_route_of_another_broker_are_shared_where_the_callers_are() -> None:
    broker, _ = ingress(CoreSettings(policy=Policy(max_in_flight_per_route=4)))
    greedy, other = broker.caller(), broker.caller()
    for number in (1, 3, 5, 7):
        greedy.request(REQUEST_RESPONSE, number, ORDERS)
    other.request(REQUEST_RESPONSE, 1, ORDERS)
    greedy.cancel(1)
    greedy.request(REQUEST_RESPONSE, 9, ORDERS)
    other.request(REQUEST_RESPONSE, 3, ORDERS)
    assert [frame.text.partition(":")[0] for frame in greedy.received()] == ["over-limit"]
    assert [frame.stream_id for frame in other.received()] == [1]
    assert [len(wire.peer.streams) for wire in (greedy, other)] == [3, 1]


# What nobody has decided


def test_a_fire_and_forget_for_a_route_that_is_gone_is_decided_upon_once_more() -> None:
    """D-50: nobody could be told."""
    middle = Middle()
    gone = section(to_route(99), "b1", flags=0x80)
    middle.ask(gone, REQUEST_FNF)
    assert apart(middle.behind.one())[0] == Annotations(0x80, TO, "b1", ["b1", "b2"])
    middle.before.push(annotated(gone) + REST)
    kept = annotated(section(TO, "b1", "b2", flags=0x80)) + REST
    assert middle.behind.one() == Frame(frames.encode_metadata_push(kept))


def test_the_last_address_counts_where_a_broker_behind_a_link_must_decide() -> None:
    """D-69."""
    broker = Broker("b2")
    stock, link = broker.service("stock", 6, data_mime=DATA_MIME), broker.link("b1")
    orders = broker.service("orders", 7, data_mime=DATA_MIME)
    two = composite((MIME_TYPE, address(service="stock")), (MIME_TYPE, ORDERS), ("text/plain", b"more"))
    gone = annotated(section(to_route(99), "b1"))
    link.send(frames.encode_request(REQUEST_FNF, 1, b"", gone + two))
    assert (stock.received(), [frame.metadata for frame in orders.received()]) == ([], [two])


@pytest.mark.parametrize("to", [None, "service:orders"])
def test_without_a_decision_the_receiver_decides(to: str | None) -> None:
    """D-49."""
    middle = Middle()
    middle.ask(section(to, "b1"))
    said, rest = apart(middle.behind.one())
    expected = TO if to is None else f"service:orders {TO}"
    assert said == Annotations(0, expected, "b1", ["b1", "b2"])
    assert rest == [caller_mimes("a/b", "c/d"), (MIME_TYPE, ORDERS), ("text/plain", b"more")]
    service = middle.broker.service("orders", 8, data_mime="c/d")
    middle.ask(section(to, "b1"), stream_id=3, rest=addressed(ORDERS))
    assert service.one().metadata is not None


def test_a_service_that_a_section_names_counts_and_not_that_of_the_address() -> None:
    """D-55."""
    middle = Middle()
    service = middle.broker.service("orders-next", 8)
    middle.ask(section("service:orders-next", "b1"), rest=addressed(ORDERS))
    assert service.one().metadata is not None
    assert middle.behind.received() == []


def test_without_a_decision_and_without_anybody_the_reason_is_said() -> None:
    middle = Middle()
    raw = section(None, "b1")
    text = "no-route: no route has service=stock"
    assert middle.ask(raw, rest=addressed(address(service="stock"))) == [error(1, REJECTED, text)]
    assert middle.ask(raw, stream_id=3, rest=composite(("text/plain", b""))) == [
        error(3, INVALID, "bad-address: the metadata of the request holds no ADDRESS")
    ]
    text = "no-route: none of the 1 routes with service=orders can be reached from here"
    assert middle.ask(section(None, "b3", "b1"), stream_id=5, rest=addressed(ORDERS)) == [error(5, REJECTED, text)]


# Links without annotations


def test_a_link_without_annotations_reaches_the_routes_here_and_no_further() -> None:
    """D-49."""
    broker = Broker("b2", CoreSettings(require_annotations=False))
    behind, before = broker.link("b3"), broker.link("b1", version=0)
    broker.far(broker.remote("b3", behind), "orders", 7)
    before.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", addressed(ORDERS)))
    text = "no-route: none of the 1 routes with service=orders can be reached from here"
    assert (before.received(), behind.received()) == ([error(1, REJECTED, text)], [])
    service = broker.service("orders", 8, data_mime="application/octet-stream")
    raw = frames.encode_request(REQUEST_RESPONSE, 3, b"", addressed(ORDERS))
    before.send(raw)
    assert service.received() == [moved(raw, 2)]


def test_a_link_without_annotations_gets_what_others_decided_without_them() -> None:
    """D-49."""
    broker = Broker("b2")
    before, behind = broker.link("b1"), broker.link("b3", version=0)
    broker.far(broker.remote("b3", behind), "orders", 7)
    before.send(frames.encode_request(REQUEST_RESPONSE, 1, b"data", annotated(section(TO, "b1")) + addressed(ORDERS)))
    assert behind.one() == Frame(frames.encode_request(REQUEST_RESPONSE, 2, b"data", addressed(ORDERS)))
    unread = annotated(section(TO, "b1"), (CALLER_MIMES, b"")) + addressed(ORDERS)
    before.send(frames.encode_request(REQUEST_RESPONSE, 3, b"data", unread))
    text = "bad-annotations: caller-mimes: 0 bytes are not two texts"
    assert (before.received(), behind.received()) == ([error(3, REJECTED, text)], [])


def test_a_link_without_annotations_needs_leave() -> None:
    broker = Broker("b2")
    before = broker.link("b1", version=0)
    broker.service("orders", 8)
    before.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", addressed(ORDERS)))
    assert before.one().text.startswith("bad-annotations: missing")


# Clients

NOT_ACCEPTED = "bad-annotations: router annotations are not accepted from clients"


def client(policy: str, to_clients: str = "strip") -> tuple[Broker, Wire, Wire]:
    """A broker, a service, and a client of it."""
    broker = Broker("b2", CoreSettings(annotations_from_clients=policy, annotations_to_clients=to_clients))
    return broker, broker.service("orders", 7), broker.caller()


def with_section_at(place: int, content: bytes = b"anything") -> bytes:
    """Composite metadata of three entries, one of them named as annotations are."""
    found = [(MIME_TYPE, ORDERS), ("text/plain", b"more")]
    found.insert(place, (SECTION, content))
    return composite(*found)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_annotations_of_a_client_are_refused_wherever_they_stand(place: int) -> None:
    """D-49."""
    broker, service, caller = client("reject")
    caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", addressed(ORDERS)))
    service.received()
    caller.send(frames.encode_request(REQUEST_RESPONSE, 3, b"", with_section_at(place)))
    caller.send(frames.encode_request(REQUEST_FNF, 5, b"", with_section_at(place)))
    caller.push(with_section_at(place))
    assert (caller.received(), service.received()) == ([error(3, REJECTED, NOT_ACCEPTED)], [])
    assert (broker.refusals(), caller.is_closed) == ({"from-client": 3}, False)


def test_annotations_of_a_client_in_a_gathered_request_are_refused() -> None:
    _, service, caller = client("reject")
    metadata = with_section_at(0)
    caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", metadata[:60], 0, FOLLOWS))
    caller.send(frames.encode_payload(1, NEXT, b"", metadata[60:]))
    assert (caller.received(), service.received()) == ([error(1, REJECTED, NOT_ACCEPTED)], [])


def test_the_name_alone_is_no_section() -> None:
    broker, service, caller = client("reject")
    raw = frames.encode_request(REQUEST_RESPONSE, 1, b"", addressed(ORDERS, ("text/plain", SECTION.encode())))
    caller.send(raw)
    assert (service.received(), broker.refusals()) == ([moved(raw, 2)], {})


@pytest.mark.parametrize("place", [0, 1, 2])
def test_annotations_of_a_client_can_be_taken_out(place: int) -> None:
    """D-49."""
    broker, service, caller = client("strip")
    caller.send(frames.encode_request(REQUEST_STREAM, 1, b"data", with_section_at(place), 5))
    plain = frames.encode_request(REQUEST_STREAM, 1, b"data", addressed(ORDERS, ("text/plain", b"more")), 5)
    assert service.received() == [moved(plain, 2)]
    caller.push(with_section_at(place))
    assert service.received() == [Frame(frames.encode_metadata_push(addressed(ORDERS, ("text/plain", b"more"))))]
    assert (broker.annotations.stripped_n, broker.refusals(), caller.received()) == (2, {}, [])


def test_annotations_of_a_client_in_fragments_are_taken_out() -> None:
    _, service, caller = client("strip")
    metadata = with_section_at(2)
    caller.send(frames.encode_request(REQUEST_CHANNEL, 1, b"", metadata[:-4], 5, FOLLOWS))
    caller.send(frames.encode_payload(1, NEXT | FOLLOWS, b"da", metadata[-4:]))
    caller.send(frames.encode_payload(1, NEXT, b"ta"))
    plain = addressed(ORDERS, ("text/plain", b"more"))
    first = frames.encode_request(REQUEST_CHANNEL, 1, b"da", plain, 5, FOLLOWS)
    assert service.received() == [moved(first, 2), Frame(frames.encode_payload(2, NEXT, b"ta"))]


# Bounds


def test_ways_that_nobody_counts_apart_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    middle = Middle()
    middle.broker.annotations.brokers_n = 10_000
    for number in range(hops.MAX_PATHS + 5):
        middle.ask(section(TO, f"c{number}", "b1"), REQUEST_FNF)
    paths = middle.broker.annotations.paths
    assert len(paths) == hops.MAX_PATHS + 1
    assert (paths[""].requests, paths["c0>b1>b2"].requests) == (5, 1)


def test_what_is_remembered_of_sections_and_prefixes_is_bounded() -> None:
    middle = Middle()
    read = middle.broker.annotations.read
    first = read(section(TO, "b1"))
    assert read(section(TO, "b1")) is first
    for number in range(hops.MAX_SECTIONS):
        read(section(to_route(number + 100), "b1"))
    assert read(section(TO, "b1")) is not first
    long = section(TO, "b1", extra=b"\xa1\xff" + b"x" * 255 + b"\xb1\x00\x00\x04\x00" + b"x" * 1024, extra_n=2)
    assert read(long) is not read(long)

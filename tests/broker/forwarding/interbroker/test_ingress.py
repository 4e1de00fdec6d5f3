"""What becomes of requests of other brokers, and of annotations of clients: passed on, refused, decided upon (D-49)."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import INVALID, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.annotations import Annotations
from rsocket_wire.wire.frames import MIME_TYPE
from tests.broker.forwarding import brokers
from tests.broker.forwarding.brokers import ORDERS, TO, Broker, Middle, annotated, section, to_route
from tests.fakes import Frame, Wire, address, addressed, composite, error, moved

# Transit


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
                f"bad-annotations: to-override: '{to}' begins with none of route:, broker:, service: and role:",
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


def test_a_route_that_drains_still_serves_what_others_decided() -> None:
    """D-50."""
    broker, service, link = brokers.last()
    broker.core.table.masks.put(broker.core.table.masks.draining, broker.core.table.routes()[0].slot)
    link.send(brokers.decided(1))
    assert len(service.received()) == 1


# What nobody has decided


def test_a_fire_and_forget_for_a_route_that_is_gone_is_decided_upon_once_more() -> None:
    """D-50: nobody could be told."""
    middle = Middle()
    gone = section(to_route(99), "b1", flags=0x80)
    middle.ask(gone, REQUEST_FNF)
    assert brokers.apart(middle.behind.one())[0] == Annotations(0x80, TO, "b1", ["b1", "b2"])
    middle.before.push(annotated(gone) + brokers.REST)
    kept = annotated(section(TO, "b1", "b2", flags=0x80)) + brokers.REST
    assert middle.behind.one() == Frame(frames.encode_metadata_push(kept))


def test_the_last_address_counts_where_a_broker_behind_a_link_must_decide() -> None:
    """D-69."""
    broker = Broker("b2")
    stock, link = broker.service("stock", 6, data_mime=brokers.DATA_MIME), broker.link("b1")
    orders = broker.service("orders", 7, data_mime=brokers.DATA_MIME)
    two = composite((MIME_TYPE, address(service="stock")), (MIME_TYPE, ORDERS), ("text/plain", b"more"))
    gone = annotated(section(to_route(99), "b1"))
    link.send(frames.encode_request(REQUEST_FNF, 1, b"", gone + two))
    assert (stock.received(), [frame.metadata for frame in orders.received()]) == ([], [two])


@pytest.mark.parametrize("to", [None, "service:orders"])
def test_without_a_decision_the_receiver_decides(to: str | None) -> None:
    """D-49."""
    middle = Middle()
    middle.ask(section(to, "b1"))
    said, rest = brokers.apart(middle.behind.one())
    expected = TO if to is None else f"service:orders {TO}"
    assert said == Annotations(0, expected, "b1", ["b1", "b2"])
    assert rest == [brokers.caller_mimes("a/b", "c/d"), (MIME_TYPE, ORDERS), ("text/plain", b"more")]
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
    unread = annotated(section(TO, "b1"), (brokers.CALLER_MIMES, b"")) + addressed(ORDERS)
    before.send(frames.encode_request(REQUEST_RESPONSE, 3, b"data", unread))
    text = "bad-annotations: caller-mimes: 0 bytes are not two texts"
    assert (before.received(), behind.received()) == ([error(3, REJECTED, text)], [])


# Clients

NOT_ACCEPTED = "bad-annotations: router annotations are not accepted from clients"


def client(policy: str, to_clients: str = "strip") -> tuple[Broker, Wire, Wire]:
    """A broker, a service, and a client of it."""
    broker = Broker("b2", CoreSettings(annotations_from_clients=policy, annotations_to_clients=to_clients))
    return broker, broker.service("orders", 7), broker.caller()


def with_section_at(place: int, content: bytes = b"anything") -> bytes:
    """Composite metadata of three entries, one of them named as annotations are."""
    found = [(MIME_TYPE, ORDERS), ("text/plain", b"more")]
    found.insert(place, (brokers.SECTION, content))
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
    raw = frames.encode_request(REQUEST_RESPONSE, 1, b"", addressed(ORDERS, ("text/plain", brokers.SECTION.encode())))
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

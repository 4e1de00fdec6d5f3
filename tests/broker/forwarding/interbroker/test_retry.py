"""What the ingress does when another broker says that its decision does not hold (D-50)."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import APPLICATION_ERROR, CANCELED, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.resumption import FRAME_COST
from rsocket_wire.wire.frames import SHARD
from rsocket_wire.wire.keys import SHARD_KEY, Key
from tests.broker.forwarding.brokers import DATA_MIME, Broker, apart, to_route
from tests.broker.forwarding.pairs import ANSWERED
from tests.fakes import Frame, Wire, address, addressed, asked, cancelled, error, moved

ORDERS = address(service="orders")
STALE = "stale-route: b2 has no route"


class Ingress:
    """b1 with a caller, and route 7 of `orders` at b2; a test adds where else the request may go."""

    def __init__(self, settings: CoreSettings | None = None) -> None:
        self.broker = Broker("b1", settings)
        self.b2 = self.broker.link("b2")
        self.route = self.broker.far(self.broker.remote("b2", self.b2), "orders", 7)
        self.caller = self.broker.caller(data_mime=DATA_MIME)

    def second(self) -> Wire:
        """b3, which has route 8 of `orders`."""
        link = self.broker.link("b3")
        self.broker.far(self.broker.remote("b3", link), "orders", 8)
        return link

    def ask(self, kind: int = REQUEST_RESPONSE, raw: bytes = ORDERS, n: int = 4) -> bytes:
        """A request on stream 1 goes to b2."""
        frame = self.caller.request(kind, 1, raw, b"data", n)
        assert apart(self.b2.one())[0].to_override == to_route(7)
        return frame

    def is_clean(self) -> bool:
        return self.broker.left_over() == []


def with_second(word: str = "stale-route") -> tuple[Ingress, Wire]:
    """The request is at b2, b3 may get it instead, and b2 answers with that word."""
    ingress = Ingress()
    ingress.ask()
    b3 = ingress.second()
    ingress.b2.fail(2, REJECTED, f"{word}: a sentence")
    return ingress, b3


@pytest.mark.parametrize("word", ["stale-route", "loop", "no-lease", "draining", "over-limit", "too-many-hops"])
def test_a_request_that_another_broker_refuses_goes_elsewhere_once(word: str) -> None:
    """D-50."""
    ingress, b3 = with_second(word)
    assert ingress.caller.received() == []
    sent = b3.one()
    assert apart(sent)[0].to_override == to_route(8)
    assert sent.data == b"data"
    assert ingress.broker.annotations.retried_n == 1
    b3.answer(2, b"answer")
    assert ingress.caller.one() == Frame(frames.encode_payload(1, NEXT | frames.COMPLETE, b"answer"))
    assert ingress.is_clean()
    [flow] = ingress.broker.flows()
    assert (flow.requests, flow.outcome, flow.route_id) == (1, "completed", to_route(8)[6:])


def test_the_second_refusal_is_the_callers() -> None:
    ingress, b3 = with_second()
    ingress.broker.far(ingress.broker.remote("b4", ingress.broker.link("b4")), "orders", 9)
    b3.fail(2, REJECTED, STALE)
    assert ingress.caller.received() == [error(1, REJECTED, STALE)]
    assert (ingress.broker.annotations.retried_n, ingress.is_clean()) == (1, True)


@pytest.mark.parametrize(
    ("code", "text"),
    [(REJECTED, "no-route: a service says so"), (APPLICATION_ERROR, STALE), (CANCELED, STALE), (REJECTED, "stale")],
)
def test_other_errors_are_answers(code: int, text: str) -> None:
    ingress = Ingress()
    ingress.ask()
    b3 = ingress.second()
    ingress.b2.fail(2, code, text)
    assert (ingress.caller.received(), b3.received()) == ([error(1, code, text)], [])
    assert ingress.is_clean()


def test_without_anybody_else_the_caller_gets_what_the_other_broker_said() -> None:
    ingress = Ingress()
    ingress.ask()
    ingress.b2.fail(2, REJECTED, STALE)
    assert ingress.caller.received() == [error(1, REJECTED, STALE)]
    assert (ingress.broker.annotations.retried_n, ingress.is_clean()) == (0, True)


def test_the_second_try_may_stay_here() -> None:
    ingress = Ingress()
    raw = ingress.ask()
    service = ingress.broker.service("orders", 8, data_mime=DATA_MIME)
    ingress.b2.fail(2, REJECTED, STALE)
    assert service.received() == [moved(raw, 2)]


def test_a_route_that_has_moved_is_found_where_it_is_now() -> None:
    ingress = Ingress()
    ingress.ask()
    b3 = ingress.broker.link("b3")
    ingress.broker.far(ingress.broker.remote("b3", b3), "orders", 7)  # in the place of the old one
    ingress.b2.fail(2, REJECTED, STALE)
    assert apart(b3.one())[0].to_override == to_route(7)


@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_credit_that_came_meanwhile_goes_with_it(kind: int) -> None:
    ingress = Ingress()
    ingress.ask(kind, n=4)
    b3 = ingress.second()
    ingress.caller.ask(1, 3)
    ingress.caller.ask(1, 2)
    ingress.b2.fail(2, REJECTED, STALE)
    first, second = b3.received()
    assert (first.n, second) == (4, asked(2, 5))


@pytest.mark.parametrize("is_relieved_first", [True, False])
@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_credit_of_a_caller_that_reads_slowly_goes_with_it_once(kind: int, is_relieved_first: bool) -> None:
    """It is held back until the caller has read, which may be before or after the second try."""
    ingress = Ingress()
    ingress.ask(kind, n=4)
    b3 = ingress.second()
    ingress.caller.ask(1, 3)
    ingress.caller.block()
    ingress.caller.ask(1, 5)
    if is_relieved_first:
        ingress.caller.unblock()
    ingress.b2.fail(2, REJECTED, STALE)
    ingress.caller.unblock()
    assert ingress.b2.received() == [asked(2, n) for n in ([3, 5] if is_relieved_first else [3])]
    assert [frame.n for frame in b3.received()] == [4, 8]
    assert ingress.caller.peer.held_credit == {}


@pytest.mark.parametrize("kind", ANSWERED)
def test_an_answer_ends_the_chance_of_a_second_try(kind: int) -> None:
    ingress = Ingress()
    ingress.ask(kind)
    b3 = ingress.second()
    ingress.b2.send(frames.encode_payload(2, NEXT | FOLLOWS, b"half an"))
    assert ingress.caller.peer.waiting_bytes == 0
    ingress.b2.fail(2, REJECTED, STALE)
    assert (ingress.caller.received()[1:], b3.received()) == ([error(1, REJECTED, STALE)], [])
    assert ingress.is_clean()


def test_items_that_came_meanwhile_end_it_too() -> None:
    ingress = Ingress()
    ingress.ask(REQUEST_CHANNEL)
    b3 = ingress.second()
    ingress.caller.send(frames.encode_payload(1, NEXT, b"item"))
    ingress.b2.fail(2, REJECTED, STALE)
    assert (ingress.caller.received(), b3.received()) == ([error(1, REJECTED, STALE)], [])


def test_a_request_in_fragments_has_no_second_try() -> None:
    ingress = Ingress()
    b3 = ingress.second()
    ingress.caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"da", addressed(ORDERS), 0, FOLLOWS))
    ingress.caller.send(frames.encode_payload(1, NEXT, b"ta"))
    taken, other = (ingress.b2, b3) if ingress.b2.received() else (b3, ingress.b2)
    other.received()
    taken.fail(2, REJECTED, STALE)
    assert (ingress.caller.received(), other.received()) == ([error(1, REJECTED, STALE)], [])


def test_cancel_and_loss_leave_nothing_behind() -> None:
    for end in ("cancel", "lose the link", "lose the caller"):
        ingress = Ingress()
        ingress.ask()
        if end == "cancel":
            ingress.caller.cancel(1)
            assert ingress.b2.received() == [cancelled(2)]
        elif end == "lose the link":
            ingress.b2.lose()
            text = "route-lost: the connection of orders went away before the request ended"
            assert ingress.caller.received() == [error(1, CANCELED, text)]
        else:
            ingress.caller.lose()
            assert ingress.b2.received() == [cancelled(2)]
        assert ingress.is_clean()


def test_a_request_that_ends_because_too_much_waits_leaves_nothing_behind() -> None:
    """What was kept of it would count for its connection for good, and keep all others from a second try."""
    ingress = Ingress(CoreSettings(max_buffered_bytes=10_000))
    ingress.b2.block()
    for number in range(20):
        ingress.caller.request(REQUEST_RESPONSE, 1 + 2 * number, ORDERS, bytes(1000))
    ended = [frame.stream_id for frame in ingress.caller.received()]
    assert 0 < len(ended) < 20
    for stream_id in set(ingress.caller.peer.streams):
        ingress.caller.cancel(stream_id)
    assert ingress.is_clean()


def test_cancel_after_the_second_try_goes_to_where_the_request_is() -> None:
    ingress, b3 = with_second()
    b3.received()
    ingress.caller.cancel(1)
    assert (b3.received(), ingress.b2.received()) == ([cancelled(2)], [])
    assert ingress.is_clean()


def test_what_is_kept_for_a_second_try_is_bounded_and_counted() -> None:
    """What the caller has waiting counts for both: beyond the bound a request goes out, and is not kept."""
    size = len(frames.encode_request(REQUEST_RESPONSE, 1, b"data", addressed(ORDERS), 4))
    ingress = Ingress(CoreSettings(max_waiting_bytes=size + FRAME_COST))
    ingress.ask()
    assert ingress.caller.peer.waiting_bytes == size + FRAME_COST
    ingress.caller.request(REQUEST_RESPONSE, 3, ORDERS, b"data")
    assert len(ingress.b2.received()) == 1
    b3 = ingress.second()
    ingress.b2.fail(4, REJECTED, STALE)
    assert (ingress.caller.received(), b3.received()) == ([error(3, REJECTED, STALE)], [])
    ingress.b2.fail(2, REJECTED, STALE)
    assert len(b3.received()) == 1
    assert ingress.caller.peer.waiting_bytes == 0


def test_the_deadline_is_that_of_the_first_try() -> None:
    """D-41."""
    ingress = Ingress()
    raw = address(hints=[(Key.text("deadline_ms"), "2000")], service="orders")
    ingress.ask(raw=raw)
    b3 = ingress.second()
    ingress.broker.advance(1.0)
    ingress.b2.fail(2, REJECTED, STALE)
    b3.received()
    ingress.broker.advance(0.9)
    assert ingress.caller.received() == []
    ingress.broker.advance(0.2)
    assert ingress.caller.one().text == "deadline: orders has not ended the request within 2.000 s"
    assert b3.received() == [cancelled(2)]
    assert ingress.is_clean()


def keyed(customer: str) -> bytes:
    return address(SHARD, [(SHARD_KEY, "customer")], service="orders", customer=customer)


def test_a_key_goes_to_nobody_else_while_the_table_stays_as_it_is() -> None:
    """D-50: it has one owner."""
    ingress = Ingress()
    b3 = ingress.second()
    links = {True: (ingress.b2, b3), False: (b3, ingress.b2)}
    ingress.caller.request(REQUEST_RESPONSE, 1, keyed("1"))
    owner, other = links[bool(ingress.b2.received())]
    other.received()
    owner.fail(2, REJECTED, STALE)
    assert (ingress.caller.received(), other.received()) == ([error(1, REJECTED, STALE)], [])


def test_a_key_goes_to_its_new_owner_when_the_table_has_changed() -> None:
    """D-50."""
    ingress = Ingress()
    ingress.ask(raw=keyed("1"))
    b3 = ingress.second()
    ingress.broker.core.table.leave(ingress.route)
    ingress.b2.fail(2, REJECTED, STALE)
    assert apart(b3.one())[0].to_override == to_route(8)


def test_a_refused_fire_and_forget_is_gone() -> None:
    ingress = Ingress()
    ingress.ask(REQUEST_FNF)
    assert ingress.is_clean()

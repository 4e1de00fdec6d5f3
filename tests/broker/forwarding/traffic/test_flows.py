"""Flow records: every request is counted once, under its outcome, with exact numbers; everything is bounded."""

from base64 import b64encode

import pytest

from broker.core import CoreSettings
from broker.events import FlowRecord, bucket_of
from broker.forwarding.traffic import flows
from broker.forwarding.traffic.request_log import RequestLog
from broker.routing.health.loads import ServiceLoad
from broker.routing.policies import Policy
from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.table import Table
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST
from rsocket_wire.wire.keys import SHARD_KEY, Key
from tests.broker.forwarding.pairs import ANSWERED, MODELS, Pair
from tests.fakes import START_MS, World, address, addressed, cancelled, fragments, raw_frame

ORDERS = address(service="orders")
NAMES = {4: "request_response", 5: "fire_and_forget", 6: "request_stream", 7: "request_channel"}


def outcome(record: FlowRecord) -> tuple[str, str, int, int, int]:
    return record.outcome, record.word, record.requests, record.items_in, record.items_out


def test_a_record_says_who_called_whom_and_how_it_went() -> None:
    world = World()
    service = world.service("orders", 1, region="eu")
    caller = world.service("web", 2)
    asked = address(service="orders", region="eu")
    raw = caller.request(REQUEST_RESPONSE, 1, asked)
    world.now += 0.25
    service.answer(2, b"answer")
    (record,) = world.flows()
    answer = frames.encode_payload(2, NEXT | COMPLETE, b"answer")
    assert (
        record.row()
        == FlowRecord(
            seq=6,  # behind BrokerStarted, and PeerConnected and RouteJoined of both
            at_ms=START_MS + 1000,
            interval_ms=1000,
            caller_route="00000000-0000-0000-0000-000000000002",
            caller_service="web",
            principal="",
            route_id="00000000-0000-0000-0000-000000000001",
            service="orders",
            address="service=orders region=eu",
            model="request_response",
            routing="unicast",
            outcome="completed",
            word="",
            emptied_by="",
            requests=1,
            branches=1,
            items_in=1,
            items_out=1,
            bytes_in=len(raw),
            bytes_out=len(answer),
            latency_sum_us=250_000,
            latency_max_us=250_000,
            histogram=[(bucket_of(250_000), 1)],
            address_frame=b64encode(asked[:6] + bytes(16) + asked[22:]).decode(),
        ).row()
    )


def test_a_caller_without_a_route_has_no_name() -> None:
    pair = Pair()
    pair.open(REQUEST_FNF)
    (record,) = pair.world.flows()
    assert (record.caller_route, record.caller_service) == ("", "")


@pytest.mark.parametrize("kind", ANSWERED)
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("answer", ("completed", "", 1, 1, 1)),
        ("error", ("error", "", 1, 1, 0)),
        ("cancel", ("cancelled", "", 1, 1, 0)),
        ("caller lost", ("caller_lost", "", 1, 1, 0)),
        ("route lost", ("route_lost", "", 1, 1, 0)),
    ],
)
def test_every_end_of_a_request_is_an_outcome(kind: int, end: str, expected: tuple[str, str, int, int, int]) -> None:
    pair = Pair()
    pair.open(kind, flags=COMPLETE if kind == REQUEST_CHANNEL else 0)
    if end == "answer":
        pair.service.answer(2, b"yes")
    elif end == "error":
        pair.service.fail(2, 0x201, "no")
    elif end == "cancel":
        pair.caller.cancel(1)
    elif end == "caller lost":
        pair.caller.lose()
    else:
        pair.service.lose()
    (record,) = pair.world.flows()
    assert outcome(record) == expected
    assert record.model == NAMES[kind]


@pytest.mark.parametrize("kind", MODELS)
def test_a_refused_request_is_counted_with_its_word(kind: int) -> None:
    pair = Pair()
    pair.caller.request(kind, 1, address(service="stock"))
    (record,) = pair.world.flows()
    assert outcome(record) == ("rejected", "no-route", 1, 0, 0)
    assert (record.service, record.address, record.route_id) == ("stock", "service=stock", "")
    assert record.model == NAMES[kind]


def test_refusals_with_different_words_are_different_flows() -> None:
    pair = Pair(settings=CoreSettings(max_streams_per_connection=1))
    pair.caller.request(REQUEST_STREAM, 1, ORDERS, n=0)
    pair.open(REQUEST_RESPONSE)
    pair.caller.request(REQUEST_RESPONSE, 3, ORDERS)
    pair.caller.request(REQUEST_RESPONSE, 5, ORDERS)
    pair.service.answer(2, b"")
    pair.caller.request(REQUEST_RESPONSE, 7, address(flags=0xC0, service="orders"))
    pair.caller.request(REQUEST_RESPONSE, 9, address(service="stock"))
    rejected = [(record.word, record.requests) for record in pair.world.flows() if record.outcome == "rejected"]
    assert sorted(rejected) == [("bad-address", 1), ("bad-request", 1), ("no-route", 1), ("over-limit", 2)]


@pytest.mark.parametrize("routing", [UNICAST, SHARD, MULTICAST])
@pytest.mark.parametrize("kind", ANSWERED)
def test_a_deadline_that_the_broker_ends_is_an_error_with_its_word(kind: int, routing: int) -> None:
    pair = Pair()
    hints = [(Key.text("deadline_ms"), "500"), (SHARD_KEY, "service")]
    pair.caller.request(kind, 1, address(routing, hints=hints, service="orders"))
    pair.world.advance(0.5)
    (record,) = pair.world.flows()
    assert outcome(record) == ("error", "deadline", 1, 1, 0)
    route = "" if routing == MULTICAST else "00000000-0000-0000-0000-000000000001"
    assert (record.service, record.route_id, record.model) == ("orders", route, NAMES[kind])
    totals = pair.world.core.engine.flows.totals
    assert [(key[0], *key[3:], counts.requests) for key, counts in totals.items()] == [
        ("orders", "error", "deadline", 1)
    ]


@pytest.mark.parametrize("routing", [UNICAST, MULTICAST])
def test_a_channel_whose_route_has_completed_and_whose_caller_has_not_has_the_word_of_its_deadline(
    routing: int,
) -> None:
    pair = Pair()
    hints = [(Key.text("deadline_ms"), "500")]
    pair.caller.request(REQUEST_CHANNEL, 1, address(routing, hints=hints, service="orders"))
    pair.service.send(frames.encode_request_n(2, 1))
    pair.service.answer(2, b"", COMPLETE)
    pair.caller.received()
    pair.world.advance(0.5)
    assert pair.caller.received() == [cancelled(1)]
    assert [outcome(record) for record in pair.world.flows()] == [("error", "deadline", 1, 1, 0)]


def test_errors_of_a_route_and_deadlines_of_the_same_requests_are_different_flows() -> None:
    pair = Pair()
    asked = address(hints=[(Key.text("deadline_ms"), "500")], service="orders")
    for stream_id in (1, 3, 5):
        pair.caller.request(REQUEST_RESPONSE, stream_id, asked)
    pair.service.fail(2, 0x201, "no")
    pair.world.advance(0.5)
    records = pair.world.flows()
    assert sorted(outcome(record)[:3] for record in records) == [("error", "", 1), ("error", "deadline", 2)]
    assert len({(record.address, record.address_frame, record.route_id) for record in records}) == 1
    pair.caller.request(REQUEST_RESPONSE, 7, asked)
    pair.world.advance(0.5)
    assert [outcome(record)[:3] for record in pair.world.flows()] == [("error", "deadline", 1)]  # of the next interval


def test_a_request_that_began_in_an_earlier_interval_has_the_word_of_its_deadline() -> None:
    pair = Pair()
    pair.caller.request(REQUEST_STREAM, 1, address(hints=[(Key.text("deadline_ms"), "3000")], service="orders"))
    pair.world.advance(1)
    assert pair.world.flows() == []
    pair.world.advance(1)
    assert [outcome(record) for record in pair.world.flows()] == [("error", "deadline", 1, 1, 0)]


def test_a_multicast_whose_items_pass_the_limit_is_an_error_with_that_word() -> None:
    world = World(CoreSettings(multicast_buffer_bytes=1000))
    services = [world.service("orders", number) for number in (1, 2, 3)]
    caller = world.caller()
    caller.request(REQUEST_STREAM, 1, address(MULTICAST, service="orders"), n=1)
    for service in services:
        service.answer(2, bytes(600), NEXT)
    (record,) = world.flows()
    assert outcome(record) == ("error", "over-limit", 1, 1, 1)


def test_items_and_bytes_of_a_channel_are_exact() -> None:
    pair = Pair()
    raw = pair.open(REQUEST_CHANNEL)
    sent = [
        frames.encode_payload(1, NEXT, b"second"),
        frames.encode_payload(1, NEXT | frames.FOLLOWS, b"th"),
        frames.encode_payload(1, NEXT, b"ird"),
        frames.encode_request_n(1, 4),
        frames.encode_payload(1, COMPLETE),
    ]
    answered = [
        frames.encode_request_n(2, 4),
        frames.encode_payload(2, NEXT, b""),
        frames.encode_payload(2, NEXT | frames.FOLLOWS, b"tw"),
        frames.encode_payload(2, 0, b"o"),
        frames.encode_payload(2, NEXT | COMPLETE, b"three"),
    ]
    pair.caller.send(*sent)
    pair.service.send(*answered)
    (record,) = pair.world.flows()
    assert outcome(record) == ("completed", "", 1, 3, 3)
    assert record.bytes_in == len(raw) + sum(len(frame) for frame in sent)
    assert record.bytes_out == sum(len(frame) for frame in answered)


@pytest.mark.parametrize(
    ("kind", "flags", "items_n"), [(REQUEST_STREAM, [NEXT, COMPLETE], 1), (REQUEST_RESPONSE, [COMPLETE], 0)]
)
def test_a_completion_without_an_item_is_no_item(kind: int, flags: list[int], items_n: int) -> None:
    pair = Pair()
    pair.open(kind)
    for each in flags:
        pair.service.answer(2, b"", each)
    (record,) = pair.world.flows()
    assert outcome(record) == ("completed", "", 1, 1, items_n)


def test_the_bytes_of_an_error_are_counted() -> None:
    pair = Pair()
    pair.open(REQUEST_RESPONSE)
    pair.service.fail(2, 0x201, "because")
    (record,) = pair.world.flows()
    assert record.bytes_out == len(frames.encode_error(2, 0x201, "because"))


@pytest.mark.parametrize("routing", [UNICAST, MULTICAST])
def test_bytes_are_those_of_requests_payloads_and_errors_and_of_request_n_where_it_passes(routing: int) -> None:
    """As the columns say: CANCEL, extensions and what the broker makes itself count nowhere."""
    pair = Pair()
    raw = pair.caller.request(REQUEST_CHANNEL, 1, address(routing, service="orders"), n=1)
    more, item = frames.encode_request_n(1, 7), frames.encode_payload(1, NEXT, b"more")
    pair.service.send(frames.encode_request_n(2, 7), raw_frame(frames.EXT, frames.IGNORE, bytes(4), 2))
    pair.caller.send(more, item, raw_frame(frames.EXT, frames.IGNORE, bytes(4), 1))
    answer = frames.encode_payload(2, NEXT, b"answer")
    pair.service.send(answer)
    pair.caller.cancel(1)
    (record,) = pair.world.flows()
    credit_bytes = len(more) if routing == UNICAST else 0
    assert record.outcome == "cancelled"
    assert (record.bytes_in, record.bytes_out) == (len(raw + item) + credit_bytes, len(answer) + credit_bytes)


@pytest.mark.parametrize("kind", MODELS)
def test_a_fragmented_request_is_one_item(kind: int) -> None:
    pair = Pair()
    metadata = addressed(ORDERS)
    pieces = fragments(kind, 1, metadata, bytes(50), [20, 90, 100], last_flags=NEXT)
    pair.caller.send(*pieces)
    if kind != REQUEST_FNF:
        pair.caller.cancel(1)
    (record,) = pair.world.flows()
    assert (record.requests, record.items_in, record.bytes_in) == (1, 1, sum(len(raw) for raw in pieces))


@pytest.mark.parametrize("kind", MODELS)
def test_a_multicast_is_one_request_without_a_route_of_its_own(kind: int) -> None:
    world = World()
    services = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    raw = caller.request(kind, 1, address(MULTICAST, service="orders"), flags=COMPLETE if kind == 7 else 0)
    for service in services:
        service.answer(2, b"yes")
    (record,) = world.flows()
    items_out = {REQUEST_RESPONSE: 1, REQUEST_FNF: 0}.get(kind, 2)
    assert outcome(record) == ("completed", "", 1, 1, items_out)
    assert (record.routing, record.route_id, record.service) == ("multicast", "", "orders")
    assert record.bytes_in == len(raw)
    assert [route.load.requests for route in world.core.table.routes()] == [1, 1]


def test_a_multicast_without_an_item_counts_none() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = world.caller()
    for stream_id, kind in ((1, REQUEST_RESPONSE), (3, REQUEST_STREAM), (5, REQUEST_CHANNEL)):
        caller.request(kind, stream_id, address(MULTICAST, service="orders"))
        service.answer(stream_id + 1, b"", COMPLETE)
    caller.send(frames.encode_payload(5, COMPLETE))
    assert [outcome(record)[2:] for record in world.flows()] == [(1, 1, 0)] * 3


def test_latencies_fall_into_their_buckets() -> None:
    pair = Pair()
    for number, seconds in enumerate((0.0, 0.001, 0.001, 0.5)):
        stream_id = number * 2 + 1
        pair.caller.request(REQUEST_RESPONSE, stream_id, ORDERS)
        pair.world.now += seconds
        pair.service.answer(stream_id + 1, b"")
    (record,) = pair.world.flows()
    assert sum(count for _, count in record.histogram) == record.requests == 4
    assert [count for _, count in record.histogram] == [1, 2, 1]
    assert abs(record.latency_sum_us - 502_000) <= 4
    assert abs(record.latency_max_us - 500_000) <= 1


def test_a_request_is_counted_in_the_interval_in_which_it_ends() -> None:
    pair = Pair()
    pair.open(REQUEST_STREAM)
    assert pair.world.flows() == []
    pair.caller.request(REQUEST_STREAM, 3, ORDERS)
    pair.service.answer(4, b"")
    assert [record.requests for record in pair.world.flows()] == [1]
    pair.caller.request(REQUEST_STREAM, 5, ORDERS)
    pair.service.answer(2, b"")
    pair.service.answer(6, b"")
    assert sum(record.requests for record in pair.world.flows()) == 2
    assert pair.world.flows() == []


def test_requests_of_a_connection_whose_route_changed_are_counted_apart() -> None:
    world = World()
    world.service("orders", 1)
    caller = world.service("web", 2)
    caller.request(REQUEST_FNF, 1, ORDERS)
    caller.announce(3, "shop")
    caller.request(REQUEST_FNF, 3, ORDERS)
    assert [(record.caller_service, record.requests) for record in world.flows()] == [("web", 1), ("shop", 1)]


# Bounds

NO_SINGLES = RequestLog(Query(Table(), Rng(1)))


class Book:
    """A table of flows that one caller fills, all with fire-and-forgets."""

    def __init__(self) -> None:
        self.services: dict[str, ServiceLoad] = {}  # that have routes
        self.table = flows.FlowTable(NO_SINGLES, self.services)
        self.owner: dict[int, flows.Flow] = {}
        self.intervals_n = 0

    def open(self, key: int, service: str = "orders", word: str = "") -> flows.Flow:
        texts = flows.FlowTexts(service=service, model="fire_and_forget", routing="unicast", word=word)
        return self.table.open(self.owner, key, texts)

    def count(self, key: int, service: str = "orders", outcome: int = flows.COMPLETED) -> None:
        """A request of 5 µs with two items and 20 bytes in return."""
        self.open(key, service).count(outcome, 5, 1, 2, 10, 20, 0.0, 1, 1)

    def refuse(self, key: int, service: str, word: str = "no-route") -> None:
        self.open(key, service, word).count(flows.REJECTED, 0, 0, 0, 0, 0, 0.0, 0, 0)

    def has_routes(self, service: str) -> None:
        self.services[service] = ServiceLoad(service, Policy())

    def end(self) -> list[FlowRecord]:
        """The records of an interval."""
        self.intervals_n += 1
        self.table.end_interval()
        return self.table.take_records(self.intervals_n, 0, 1000)

    def totals(self) -> dict[tuple[str, str, str], int]:
        """Requests by service, outcome and word."""
        return {(key[0], *key[3:]): counts.requests for key, counts in self.table.totals.items()}


def test_flows_beyond_the_bound_are_counted_together() -> None:
    book = Book()
    for key in range(flows.MAX_FLOWS):
        book.count(key)
    for key in range(3):
        book.count(flows.MAX_FLOWS + key, outcome=flows.FAILED)
    assert len(book.owner) == flows.MAX_FLOWS
    records = book.end()
    assert [record.seq for record in records] == list(range(1, flows.MAX_FLOWS + 2))
    assert (records[-1].service, records[-1].outcome, records[-1].requests) == ("", "error", 3)
    assert book.owner == {}
    assert book.open(1) is book.owner[1]  # a new interval has room again


def test_totals_beyond_the_bound_are_counted_without_the_service() -> None:
    book = Book()
    for key in range(flows.MAX_TOTALS + 3):
        book.count(key, f"service-{key}")
    book.end()
    assert (len(book.totals()), book.totals()["", "completed", ""]) == (flows.MAX_TOTALS + 1, 3)


def test_services_that_are_gone_give_their_names_in_the_totals_to_those_that_are_there() -> None:
    book = Book()
    book.has_routes("service-7")  # the only one of them that still has a route
    for key in range(flows.MAX_TOTALS):
        book.count(key, f"service-{key}")
    book.end()
    book.has_routes("payments")
    for key, name in enumerate(("gone-too", "payments", "gone-as-well")):
        book.count(key, name, flows.FAILED)
    book.end()
    gone_n = flows.MAX_TOTALS - 1
    assert list(book.totals().items()) == [
        (("service-7", "completed", ""), 1),
        (("", "error", ""), 1),
        (("", "completed", ""), gone_n),
        (("payments", "error", ""), 1),
        (("gone-as-well", "error", ""), 1),
    ]
    rest = book.table.totals["", "fire_and_forget", "unicast", "completed", ""]
    assert (rest.items_out, rest.bytes_out) == (2 * gone_n, 20 * gone_n)
    assert (rest.histogram, rest.latency_sum_us) == ({bucket_of(5): gone_n}, 5 * gone_n)


def test_names_that_were_only_refused_are_given_to_services_that_are_there() -> None:
    book = Book()
    for key in range(flows.MAX_REFUSED_TOTALS):
        book.refuse(key, f"made-up-{key}")
    book.end()
    book.has_routes("payments")
    book.refuse(1, "payments", "over-limit")
    book.end()
    assert book.totals() == {
        ("", "rejected", "no-route"): flows.MAX_REFUSED_TOTALS,
        ("payments", "rejected", "over-limit"): 1,
    }


def test_names_of_services_that_nobody_has_do_not_crowd_out_those_that_are_there() -> None:
    book = Book()
    for key in range(flows.MAX_TOTALS + 3):
        book.refuse(key, f"made-up-{key}")
    book.count(flows.MAX_TOTALS + 3)
    book.end()
    assert len(book.totals()) == flows.MAX_REFUSED_TOTALS + 2
    assert book.totals()["orders", "completed", ""] == 1
    assert book.totals()["", "rejected", "no-route"] == flows.MAX_TOTALS + 3 - flows.MAX_REFUSED_TOTALS


def test_deadlines_count_among_the_totals_of_services_that_are_there() -> None:
    book = Book()
    for key in range(flows.MAX_REFUSED_TOTALS + 3):
        book.open(key, f"service-{key}").ended_with("deadline").count(flows.FAILED, 1, 1, 0, 10, 0, 0.0, 1, 1)
    book.end()
    assert len(book.totals()) == flows.MAX_REFUSED_TOTALS + 3


def test_an_interval_without_requests_has_no_records() -> None:
    world = World()
    world.flows()
    assert world.flows() == []


def test_many_flows_become_records_a_part_at_a_time_and_each_once() -> None:
    """As many as a peer can make with ever new addresses would stop all others at the end of an interval."""
    book = Book()
    for key in range(30_000):
        book.count(key)
    book.table.end_interval()
    book.count(30_000)
    sizes = []
    while book.table.over:
        sizes.append(len(book.table.take_records(1, 0, 1000, False)))
    assert sizes == [flows.TAKEN_N] * (30_000 // flows.TAKEN_N)
    assert len(book.end()) == 1
    assert book.owner == {}

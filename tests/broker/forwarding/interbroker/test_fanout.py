"""Multicast across brokers: each route gets it once, each link one copy (D-51)."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import APPLICATION_ERROR, CANCELED, INVALID, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.annotations import Annotations
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST
from tests.broker.forwarding.brokers import DATA_MIME, Broker, annotated, apart, caller_mimes, section
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import Frame, address, addressed, composite, error, fragments, moved

TO_ALL = address(MULTICAST, service="orders")
REST = addressed(TO_ALL, ("text/plain", b"more"))
STALE = "stale-route: nobody is here"


class Star:
    """b1 with route 1; b2 and b3 behind one link, b4 behind another; each has routes of `orders`."""

    def __init__(self, settings: CoreSettings | None = None) -> None:
        self.broker = Broker("b1", settings)
        self.service = self.broker.service("orders", 1, data_mime=DATA_MIME)
        self.left, self.right = self.broker.link("b2"), self.broker.link("b4")
        for name, link, number in (("b2", self.left, 2), ("b3", self.left, 3), ("b4", self.right, 4)):
            remote = self.broker.remote(name, link)
            self.broker.far(remote, "orders", number)
            self.broker.far(remote, "orders", number + 10)
        self.caller = self.broker.caller(data_mime=DATA_MIME)

    def ask(self, kind: int, n: int = 8) -> list[Frame]:
        """A request to all on stream 1; what b1's route and both links got."""
        self.caller.request(kind, 1, TO_ALL, b"data", n)
        return [self.service.one(), self.left.one(), self.right.one()]


@pytest.mark.parametrize("kind", MODELS)
def test_each_link_gets_one_copy_for_all_brokers_behind_it(kind: int) -> None:
    """D-51."""
    star = Star()
    here, left, right = star.ask(kind)
    flags = 1 if kind in (REQUEST_STREAM, REQUEST_CHANNEL) else 0
    assert here.metadata == addressed(TO_ALL)
    assert apart(left) == (Annotations(flags, "broker:b2,b3", "b1", ["b1"]), [(MIME_TYPE, TO_ALL)])
    assert apart(right) == (Annotations(flags, "broker:b4", "b1", ["b1"]), [(MIME_TYPE, TO_ALL)])
    assert [frame.data for frame in (here, left, right)] == [b"data"] * 3
    if kind == REQUEST_FNF:
        assert star.broker.left_over() == []


def test_a_copy_that_finds_nobody_is_no_answer() -> None:
    """D-51."""
    star = Star()
    star.ask(REQUEST_RESPONSE)
    star.left.fail(2, REJECTED, STALE)
    star.right.fail(2, REJECTED, "loop: b1>b4>b1")
    assert star.caller.received() == []
    star.service.answer(2, b"answer")
    assert star.caller.one().data == b"answer"
    assert star.broker.left_over() == []


def test_when_every_copy_finds_nobody_the_caller_hears_it() -> None:
    star = Star()
    star.ask(REQUEST_RESPONSE)
    star.left.fail(2, REJECTED, STALE)
    star.right.fail(2, REJECTED, STALE)
    star.service.lose()
    text = "route-lost: all routes were lost before one of them answered"
    assert star.caller.received() == [error(1, CANCELED, text)]
    assert star.broker.left_over() == []


def test_an_error_of_a_service_behind_a_link_is_an_answer() -> None:
    star = Star()
    star.ask(REQUEST_RESPONSE)
    star.left.fail(2, APPLICATION_ERROR, "stale-route: says a service")
    assert star.caller.received() == [error(1, APPLICATION_ERROR, "stale-route: says a service")]


def test_items_of_all_brokers_become_one_stream_within_the_callers_credit() -> None:
    """D-14: credit is exact on every link."""
    star = Star()
    pieces = star.ask(REQUEST_STREAM, n=3)
    assert [frame.n for frame in pieces] == [1, 1, 1]
    star.service.send(frames.encode_payload(2, NEXT | COMPLETE, b"1"))
    star.left.send(frames.encode_payload(2, NEXT | COMPLETE, b"2"))
    star.right.fail(2, REJECTED, STALE)
    assert [frame.data for frame in star.caller.received()] == [b"1", b"2", b""]
    assert star.broker.left_over() == []


def test_fragments_go_to_every_copy_as_they_come() -> None:
    star = Star()
    star.caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", REST[:-3], 0, frames.FOLLOWS))
    later = frames.encode_payload(1, NEXT, b"data", REST[-3:])
    star.caller.send(later)
    for wire in (star.service, star.left, star.right):
        sent, behind = wire.received()
        assert sent.metadata is not None
        assert sent.metadata.endswith(REST[:-3])
        assert behind == moved(later, 2)


def test_a_caller_whose_metadata_is_the_address_reaches_all() -> None:
    star = Star()
    caller = star.broker.caller(metadata_mime=MIME_TYPE, data_mime="text/plain")
    caller.send(frames.encode_request(REQUEST_FNF, 1, b"", TO_ALL[:9], 0, frames.FOLLOWS))
    caller.send(frames.encode_payload(1, NEXT, b"data", TO_ALL[9:]))
    behind = [caller_mimes(MIME_TYPE, "text/plain"), (MIME_TYPE, TO_ALL)]
    assert apart(star.left.one())[1] == behind
    assert star.service.one().metadata == addressed(TO_ALL) + b"\xfa\x00\x00\x01\xa1"
    assert star.broker.left_over() == []


def test_a_push_to_all_goes_over_each_link_once() -> None:
    star = Star()
    star.caller.push(REST)
    said = [annotated(section(f"broker:{names}", "b1")) + REST for names in ("b2,b3", "b4")]
    assert star.left.one() == Frame(frames.encode_metadata_push(said[0]))
    assert star.right.one() == Frame(frames.encode_metadata_push(said[1]))
    assert star.service.one() == Frame(frames.encode_metadata_push(REST))


def test_a_push_to_one_route_of_another_broker_goes_over_its_link() -> None:
    broker = Broker()
    link = broker.link("b2")
    route = broker.far(broker.remote("b2", link), "orders", 7)
    rest = addressed(address(service="orders"))
    caller = broker.caller(data_mime=DATA_MIME)
    caller.push(rest)
    assert link.one() == Frame(frames.encode_metadata_push(annotated(section(f"route:{route.id_text}", "b1")) + rest))
    assert route.load.requests == 1
    link.lose()
    route.owner = broker.remote("b2", None)
    caller.push(rest)
    assert caller.received() == []


def test_a_redirect_goes_with_the_copies() -> None:
    """D-55."""
    star = Star()
    star.broker.core.query.set_redirects({"stock": "orders"})
    star.caller.request(REQUEST_FNF, 1, address(MULTICAST, service="stock"))
    assert apart(star.right.one())[0].to_override == "service:orders broker:b4"


@pytest.mark.parametrize("no_route", ["reject", "wait"])
def test_where_no_way_leads_to_anybody_it_says_so(no_route: str) -> None:
    broker = Broker("b1", CoreSettings(no_route=no_route))
    broker.far(broker.remote("b2", None), "orders", 2)
    caller = broker.caller()
    caller.request(REQUEST_STREAM, 1, TO_ALL)
    text = "no-route: no path leads to any broker with a route of this request"
    assert caller.received() == [error(1, REJECTED, text)]


# From other brokers


class Middle:
    """b2, with routes 1 and 2 of `orders`, between b1 and b3; b4 and b5 lie behind b3."""

    def __init__(self) -> None:
        self.broker = Broker("b2")
        self.services = [self.broker.service("orders", number, data_mime=DATA_MIME) for number in (1, 2)]
        self.before, self.behind = self.broker.link("b1"), self.broker.link("b3")
        for number, name in enumerate(("b3", "b4", "b5")):
            self.broker.far(self.broker.remote(name, self.behind), "orders", number + 3)
        self.broker.remote("b1", self.before)

    def copy(self, to: str | None, kind: int = REQUEST_STREAM, n: int = 6, rest: bytes = REST) -> list[Frame]:
        """A copy comes from b1; what b1 hears at once."""
        said = annotated(section(to, "b1", flags=0x41, extra=b"\x53\x07", extra_n=1))
        self.before.send(frames.encode_request(kind, 1, b"data", said + rest, n))
        return self.before.received()

    def heard(self) -> list[int]:
        """How many frames each service and b3 got."""
        return [len(wire.received()) for wire in (*self.services, self.behind)]


@pytest.mark.parametrize("kind", MODELS)
def test_who_is_named_gives_it_to_its_own_routes_and_one_copy_to_the_others(kind: int) -> None:
    """D-51."""
    middle = Middle()
    assert middle.copy("broker:b2,b4,b5", kind) == []
    for service in middle.services:
        got = service.one()
        assert (got.metadata, got.data) == (REST, b"data")
    said, rest = apart(middle.behind.one())
    assert said == Annotations(0x41, "broker:b4,b5", "b1", ["b1", "b2"], b"\x53\x07", 1)
    assert rest == [(MIME_TYPE, TO_ALL), ("text/plain", b"more")]
    assert middle.broker.annotations.hop_counts == [0, 1]


@pytest.mark.parametrize(("to", "heard", "hop_counts"), [("b4", [0, 0, 1], [0]), ("b2", [1, 1, 0], [0, 1])])
def test_who_is_not_named_only_passes_it_on_and_who_is_named_alone_keeps_it(
    to: str, heard: list[int], hop_counts: list[int]
) -> None:
    middle = Middle()
    middle.copy(f"broker:{to}")
    assert (middle.heard(), middle.broker.annotations.hop_counts) == (heard, hop_counts)


@pytest.mark.parametrize("to", ["broker:b9", "broker:b1"])
def test_a_copy_that_nobody_here_or_behind_wants_is_stale(to: str) -> None:
    """D-51; a copy never goes back either."""
    middle = Middle()
    text = "stale-route: b2 has no route for this multicast, and no path to the other brokers that it names"
    assert middle.copy(to) == [error(1, REJECTED, text)]
    assert middle.broker.refusals() == {"stale-route": 1}
    assert middle.heard() == [0, 0, 0]


def test_the_answers_of_one_part_of_the_cluster_are_one_stream_with_the_credit_of_the_link() -> None:
    middle = Middle()
    middle.copy("broker:b2,b4", n=3)
    for number, wire in enumerate((*middle.services, middle.behind)):
        assert wire.one().n == 1
        wire.send(frames.encode_payload(2, NEXT | COMPLETE, b"%d" % number))
    assert [frame.data for frame in middle.before.received()] == [b"0", b"1", b"2", b""]
    assert middle.broker.left_over() == []


def test_a_copy_for_a_redirected_service_finds_its_routes() -> None:
    """D-55."""
    middle = Middle()
    middle.copy("service:orders broker:b2", rest=addressed(address(MULTICAST, service="stock")))
    assert middle.heard() == [1, 1, 0]
    middle.copy("service:orders broker:b4", REQUEST_FNF, rest=addressed(address(MULTICAST, service="stock")))


def test_routes_of_other_mime_types_get_a_copy_that_they_can_read() -> None:
    """D-16."""
    middle = Middle()
    reader = middle.broker.service("orders", 9, metadata_mime=MIME_TYPE)
    mimes = composite(caller_mimes(COMPOSITE_MIME, "text/plain"))
    middle.copy("broker:b2", REQUEST_FNF, rest=mimes + addressed(TO_ALL))
    assert reader.one().metadata == TO_ALL
    assert [service.one().metadata for service in middle.services] == [
        addressed(TO_ALL) + b"\xfa\x00\x00\x01\xa1",
        addressed(TO_ALL) + b"\xfa\x00\x00\x01\xa1",
    ]


def test_a_multicast_about_which_nothing_was_decided_goes_to_all_who_had_it_not() -> None:
    """D-49."""
    middle = Middle()
    middle.copy(None)
    assert [len(service.received()) for service in middle.services] == [1, 1]
    assert apart(middle.behind.one())[0].to_override == "broker:b3,b4,b5"
    assert middle.before.received() == []


def test_a_push_copy_reaches_each_route_once() -> None:
    middle = Middle()
    middle.before.push(annotated(section("broker:b2,b4", "b1")) + REST)
    for service in middle.services:
        assert service.one() == Frame(frames.encode_metadata_push(REST))
    said = annotated(section("broker:b4", "b1", "b2")) + REST
    assert middle.behind.one() == Frame(frames.encode_metadata_push(said))


@pytest.mark.parametrize("kind", MODELS)
def test_metadata_that_grows_beyond_what_its_length_can_say_is_refused(kind: int) -> None:
    star = Star()
    empty = frames.encode_request(kind, 1, b"", addressed(TO_ALL, ("a/b", b"")), 8)
    filler = bytes(0xFFFFFF - len(empty))
    star.caller.send(frames.encode_request(kind, 1, b"", addressed(TO_ALL, ("a/b", filler)), 8))
    refused = [(frame.code, frame.text) for frame in star.caller.received()]
    text = "too-large: the request would have 16777298 bytes with metadata that orders can read"
    assert refused == ([] if kind == REQUEST_FNF else [(INVALID, text)])
    assert star.broker.left_over() == []


LARGE_DATA = bytes(0xFFFFFF - 60_000)


@pytest.mark.parametrize("is_stripped", [False, True])
def test_a_held_request_that_is_too_large_for_one_frame_is_refused_and_no_other(is_stripped: bool) -> None:
    """Its fragments would become one frame, for who cannot read them as they came, or without their annotations."""
    star = Star(CoreSettings(annotations_from_clients="strip" if is_stripped else "accept"))
    broker = star.broker
    if not is_stripped:
        broker.service("orders", 9, data_mime="text/x")
    entry = annotated(section("", "x")) if is_stripped else b""
    metadata = addressed(TO_ALL, ("a/b", bytes(100_000))) + entry
    for raw in fragments(REQUEST_RESPONSE, 1, metadata, LARGE_DATA, [len(metadata) - 10]):
        star.caller.send(raw)
    [refused] = star.caller.received()
    assert (refused.code, refused.text[:10]) == (INVALID, "too-large:")
    other = broker.caller(data_mime=DATA_MIME)
    for raw in fragments(REQUEST_RESPONSE, 1, metadata, b"data", [len(metadata) - 10]):
        other.send(raw)
    assert (other.received(), star.service.one().data) == ([], b"data")


def test_what_is_too_wide_is_refused_before_it_is_translated_for_anybody() -> None:
    star = Star(CoreSettings(max_buffered_bytes=20_000))
    star.broker.service("orders", 9, metadata_mime=MIME_TYPE)  # it cannot read the entry beside the ADDRESS
    star.caller.send(frames.encode_request(REQUEST_RESPONSE, 1, bytes(5000), REST))
    [refused] = star.caller.received()
    assert refused.text.startswith("over-limit: ")
    assert star.broker.core.engine.mime_pairs.lost_entries_n == 0

"""The last broker serves what another one has decided only while the route is what the ADDRESS asks for (D-62)."""

from typing import Any

import pytest

from broker.core import CoreSettings
from broker.forwarding.interbroker.annotations import MAX_NEAR_BYTES
from rsocket_wire.errors import REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, UNICAST, Address
from rsocket_wire.wire.keys import LB_METHOD, SHARD_KEY, STICKY_ROUTE_KEY, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.forwarding.brokers import DATA_MIME, Broker, annotated, apart, caller_mimes, section, to_route
from tests.broker.forwarding.pairs import ANSWERED, MODELS
from tests.fakes import Frame, address, addressed, composite, error, fragments, moved, route_id
from tests.topology import LINKED_S, line

TO = to_route(7)
HEAD = annotated(section(TO, "b1"))
OLD, NEW = address(service="old"), address(service="new")
MORE = ("text/plain", b"more")


def stale(label: str, number: int = 7) -> str:
    return f"stale-route: the route {to_route(number)[6:]} of b2 no longer matches {label}"


class Last:
    """b2, which has route 7, and a link to b1 on which requests for it come."""

    def __init__(self, settings: CoreSettings | None = None, service: str = "old", **tags: Any) -> None:
        self.broker = Broker("b2", settings)
        self.server = self.broker.service(service, 7, True, COMPOSITE_MIME, DATA_MIME, **tags)
        self.link = self.broker.link("b1")
        self._next_id = 1

    def ask(self, raw_address: bytes, kind: int = REQUEST_RESPONSE, head: bytes = HEAD, rest: bytes = b"") -> int:
        """A request of b1 with that ADDRESS; its stream id."""
        self._next_id += 2
        self.link.send(
            frames.encode_request(kind, self._next_id, b"data", head + addressed(raw_address, MORE) + rest, 8)
        )
        return self._next_id

    def serves(self, raw_address: bytes, head: bytes = HEAD) -> bool:
        """Whether route 7 gets a request with that ADDRESS; else it is refused."""
        stream_id = self.ask(raw_address, head=head)
        frames = self.server.received()
        if frames:
            assert [frame.metadata for frame in frames] == [addressed(raw_address, MORE)]
            assert self.link.received() == []
            self.server.answer(frames[0].stream_id, b"")
            self.link.one()
            return True
        refused = self.link.one()
        assert (refused.stream_id, refused.text.partition(":")[0], refused.code) == (stream_id, "stale-route", REJECTED)
        return False


@pytest.mark.parametrize("asked_n", [0, 1, 3])
@pytest.mark.parametrize("kind", ANSWERED)
def test_a_request_for_what_the_route_was_is_refused(kind: int, asked_n: int) -> None:
    """Also when the one before was like it, and was served."""
    last = Last()
    for _ in range(asked_n):
        last.ask(OLD, kind)
    assert len(last.server.received()) == asked_n
    last.server.announce(7, "new")
    for _ in range(2):
        stream_id = last.ask(OLD, kind)
        assert last.link.received() == [error(stream_id, REJECTED, stale("service=old"))]
    last.ask(NEW, kind)
    assert (len(last.server.received()), last.link.received()) == (1, [])
    assert last.broker.refusals() == {"stale-route": 2}


@pytest.mark.parametrize("asked_n", [0, 2])
def test_what_has_no_answer_is_decided_upon_once_more(asked_n: int) -> None:
    """D-50: nobody could be told."""
    last = Last()
    other = last.broker.service("old", 8, data_mime=DATA_MIME)
    for _ in range(asked_n):
        last.ask(OLD, REQUEST_FNF)
    last.server.received()
    last.server.announce(7, "new")
    last.ask(OLD, REQUEST_FNF)
    assert [frame.metadata for frame in other.received()] == [addressed(OLD, MORE)]
    last.link.push(HEAD + addressed(OLD, MORE))
    assert other.received() == [Frame(frames.encode_metadata_push(addressed(OLD, MORE)))]
    assert (last.server.received(), last.link.received(), last.broker.refusals()) == ([], [], {})


def test_and_goes_on_to_another_broker_where_that_has_it() -> None:
    last = Last()
    behind = last.broker.link("b3")
    last.broker.far(last.broker.remote("b3", behind), "old", 8)
    last.server.announce(7, "new")
    last.ask(OLD, REQUEST_FNF)
    assert apart(behind.one())[0].to_override == to_route(8)


def test_requests_with_different_addresses_do_not_help_each_other() -> None:
    last = Last(region="eu")
    eu, us = address(service="old", region="eu"), address(service="old", region="us")
    assert [last.serves(raw) for raw in (eu, us, eu, NEW, OLD, us, eu)] == [True, False, True, False, True, False, True]


@pytest.mark.parametrize("head", [HEAD, annotated(section(TO, "b0", "b1"))])
@pytest.mark.parametrize("between", [b"", composite(MORE), composite(MORE) * 3])
def test_of_several_addresses_the_last_one_says_what_is_asked_for(head: bytes, between: bytes) -> None:
    """D-69: also when all before it is like the latest request."""
    last = Last(region="eu")
    eu, us = address(service="old", region="eu"), address(service="old", region="us")
    for _ in range(2):
        assert last.serves(eu, head)
    for second, is_served in ((us, False), (eu, True), (OLD, True), (NEW, False)):
        last.link.send(
            frames.encode_request(REQUEST_RESPONSE, 1001, b"", head + addressed(eu) + between + addressed(second))
        )
        assert [len(last.server.received()), len(last.link.received())] == ([1, 0] if is_served else [0, 1])
        last.link.cancel(1001)
        last.server.received()
        assert last.serves(eu, head)


def test_callers_of_one_broker_are_told_apart_by_their_origins_and_by_nothing_else() -> None:
    """The origin takes no part in the answer: what is remembered of one caller's request is good for all of them."""
    last = Last()
    query = last.broker.core.query
    for number in range(1, 9):
        raw = Address(route_id(number), [Tag.of("service", "old")]).encode()
        assert last.serves(raw)
    assert (query.misses, query.hits) == (1, 0)


@pytest.mark.parametrize("more_bytes", [-1, 0, 1])
def test_what_is_longer_than_is_remembered_of_a_request_is_served_too(more_bytes: int) -> None:
    last = Last()
    head_bytes = len(HEAD) + len(addressed(address(UNICAST, wrapped=b"w", service="old"))) - 1
    raw = address(UNICAST, wrapped=bytes(MAX_NEAR_BYTES - head_bytes + more_bytes), service="old")
    assert len(HEAD + addressed(raw)) == MAX_NEAR_BYTES + more_bytes
    for number in range(3):
        assert last.serves(raw), number
        assert (last.broker.annotations.near is None) == (more_bytes > 0)
    last.server.announce(7, "new")
    assert not last.serves(raw)


@pytest.mark.parametrize(
    ("raw", "is_so_everywhere"),
    [
        (address(route_id=TO[6:]), True),
        (address(route_id=TO[6:].upper()), True),
        (address(route_id=f"Id{{{TO[6:]}}}"), True),
        (address(service="old", region="eu", zone=None), False),
        (address(SHARD, [(SHARD_KEY, "region")], region="eu", service="old"), True),
        (address(SHARD, [(SHARD_KEY, "user")], user="ada", service="old"), True),
        (address(SHARD, [(SHARD_KEY, "user")], user="ada", region="eu", service="old"), False),
        (address(UNICAST, [(STICKY_ROUTE_KEY, "user")], user="ada", service="old"), True),
        (address(UNICAST, [(LB_METHOD, "random"), (Key.text("deadline_ms"), "900")], service="old"), True),
        (address(UNICAST, wrapped=b"wrapped", service="old"), True),
        (Address(route_id(1), [Tag.of("service", "old"), Tag.of("lb_method", "random")]).encode(), True),
        (Address(route_id(1), [Tag.of("service", "old"), Tag.of("sticky_route_key", "service")]).encode(), True),
    ],
)
@pytest.mark.parametrize("is_strict", [False, True])
def test_every_way_to_ask_for_the_route_is_known(raw: bytes, is_so_everywhere: bool, is_strict: bool) -> None:
    """Whether hints among the tags are tags, the first broker has decided. D-12, D-18, D-22

    `is_so_everywhere`: the route is meant in any region, also where no route is in the one that is asked for.
    """
    last = Last(CoreSettings(strict_hints=is_strict), region="eu", zone="")
    assert [last.serves(raw) for _ in range(3)] == [True] * 3
    last.server.announce(7, "old", region="us")
    assert [last.serves(raw) for _ in range(2)] == [is_so_everywhere] * 2


def test_a_key_that_another_route_carries_now_is_no_key_of_this_one() -> None:
    """D-22: while no route has the tag, all are meant that have the others."""
    last = Last()
    raw = address(SHARD, [(SHARD_KEY, "user")], user="ada", service="old")
    assert [last.serves(raw) for _ in range(2)] == [True, True]
    ada = last.broker.service("old", 8, user="ada")
    assert [last.serves(raw) for _ in range(2)] == [False, False]
    ada.lose()
    assert [last.serves(raw) for _ in range(2)] == [True, True]


# Redirects


REDIRECTED = annotated(section(f"service:new {TO}", "b1"))


@pytest.mark.parametrize("redirects", [{}, {"old": "new"}, {"old": "other"}, {"new": "old"}])
def test_a_request_that_was_redirected_counts_as_one_for_that_service(redirects: dict[str, str]) -> None:
    """D-55: whatever this broker knows of redirects, the first one has decided."""
    last = Last(service="new")
    last.broker.core.query.set_redirects(redirects)
    assert [last.serves(OLD, REDIRECTED) for _ in range(3)] == [True] * 3
    assert not last.serves(OLD)
    last.server.announce(7, "old")
    assert [last.serves(OLD, REDIRECTED), last.serves(OLD, REDIRECTED)] == [False, False]
    assert [last.serves(OLD), last.serves(OLD)] == [True, True]  # it was not redirected


def test_a_redirect_that_was_heard_of_here_first_does_not_touch_what_is_under_way() -> None:
    last = Last()
    assert last.serves(OLD)
    last.broker.core.query.set_redirects({"old": "new"})
    assert [last.serves(OLD), last.serves(OLD)] == [True, True]
    last.broker.core.query.set_redirects({})
    assert last.serves(OLD)


def test_what_is_wrapped_and_differs_each_time_is_remembered_once() -> None:
    last = Last(service="new")
    query = last.broker.core.query
    for number in range(50):
        assert last.serves(address(UNICAST, wrapped=b"%d" % number, service="old"), REDIRECTED)
        assert last.serves(address(UNICAST, wrapped=b"%d" % number, service="new"))
    assert (len(query._decided), query.remembered()) == (1, 1)


def test_addresses_that_others_decided_upon_are_bounded() -> None:
    last = Last(CoreSettings(max_lookup_cache=3), service="new")
    query = last.broker.core.query
    for number in range(10):
        raw = address(service="old", region=str(number))
        assert not last.serves(raw, REDIRECTED)
        assert not last.serves(raw)
        assert max(len(query._decided), query.remembered()) <= 3


# Who else looks


def test_a_broker_on_the_way_does_not_look_at_the_address() -> None:
    """Only the last one knows for sure."""
    broker = Broker("b2")
    before, behind = broker.link("b1"), broker.link("b3")
    broker.far(broker.remote("b3", behind), "new", 7)
    before.send(frames.encode_request(REQUEST_RESPONSE, 1, b"data", HEAD + addressed(OLD)))
    assert apart(behind.one())[1] == [(MIME_TYPE, OLD)]
    assert before.received() == []


def test_a_copy_of_a_multicast_goes_to_the_routes_that_match_where_it_arrives() -> None:
    """D-51: nobody has decided upon them."""
    last = Last()
    copy = annotated(section("broker:b2", "b1"))
    raw = address(MULTICAST, service="old")
    last.ask(raw, REQUEST_FNF, copy)
    assert len(last.server.received()) == 1
    last.server.announce(7, "new")
    last.ask(raw, REQUEST_FNF, copy)
    assert last.server.received() == []


@pytest.mark.parametrize("mime", ["", MIME_TYPE])
def test_a_caller_whose_metadata_is_the_address_is_looked_at_alike(mime: str) -> None:
    last = Last()
    last.server = last.broker.service("old", 7, metadata_mime=mime or MIME_TYPE)
    said = composite(caller_mimes(mime or MIME_TYPE, "text/plain"))
    for is_stale in (False, True):
        if is_stale:
            last.server.announce(7, "new")
        last.link.send(frames.encode_request(REQUEST_RESPONSE, 5, b"data", HEAD + said + addressed(OLD)))
        assert [frame.metadata for frame in last.server.received()] == ([] if is_stale else [OLD])
        last.link.cancel(5)
        last.server.received()
    assert last.link.received() == [error(5, REJECTED, stale("service=old"))]


# Fragments


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("is_stale", [False, True])
def test_an_address_cut_anywhere_is_found_and_the_fragments_pass_as_they_came(kind: int, is_stale: bool) -> None:
    """D-15. What has no answer is decided upon once more, also then."""
    metadata = addressed(OLD, MORE)
    for at in range(1, len(metadata)):
        last = Last()
        other = last.broker.service("old", 8, data_mime="a/b")
        if is_stale:
            last.server.announce(7, "new")
        cuts = [at, at + (len(metadata) - at) // 2]
        expected = fragments(kind, 3, metadata, b"data", cuts)
        last.link.send(*fragments(kind, 3, HEAD + metadata, b"data", [len(HEAD) + cut for cut in cuts]))
        if not is_stale:
            assert last.server.received() == [moved(raw, 2) for raw in expected], at
            assert (last.link.received(), other.received()) == ([], [])
        elif kind == REQUEST_FNF:
            assert len(other.received()) >= 1
        else:
            assert last.link.received() == [error(3, REJECTED, stale("service=old"))], at
            assert other.received() == []
        assert last.broker.annotations.paths["b1>b2"].requests == 1
        if kind != REQUEST_FNF and not is_stale:
            last.link.cancel(3)
        assert last.broker.left_over() == []


@pytest.mark.parametrize("cut", [1, 5, 20, 40])
def test_a_route_that_leaves_or_changes_while_fragments_come(cut: int) -> None:
    for what in ("leaves", "changes", "moves", "reads otherwise"):
        last = Last()
        metadata = addressed(OLD, MORE)
        pieces = fragments(REQUEST_RESPONSE, 3, HEAD + metadata, b"data", [len(HEAD) + cut, len(HEAD) + len(metadata)])
        last.link.send(pieces[0])
        behind = last.broker.link("b3")
        if what == "leaves":
            last.server.lose()
        elif what == "changes":
            last.server.announce(7, "new")
        elif what == "moves":
            last.server.lose()
            last.broker.far(last.broker.remote("b3", behind), "old", 7)
        else:
            last.server.lose()
            last.server = last.broker.service("old", 7, metadata_mime=MIME_TYPE)
        last.link.send(*pieces[1:])
        if what == "moves":
            [frame] = behind.received()
            assert apart(frame)[1] == [(MIME_TYPE, OLD), MORE]
        elif what == "reads otherwise":
            [frame] = last.server.received()
            assert frame.metadata == address(wrapped=composite(MORE), service="old")
        else:
            assert last.link.one().text.startswith("stale-route: ")
            assert last.server.received() == []
        for wire in (last.link, last.server, behind):
            wire.lose()
        assert last.broker.left_over() == []


def test_more_of_an_address_than_is_held_is_refused_unless_both_of_its_maps_have_come() -> None:
    """D-70: what it wraps says nothing about the way."""
    metadata = addressed(address(UNICAST, wrapped=bytes(range(200)) * 3, service="old"))
    cuts = [len(HEAD) + 20, len(HEAD) + 40, *range(len(HEAD) + 100, len(HEAD) + len(metadata), 50)]
    pieces = fragments(REQUEST_RESPONSE, 3, HEAD + metadata, b"data", cuts)
    for limit, is_served in ((len(HEAD) + 40, False), (len(HEAD) + 110, True), (400, True)):
        last = Last(CoreSettings(max_metadata_bytes=limit))
        last.link.send(*pieces)
        if is_served:
            first = frames.encode_request(REQUEST_RESPONSE, 3, b"", metadata[:20], 0, FOLLOWS)
            assert last.server.received() == [moved(raw, 2) for raw in (first, *pieces[1:])], limit
            assert last.link.received() == []
        else:
            assert last.link.one().text.startswith("over-limit: no complete ADDRESS in ")
            assert last.server.received() == []
        assert last.link.peer.gathered_bytes == 0


@pytest.mark.parametrize("is_warm", [False, True])
def test_the_last_of_several_addresses_is_the_one_that_is_looked_at(is_warm: bool) -> None:
    """D-69: wherever the metadata is cut, and after a request that ended where this one is cut."""
    two = addressed(NEW, (MIME_TYPE, OLD), MORE)
    for cut in (0, 10, len(addressed(NEW)), len(addressed(NEW)) + 30, len(two) - 1, len(two), len(two) + 2):
        last = Last()
        if is_warm:
            last.ask(OLD)
            last.server.received()
        pieces = fragments(REQUEST_STREAM, 33, HEAD + two, b"data", [len(HEAD) + cut] if cut else [])
        last.link.send(*pieces)
        assert (b"".join([frame.metadata or b"" for frame in last.server.received()]), last.link.received()) == (
            two,
            [],
        )
        refused = fragments(REQUEST_STREAM, 35, HEAD + addressed(OLD, (MIME_TYPE, NEW)), b"data", [len(HEAD) + 60])
        last.link.send(*refused)
        assert last.link.received() == [error(35, REJECTED, stale("service=new"))]


def test_the_last_address_of_a_multicast_counts_behind_a_link() -> None:
    last = Last()
    other = last.broker.service("new", 8, data_mime=DATA_MIME)
    head = annotated(section("broker:b2", "b1"))
    to_old, to_new = address(MULTICAST, service="old"), address(MULTICAST, service="new")
    two = addressed(to_old, (MIME_TYPE, to_new), MORE)
    for number, cut in enumerate(range(1, len(two))):
        last.link.send(*fragments(REQUEST_FNF, 2 * number + 1, head + two, b"data", [len(head) + cut]))
        assert last.server.received() == []
        assert b"".join([frame.metadata or b"" for frame in other.received()]) == two, cut


def test_an_address_that_is_missing_is_said_to_be() -> None:
    last = Last()
    for rest, text in (
        (composite(MORE), "holds no ADDRESS"),
        (b"", "holds no ADDRESS"),
        (addressed(OLD)[:-1], "is truncated"),
    ):
        last.link.send(frames.encode_request(REQUEST_RESPONSE, 3, b"data", HEAD + rest))
        assert last.link.one().text == f"bad-address: the metadata of the request {text}"
    assert last.server.received() == []


# From the first broker to the last one


class Far:
    """Callers at b1, services at the last broker of a line; the test decides when words of brokers arrive."""

    def __init__(self, brokers_n: int) -> None:
        self.net = line(brokers_n)
        self.net.advance(LINKED_S)
        self.last = self.net.names[-1]
        self.server = self.net.worlds[self.last].service("old", 1)
        self.caller = self.net.worlds["b1"].caller()
        self.net.pump()

    def change(self, service: str) -> None:
        """The route at the last broker has another service name, and b1 does not hear of it yet."""
        last = self.last
        self.net.holds = lambda name, to, frame: name == last and frame.name == "METADATA_PUSH"
        self.server.announce(1, service)
        self.net.pump()

    def ask(self, number: int) -> None:
        self.caller.request(REQUEST_RESPONSE, 2 * number + 1, OLD)
        self.net.pump()


@pytest.mark.parametrize("brokers_n", [2, 3, 4])
def test_nobody_is_served_by_a_route_that_is_something_else_by_now(brokers_n: int) -> None:
    far = Far(brokers_n)
    far.change("new")
    for number in range(20):
        far.ask(number)
    text = f"stale-route: the route {to_route(1)[6:]} of {far.last} no longer matches service=old"
    assert far.server.received() == []
    assert far.caller.received() == [error(2 * number + 1, REJECTED, text) for number in range(20)]
    far.net.release()
    far.ask(20)
    assert far.caller.one().text == "no-route: no route has service=old"
    assert all(world.left_over() == [] for world in far.net.worlds.values())


@pytest.mark.parametrize("brokers_n", [2, 3])
def test_who_is_refused_so_is_served_by_another_route_where_there_is_one(brokers_n: int) -> None:
    """D-50: the first broker decides once more, without that route."""
    far = Far(brokers_n)
    others = [far.net.worlds["b1"].service("old", 9), far.net.worlds[far.last].service("old", 2)]
    far.net.pump()
    others[0].lose()
    far.net.pump()
    far.change("new")
    for number in range(10):
        far.ask(number)
    assert far.server.received() == far.caller.received() == []
    assert len(others[1].received()) == 10
    assert 3 <= far.net.worlds["b1"].core.engine.annotations.retried_n <= 7


def test_channels_and_streams_of_before_go_on() -> None:
    """Once a route has a request it is served, whatever becomes of its tags."""
    far = Far(3)
    far.caller.request(REQUEST_STREAM, 1, OLD, n=3)
    far.caller.request(REQUEST_CHANNEL, 3, OLD, n=3)
    far.net.pump()
    ids = [frame.stream_id for frame in far.server.received()]
    far.change("new")
    for stream_id in ids:
        far.server.answer(stream_id, b"item", 0x20)
    far.net.pump()
    assert [frame.data for frame in far.caller.received()] == [b"item", b"item"]

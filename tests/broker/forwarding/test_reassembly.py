"""D-15, D-69: a request whose metadata is cut is held until it is whole, if there is room, and passes as it came."""

from itertools import product

import pytest

from broker.core import CoreSettings
from broker.forwarding.reassembly import Reassembly
from rsocket_wire.errors import CONNECTION_ERROR, INVALID, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE
from rsocket_wire.wire.keys import Key
from tests.broker.forwarding.pairs import ADDRESS, COMPOSITE, MODELS, Pair, end
from tests.fakes import World, address, addressed, asked, error, fragments, moved


@pytest.mark.parametrize(("mime", "metadata"), [(COMPOSITE_MIME, COMPOSITE), (MIME_TYPE, ADDRESS)])
@pytest.mark.parametrize("kind", MODELS)
def test_an_address_cut_anywhere_is_found_and_the_fragments_pass_as_they_came(
    kind: int, mime: str, metadata: bytes
) -> None:
    for cut in range(len(metadata) + 1):
        pair = Pair(mime=mime, service_mime=mime)
        pieces = fragments(kind, 1, metadata, b"data", [cut])
        pair.caller.send(*pieces)
        assert pair.received() == ([], [moved(raw, 2) for raw in pieces]), cut
        assert pair.caller.peer.gathered_bytes == 0
        assert pair.is_open == (kind != REQUEST_FNF)


@pytest.mark.parametrize("kind", MODELS)
def test_every_byte_in_a_fragment_of_its_own_passes(kind: int) -> None:
    pair = Pair()
    pieces = fragments(kind, 1, COMPOSITE, b"data", list(range(1, len(COMPOSITE) + 4)))
    pair.caller.send(*pieces)
    assert pair.received() == ([], [moved(raw, 2) for raw in pieces])


def test_nothing_is_passed_on_before_the_metadata_is_whole_and_nothing_is_held_after() -> None:
    pair = Pair()
    whole = len(addressed(ADDRESS))
    pieces = fragments(REQUEST_RESPONSE, 1, COMPOSITE, b"data", [10, whole - 1, whole, whole + 2, len(COMPOSITE) + 1])
    pair.caller.send(*pieces[:4])
    assert pair.received() == ([], [])
    assert pair.caller.peer.gathered_bytes == sum(len(raw) for raw in pieces[:4])
    assert pair.caller.peer.begun == 1
    pair.caller.send(pieces[4])
    assert pair.received() == ([], [moved(raw, 2) for raw in pieces[:5]])
    assert pair.caller.peer.gathered_bytes == 0
    assert pair.caller.peer.begun == 1
    pair.caller.send(pieces[5])
    assert pair.received() == ([], [moved(pieces[5], 2)])


TWO = addressed(address(service="stock"), (MIME_TYPE, address(service="orders")), ("text/plain", b"more"))


def test_the_last_address_counts_wherever_the_metadata_is_cut() -> None:
    """D-69: a request means the same in fragments and in one frame."""
    for cut in range(len(TWO) + 1):
        world = World()
        stock, orders, caller = world.service("stock", 1), world.service("orders", 2), world.caller()
        pieces = fragments(REQUEST_STREAM, 1, TWO, b"data", [cut])
        caller.send(*pieces)
        assert (stock.received(), orders.received()) == ([], [moved(raw, 2) for raw in pieces]), cut


@pytest.mark.parametrize("kind", MODELS)
def test_where_there_is_no_room_for_more_the_last_address_that_has_come_counts(kind: int) -> None:
    """D-69: what goes on by itself takes no more than half of the room."""
    first = len(addressed(address(service="stock")))
    pieces = fragments(kind, 1, TWO, b"data", [first + 2, first + 4])
    enough = 2 * (len(pieces[0]) + len(pieces[1]))
    for limit, served in ((enough, "orders"), (enough - 1, "stock"), (20, "stock")):
        world = World(CoreSettings(max_metadata_bytes=limit))
        services = {"stock": world.service("stock", 1), "orders": world.service("orders", 2)}
        caller = world.caller()
        caller.send(*pieces)
        got = {name: service.received() for name, service in services.items()}
        assert got == {"stock": [], "orders": []} | {served: [moved(raw, 2) for raw in pieces]}
        assert caller.received() == []
        assert caller.peer.gathered_bytes == 0


def test_requests_with_an_address_leave_half_of_the_room_to_those_without() -> None:
    world = World(CoreSettings(max_metadata_bytes=1000))
    service, caller = world.service("orders", 1, region="eu"), world.caller()
    metadata = addressed(ADDRESS, ("text/plain", bytes(500)))
    whole = len(addressed(ADDRESS))
    for number in range(10):
        caller.send(fragments(REQUEST_RESPONSE, 2 * number + 1, metadata, b"", [whole + 60])[0])
    assert 0 < caller.peer.gathered_bytes <= 500
    held_n = sum(1 for stream in caller.peer.streams.values() if isinstance(stream, Reassembly))
    assert len(service.received()) == 10 - held_n
    caller.send(frames.encode_request(REQUEST_RESPONSE, 101, b"", metadata[:50], 0, FOLLOWS))
    assert (caller.received(), caller.peer.streams[101].__class__) == ([], Reassembly)


# What is wrapped in the ADDRESS says nothing about the way (D-70)

WRAPPED = bytes(range(256)) * 40


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("mime", [MIME_TYPE, COMPOSITE_MIME])
def test_wrapped_metadata_of_any_size_passes_in_fragments_as_in_one_frame(kind: int, mime: str) -> None:
    """More than `max_metadata_bytes` of it was refused in fragments only."""
    said = address(wrapped=WRAPPED, service="orders", region="eu")
    metadata = said if mime == MIME_TYPE else addressed(said, ("text/plain", b"behind"))
    pair = Pair(settings=CoreSettings(max_metadata_bytes=1024), mime=mime, service_mime=mime)
    pieces = fragments(kind, 1, metadata, b"data", list(range(300, len(metadata), 300)))
    pair.caller.send(*pieces)
    assert pair.received() == ([], [moved(raw, 2) for raw in pieces])
    assert pair.caller.peer.gathered_bytes == 0
    assert pair.is_open == (kind != REQUEST_FNF)


def test_wrapped_metadata_may_begin_anywhere_in_a_fragment() -> None:
    said = address(wrapped=WRAPPED[:200], service="orders", region="eu")
    maps = len(said) - 200
    for limit in range(40, 160):
        pair = Pair(settings=CoreSettings(max_metadata_bytes=limit), mime=MIME_TYPE, service_mime=MIME_TYPE)
        pieces = fragments(REQUEST_RESPONSE, 1, said, b"data", [20, 40, 60, 80, 100, 120])
        pair.caller.send(*pieces)
        held = 0
        come = 0
        for raw in pieces:
            held += len(raw)
            come = min(len(said), come + 20)
            if held > limit:
                break
        answers, passed = pair.received()
        if come >= maps:
            assert (answers, passed) == ([], [moved(raw, 2) for raw in pieces]), limit
        else:
            assert (answers[0].text.partition(":")[0], passed) == ("over-limit", []), limit


def test_wrapped_metadata_in_fragments_is_bounded_where_it_must_be_translated() -> None:
    said = address(wrapped=WRAPPED, service="orders", region="eu")
    pair = Pair(settings=CoreSettings(max_metadata_bytes=1024), mime=MIME_TYPE)
    pair.caller.send(*fragments(REQUEST_RESPONSE, 1, said, b"data", list(range(300, 4000, 300))))
    answers, passed = pair.received()
    assert ([frame.text.partition(":")[0] for frame in answers], passed) == (["over-limit"], [])
    assert pair.world.left_over() == []


def test_a_request_with_much_wrapped_metadata_may_wait_for_its_route() -> None:
    world = World(CoreSettings(max_metadata_bytes=1024, no_route="wait"))
    caller = world.caller(metadata_mime=MIME_TYPE)
    said = address(wrapped=WRAPPED, service="orders")
    pieces = fragments(REQUEST_RESPONSE, 1, said, b"data", list(range(300, len(said), 300)))
    caller.send(*pieces[:5])
    service = world.service("orders", 1, metadata_mime=MIME_TYPE)
    caller.send(*pieces[5:])
    assert (caller.received(), service.received()) == ([], [moved(raw, 2) for raw in pieces])


def test_the_deadline_of_an_address_runs_while_the_rest_of_the_metadata_is_awaited() -> None:
    """D-41."""
    pair = Pair()
    said = address(hints=[(Key.text("deadline_ms"), "1000")], service="orders", region="eu")
    pair.caller.send(fragments(REQUEST_RESPONSE, 1, addressed(said, ("a/b", b"cd")), b"", [len(addressed(said))])[0])
    pair.world.advance(1.1)
    (frame,) = pair.caller.received()
    assert (frame.code, frame.text.partition(":")[0]) == (REJECTED, "deadline")
    assert pair.world.left_over() == []


@pytest.mark.parametrize(("kind", "how"), [*product(MODELS, ["cancel", "loss"]), (REQUEST_CHANNEL, "error")])
def test_a_request_that_its_caller_ends_while_the_address_is_gathered_leaves_no_trace(kind: int, how: str) -> None:
    pair = Pair()
    pieces = fragments(kind, 1, COMPOSITE, b"data", [10, 20, 60])
    pair.caller.send(*pieces[:2])
    end(pair.caller, how)
    pair.caller.send(*pieces[2:])
    assert pair.received() == ([], [])
    assert pair.world.left_over() == []


@pytest.mark.parametrize(("how", "outcome"), [("cancel", "cancelled"), ("loss", "caller_lost")])
def test_a_request_that_its_caller_ends_while_the_metadata_is_gathered_is_counted(how: str, outcome: str) -> None:
    pair = Pair()
    pair.caller.send(fragments(REQUEST_STREAM, 1, COMPOSITE, b"data", [60])[0])
    end(pair.caller, how)
    (record,) = pair.world.flows()
    assert (record.model, record.outcome, record.requests) == ("request_stream", outcome, 1)


@pytest.mark.parametrize("kind", MODELS)
def test_metadata_that_ends_without_an_address_is_refused(kind: int) -> None:
    pair = Pair()
    pieces = fragments(kind, 1, COMPOSITE[:-20], b"", [10, 20])
    pair.caller.send(*pieces)
    pieces = fragments(kind, 3, COMPOSITE[:30], b"data", [10, 31])
    pair.caller.send(*pieces)
    text = "bad-address: the composite metadata of the request is truncated"
    expected = [] if kind == REQUEST_FNF else [error(3, INVALID, text)]
    frames, _ = pair.received()
    assert [frame for frame in frames if frame.stream_id == 3] == expected
    assert pair.caller.peer.gathered_bytes == 0


@pytest.mark.parametrize("kind", MODELS)
def test_a_request_without_a_route_is_refused_as_soon_as_that_is_known(kind: int) -> None:
    pair = Pair()
    metadata = addressed(address(service="stock"))
    pieces = fragments(kind, 1, metadata, b"data", [10, len(metadata) - 1, len(metadata) + 1])
    pair.caller.send(*pieces)
    expected = [] if kind == REQUEST_FNF else [error(1, REJECTED, "no-route: no route has service=stock")]
    assert pair.received() == (expected, [])
    assert pair.world.left_over() == []


def test_a_fragment_that_declares_more_metadata_than_it_has_ends_its_sender() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_RESPONSE, 1, COMPOSITE, b"data", [10, 20])
    broken = pieces[1][:6] + b"\xff\xff\xff" + pieces[1][9:]
    pair.caller.send(pieces[0], broken, pieces[2])
    text = f"bad-frame: PAYLOAD of {len(broken)} bytes on stream 1 is too short for what it declares"
    assert pair.received() == ([error(0, CONNECTION_ERROR, text)], [])
    assert pair.world.left_over() == []


def test_frames_of_other_kinds_do_not_disturb_the_gathering() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_RESPONSE, 1, COMPOSITE, b"data", [10, 20])
    pair.caller.send(pieces[0])
    pair.caller.request(REQUEST_RESPONSE, 1, ADDRESS)  # the id is in use
    pair.caller.ask(1, 4)  # a request_response has no credit
    pair.caller.fail(1, 0x201, "no")
    pair.caller.send(*pieces[1:])
    assert pair.received() == ([], [moved(raw, 2) for raw in pieces])


@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_credit_that_comes_before_the_address_is_whole_is_passed_on_behind_it(kind: int) -> None:
    """Protocol: At any time, the Requester may send REQUEST_N frames."""
    pair = Pair()
    pieces = fragments(kind, 1, COMPOSITE, b"data", [10, 20, 70])
    pair.caller.send(
        pieces[0],
        frames.encode_request_n(1, 3),
        pieces[1],
        frames.encode_request_n(1, 4),
        frames.encode_request_n(1, 0),
    )
    assert pair.received() == ([], [])
    pair.caller.send(*pieces[2:])
    parts = pair.service.received()
    assert [frame for frame in parts if frame.kind != asked(2, 7).kind] == [moved(raw, 2) for raw in pieces]
    assert [frame for frame in parts if frame.kind == asked(2, 7).kind] == [asked(2, 7)]


def test_credit_that_comes_early_does_not_grow_beyond_31_bits() -> None:
    pair = Pair()
    pieces = fragments(REQUEST_STREAM, 1, COMPOSITE, b"data", [10, 70])
    pair.caller.send(
        pieces[0], frames.encode_request_n(1, frames.MAX_N), frames.encode_request_n(1, frames.MAX_N), *pieces[1:]
    )
    assert asked(2, frames.MAX_N) in pair.service.received()

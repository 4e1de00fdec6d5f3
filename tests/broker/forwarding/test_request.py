"""What requests need wherever they come from: bounds for what is held, and metadata that the route can read (D-15)."""

import pytest

from broker.core import CoreSettings
from broker.forwarding.reassembly import MAX_FRAMES
from rsocket_wire.errors import CANCELED, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.frames import MIME_TYPE
from rsocket_wire.wire.keys import Key
from tests.broker.forwarding.pairs import ADDRESS, ANSWERED, COMPOSITE, MODELS, Pair
from tests.fakes import World, address, addressed, asked, cancelled, error, fragments, moved


def test_the_bytes_that_are_held_for_a_connection_are_bounded() -> None:
    pair = Pair(settings=CoreSettings(max_metadata_bytes=200))
    metadata = addressed(ADDRESS, ("text/plain", bytes(400)))
    before = ("text/plain", bytes(300))
    late = fragments(REQUEST_RESPONSE, 1, addressed(b"", before)[31:] + metadata, b"", [60, 120, 180, 240])
    pair.caller.send(*late)
    text = "over-limit: no complete ADDRESS in 3 fragments; a connection may hold 200 bytes "
    text += "(limits.max_metadata_bytes)"
    assert pair.received() == ([error(1, REJECTED, text)], [])
    assert pair.world.left_over() == []


def test_all_requests_of_a_connection_share_the_bound() -> None:
    raw = fragments(REQUEST_RESPONSE, 1, COMPOSITE, b"data", [60])[0]
    pair = Pair(settings=CoreSettings(max_metadata_bytes=len(raw) * 2))
    for stream_id in (1, 3, 5):
        pair.caller.send(fragments(REQUEST_RESPONSE, stream_id, COMPOSITE, b"data", [60])[0])
    text = f"over-limit: no complete ADDRESS in 1 fragments; a connection may hold {len(raw) * 2} bytes "
    text += "(limits.max_metadata_bytes)"
    assert pair.received() == ([error(5, REJECTED, text)], [])
    pair.caller.cancel(1)
    pair.caller.send(fragments(REQUEST_RESPONSE, 7, COMPOSITE, b"data", [60])[0])
    assert pair.received() == ([], [])
    assert sorted(pair.caller.peer.streams) == [3, 7]


def test_the_fragments_that_are_held_for_a_request_are_bounded() -> None:
    pair = Pair()
    pair.caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", b"", flags=FOLLOWS))
    for _ in range(MAX_FRAMES - 2):
        pair.caller.send(frames.encode_payload(1, NEXT | FOLLOWS, b"", b""))
    assert pair.received() == ([], [])
    pair.caller.send(frames.encode_payload(1, NEXT | FOLLOWS, b"", b""))
    text = "over-limit: no complete ADDRESS in 1024 fragments; a connection may hold 262144 bytes "
    text += "(limits.max_metadata_bytes)"
    assert pair.received() == ([error(1, REJECTED, text)], [])
    assert pair.world.left_over() == []


def test_a_request_that_is_gathered_counts_as_a_stream_of_the_connection() -> None:
    pair = Pair(settings=CoreSettings(max_streams_per_connection=1))
    pair.caller.send(fragments(REQUEST_RESPONSE, 1, COMPOSITE, b"data", [60])[0])
    pair.caller.request(REQUEST_RESPONSE, 3, ADDRESS)
    text = "over-limit: 1 streams of this connection are open, limits.max_streams_per_connection is 1"
    assert pair.received() == ([error(3, REJECTED, text)], [])


# Where the metadata must be translated, all of it is gathered


@pytest.mark.parametrize("kind", MODELS)
def test_metadata_for_a_route_that_reads_another_mime_type_is_gathered_whole(kind: int) -> None:
    for cut in range(1, len(COMPOSITE)):
        pair = Pair(service_mime=MIME_TYPE)
        pieces = fragments(kind, 1, COMPOSITE, b"some data", [cut, len(COMPOSITE) + 4])
        pair.caller.send(*pieces)
        wrapped = addressed(b"", ("text/plain", b"for the service"))[len(addressed(b"")) :]
        expected = frames.encode_request(
            kind, 2, b"some", address(wrapped=wrapped, service="orders", region="eu"), 8, FOLLOWS
        )
        assert pair.received() == ([], [moved(expected, 2), moved(pieces[2], 2)]), cut
        assert pair.is_open == (kind != REQUEST_FNF)
        assert pair.caller.peer.gathered_bytes == 0


@pytest.mark.parametrize("kind", ANSWERED)
def test_a_gathered_request_that_is_whole_becomes_one_frame(kind: int) -> None:
    pair = Pair(mime=MIME_TYPE)
    flags = frames.COMPLETE if kind == REQUEST_CHANNEL else 0
    pieces = fragments(kind, 1, ADDRESS, b"data", [20, 30], flags=flags, last_flags=NEXT)
    pair.caller.send(*pieces)
    expected = frames.encode_request(kind, 2, b"data", addressed(ADDRESS), 8, flags)
    assert pair.received() == ([], [moved(expected, 2)])
    pair.service.answer(2, b"done", NEXT | frames.COMPLETE)
    assert not pair.is_open


def test_complete_on_a_fragment_says_nothing_in_a_request_that_cannot_complete() -> None:
    pair = Pair(mime=MIME_TYPE)
    pieces = fragments(REQUEST_RESPONSE, 1, ADDRESS, b"data", [20], last_flags=NEXT | frames.COMPLETE)
    pair.caller.send(*pieces)
    assert pair.received() == ([], [moved(frames.encode_request(REQUEST_RESPONSE, 2, b"data", addressed(ADDRESS)), 2)])


def test_early_credit_reaches_a_route_that_reads_another_mime_type() -> None:
    pair = Pair(mime=MIME_TYPE)
    pieces = fragments(REQUEST_STREAM, 1, ADDRESS, b"data", [20], n=2)
    pair.caller.send(pieces[0], frames.encode_request_n(1, 5), pieces[1])
    expected = frames.encode_request(REQUEST_STREAM, 2, b"data", addressed(ADDRESS), 2)
    assert pair.received() == ([], [moved(expected, 2), asked(2, 5)])


def test_a_cancel_while_metadata_to_translate_is_gathered_ends_the_request() -> None:
    pair = Pair(service_mime=MIME_TYPE)
    whole = len(addressed(ADDRESS))
    pieces = fragments(REQUEST_RESPONSE, 1, COMPOSITE, b"data", [whole, whole + 4])
    pair.caller.send(pieces[0], frames.encode_cancel(1), *pieces[1:])
    assert pair.received() == ([], [])
    assert pair.world.left_over() == []


def test_a_route_that_is_gone_when_the_metadata_is_whole_is_no_route() -> None:
    world = World()
    service = world.service("orders", 1, metadata_mime=MIME_TYPE)
    caller = world.caller()
    metadata = addressed(address(service="orders"), ("text/plain", b"x"))
    pieces = fragments(REQUEST_RESPONSE, 1, metadata, b"data", [len(metadata) - 1])
    caller.send(pieces[0])
    service.lose()
    caller.send(pieces[1])
    assert caller.received() == [error(1, REJECTED, "no-route: no route has service=orders")]
    assert world.left_over() == []


@pytest.mark.parametrize("kind", MODELS)
def test_a_deadline_that_passes_while_metadata_to_translate_is_gathered_ends_the_request(kind: int) -> None:
    """D-41: nothing was passed on, so it is REJECTED."""
    world = World()
    service = world.service("orders", 1, metadata_mime=MIME_TYPE)
    caller = world.caller()
    raw = address(hints=[(Key.text("deadline_ms"), "1000")], service="orders")
    metadata = addressed(raw, ("text/plain", bytes(200)))
    first, second, *rest = fragments(kind, 1, metadata, b"data", [len(metadata) - 50, len(metadata) - 20])
    caller.send(first)
    world.advance(0.5)
    caller.send(second)
    world.advance(0.499)
    assert caller.received() == []
    world.advance(0.001)
    text = "deadline: the metadata of the request was incomplete after 1.000 s"
    assert caller.received() == ([] if kind == REQUEST_FNF else [error(1, REJECTED, text)])
    assert world.left_over() == []
    caller.send(*rest)
    assert (caller.received(), service.received()) == ([], [])


def test_metadata_to_translate_that_comes_in_time_leaves_the_deadline_to_the_route() -> None:
    world = World()
    service = world.service("orders", 1, metadata_mime=MIME_TYPE)
    caller = world.caller()
    raw = address(hints=[(Key.text("deadline_ms"), "1000")], service="orders")
    metadata = addressed(raw, ("text/plain", bytes(200)))
    first, *rest = fragments(REQUEST_RESPONSE, 1, metadata, b"data", [len(metadata) - 50])
    caller.send(first)
    world.advance(0.5)
    caller.send(*rest)
    (request,) = service.received()
    world.advance(0.5)
    assert service.received() == [cancelled(request.stream_id)]
    assert caller.received() == [error(1, CANCELED, "deadline: orders has not ended the request within 0.500 s")]
    assert world.core.engine.timers.take_due(1e9) is None

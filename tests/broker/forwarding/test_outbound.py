"""Which frames of a peer that reads slowly are written next, and what they count."""

import tracemalloc

import pytest

from broker.forwarding.outbound import LANE_COST, LARGE_BYTES, PIECE_BYTES, PUSHES, WAITING_COST, Outbound, Piece, Total
from rsocket_wire.rsocket.frames import encode_cancel, encode_metadata_push, encode_payload, encode_request_n
from rsocket_wire.wire.ints import u24_at

ALL = 1 << 40
HEADER = 6


def made(framed: bool = True) -> tuple[Outbound, Total]:
    total = Total(1 << 30)
    return Outbound(7, framed, total), total


def put(queue: Outbound, *frames: bytes) -> None:
    for raw in frames:
        queue.put(int.from_bytes(raw[:4], "big"), raw, b"")


def frames_of(pieces: list[Piece]) -> list[bytes]:
    data = b"".join(pieces)
    frames = []
    while data:
        size = u24_at(data, 0)
        frames.append(data[3 : 3 + size])
        data = data[3 + size :]
    return frames


def payload(stream_id: int, text: bytes) -> bytes:
    return encode_payload(stream_id, 0x20, text)


def test_each_stream_gets_its_turn_and_stream_0_comes_first() -> None:
    queue, _ = made()
    large = [payload(1, b"large %d" % number) for number in range(3)]
    put(queue, *large, payload(3, b"small"), encode_cancel(0))
    assert frames_of(queue.take(ALL)) == [encode_cancel(0), large[0], payload(3, b"small"), large[1], large[2]]


def test_requests_that_wait_keep_their_order() -> None:
    queue, _ = made()
    requests = [payload(2 * number, b"%d" % number) for number in range(1, 50)]
    put(queue, *requests)
    assert frames_of(queue.take(ALL)) == requests


def test_about_as_much_is_given_as_there_is_room_for() -> None:
    queue, _ = made()
    put(queue, *[payload(1, bytes(1000)) for _ in range(100)])
    taken = sum(len(piece) for piece in queue.take(10_000))
    assert 10_000 <= taken < 12_000


def test_the_content_of_a_large_frame_is_given_in_pieces_and_never_copied() -> None:
    queue, _ = made()
    body = bytes(range(256)) * (3 * PIECE_BYTES // 256)
    queue.put(1, payload(1, b"")[:HEADER], body)
    put(queue, payload(3, b"behind"))
    pieces = queue.take(ALL)
    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert [len(view) for view in views] == [PIECE_BYTES] * 3
    assert all(view.obj is body for view in views)
    assert frames_of(pieces) == [payload(1, b"")[:HEADER] + body, payload(3, b"behind")]


def test_a_message_is_one_piece() -> None:
    queue, _ = made(framed=False)
    queue.put(1, payload(1, b"")[:HEADER], bytes(LARGE_BYTES))
    put(queue, payload(3, b"behind"))
    assert [len(piece) for piece in queue.take(ALL)] == [HEADER + LARGE_BYTES, len(payload(3, b"behind"))]


def test_a_stream_that_is_dropped_is_not_written_but_for_the_frame_that_has_begun() -> None:
    queue, total = made()
    body = bytes(2 * PIECE_BYTES)
    queue.put(1, payload(1, b"")[:HEADER], body)
    put(queue, payload(1, b"never"), payload(3, b"other"))
    begun = queue.take(PIECE_BYTES)
    assert queue.drop(1) == len(payload(1, b"never")) + WAITING_COST + LANE_COST
    put(queue, payload(1, b"the end"))
    rest = frames_of(begun + queue.take(ALL))
    assert [len(raw) for raw in rest[:1]] == [HEADER + len(body)]
    assert rest[1:] == [payload(3, b"other"), payload(1, b"the end")]
    assert (queue.held_bytes, queue.wire_bytes, total.used_bytes, total.queues) == (0, 0, 0, {})


def test_only_stream_0_and_what_has_begun_stay_when_all_streams_are_dropped() -> None:
    queue, _ = made()
    body = bytes(2 * PIECE_BYTES)
    queue.put(1, payload(1, b"")[:HEADER], body)
    begun = queue.take(PIECE_BYTES)
    put(queue, payload(3, b"never"), encode_cancel(0))
    queue.drop_all()
    assert [len(raw) for raw in frames_of(begun + queue.take(ALL))] == [HEADER + len(body), HEADER]


def test_the_bytes_of_all_queues_are_added_up_and_given_back() -> None:
    total = Total(1 << 30)
    queues = [Outbound(peer_id, True, total) for peer_id in (1, 2)]
    for queue, count in zip(queues, (1, 3), strict=True):
        put(queue, *[payload(5, b"item")] * count)
    cost = len(payload(5, b"item")) + WAITING_COST
    assert (total.used_bytes, total.find_largest()) == (2 * LANE_COST + 4 * cost, 2)
    queues[1].clear()
    assert (total.used_bytes, total.find_largest(), list(total.queues)) == (LANE_COST + cost, 1, [1])


def test_one_frame_alone_may_be_larger_than_the_bound() -> None:
    queue, _ = made()
    put(queue, payload(1, bytes(1000)))
    assert not queue.is_over(100)
    put(queue, encode_request_n(1, 1))
    assert queue.is_over(100)


def test_what_has_begun_does_not_count_at_the_bound() -> None:
    queue, _ = made()
    queue.put(1, payload(1, b"")[:HEADER], bytes(2 * PIECE_BYTES))
    queue.take(PIECE_BYTES)
    put(queue, *[encode_request_n(1, 1)] * 2)
    limit_bytes = LANE_COST + 2 * (10 + WAITING_COST)
    assert not queue.is_over(limit_bytes)
    assert queue.is_over(limit_bytes - 1)


def test_the_stream_of_which_most_waits_is_found() -> None:
    queue, _ = made()
    put(queue, encode_cancel(0), payload(3, b"some"), payload(5, b"more than that"), payload(7, b""))
    assert (queue.find_largest(), queue.first_kind(5), queue.first_kind(9)) == (5, 0x0A, 0)


def test_the_largest_is_found_whatever_came_and_went_since_somebody_looked() -> None:
    queue, _ = made()
    put(queue, *[payload(number, bytes(number)) for number in range(1, 200)])
    assert queue.find_largest() == 199
    put(queue, payload(7, bytes(500)))
    assert queue.find_largest() == 7
    queue.drop(7)
    queue.drop(199)
    assert queue.find_largest() == 198
    queue.take(100 * 100)
    put(queue, *[payload(9, b"x")] * 1_000)
    assert queue.find_largest() == 9
    queue.take(ALL)
    assert queue.find_largest() == 0


def test_streams_that_were_dropped_cost_nothing() -> None:
    """While the peer takes nothing, so that nobody's turn comes."""
    queue, total = made()
    tracemalloc.start()
    try:
        for number in range(10_000):
            put(queue, payload(2 * number + 1, b"item"))
            queue.drop(2 * number + 1)
        assert tracemalloc.get_traced_memory()[0] < 100 * 1024
    finally:
        tracemalloc.stop()
    assert (queue.held_bytes, total.used_bytes) == (0, 0)


@pytest.mark.parametrize("streams_n", [1, 20_000])
def test_what_waits_counts_with_the_memory_that_it_takes(streams_n: int) -> None:
    queue, _ = made()
    tracemalloc.start()
    try:
        for number in range(20_000):
            stream_id = 2 * (number % streams_n) + 1
            put(queue, payload(stream_id, b"%d" % number))
        assert 0.6 < queue.held_bytes / tracemalloc.get_traced_memory()[0] < 1.7
    finally:
        tracemalloc.stop()


def test_pushes_are_dropped_one_by_one_the_oldest_first() -> None:
    queue, total = made()
    pushes = [encode_metadata_push(b"%d" % number) for number in range(3)]
    for raw in pushes:
        queue.put(PUSHES, raw, b"")
    assert queue.find_largest() == PUSHES
    queue.drop_push()
    assert frames_of(queue.take(1)) == [pushes[1]]
    queue.drop_push()
    assert (queue.find_largest(), queue.held_bytes, queue.wire_bytes, total.used_bytes) == (0, 0, 0, 0)


def test_whole_frames_are_given_to_a_session() -> None:
    queue, _ = made()
    queue.put(1, payload(1, b"")[:HEADER], bytes(LARGE_BYTES))
    put(queue, payload(3, b"behind"))
    assert queue.take_frames(1) == [payload(1, b"")[:HEADER] + bytes(LARGE_BYTES)]
    assert queue.take_frames(ALL) == [payload(3, b"behind")]
    assert (queue.held_bytes, queue.wire_bytes) == (0, 0)

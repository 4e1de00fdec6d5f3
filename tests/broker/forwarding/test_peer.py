"""Stream ids, and how frames are written to a peer."""

from broker.forwarding.outbound import Total
from broker.forwarding.peer import Peer
from broker.forwarding.settings import Settings
from broker.forwarding.unicast import Splice
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import MAX_STREAM_ID, REQUEST_RESPONSE
from rsocket_wire.rsocket.framing import FrameCursor
from tests.broker.forwarding.pairs import Pair


def make(framed: bool = True) -> tuple[Peer, list[Peer]]:
    dirty: list[Peer] = []
    return Peer(1, "tcp 127.0.0.1:1", framed, Settings(), dirty, [], Total(1 << 30), 100.0, 0), dirty


def cursor(raw: bytes) -> FrameCursor:
    frame = FrameCursor(False)
    frame.feed(raw, 100.0)
    assert frame.advance()
    return frame


def test_streams_towards_a_peer_have_even_ids_one_after_the_other() -> None:
    peer, _ = make()
    assert [peer.open_id() for _ in range(4)] == [2, 4, 6, 8]


def test_stream_ids_wrap_at_the_end_and_skip_those_in_use() -> None:
    pair = Pair()
    pair.open(REQUEST_RESPONSE)  # holds 2 at the service
    peer = pair.service.peer
    assert isinstance(peer.streams[2], Splice)
    peer._next_id = MAX_STREAM_ID - 1
    assert [peer.open_id() for _ in range(3)] == [MAX_STREAM_ID - 1, 4, 6]


def test_the_last_stream_id_is_skipped_too_when_it_is_in_use() -> None:
    pair = Pair()
    peer = pair.service.peer
    peer._next_id = MAX_STREAM_ID - 1
    pair.open(REQUEST_RESPONSE)
    assert list(peer.streams) == [MAX_STREAM_ID - 1]
    peer._next_id = MAX_STREAM_ID - 1
    assert peer.open_id() == 2


def test_forwarding_to_a_stream_of_bytes_puts_length_and_id_before_the_rest() -> None:
    peer, dirty = make()
    peer.forward(cursor(frames.encode_payload(7, 0x60, b"data", b"meta")), 0x01020304)
    assert b"".join(peer.take_output()) == bytes.fromhex("000011 01020304 2960 000004") + b"metadata"
    assert dirty == [peer]


def test_forwarding_to_messages_replaces_the_id() -> None:
    peer, dirty = make(framed=False)
    peer.forward(cursor(frames.encode_payload(7, 0x60, b"data")), 4)
    peer.forward(cursor(frames.encode_payload(7, 0x60, b"more")), 6)
    assert peer.take_output() == [frames.encode_payload(4, 0x60, b"data"), frames.encode_payload(6, 0x60, b"more")]
    assert dirty == [peer]


def test_pending_bytes_are_those_that_wait_and_bytes_out_those_that_were_taken() -> None:
    peer, _ = make()
    peer.forward(cursor(frames.encode_payload(7, 0x60, b"data")), 4)
    peer.send(frames.encode_cancel(4))
    assert (peer.pending_bytes, peer.bytes_out) == (13 + 9, 0)
    peer.take_output()
    assert (peer.pending_bytes, peer.bytes_out) == (0, 22)


def test_nothing_is_written_behind_the_end_of_a_connection() -> None:
    peer, dirty = make(framed=False)
    peer.send(frames.encode_error(0, 0x102, "bye"))
    peer.end("broker-stopped", "bye")
    peer.send(frames.encode_cancel(2))
    assert peer.take_output() == [frames.encode_error(0, 0x102, "bye")]
    assert dirty == [peer]


def test_an_end_without_output_still_asks_to_be_closed() -> None:
    peer, dirty = make()
    peer.end("left", "")
    assert (dirty, peer.is_ending, peer.take_output()) == ([peer], True, [])


def test_the_first_reason_of_an_end_stays() -> None:
    peer, dirty = make()
    peer.end("replaced", "first")
    peer.end("left", "second")
    assert (peer.end_reason, peer.end_detail, dirty) == ("replaced", "first", [peer])


def test_output_for_a_lost_transport_is_forgotten() -> None:
    peer, _ = make()
    peer.send(frames.encode_cancel(2))
    peer.forget()
    peer.send(frames.encode_cancel(4))
    assert (peer.take_output(), peer.pending_bytes, peer.bytes_out, peer.is_lost) == ([], 0, 0, True)

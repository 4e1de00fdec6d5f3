"""Stream ids of a peer, and the reason of its end."""

from broker.forwarding.unicast import Splice
from rsocket_wire.rsocket.frames import MAX_STREAM_ID, REQUEST_RESPONSE
from tests.broker.forwarding.pairs import Pair
from tests.fakes import World


def test_streams_towards_a_peer_have_even_ids_one_after_the_other() -> None:
    peer = World().connect().peer
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


def test_the_first_reason_of_an_end_stays() -> None:
    peer = World().connect().peer
    peer.end("replaced", "first")
    peer.end("left", "second")
    assert (peer.end_reason, peer.end_detail) == ("replaced", "first")

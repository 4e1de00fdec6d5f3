"""Who is stuck: a peer that takes nothing, and not one that reads slowly."""

import pytest

from broker.edge.shell import TICK_S
from broker.edge.slow_peers import CLOSE_S, LOOK_S
from tests.system.support.shells import STUCK_S, Bench


async def test_a_peer_that_takes_nothing_is_ended_after_stuck_s() -> None:
    bench = Bench()
    bench.loop.pass_time(STUCK_S - 2 * TICK_S)
    assert not bench.link.is_aborted
    bench.loop.pass_time(4 * TICK_S)
    assert (bench.link.is_aborted, bench.peer.end_reason) == (True, "slow-peer")
    assert bench.peer.end_detail.endswith("unread bytes and read none for 10 s (limits.stuck_s)")


async def test_a_peer_that_reads_more_slowly_than_others_write_is_not_stuck() -> None:
    """What waits for it only grows, and yet it takes some of it."""
    bench = Bench()

    def write_more_than_is_taken() -> None:
        bench.ask()
        bench.link.pending -= 10

    bench.loop.pass_time(3 * STUCK_S, write_more_than_is_taken)
    assert not bench.link.is_aborted
    assert bench.peer.pending_bytes > 500_000


async def test_a_peer_that_reads_what_its_system_holds_is_not_stuck() -> None:
    """The system takes no more for it meanwhile."""
    bench = Bench()
    bench.link.unconfirmed = 4 << 20

    def read() -> None:
        bench.link.unconfirmed -= 1

    bench.loop.pass_time(3 * STUCK_S, read)
    assert not bench.link.is_aborted
    bench.loop.pass_time(STUCK_S - 2 * TICK_S)
    assert not bench.link.is_aborted
    bench.loop.pass_time(LOOK_S + 4 * TICK_S)
    assert (bench.link.is_aborted, bench.peer.end_reason) == (True, "slow-peer")


@pytest.mark.parametrize(("taken_bytes", "most_looks"), [(1, 0), (0, 6)])
async def test_the_system_is_asked_seldom_and_only_of_a_peer_for_which_it_takes_nothing(
    taken_bytes: int, most_looks: int
) -> None:
    bench = Bench()

    def take() -> None:
        bench.link.pending -= taken_bytes

    bench.loop.pass_time(5.0, take)
    assert bench.link.looks <= most_looks


async def test_an_ended_peer_has_time_to_read_its_last_bytes_while_it_reads() -> None:
    bench = Bench()
    bench.link.unconfirmed = 4 << 20

    def read() -> None:
        bench.link.unconfirmed -= 1

    bench.shell.refuse(bench.peer, "bad-frame", "enough")
    bench.loop.pass_time(4 * CLOSE_S, read)
    assert not bench.link.is_aborted
    bench.loop.pass_time(2 * CLOSE_S)
    assert bench.link.is_aborted


async def test_a_peer_that_takes_nothing_is_stuck_however_much_is_written_to_it() -> None:
    bench = Bench()
    bench.loop.pass_time(STUCK_S + 2 * TICK_S, bench.ask)
    assert (bench.link.is_aborted, bench.peer.end_reason) == (True, "slow-peer")


async def test_a_peer_that_has_closed_is_ended_at_once_and_its_link_when_it_takes_nothing() -> None:
    bench = Bench()
    bench.shell.left(bench.peer, "the peer closed the connection")
    bench.loop.turn()
    assert (bench.peer.is_ending, bench.peer.end_reason, bench.link.is_closed) == (True, "left", True)
    bench.loop.pass_time(CLOSE_S - 2 * TICK_S)
    assert not bench.link.is_aborted
    bench.loop.pass_time(4 * TICK_S)
    assert bench.link.is_aborted

"""The shell on a loop whose time only the test moves: when it writes, and who counts as stuck."""

import math

import pytest

from broker.core import Core, CoreSettings
from broker.edge.shell import FLUSH_BYTES, TICK_S, WEIGH_S, Shell
from broker.edge.slow_peers import CLOSE_S
from broker.events import FlowRecord, LifecycleEvent
from broker.forwarding.peer import Peer
from broker.load_meter import LOAD_S, LoadMeter
from broker.routing.rng import Rng
from rsocket_wire.rsocket.frames import NEXT, Setup, encode_keepalive, encode_payload
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.rsocket.notices import CLIENT_ID_BYTES, client_entry, find_notice
from tests.fakes import START_MS, framed, route_id
from tests.system.support.shells import SETUP, STUCK_S, Bench, FakeClock, FakeLink, FakeLoop, Pair, make_shell


async def test_a_peer_whose_last_waiting_bytes_are_dropped_is_not_congested_any_more() -> None:
    """A CANCEL drops them, between the word that it may be written to again and the writing."""
    bench = Bench()
    bench.peer.send(encode_payload(1, NEXT, bytes(1000)))
    bench.shell.relieved(bench.peer)
    bench.peer.drop_stream(1)
    bench.loop.turn()
    assert (bench.peer.pending_bytes, bench.peer.is_congested) == (0, False)
    bench.loop.pass_time(2 * STUCK_S)
    assert not bench.link.is_aborted


@pytest.mark.parametrize(("quiet_s", "writes"), [(-1.0, [[1, 0], [2, 0]]), (math.inf, [[0, 0], [0, 0]])])
async def test_a_peer_that_is_read_alone_is_answered_at_once(quiet_s: float, writes: list[list[int]]) -> None:
    """Always quiet before it, and never."""
    pair = Pair(quiet_s=quiet_s)
    assert [pair.ask(0), pair.ask(0)] == writes


async def test_answers_of_one_turn_are_written_together() -> None:
    pair = Pair(quiet_s=math.inf)
    assert [pair.ask(at) for at in (0, 1, 0)] == [[0, 0]] * 3
    pair.loop.turn()
    assert [link.writes for link in pair.links] == [1, 1]


async def test_large_output_of_many_is_written_in_turns_and_small_output_at_once() -> None:
    """Also when the broker writes between two turns, as to a peer that is read alone."""
    pair = Pair()
    for at in range(2, 6):
        link = FakeLink()
        pair.links.append(link)
        pair.peers.append(pair.shell.connected(f"tcp 127.0.0.1:{at}", True, link))
        pair.receive(at, SETUP)
    pair.loop.turn()
    for peer, size in zip(pair.peers, (*[FLUSH_BYTES] * 5, 100), strict=True):
        peer.send(encode_payload(1, NEXT, bytes(size)))

    def written_to() -> list[int]:
        return [at for at, link in enumerate(pair.links) if link.written]

    pair.shell.flush()
    assert written_to() == [0, 5]
    pair.shell.flush()
    assert written_to() == [0, 1, 5]
    for at in (2, 3, 4):
        pair.loop.turn()
        assert written_to() == [*range(at + 1), 5]
    assert [peer.pending_bytes for peer in pair.peers] == [0] * 6


async def test_a_turn_with_many_reads_makes_the_next_one_gather() -> None:
    """However quiet it was: else the first of many would cost a write of its own in each turn."""
    clock = FakeClock()
    pair = Pair(clock=clock)
    pair.ask(0)
    pair.ask(1)
    pair.loop.turn()
    clock.now += 1.0
    assert pair.ask(0) == [1, 1]
    pair.loop.turn()
    assert [link.writes for link in pair.links] == [2, 1]
    clock.now += 1.0
    assert pair.ask(1) == [2, 2]


async def test_what_the_broker_adds_is_measured_from_the_first_arrival_of_a_turn_to_the_end_of_its_writing() -> None:
    clock = FakeClock()
    pair = Pair(clock=clock, quiet_s=math.inf)
    clock.moments = [1.0, 1.000_2, 1.000_3, 1.000_4, 1.000_5]  # arrives, is done; arrives, is done; written
    added = pair.shell.core.added
    before = (added.number, added.sum_us)
    pair.ask(0)
    pair.ask(1)
    pair.loop.turn()
    assert (added.number - before[0], added.sum_us - before[1]) == (2, 2 * 499)  # whole microseconds
    assert clock.moments == []


async def test_what_is_answered_at_once_is_measured_without_another_look_at_the_clock() -> None:
    clock = FakeClock()
    pair = Pair(clock=clock, quiet_s=-math.inf)
    clock.moments = [1.0, 1.000_030_5]
    added = pair.shell.core.added
    before = (added.number, added.sum_us)
    pair.ask(0)
    assert (added.number - before[0], added.sum_us - before[1]) == (1, 30)
    assert clock.moments == []


async def test_the_lag_of_the_loop_is_how_late_its_timer_was() -> None:
    pair = Pair()
    pair.shell.start()
    pair.loop.tick()
    pair.loop.late_s = 0.25
    pair.loop.tick()
    lag = pair.shell.core.lag
    assert pair.shell.lag_s == pytest.approx(0.25)
    assert (lag.number, lag.max_us) == (2, int(pair.shell.lag_s * 1e6))


async def test_the_load_has_the_largest_lag_of_its_minute_and_is_handed_out_at_once() -> None:
    told: list[tuple[float, str]] = []
    loop, clock = FakeLoop(), FakeClock()
    core = Core(CoreSettings(), route_id(0xB1), Rng(1), clock.now, START_MS)

    def take_events(events: list[LifecycleEvent | FlowRecord]) -> None:
        loads = [dict(event.tags) for event in events if isinstance(event, LifecycleEvent) and event.tags]
        told.extend((clock.now, load["loop_lag_max_us"]) for load in loads if "loop_lag_max_us" in load)

    shell = Shell(core, STUCK_S, take_events, loop, load_meter=LoadMeter(core, clock.now), clock=clock)
    shell.start()
    for late_s in (0.25, 0.0):
        loop.late_s = late_s
        loop.tick()
        loop.late_s = 0.0
        clock.now += LOAD_S / 2
        loop.tick()
        clock.now += LOAD_S / 2
        loop.tick()
    assert [(at, round(int(lag_us), -3)) for at, lag_us in told] == [(0.5 + LOAD_S, 250_000), (0.5 + 2 * LOAD_S, 0)]


class Heavy(Pair):
    """Two peers of which one has megabytes with the system, and a broker that allows one."""

    def __init__(self) -> None:
        super().__init__(CoreSettings(max_buffered_bytes=1_000_000))
        self.shell.start()
        self.ask(0)
        self.loop.turn()


async def test_bytes_that_no_system_has_taken_count_once_a_second_and_who_holds_most_is_closed() -> None:
    heavy = Heavy()
    heavy.links[0].pending = 1_000_000
    heavy.loop.pass_time(2 * WEIGH_S)
    assert (heavy.shell.core.lifecycle.limits.buffered_bytes, heavy.links[0].is_aborted) == (1_000_000, False)
    heavy.links[0].pending += 1
    heavy.loop.pass_time(2 * WEIGH_S)
    assert [link.is_aborted for link in heavy.links] == [True, False]
    text = "1000001 bytes wait in the broker, 1000001 of them for this connection, the limit is 1000000"
    text += " (limits.max_buffered_bytes)"
    assert (heavy.peers[0].end_reason, heavy.peers[0].end_detail) == ("over-limit", text)
    assert heavy.peers[1].end_reason == ""


async def test_who_holds_much_and_has_taken_all_its_bytes_is_told_why_it_is_closed() -> None:
    """Half a frame of it fills memory; it reads."""
    heavy = Heavy()
    heavy.links[1].pending = 0
    heavy.shell.received(heavy.peers[1], (0xFFFFFF).to_bytes(3, "big") + bytes(1_000_001))
    writes = heavy.links[1].writes
    heavy.loop.pass_time(WEIGH_S + TICK_S)
    assert heavy.peers[1].end_reason == "over-limit"
    assert (heavy.links[1].is_aborted, heavy.links[1].writes - writes) == (False, 1)


class Untold:
    """A peer that says who it is and is not congested, and what it is told when it comes again."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.shell = make_shell(self.loop, CoreSettings(max_buffered_bytes=1_000_000))
        self.shell.start()
        self.peer, self.link = self.come()

    def come(self) -> tuple[Peer, FakeLink]:
        link = FakeLink()
        peer = self.shell.connected("tcp 127.0.0.1:1", True, link)
        setup = Setup(COMPOSITE_MIME, "a/b", 1_000_000, 2_000_000, client_entry(b"m" * CLIENT_ID_BYTES))
        self.shell.received(peer, framed(setup.encode()))
        self.loop.turn()
        return peer, link

    def told(self) -> list[str]:
        notices = [find_notice(piece[9:]) for piece in self.come()[1].written]
        return [notice.last_end for notice in notices if notice is not None]


async def test_who_is_closed_because_all_hold_too_much_is_told_why_when_it_comes_again() -> None:
    """Though it was not congested: the ERROR would have waited behind what its system has not taken."""
    untold = Untold()
    untold.shell.received(untold.peer, framed(encode_keepalive(bytes(1000), respond=True)))
    untold.loop.turn()
    untold.link.pending = 1_000_001
    untold.loop.pass_time(2 * WEIGH_S)
    assert (untold.link.is_aborted, untold.peer.is_blocked) == (True, False)
    text = "1000001 bytes wait in the broker, 1000001 of them for this connection, the limit is 1000000"
    assert [told[:100] for told in untold.told()] == [f"over-limit: {text}"[:100]]
    assert untold.told() == []


@pytest.mark.parametrize(("pending", "told"), [(1000, ["bad-frame: enough"]), (0, [])])
async def test_who_is_ended_before_its_system_has_taken_the_reason_is_told_when_it_comes_again(
    pending: int, told: list[str]
) -> None:
    """Below the mark at which it would be congested."""
    untold = Untold()
    untold.link.pending, untold.link.takes = pending, not pending
    untold.shell.refuse(untold.peer, "bad-frame", "enough")
    untold.loop.turn()
    untold.loop.pass_time(2 * CLOSE_S)
    assert untold.told() == told


async def test_bytes_of_a_peer_that_has_taken_them_or_is_gone_are_weighed_no_more() -> None:
    heavy = Heavy()
    heavy.ask(1)
    heavy.loop.turn()
    for link in heavy.links:
        link.pending = 300_000
    heavy.loop.pass_time(2 * WEIGH_S)
    assert heavy.shell.core.lifecycle.limits.buffered_bytes == 600_000
    heavy.links[0].pending = 0
    heavy.shell.lost(heavy.peers[1], "gone")
    heavy.loop.pass_time(2 * WEIGH_S)
    assert heavy.shell.core.lifecycle.limits.buffered_bytes == 0

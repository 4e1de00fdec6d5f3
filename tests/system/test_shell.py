"""The shell on a loop whose time only the test moves: who counts as stuck."""

import asyncio
from collections.abc import Callable

from broker.core import Core, CoreSettings
from broker.edge.shell import TICK_S, Shell
from broker.forwarding.peers import Peer
from broker.routing.dice import Dice
from broker.rsocket.frames import Setup, encode_keepalive
from tests.fakes import START_MS, route_id

STUCK_S = 10.0


class FakeTimer(asyncio.TimerHandle):
    """A timer that never fires by itself."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._soon: list[Callable[[], None]] = []
        self._later: tuple[float, Callable[[], None]] | None = None  # the shell has one timer

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self._soon.append(callback)

    def call_at(self, when: float, callback: Callable[[], None], /) -> asyncio.TimerHandle:
        self._later = (when, callback)
        return FakeTimer()

    def turn(self) -> None:
        """What is to be done now."""
        due, self._soon = self._soon, []
        for callback in due:
            callback()

    def tick(self) -> None:
        """Moves on to the timer."""
        assert self._later is not None
        self.now, callback = self._later
        callback()
        self.turn()


class FakeLink:
    """A transport whose other end takes what the test says."""

    def __init__(self) -> None:
        self.pending = 0
        self.is_aborted = False

    def pending_bytes(self) -> int:
        return self.pending

    def write(self, pieces: list[bytes]) -> None:
        self.pending += sum(map(len, pieces))

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


class Bench:
    """A shell and one peer that is congested from the start."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        core = Core(CoreSettings(max_keepalives_per_s=0), route_id(0xB1), Dice(1), 0.0, START_MS)
        self.shell = Shell(core, 1 << 30, STUCK_S, lambda events: None, self.loop)
        self.shell.start()
        self.link = FakeLink()
        self.peer: Peer = self.shell.connected("tcp 127.0.0.1:1", True, self.link)
        self.receive(Setup("a/b", "a/b", 1_000_000, 2_000_000).encode())
        self.ask()
        self.shell.congested(self.peer)

    def receive(self, raw: bytes) -> None:
        self.shell.received(self.peer, len(raw).to_bytes(3, "big") + raw)
        self.loop.turn()

    def ask(self) -> None:
        """Makes the broker write 1000 bytes and some."""
        self.receive(encode_keepalive(bytes(1000), respond=True))

    def pass_time(self, seconds: float, each_tick: Callable[[], None] = lambda: None) -> None:
        for _ in range(round(seconds / TICK_S)):
            each_tick()
            self.loop.tick()


async def test_a_peer_that_takes_nothing_is_ended_after_stuck_s() -> None:
    bench = Bench()
    bench.pass_time(STUCK_S - 2 * TICK_S)
    assert not bench.link.is_aborted
    bench.pass_time(4 * TICK_S)
    assert (bench.link.is_aborted, bench.peer.end_reason) == (True, "slow-peer")
    assert bench.peer.end_detail.endswith("nothing was for 10 s")


async def test_a_peer_that_reads_more_slowly_than_others_write_is_not_stuck() -> None:
    """What waits for it only grows, and yet it takes some of it."""
    bench = Bench()

    def write_more_than_is_taken() -> None:
        bench.ask()
        bench.link.pending -= 10

    bench.pass_time(3 * STUCK_S, write_more_than_is_taken)
    assert not bench.link.is_aborted
    assert bench.link.pending > 500_000


async def test_a_peer_that_takes_nothing_is_stuck_however_much_is_written_to_it() -> None:
    bench = Bench()
    bench.pass_time(STUCK_S + 2 * TICK_S, bench.ask)
    assert (bench.link.is_aborted, bench.peer.end_reason) == (True, "slow-peer")

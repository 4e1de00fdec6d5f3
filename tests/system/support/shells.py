"""A shell for tests: a loop whose time only the test moves, transports that take what the test says, and peers."""

import asyncio
from collections.abc import Callable
from typing import Any

from broker.core import Core, CoreSettings
from broker.edge.shell import TICK_S, Shell
from broker.forwarding.outbound import Piece
from broker.forwarding.peer import Peer
from broker.routing.rng import Rng
from rsocket_wire.rsocket.frames import Setup, encode_keepalive
from tests.fakes import START_MS, framed, route_id

STUCK_S = 10.0


class FakeTimer(asyncio.TimerHandle):
    """A timer that never fires by itself, and at most once."""

    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback = callback
        self.is_over = False

    def cancel(self) -> None:
        self.is_over = True


class FakeLoop:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.late_s = 0.0  # how much later than wanted a timer fires
        self._soon: list[Callable[[], None]] = []
        self._later: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self._soon.append(callback)

    def call_at(self, when: float, callback: Callable[[], None], /) -> asyncio.TimerHandle:
        timer = FakeTimer(when, callback)
        self._later.append(timer)
        return timer

    def timers(self) -> list[FakeTimer]:
        """That will fire, the soonest first."""
        return sorted((each for each in self._later if not each.is_over), key=lambda each: each.at)

    def turn(self) -> None:
        """What is to be done now."""
        due, self._soon = self._soon, []
        for callback in due:
            callback()

    def tick(self) -> None:
        """Moves on to the next timer."""
        self.fire()
        self.turn()

    def fire(self) -> None:
        """As `tick`, without what is to be done in the turn behind it."""
        timer = self.timers()[0]
        timer.cancel()  # it fires once
        self.now = timer.at + self.late_s
        timer.callback()

    def pass_time(self, seconds: float, each_tick: Callable[[], None] = lambda: None) -> None:
        """So many ticks of the shell."""
        for _ in range(round(seconds / TICK_S)):
            each_tick()
            self.tick()


class FakeClock:
    """Time that stands still where the test puts it, or has these moments, one for each look."""

    def __init__(self) -> None:
        self.now = 0.5
        self.moments: list[float] | None = None  # None: it stands still

    def __call__(self) -> float:
        return self.now if self.moments is None else self.moments.pop(0)


class FakeLink:
    """A transport whose other end takes what the test says."""

    def __init__(self) -> None:
        self.pending = 0
        self.takes = False  # all that is written, at once
        self.written: list[bytes] = []
        self.unconfirmed = 0  # with the system
        self.looks = 0  # at that
        self.is_aborted = False
        self.is_closed = False
        self.writes = 0
        self.is_paused = False
        self.served: list[Peer | None] = []  # when the shell said so

    def serve(self, peer: Peer | None) -> None:
        self.served.append(peer)

    def pending_bytes(self) -> int:
        return self.pending

    def unconfirmed_bytes(self) -> int:
        self.looks += 1
        return self.unconfirmed

    def write(self, pieces: list[Piece]) -> int:
        self.written += map(bytes, pieces)
        if not self.takes:
            self.pending += sum(map(len, pieces))
        self.writes += 1
        return self.pending

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def end(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


class FakeTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_paused = False
        self.limits: tuple[int | None, int | None] = (None, None)  # of its buffer, high and low

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = high, low

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))


SETUP = Setup("a/b", "a/b", 1_000_000, 2_000_000).encode()


def make_shell(loop: FakeLoop, settings: CoreSettings | None = None, **options: Any) -> Shell:
    """It has not started, and nobody hears its events."""
    core = Core(settings or CoreSettings(), route_id(0xB1), Rng(1), 0.0, START_MS)
    return Shell(core, STUCK_S, lambda events: None, loop, **options)


class Bench:
    """A shell and one peer that is congested from the start."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.shell = make_shell(self.loop, CoreSettings(max_keepalives_per_s=0))
        self.shell.start()
        self.link = FakeLink()
        self.peer: Peer = self.shell.connected("tcp 127.0.0.1:1", True, self.link)
        self.receive(SETUP)
        self.ask()
        self.shell.congested(self.peer)

    def receive(self, raw: bytes) -> None:
        self.shell.received(self.peer, framed(raw))
        self.loop.turn()

    def ask(self) -> None:
        """Makes the broker write 1000 bytes and some."""
        self.receive(encode_keepalive(bytes(1000), respond=True))


class Pair:
    """A shell and two peers with an accepted SETUP; nothing has been written to them."""

    def __init__(self, settings: CoreSettings | None = None, **options: Any) -> None:
        self.loop = FakeLoop()
        self.shell = make_shell(self.loop, settings, **options)
        self.links = [FakeLink(), FakeLink()]
        self.peers = [self.shell.connected(f"tcp 127.0.0.1:{at}", True, link) for at, link in enumerate(self.links)]
        for at in range(2):
            self.receive(at, SETUP)
        self.loop.turn()
        self.shell.flush()

    def receive(self, at: int, raw: bytes) -> None:
        self.shell.received(self.peers[at], framed(raw))

    def ask(self, at: int) -> list[int]:
        """Makes the broker answer this one; how often each was written to up to now."""
        self.receive(at, encode_keepalive(b"", respond=True))
        return [link.writes for link in self.links]

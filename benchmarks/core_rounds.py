"""One core and its shell on a wire that is only memory, as a process that measures when it is told to.

    python -m benchmarks.core_rounds < lines

Each line of standard input is a number of seconds; each line of output the CPU time of one forwarded request/response
in µs, of as many as fitted. `broker` is the package on the path, compiled or not. A turn of the loop is what it is
under load: every caller sends a batch, all that is written is written, the service answers all. There is no system
call in it, so that what a request costs inside stands out as much as it can.
"""

import sys
import time
from collections.abc import Callable
from typing import Final

from broker.core import Core, CoreSettings
from broker.edge.shell import TICK_S, Shell
from broker.events import FlowRecord, LifecycleEvent
from broker.forwarding.outbound import Piece
from broker.forwarding.peer import Peer
from broker.forwarding.traffic.request_log import RequestRows
from broker.routing.rng import Rng
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_RESPONSE, Setup, encode_payload, encode_request
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, encode_entry
from rsocket_wire.wire.frames import MIME_TYPE, Address, RouteSetup
from rsocket_wire.wire.tags import Tag
from tests.fakes import framed
from tests.system.support.shells import FakeLink, FakeLoop

CALLERS: Final = 16
BATCH: Final = 64  # requests of a caller in one turn
TURNS: Final = 20  # between two looks at the clock
PAYLOAD: Final = b"x" * 100
STUCK_S: Final = 10.0


class Loop(FakeLoop):
    """Turns when it is told to, on the system's clock."""

    def time(self) -> float:
        return time.monotonic()

    def settle(self) -> None:
        """Turns until nothing is due: more than one where a connection has sent more than a turn takes."""
        self.turn()
        while self._soon:
            self.turn()

    def turn(self) -> None:
        """What is due, timers among it; of those there are two at most."""
        super().turn()
        now = time.monotonic()
        for timer in self._later:
            if now >= timer.at and not timer.is_over:
                timer.cancel()
                timer.callback()
        self._later = [timer for timer in self._later if not timer.is_over]


class Link(FakeLink):
    """Takes everything at once and forgets it."""

    def write(self, pieces: list[Piece]) -> int:
        b"".join(pieces)  # as the link of a socket does
        return 0

    def end(self) -> None:
        raise AssertionError("the core or its shell ended a connection of the benchmark")

    close = abort = end


class Rounds:
    """One service and its callers. Stream ids are not used again: there are enough for a million turns."""

    def __init__(
        self,
        settings: CoreSettings | None = None,
        on_events: Callable[[list[LifecycleEvent | FlowRecord]], None] = lambda events: None,
        on_requests: Callable[[RequestRows], None] | None = None,
    ) -> None:
        self.loop: Final = Loop()
        settings = settings or CoreSettings()
        core = Core(settings, bytes(16), Rng(1), time.monotonic(), time.time_ns() // 1_000_000)
        self.shell: Final = Shell(core, STUCK_S, on_events, self.loop, on_requests)
        self.shell.start()
        route = RouteSetup(bytes(15) + b"\1", "echo", []).encode()
        self.service: Final = self.connect(entry(route))
        self.callers: Final = [self.connect(None) for _ in range(CALLERS)]
        self._metadata: Final = entry(Address(bytes(15) + b"\2", [Tag.of("service", "echo")]).encode())
        self._caller_id = 1
        self._service_id = 2

    def connect(self, metadata: bytes | None) -> Peer:
        peer = self.shell.connected("tcp 127.0.0.1:1", True, Link())
        self.shell.received(peer, framed(Setup(COMPOSITE_MIME, "a/b", 1_000_000, 2_000_000, metadata).encode()))
        return peer

    def batch(self) -> tuple[bytes, bytes]:
        """What each caller sends in one turn, and what the service answers."""
        ids = range(self._caller_id, self._caller_id + 2 * BATCH, 2)
        requests = b"".join(framed(encode_request(REQUEST_RESPONSE, each, PAYLOAD, self._metadata)) for each in ids)
        self._caller_id = ids[-1] + 2
        answers = range(self._service_id, self._service_id + 2 * BATCH * CALLERS, 2)
        self._service_id = answers[-1] + 2
        return requests, b"".join(framed(encode_payload(each, NEXT | COMPLETE, PAYLOAD)) for each in answers)

    def measure(self, seconds: float) -> float:
        """µs of CPU time per request/response."""
        spent_s, requests = 0.0, 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            turns = [self.batch() for _ in range(TURNS)]
            began_s = time.process_time()
            for sent, answers in turns:
                for caller in self.callers:
                    self.shell.received(caller, sent)
                self.loop.settle()
                self.shell.received(self.service, answers)
                self.loop.settle()
            spent_s += time.process_time() - began_s
            requests += TURNS * BATCH * CALLERS
            assert not self.service.streams, f"{len(self.service.streams)} requests were not answered"
        return spent_s / requests * 1e6


def entry(raw: bytes) -> bytes:
    return encode_entry(MIME_TYPE.encode(), raw)


def main() -> None:
    """Measures once for each line."""
    rounds = Rounds()
    rounds.measure(TICK_S)
    print("ready", flush=True)
    for line in sys.stdin:
        print(rounds.measure(float(line)), flush=True)


if __name__ == "__main__":
    main()

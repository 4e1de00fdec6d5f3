"""What events cost the broker: CPU of one forwarded request/response with event files off, with flows, 1/10 and all.

    python -m benchmarks.events                          of the core on the path, compiled or not
    python -m benchmarks.events --seconds 60 --routes 10000

Everything that the broker's process does is in it: counting, the row of each request, definitions, snapshots, handing
out, encoding what is handed out and writing it into a real pipe, whose reader is another process. The four take turns
of a third of a second in one process and each is divided by the first one of its turn: what else the machine does
changes all four. The last lines say what joins and snapshots of a large table cost.
"""

import argparse
import gc
import statistics
import subprocess
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.core_rounds import Rounds
from benchmarks.machine import describe_machine
from broker.core import COMPILED, CoreSettings
from broker.edge.event_backlog import Event, EventBacklog, framed
from broker.event_log.snapshots import PIECE
from broker.forwarding.traffic.request_log import RequestRows
from broker.routing.table import Route, Table
from rsocket_wire.wire.tags import Tag

TURN_S: Final = 0.33
MODES: Final = (("no event files", 0, False), ("flows", 0, True), ("1/10", 10, True), ("all", 1, True))


class Sink:
    """The broker's end of the pipe, as `EventPipe` is, but for the loop."""

    def __init__(self) -> None:
        self._backlog: Final = EventBacklog()
        self._reader: Final = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0)
        assert self._reader.stdin is not None
        self._pipe: Final = self._reader.stdin
        self._pipe.write(framed({}))

    def take_events(self, events: Sequence[Event]) -> None:
        self._backlog.append(events)
        self._flush()

    def take_requests(self, requests: RequestRows) -> None:
        for definition in requests.definitions:
            self._backlog.define(definition)
        self._backlog.append(requests.rows)
        for flow in requests.forgotten:
            self._backlog.forget(flow)
        self._flush()

    def _flush(self) -> None:
        self._backlog.encode(time.time_ns() // 1_000_000)
        self._backlog.push(self._write)
        self._backlog.confirmed(self._backlog.first_number - 1)

    def _write(self, data: bytes | memoryview) -> int:
        return self._pipe.write(data) or 0

    def close(self) -> None:
        self._pipe.close()
        self._reader.wait()


def measure(seconds: float) -> None:
    """Print the table of the four."""
    sinks = [Sink() if has_files else None for _, _, has_files in MODES]
    rounds = []
    for (_, every_n, has_files), sink in zip(MODES, sinks, strict=True):
        settings = CoreSettings(single_requests=every_n, snapshot_s=60.0 if has_files else 0.0)
        rounds.append(
            Rounds(settings, sink.take_events, sink.take_requests if every_n else None) if sink else Rounds(settings)
        )
    found: list[list[float]] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found.append([each.measure(TURN_S) for each in rounds])
    print("| event files | CPU, us | more than without | of it |\n|---|---|---|---|")
    for number, (name, _, _) in enumerate(MODES):
        us = statistics.median(turn[number] for turn in found)
        more_us = statistics.median(turn[number] - turn[0] for turn in found)
        ratio = statistics.median(turn[number] / turn[0] for turn in found)
        print(f"| {name} | {us:.2f} | {more_us:+.2f} us | {(ratio - 1) * 100:+.0f} % |")
    for sink in sinks:
        if sink is not None:
            sink.close()


def measure_table(routes_n: int) -> None:
    """Print what a route costs that joins, with and without its mark, and what the pieces of a snapshot cost."""
    tags = [Tag.of(name, "value") for name in ("region", "zone", "version")]
    routes = [Route(number.to_bytes(16, "big"), f"service-{number % 50}", tags, None) for number in range(routes_n)]
    table = Table()
    began_s = time.process_time()
    for route in routes:
        table.join(route, 1)
    join_us = (time.process_time() - began_s) / routes_n * 1e6
    began_s = time.process_time()
    for route in routes:
        table.leave(route)
    leave_us = (time.process_time() - began_s) / routes_n * 1e6
    gc.collect()
    gc.freeze()
    gc.disable()  # as in the broker's process: else a full collection of 30 ms falls into a tick
    rounds = Rounds(CoreSettings(snapshot_s=1.0))
    core = rounds.shell.core
    for route in routes:
        core.table.join(Route(route.id, route.service, tags, None), 1)
    began_s, now = time.process_time(), time.monotonic() + 2.0
    core.tick(now, 0)
    took_s = [time.process_time() - began_s]
    events = core.take_events()
    while core.next_deadline() == 0.0:
        began_s = time.process_time()
        core.tick(now, 0)
        took_s.append(time.process_time() - began_s)
        events += core.take_events()
    rows = [event.row() for event in events][:PIECE]
    began_s = time.process_time()
    framed(rows)
    encode_s = time.process_time() - began_s
    print(f"\na route of 3 tags joins in {join_us:.1f} us and leaves in {leave_us:.1f} us")
    print(
        f"a snapshot of {routes_n} routes: {took_s[0] * 1e3:.1f} ms at its moment, then {len(took_s) - 1} ticks of "
        f"{statistics.median(took_s[1:]) * 1e3:.1f} ms (median) to {max(took_s[1:]) * 1e3:.1f} ms; encoding "
        f"{len(rows)} of them {encode_s * 1e3:.1f} ms"
    )


def main() -> None:
    """Print it all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="for the four together")
    parser.add_argument("--routes", type=int, default=10_000, help="of the large table")
    options = parser.parse_args()
    print(describe_machine())
    print(f"core: {'compiled' if COMPILED else 'interpreted'}\n")
    measure(options.seconds)
    measure_table(options.routes)


if __name__ == "__main__":
    main()

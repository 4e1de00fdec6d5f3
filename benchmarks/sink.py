"""What the writer of event files costs: CPU and bytes for each single request, and how long making a file takes.

    python -m benchmarks.sink                     20,000 and 100,000 requests a second, each for 10 s
    python -m benchmarks.sink --rates 30000 --seconds 30

A real writer process is fed frames as a busy broker sends them, one every 15 ms: single requests over 50 services, 200
routes and 20 callers, as skewed as traffic is (zipf), with latencies and sizes that vary. Its CPU is what the kernel
says of the process, less what a writer that gets nothing costs. How long a batch takes from the end of its log to the
removal of it is measured inside this process, with the same frames.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.machine import describe_machine
from broker.edge.shell import REQUESTS_S
from spark_sink.event_files.batches import warm_up
from spark_sink.event_files.frames import Header
from spark_sink.event_files.layout import Disk
from spark_sink.writer.machine import Writer
from spark_sink.writer.settings import Settings

SERVICES: Final = 50
ROUTES: Final = 200
CALLERS: Final = 20
HEADER: Final = Header(broker_id="7f3a0000-0000-4000-8000-000000000001", broker_name="bench", epoch=1_800_000_000_000)

Row = tuple[object, ...]


def definitions() -> list[Row]:
    """A flow for each caller and route."""
    rows: list[Row] = []
    for route in range(ROUTES):
        service = f"service-{route % SERVICES}"
        address = f"service={service} region={'eu' if route % 3 else 'us'}"
        for caller in range(CALLERS):
            texts = (f"7f3a0000-0000-4000-9000-{caller:012d}", f"web-{caller % 4}")
            target = (f"7f3a0000-0000-4000-a000-{route:012d}", service, address)
            rows.append((3, len(rows) + 1, *texts, *target, "request_response", "unicast", "", "", "AAAEFA=="))
    return rows


def frames_of(rate: int, seconds: float, seed: int = 1) -> list[bytes]:
    """What a broker sends in so many seconds, one frame a tick."""
    rng = random.Random(seed)
    flows = ROUTES * CALLERS
    weights = [1.0 / (rank + 1) for rank in range(flows)]
    numbers = rng.sample(range(1, flows + 1), flows)
    started_us, seq, frames = 1_800_000_000_000_000, 0, []
    for tick in range(round(seconds / REQUESTS_S)):
        rows: list[Row] = []
        for flow in rng.choices(numbers, weights, k=round(rate * REQUESTS_S)):
            seq += 1
            at_us = started_us + round(1e6 * REQUESTS_S * (tick + rng.random()))
            outcome = 0 if rng.random() < 0.99 else rng.randrange(1, 6)
            sizes = 60 + rng.randrange(40), 80 + int(rng.expovariate(1 / 400))
            duration_us = int(rng.lognormvariate(6.5, 0.9))
            choice = seq, seq + rng.randrange(50), -1, 1
            rows.append((2, seq, at_us, duration_us, flow, outcome, *choice, 1, 1, *sizes))
        frames.append(msgspec.msgpack.encode(rows))
    return frames


def framed(frame: bytes) -> bytes:
    """As on the pipe."""
    return len(frame).to_bytes(4, "big") + frame


def process_cpu_s(folder: Path, frames: Sequence[bytes]) -> float:
    """CPU seconds of a writer process that gets these frames at their pace."""
    command = [sys.executable, "-m", "spark_sink.writer", "--events", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(framed(msgspec.msgpack.encode(HEADER)))
    process.stdin.write(framed(msgspec.msgpack.encode(definitions())))
    process.stdin.flush()
    time.sleep(2.0)  # until it has started, so that the pace is one from the beginning
    begun = time.monotonic()
    for number, frame in enumerate(frames):
        time.sleep(max(0.0, begun + number * REQUESTS_S - time.monotonic()))
        process.stdin.write(framed(frame))
        process.stdin.flush()
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def publish_ms(folder: Path, frames: Sequence[bytes]) -> list[float]:
    """How long each batch of a second took to become a segment, milliseconds."""
    writer = Writer(folder, HEADER, disk=Disk(), say=print, settings=Settings(roll_s=1.0))
    writer.begin(0.0, 0.0)
    writer.take(msgspec.msgpack.encode(definitions()), 0.0, 0.0)
    took = []
    for number, frame in enumerate(frames):
        now = number * REQUESTS_S
        writer.take(frame, now, 0.0)
        begun = time.perf_counter()
        sealed = writer.state.sealed
        writer.tick(now + REQUESTS_S, 0.0)
        if writer.state.sealed > sealed:
            took.append((time.perf_counter() - begun) * 1000)
    writer.seal_all(0.0, 0.0)
    writer.end()
    return took


def measure(rate: int, seconds: float, idle_s: float) -> str:
    """A line of the table."""
    frames = frames_of(rate, seconds)
    events = round(rate * REQUESTS_S) * len(frames)
    folder = Path(tempfile.mkdtemp(prefix="sink-"))
    try:
        cpu_s = process_cpu_s(folder / "process", frames) - idle_s
        size = sum(path.stat().st_size for path in (folder / "process" / "requests").iterdir())
        took = publish_ms(folder / "inside", frames)
    finally:
        shutil.rmtree(folder)
    cells = [f"{rate:,}", f"{events:,}", f"{cpu_s / events * 1e6:.2f}", f"{cpu_s / seconds * 100:.1f} %"]
    cells += [f"{size / events:.1f}", f"{statistics.median(took):.0f} / {max(took):.0f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[20_000, 100_000], help="requests a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each rate")
    options = parser.parse_args()
    print(describe_machine())
    warm_up()
    with tempfile.TemporaryDirectory(prefix="sink-") as folder:
        idle_s = process_cpu_s(Path(folder), [])
    print(f"\na writer that gets nothing: {idle_s:.2f} s of CPU\n")
    print("| requests/s | requests | CPU, us each | of a core | bytes each | making a file, median / worst ms |")
    print("|---|---|---|---|---|---|")
    for rate in options.rates:
        print(measure(rate, options.seconds, idle_s), flush=True)


if __name__ == "__main__":
    main()

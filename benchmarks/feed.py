"""How fast a mirror of the feed is, beside `sr3 subscribe` and curl: `python -m benchmarks.feed`.

Small files from one host, a large one, what it costs to decide on a repeat, the way of an event segment, and memory
with many posts that wait. All mirrors take their posts from the same RabbitMQ broker, and files from the same server.
The method is told in README.md.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final
from uuid import uuid4

import click
from rich.console import Console

from benchmarks.feed_programs import (
    CURL,
    CURL_AND_SUM,
    OURS,
    SR3,
    bodies_of,
    cpu_s,
    dead_bodies,
    drop,
    fill,
    make_files,
    mirroring,
    publish,
    started,
    wait_until,
)
from benchmarks.figures import table_of
from benchmarks.machine import CannotMeasure, describe_machine, resident_kib
from benchmarks.samwise import rabbitmq
from broker.config.sections.feed import CONTROL_NAME
from spark_sink.feed.consumer.mirror import Mirror, MirrorOptions
from spark_sink.feed.posts import read_post
from spark_sink.feed.program.control import ControlClient
from tests.client_sdk.gateways.samwise.rabbitmq import HOST, free_port
from tests.system.feed.sr3 import FOLDER as SR3_FOLDER

KINDS: Final = ("small", "large", "repeats", "segments", "waiting")
SMALL_BYTES: Final = 4_096
WARM_UP_N: Final = 100  # files, that are not counted
LOOK_S: Final = 0.05
RUN_S: Final = 60.0  # at most, of anything that is waited for
SEGMENT_BYTES: Final = 100_000
STREAM: Final = "11223344-5566-7788-99aa-bbccddeeff00-1700000000000"
POSTS_N: Final = 1_000  # that are decided on, ten times


def files_in(landing: Path) -> int:
    """How many are there under their own names."""
    return sum(
        not name.startswith(".") and not name.endswith(".tmp")
        for folder in landing.iterdir()
        if folder.is_dir()
        for name in os.listdir(folder)
    )


# Small files


def small(name: str, folder: Path, port: int, bodies: Sequence[bytes], seconds: float, sr3: Path | None) -> list[float]:
    """Files a second, and ms of CPU for each, of one mirror that has them all before it."""
    queue = f"q_guest.{uuid4().hex[:8]}"
    asyncio.run(fill(port, queue, bodies))
    landing = folder / "landing"
    with mirroring(name, folder, port, queue, sr3) as pid:
        wait_until(lambda: files_in(landing) >= WARM_UP_N, RUN_S, f"{WARM_UP_N} files of {name}")
        first_n, began_at, cpu_before = files_in(landing), time.monotonic(), cpu_s(pid)
        while (now := time.monotonic()) < began_at + seconds and files_in(landing) < len(bodies):
            time.sleep(LOOK_S)
        used_s, done_n = cpu_s(pid) - cpu_before, files_in(landing) - first_n
    asyncio.run(drop(port, queue))
    if not done_n:
        raise CannotMeasure(f"{name} fetched nothing more after {first_n} files")
    return [done_n / (now - began_at), used_s / done_n * 1000]


def show_small(
    console: Console, base: Path, url: str, port: int, sr3: Path | None, files_n: int, seconds: float, rounds: int
) -> None:
    """Medians over the rounds; what is said beside sr3 is taken within each round. `url`: below which the files of
    `base` are."""
    root = base / "small"
    make_files(root, files_n, SMALL_BYTES)
    names = [OURS] if sr3 is None else [OURS, SR3]
    results: dict[str, list[list[float]]] = {name: [] for name in names}
    bodies = bodies_of(root, f"{url}{root.name}/")
    for number in range(rounds):
        for name in names if number % 2 else names[::-1]:
            # It stays until the end: ext4 would pass over the places of removed files, one by one, for minutes.
            folder = Path(tempfile.mkdtemp(prefix="mirror-", dir=base))
            results[name].append(small(name, folder, port, bodies, seconds, sr3))
    table = table_of(f"Files of {SMALL_BYTES} bytes", "mirror", "files/s", "of sr3's", "CPU ms a file", "of sr3's")
    for name, figures in results.items():
        row = []
        for place, form in enumerate((",.0f", ".2f")):
            pairs = zip(figures, results.get(SR3, []), strict=False)
            ratios = [one[place] / other[place] for one, other in pairs]
            row += [format(median(each[place] for each in figures), form), f"{median(ratios):.2f}" if ratios else ""]
        table.add_row(name, *row)
    console.print(table)


# A large file


def large(name: str, folder: Path, port: int, file: Path, url: str) -> float:
    """Seconds from its post, or from the start of curl, until it is there."""
    if name in (CURL, CURL_AND_SUM):
        began_at = time.time()
        fetched = folder / "file"
        subprocess.run(["curl", "-sSf", "-o", fetched, f"{url}{file.name}"], check=True)
        for program in ("sha512sum", "sync") if name == CURL_AND_SUM else ():
            subprocess.run([program, fetched], check=True, stdout=subprocess.DEVNULL)
        return time.time() - began_at
    queue = f"q_guest.{uuid4().hex[:8]}"
    first, body = bodies_of(file.parent, url)
    landing = folder / "landing"
    asyncio.run(fill(port, queue, [first]))
    with mirroring(name, folder, port, queue, None):
        wait_until((landing / "first").exists, RUN_S, f"the first file of {name}")
        began_at = time.time()
        asyncio.run(publish(port, body))
        wait_until((landing / file.name).exists, RUN_S, f"the large file of {name}")
        took_s = time.time() - began_at
    asyncio.run(drop(port, queue))
    return took_s


def show_large(console: Console, base: Path, url: str, port: int, mib: int, rounds: int) -> None:
    """As `show_small`, beside curl."""
    root = base / "large"
    root.mkdir()
    (root / "first").write_bytes(b"first")
    file = root / "large"
    with file.open("wb") as output:
        for _ in range(mib):
            output.write(os.urandom(1 << 20))
    names = [CURL, CURL_AND_SUM, OURS]
    results: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            with tempfile.TemporaryDirectory(prefix="mirror-", dir=base) as folder:
                results[name].append(large(name, Path(folder), port, file, f"{url}{root.name}/"))
            os.sync()  # nobody writes what another one has left
    table = table_of(f"A file of {mib} MiB", "who", "s", "of curl's time")
    for name, seconds in results.items():
        ratio = median(one / other for one, other in zip(seconds, results[CURL], strict=True))
        table.add_row(name, f"{median(seconds):.2f}", f"{ratio:.2f}")
    console.print(table)


# What is decided without anybody else


def show_repeats(console: Console) -> None:
    """Of a post that is repeated: reading it, and deciding on it."""
    bodies = list(dead_bodies(POSTS_N))
    mirror = Mirror(MirrorOptions())
    posts = [read_post(body) for body in bodies]
    for post in posts:
        mirror.done(post, time.time())

    def best_us(work: Callable[[], object]) -> float:
        """Of ten rounds."""
        taken = []
        for _ in range(10):
            began_at = time.process_time()
            work()
            taken.append((time.process_time() - began_at) / len(bodies) * 1e6)
        return min(taken)

    now = time.time()
    decides_us = best_us(lambda: [mirror.decide(post, now) for post in posts])
    both_us = best_us(lambda: [mirror.decide(read_post(body), now) for body in bodies])
    table = table_of("A post that is winnowed", "", "µs")
    table.add_row("decided on", f"{decides_us:.1f}")
    table.add_row("read and decided on", f"{both_us:.1f}")
    console.print(table)


# Segments


def show_segments(console: Console, base: Path, segments_n: int) -> None:
    """From the moment at which a segment has its name to that of its copy, over RSocket alone; times of the files."""
    events, landing = base / "events", base / "landing"
    for folder in (events / "flows", events / "_tmp", landing):
        folder.mkdir(parents=True)
    _log(events, 1).touch()
    _seal(events, 1)
    with started("serve", "--listen", "tcp://127.0.0.1:0", log=base / "broker.log") as broker:
        url = "tcp://" + broker.wait_for("tcp://").split()[0].rstrip(",")
        to = ("--segments", "--dir", base / "post", "--to", url, "--listen", f"{HOST}:{free_port()}", events)
        by = ("--dir", base / "mirror", "--from", url, landing)
        with (
            started("feed", "watch", *to, log=base / "watch.log"),
            started("feed", "subscribe", *by, log=base / "subscribe.log"),
        ):
            wait_until(lambda: files_in(landing) == 1, RUN_S, "a copy of the first segment")
            for number in range(2, segments_n + 2):
                _seal(events, number)
                time.sleep(0.1 + number % 10 / 100)
            wait_until(lambda: files_in(landing) > segments_n, RUN_S, "a copy of each segment")
    took_s = sorted(
        file.stat().st_ctime - (events / "flows" / file.name).stat().st_ctime
        for file in (landing / "flows").iterdir()
        if not file.name.endswith(f"-{1:010d}.parquet")
    )
    table = table_of(f"From {segments_n} sealed segments to their copies", "p50 ms", "p99 ms", "most ms", left_n=0)
    table.add_row(*(f"{took_s[min(segments_n - 1, int(part * segments_n))] * 1000:.0f}" for part in (0.5, 0.99, 1)))
    console.print(table)


def _seal(events: Path, number: int) -> None:
    """As the writer does: the log of the next one begins, the segment gets its name, and its own log goes."""
    _log(events, number + 1).touch()
    name = f"{STREAM}-{number:010d}.parquet"
    hidden = events / "flows" / f".{name}"
    hidden.write_bytes(os.urandom(SEGMENT_BYTES))
    hidden.rename(events / "flows" / name)
    _log(events, number).unlink()


def _log(events: Path, number: int) -> Path:
    return events / "_tmp" / f"{STREAM}-{number:010d}.wal"


# Posts that wait


def show_waiting(console: Console, base: Path, port: int, posts_n: int) -> None:
    """Posts of a host that refuses connections: all of them wait on the disk of the mirror."""
    folder, queue = base / "waiting", f"q_guest.{uuid4().hex[:8]}"
    bodies = list(dead_bodies(posts_n))
    asyncio.run(fill(port, queue, bodies[:1]))
    with mirroring(OURS, folder, port, queue, None) as pid:
        control = folder / "state" / CONTROL_NAME
        wait_until(lambda: waiting_n(control) == 1, RUN_S, "a post that waits")
        before_mib = resident_kib(pid) / 1024
        asyncio.run(fill(port, queue, bodies[1:], is_read=True))
        wait_until(lambda: waiting_n(control) >= posts_n, RUN_S, f"{posts_n} posts that wait")
        after_mib = resident_kib(pid) / 1024
    asyncio.run(drop(port, queue))
    table = table_of(f"{posts_n:,} posts wait for a host", "MiB with one", "MiB with all", left_n=0)
    table.add_row(f"{before_mib:.1f}", f"{after_mib:.1f}")
    console.print(table)


def waiting_n(control: Path) -> int:
    """How many posts wait for another try, by the control socket of a feed."""

    async def ask() -> int:
        async with ControlClient(control) as client:
            (mirror,) = (await client.state()).mirrors
            return mirror.retries

    time.sleep(LOOK_S)  # whoever is asked works, too
    return asyncio.run(ask())


@click.command()
@click.option("--only", type=click.Choice(KINDS), multiple=True, help="Instead of all.")
@click.option("--seconds", type=click.FloatRange(0.2), default=5.0, show_default=True, help="Of each run, small files.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--files", "files_n", type=click.IntRange(10), default=12_000, show_default=True, help="Small ones.")
@click.option("--mib", type=click.IntRange(1), default=512, show_default=True, help="Of the large file.")
@click.option("--segments", "segments_n", type=click.IntRange(1), default=200, show_default=True)
@click.option("--posts", "posts_n", type=click.IntRange(2), default=100_000, show_default=True, help="That wait.")
@click.option("--without-sr3", is_flag=True, help="As where it is not installed in build/sr3.")
@click.option("--port", type=click.IntRange(1, 65535), help="Of a RabbitMQ broker here; one is started otherwise.")
def main(
    only: tuple[str, ...],
    seconds: float,
    rounds: int,
    files_n: int,
    mib: int,
    segments_n: int,
    posts_n: int,
    without_sr3: bool,
    port: int | None,
) -> None:
    """Compare a mirror with `sr3 subscribe`, which `python -m tests.system.feed.sr3` installs, and with curl."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    kinds = only or KINDS
    python = SR3_FOLDER / "bin" / "python"
    sr3 = python if (SR3_FOLDER / "installed").exists() and not without_sr3 else None
    console.print(describe_machine(), highlight=False)
    with tempfile.TemporaryDirectory(prefix="feed-") as folder:
        base = Path(folder)
        if {"small", "large", "waiting"}.intersection(kinds):
            serve = ("feed", "serve", "--listen", f"{HOST}:0", base)
            with rabbitmq(port) as rabbit_port, started(*serve, log=base / "serve.log") as server:
                url = server.wait_for("listening ")
                if "small" in kinds:
                    show_small(console, base, url, rabbit_port, sr3, files_n, seconds, rounds)
                if "large" in kinds:
                    show_large(console, base, url, rabbit_port, mib, rounds)
                if "waiting" in kinds:
                    show_waiting(console, base, rabbit_port, posts_n)
        if "repeats" in kinds:
            show_repeats(console)
        if "segments" in kinds:
            show_segments(console, base, segments_n)


if __name__ == "__main__":
    main()

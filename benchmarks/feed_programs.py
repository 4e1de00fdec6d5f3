"""The programs that `feed` measures: our mirror and poster, `sr3 subscribe`, a server of files, and posts for them.

Posts wait in a durable queue of RabbitMQ before a mirror starts, so nobody's start, and no poster, is in a figure.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiormq
from pamqp.commands import Basic

from benchmarks.contestants import START_LIMIT_S, plain_environment
from benchmarks.machine import COMMAND, ROOT, CannotMeasure, end
from spark_sink.feed.identity import SHA512, identity_of
from spark_sink.feed.posts import make_post
from spark_sink.feed.transports.amqp import PERSISTENT
from spark_sink.feed.transports.reconnecting import CONTENT_TYPE
from spark_sink.feed.transports.settings import ALL_POSTS, POST_PREFIX
from tests.client_sdk.gateways.samwise.rabbitmq import HOST
from tests.system.feed.sr3 import Sr3

OURS: Final = "feed subscribe"
SR3: Final = "sr3 subscribe"
CURL: Final = "curl"
CURL_AND_SUM: Final = "curl, sha512sum, sync"  # all that a mirror does
EXCHANGE: Final = "xpublic"
PROPERTIES: Final = Basic.Properties(content_type=CONTENT_TYPE, delivery_mode=PERSISTENT)
STOP_LIMIT_S: Final = 20.0
POLL_S: Final = 0.005
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Program:
    """One of our commands that runs."""

    def __init__(self, *words: object, log: Path) -> None:
        self._log: Final = log
        environment = {**plain_environment(), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        with log.open("wb") as output:
            self._process: Final = subprocess.Popen(
                [*COMMAND, *map(str, words)],
                cwd=log.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid: Final = self._process.pid

    def wait_for(self, text: str) -> str:
        """The rest of the line behind it, when it has said so; CannotMeasure."""

        def has_said() -> bool:
            if self._process.poll() is not None:
                raise CannotMeasure(f"{self._process.args!r} ended: {self._log.read_text(errors='replace')}")
            return text in self._log.read_text(errors="replace")

        wait_until(has_said, START_LIMIT_S, f"{text!r} of {self._process.args!r}")
        return self._log.read_text(errors="replace").partition(text)[2].partition("\n")[0]

    def end(self) -> None:
        """Waits until it is gone."""
        end(self._process, STOP_LIMIT_S)


@contextmanager
def started(*words: object, log: Path) -> Iterator[Program]:
    """One of our commands, until the end."""
    program = Program(*words, log=log)
    try:
        yield program
    finally:
        program.end()


@contextmanager
def mirroring(name: str, folder: Path, port: int, queue: str, sr3: Path | None) -> Iterator[int]:
    """OURS or SR3, which mirrors what is in this queue of RabbitMQ into `folder`/landing: its process id. `sr3`: its
    interpreter. Without reports, which sr3 does not send unless it is told to."""
    landing = folder / "landing"
    landing.mkdir(parents=True)
    if name == OURS:
        broker = f"amqp://guest:guest@{HOST}:{port}/"
        words = ("--dir", folder / "state", "--from", broker, "--queue", queue, "--no-reports", landing)
        with started("feed", "subscribe", *words, log=folder / "log") as program:
            program.wait_for("mirrors into")
            yield program.pid
        return
    assert sr3 is not None  # it was asked for
    programs = Sr3(sr3, folder)
    own = [
        *(f"exchange {EXCHANGE}", "topicPrefix v03.post", f"queueName {queue}", "expire 0", "subtopic #"),
        *(f"directory {landing}", "mirror true", "accept .*"),
    ]
    try:
        yield programs.start("subscribe", "mirror", f"amqp://{HOST}:{port}", own).pid
    finally:
        programs.end()


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process and its children have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(int(each) for each in fields[11:15]) / _TICKS
    children = [int(each) for file in Path(f"/proc/{pid}/task").glob("*/children") for each in file.read_text().split()]
    return own + sum(cpu_s(each) for each in children)


def make_files(root: Path, count: int, size: int) -> None:
    """So many files, ten folders of them; all with different bytes."""
    for number in range(10):
        (root / f"d{number}").mkdir(parents=True)
    for number in range(count):
        (root / f"d{number % 10}" / f"f{number}").write_bytes(os.urandom(size))


def bodies_of(root: Path, base_url: str) -> list[bytes]:
    """A post for each file below a root."""
    bodies = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            stat, data = path.stat(), path.read_bytes()
            post = make_post(
                base_url,
                str(path.relative_to(root)),
                time.time_ns(),
                identity=identity_of(SHA512, data),
                size=stat.st_size,
                mtime_ns=stat.st_mtime_ns,
                mode=stat.st_mode,
            )
            bodies.append(post.encode())
    return bodies


def dead_bodies(count: int) -> Iterator[bytes]:
    """Posts of files at a host that refuses connections."""
    for number in range(count):
        identity = identity_of(SHA512, str(number).encode())
        yield make_post(f"http://{HOST}:1/", f"d/f{number}", time.time_ns(), identity=identity, size=4096).encode()


async def fill(port: int, queue: str, bodies: Sequence[bytes], *, is_read: bool = False) -> None:
    """The queue is there, and these posts wait in it. `is_read`: somebody takes them meanwhile."""
    connection = await aiormq.connect(f"amqp://guest:guest@{HOST}:{port}/")
    try:
        channel = await connection.channel(publisher_confirms=False)
        await channel.exchange_declare(EXCHANGE, exchange_type="topic", durable=True)
        await channel.queue_declare(queue, durable=True)
        await channel.queue_bind(queue, EXCHANGE, ALL_POSTS)
        for body in bodies:
            await channel.basic_publish(body, exchange="", routing_key=queue, properties=PROPERTIES)
        for _ in range(int(START_LIMIT_S / POLL_S)):
            if (await channel.queue_declare(queue, passive=True)).message_count == len(bodies) or is_read:
                return
            await asyncio.sleep(POLL_S)
        raise CannotMeasure(f"queue {queue} has not got its {len(bodies)} posts")
    finally:
        await connection.close()


async def publish(port: int, body: bytes) -> None:
    """A post, to whoever has a queue."""
    connection = await aiormq.connect(f"amqp://guest:guest@{HOST}:{port}/")
    try:
        channel = await connection.channel()
        await channel.basic_publish(body, exchange=EXCHANGE, routing_key=f"{POST_PREFIX}.bench", properties=PROPERTIES)
    finally:
        await connection.close()


async def drop(port: int, queue: str) -> None:
    """The queue goes."""
    connection = await aiormq.connect(f"amqp://guest:guest@{HOST}:{port}/")
    try:
        await (await connection.channel()).queue_delete(queue)
    finally:
        await connection.close()


def wait_until(is_true: Callable[[], object], limit_s: float, what: str) -> None:
    """CannotMeasure when it does not come true."""
    end_at = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > end_at:
            raise CannotMeasure(f"after {limit_s:.0f} s there is not yet {what}")
        time.sleep(POLL_S)

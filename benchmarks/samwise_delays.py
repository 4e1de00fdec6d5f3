"""How long the Samwise gateway makes others wait: `python -m benchmarks.samwise_delays`.

Those who start it with a million stored messages, and how much memory these take; whoever waits for a message that was
answered, until RabbitMQ has confirmed it, at half of what the gateway takes; and callers of a broker beside a gateway
at full load. The method is told in README.md.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks.contestants import (
    COMPILED,
    INTERPRETED,
    START_LIMIT_S,
    RunningBroker,
    contestants,
    core_folder,
    plain_environment,
)
from benchmarks.contestants import measure as measure_broker
from benchmarks.figures import Row, table_of
from benchmarks.machine import BUILD, CannotMeasure, build_programs, choose_cpus, describe_machine, resident_kib
from benchmarks.samwise import STOP_LIMIT_S, gateway_command, gateway_file, measure, rabbitmq, running, status_of
from client_sdk.gateways.samwise.store import DURABILITIES, FSYNC, OS
from client_sdk.gateways.samwise.tables import Tables, encode_publish
from client_sdk.gateways.samwise.values import ROUND_ROBIN, Publish
from spark_sink.event_files.layout import LOG_FOLDER, LOG_SUFFIX

PARTS: Final = ("starts", "confirms", "broker")
CALLERS_N: Final = 64
LOOK_S: Final = 0.1
WARM_UP_SHARE: Final = 0.2  # of a run, as in load/common.h
TRAFFIC: Final = Row("request_response", 16, 8)
RATE: Final = 2_000  # requests a second through the broker: a part of what it takes
MESSAGE: Final = Publish(
    version=120,
    distribution=ROUND_ROBIN,
    acks_n=1,
    exchange="amq.direct",
    routing_key="bench",
    options={},
    headers=(),
    payload=bytes(100),
)


# A start with many stored messages


def fill(folder: Path, messages_n: int) -> None:
    """Stores so many in the folder of a gateway that does not run."""
    folder.mkdir()
    tables = Tables(folder / "messages.db", is_synced=False, max_messages=2 * messages_n + 1, max_bytes=1 << 40)
    encoded = encode_publish(MESSAGE)
    for first in range(0, messages_n, 1000):
        tables.begin()
        tables.put([(MESSAGE, f"{first + at:032x}", 0, encoded) for at in range(min(1000, messages_n - first))])
        tables.write_totals()
        tables.commit()
    tables.close()


def delivered_n(endpoint: str) -> int:
    """How many messages a gateway has delivered since its start."""
    lines = status_of(endpoint).splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("delivered: "))


def start_with(messages_n: int, port: int, seconds: float, core: Path) -> list[float]:
    """Seconds of a start, MiB then, MiB at most while it delivers, for so long at most, and how many it delivers."""
    with tempfile.TemporaryDirectory(prefix="samwise-") as folder:
        fill(Path(folder) / "store", messages_n)
        file = Path(folder) / "file"
        more = "max_messages = 4_000_000\nmax_bytes = 8_000_000_000\n[samwise.rabbitmq"
        file.write_text(gateway_file(folder, port, OS).replace("[samwise.rabbitmq", more, 1))
        began_at = time.monotonic()
        environment = {**plain_environment(), "PYTHONPATH": str(core)}
        process = subprocess.Popen(gateway_command(file), cwd=folder, env=environment, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None  # it is a pipe
            if not process.stdout.readline():
                raise CannotMeasure(f"a gateway with {messages_n} messages does not start")
            took_s = time.monotonic() - began_at
            first_mib = most_mib = resident_kib(process.pid) / 1024
            end_at = time.monotonic() + seconds
            while time.monotonic() < end_at and (done_n := delivered_n(f"ipc://{folder}/s")) < messages_n:
                time.sleep(LOOK_S)
                most_mib = max(most_mib, resident_kib(process.pid) / 1024)
            return [took_s, first_mib, most_mib, done_n]
        finally:
            process.terminate()
            process.wait(STOP_LIMIT_S)


def show_starts(console: Console, port: int, messages_n: int, seconds: float, core: Path) -> None:
    """Beside one with nothing stored."""
    title = f"A start with stored messages, and {seconds:.0f} s of their delivery"
    table = table_of(title, "stored", "start s", "MiB", "MiB at most", "delivered")
    for count in (0, messages_n):
        took_s, first_mib, most_mib, done_n = start_with(count, port, seconds, core)
        table.add_row(f"{count:,}", f"{took_s:.2f}", f"{first_mib:.1f}", f"{most_mib:.1f}", f"{done_n:,.0f}")
    console.print(table)


# From an answer to RabbitMQ's confirm


def confirms_of(events: Path) -> list[int]:
    """Milliseconds from each message's acceptance, before it is stored and answered, to its acknowledgement; without
    those of the warm-up."""
    limit = time.monotonic() + START_LIMIT_S
    while any(events.glob(f"{LOG_FOLDER}/*{LOG_SUFFIX}")) and time.monotonic() < limit:
        time.sleep(LOOK_S)  # the writer of a gateway that has ended seals what it has
    moments: list[int] = []
    took_ms: list[int] = []
    for file in sorted(events.glob("messages/**/*.parquet")):
        table = pq.read_table(file, columns=["accepted_at", "after_ms"])
        moments += [int(each.timestamp() * 1000) for each in table["accepted_at"].to_pylist()]
        took_ms += table["after_ms"].to_pylist()
    if not moments:
        raise CannotMeasure("no message was confirmed")
    begin_at_ms = min(moments) + WARM_UP_SHARE * (max(moments) - min(moments))
    return sorted(took for at_ms, took in zip(moments, took_ms, strict=True) if at_ms >= begin_at_ms)


def part_of(values: list[int], part: float) -> int:
    """The value that so many of the sorted ones do not exceed."""
    return values[min(len(values) - 1, int(part * len(values)))]


def show_confirms(
    console: Console, port: int, durabilities: Iterable[str], seconds: float, rounds: int, core: Path
) -> None:
    """At half of the rate that the gateway took just before, with event files that tell of each message."""
    title = f"From acceptance to RabbitMQ's confirm, {CALLERS_N} callers at half load"
    table = table_of(title, "durability", "full load/s", "half load/s", "answer p99 ms", "p50 ms", "p99 ms", "most ms")
    for durability in durabilities:
        name = f"gateway, {durability}"
        for _ in range(rounds):
            with running(name, "", port, core=core) as (pid, endpoint):
                full = measure(pid, endpoint, CALLERS_N, seconds)["requests_per_s"]
            with tempfile.TemporaryDirectory(prefix="events-") as events:
                with running(name, "", port, f'[events]\ndir = "{events}"\n', core=core) as (pid, endpoint):
                    half = measure(pid, endpoint, CALLERS_N, seconds, max(1, int(full / 2)))
                took_ms = confirms_of(Path(events))
            answer_ms = f"{half['p99_us'] / 1000:.1f}"
            rates = [f"{full:,.0f}", f"{half['requests_per_s']:,.0f}", answer_ms]
            table.add_row(durability, *rates, *(str(part_of(took_ms, part)) for part in (0.5, 0.99, 1)))
    console.print(table)


# A broker beside a gateway


@contextmanager
def full_load(port: int, seconds: float, core: Path) -> Iterator[None]:
    """A gateway with CALLERS_N callers that send as fast as they are answered."""
    with running(f"gateway, {FSYNC}", "", port, core=core) as (_, endpoint):
        words = ["--endpoint", endpoint, "--connections", str(CALLERS_N), "--seconds", str(seconds)]
        callers = subprocess.Popen([str(BUILD / "samwise_load"), *words], stdout=subprocess.DEVNULL)
        try:
            yield
            if callers.poll():
                raise CannotMeasure(f"callers of the gateway ended with status {callers.returncode}")
        finally:
            callers.kill()
            callers.wait()


def through(broker: RunningBroker, seconds: float, cpus: set[int]) -> dict[str, Any]:
    """What callers of a broker report, RATE requests a second."""
    return measure_broker(broker, [*TRAFFIC.arguments(seconds), "--rate", str(RATE)], seconds, cpus)


def show_broker(console: Console, port: int, seconds: float, rounds: int, *, is_compiled: bool) -> None:
    """Alone, and beside a gateway at full load."""
    name = COMPILED if is_compiled else INTERPRETED
    core = core_folder(is_compiled)
    contestant = next(each for each in contestants() if each.name == name)
    cpus = set.union(*choose_cpus())  # all share them: that is what is asked
    alone, beside = [], []
    broker = contestant.start(cpus)
    try:
        for _ in range(rounds):
            alone.append(through(broker, seconds, cpus))
            with full_load(port, 10 * seconds, core):
                beside.append(through(broker, seconds, cpus))
    finally:
        broker.stop()
    title = f"Through a broker, {RATE:,} requests a second ({name})"
    table = table_of(title, "gateway", "requests/s", "CPU µs", "p50 µs", "p99 µs", "p99.9 µs")
    for what, reports in (("none", alone), ("at full load", beside)):
        keys = ("requests_per_s", "cpu_us_per_request", "p50_us", "p99_us", "p999_us")
        table.add_row(what, *(f"{median(report[key] for report in reports):,.0f}" for key in keys))
    console.print(table)


@click.command()
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="These parts.")
@click.option("--messages", "messages_n", type=click.IntRange(1), default=1_000_000, show_default=True, help="Stored.")
@click.option("--durability", "durabilities", multiple=True, type=click.Choice(DURABILITIES), default=DURABILITIES)
@click.option("--seconds", type=click.FloatRange(0.1), default=5.0, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--interpreted", is_flag=True, help="Gateway and broker, which are compiled otherwise.")
@click.option("--port", type=click.IntRange(1, 65535), help="Of a RabbitMQ broker here; one is started otherwise.")
def main(
    only: tuple[str, ...],
    messages_n: int,
    durabilities: tuple[str, ...],
    seconds: float,
    rounds: int,
    interpreted: bool,
    port: int | None,
) -> None:
    """Measure how long the Samwise gateway makes others wait."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    parts = only or PARTS
    build_programs(("samwise_load", "rsocket_load"))
    console.print(describe_machine(), highlight=False)
    core = core_folder(not interpreted)
    with rabbitmq(port) as rabbit_port:
        if "starts" in parts:
            show_starts(console, rabbit_port, messages_n, seconds, core)
        if "confirms" in parts:
            show_confirms(console, rabbit_port, durabilities, seconds, rounds, core)
        if "broker" in parts:
            show_broker(console, rabbit_port, seconds, rounds, is_compiled=not interpreted)


if __name__ == "__main__":
    main()

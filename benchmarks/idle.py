"""Memory of the broker per idle connection: `python -m benchmarks.idle`.

Opens many TCP connections with a SETUP each, waits until the broker has answered a KEEPALIVE on every one of them, and
compares the broker's resident memory (VmRSS) with what it was before. Twice: connections that only call, and services
with a route of four tags. Socket buffers are the kernel's and are not in it.
"""

import resource
import socket
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

import click
from rich.console import Console

from benchmarks.beside import framed
from benchmarks.contestants import OURS, CannotStart, Contestant, RunningBroker, contestants
from benchmarks.figures import table_of
from benchmarks.machine import BUILD, CannotMeasure, choose_cpus, resident_kib
from rsocket_wire.rsocket.frames import Setup, encode_keepalive
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, encode_entry
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from rsocket_wire.wire.tags import Tag

SPARE_DESCRIPTORS: Final = 200  # what a process needs besides its connections
BATCH: Final = 100  # connections that are opened before their answers are awaited: fewer than a listen backlog
ANSWER_LIMIT_S: Final = 20.0
SETTLE_S: Final = 1.0  # until the broker has freed what it only needed to accept
ANSWER_BYTES: Final = len(framed(encode_keepalive(b"")))


def opening(number: int, has_route: bool) -> bytes:
    """SETUP, with a ROUTE_SETUP of its own if it is a service, and a KEEPALIVE to be answered."""
    metadata: bytes | None = None
    if has_route:
        tags = [Tag.of("region", f"r{number % 16}"), Tag.of("zone", f"z{number % 64}")]
        route = RouteSetup(b"rsb-idle" + number.to_bytes(8, "big"), f"idle-{number % 100}", tags).encode()
        metadata = encode_entry(MIME_TYPE.encode(), route)
    setup = Setup(COMPOSITE_MIME, "application/octet-stream", 20_000_000, 90_000_000, metadata).encode()
    return framed(setup) + framed(encode_keepalive(b"", respond=True))


def raise_limit(connections: int) -> None:
    """Allows this process, and the broker that it starts, that many connections."""
    wanted = connections + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise click.ClickException(
            f"{connections} connections need {wanted} open files, the hard limit is {hard} (ulimit -Hn)"
        )
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def batches(total: int) -> Iterator[int]:
    """100, 100, … and the rest."""
    for begun in range(0, total, BATCH):
        yield min(BATCH, total - begun)


def connect_all(port: int, total: int, opening_of: Callable[[int], bytes]) -> list[socket.socket]:
    """Open connections that were let in. `opening_of`: what the one of a number says, with a KEEPALIVE."""
    connections: list[socket.socket] = []
    numbers = count(1)
    for size in batches(total):
        opened = [socket.create_connection(("127.0.0.1", port), ANSWER_LIMIT_S) for _ in range(size)]
        for connection in opened:
            connection.sendall(opening_of(next(numbers)))
        for connection in opened:
            if len(connection.recv(ANSWER_BYTES, socket.MSG_WAITALL)) != ANSWER_BYTES:
                raise CannotMeasure("the broker closed a connection")
        connections += opened
    return connections


def measure(broker: RunningBroker, total: int, has_route: bool) -> float:
    """KiB of the broker per connection, over a broker that has one connection and so has loaded what it needs."""
    first = connect_all(broker.port, 1, lambda number: opening(number, False))
    time.sleep(SETTLE_S)
    before = resident_kib(broker.pid)
    # With the first one as many as the broker allows.
    connections = connect_all(broker.port, total - 1, lambda number: opening(number, has_route))
    time.sleep(SETTLE_S)
    grown = resident_kib(broker.pid) - before
    for connection in first + connections:
        connection.close()
    return grown / (total - 1)


def measure_all(console: Console, runner: Contestant, total: int) -> list[float]:
    """Callers, services; empty when the broker cannot start."""
    figures = []
    for has_route in (False, True):
        try:
            broker = runner.start(choose_cpus()[0])
        except CannotStart as error:
            console.print(f"{runner.name}: left out: {error}", highlight=False, markup=False)
            return []
        try:
            figures.append(measure(broker, total, has_route))
        finally:
            broker.stop()
    return figures


@click.command()
@click.option("--connections", type=click.IntRange(2), default=10_000, show_default=True)
def main(connections: int) -> None:
    """KiB of memory per idle connection."""
    console = Console()
    raise_limit(connections)
    BUILD.mkdir(parents=True, exist_ok=True)
    title = f"resident memory per idle connection, {connections} connections"
    table = table_of(title, "broker", "callers, KiB each", "services with a route, KiB each")
    for runner in contestants():
        if runner.name in OURS:
            figures = measure_all(console, runner, connections)
            if figures:
                table.add_row(runner.name, *(f"{figure:.1f}" for figure in figures))
    if not table.rows:
        raise click.ClickException("nothing could be measured")
    console.print(table)


if __name__ == "__main__":
    main()

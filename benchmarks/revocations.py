"""How soon a revocation has ended all connections of an identity: `python -m benchmarks.revocations`.

Three brokers in a row, each a process, with the same number of connections that have logged in with a token of one
identity, and as many of others. `PUT /api/v1/revocations/…` at the first one; then the time until the last connection
of that identity has ended, at each broker. The connections of others have to stay.
"""

import contextlib
import os
import select
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.console import Console

from benchmarks.beside import framed
from benchmarks.contestants import COMPILED, OURS, RunningBroker, ours
from benchmarks.figures import table_of
from benchmarks.idle import connect_all, raise_limit
from benchmarks.logins import jwt_variables
from benchmarks.machine import BUILD, CannotMeasure
from rsocket_wire.rsocket.frames import Setup, encode_keepalive
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, encode_well_known_entry
from rsocket_wire.wire.authentication import AUTHENTICATION_ID, BEARER, Credentials
from spark_sink.event_files.local_token import find_local_token
from tests.broker.edge.admission.signers import signer
from tests.client_sdk.gateways.samwise.rabbitmq import free_port

BROKERS_N: Final = 3
STOLEN: Final = "orders-7"
OTHERS: Final = "billing"
LIMIT_S: Final = 10.0
LINKED_S: Final = 1.0  # until brokers that have started know each other
PROMISES_S: Final = (1.0, 3.0)  # at the broker that is told, and in the whole cluster


@contextlib.contextmanager
def cluster(name: str, folder: Path) -> Iterator[tuple[list[RunningBroker], str]]:
    """Brokers, each of which dials the one before, and the URL of the first one's REST API."""
    accepting = jwt_variables(folder, "jwt")
    running: list[RunningBroker] = []
    port = free_port()
    try:
        for number in range(BROKERS_N):
            variables = {
                "RSB_BROKER__NAME": f"b{number}",
                "RSB_CLUSTER__SECRET": "only the brokers of this benchmark know it",
                **accepting,
            }
            if running:
                variables["RSB_CLUSTER__PEERS"] = f"tcp://127.0.0.1:{running[-1].port}"
            admin = f"127.0.0.1:{port}" if not running else "off"
            broker = ours(name, name == COMPILED, "--admin", admin, **variables)
            running.append(broker.start(os.sched_getaffinity(0)))
        time.sleep(LINKED_S)
        yield running, f"http://127.0.0.1:{port}"
    finally:
        for each in running:
            each.stop()


def log_in(port: int, subject: str, total: int) -> list[socket.socket]:
    """Connections that were let in."""
    entry = encode_well_known_entry(AUTHENTICATION_ID, Credentials(BEARER, "", signer().sign(sub=subject)).encode())
    setup = framed(Setup(COMPOSITE_MIME, "application/octet-stream", 20_000_000, 90_000_000, entry).encode())
    opening = setup + framed(encode_keepalive(b"", respond=True))
    return connect_all(port, total, lambda number: opening)


def revoke(url: str) -> None:
    """Of all that was issued until now."""
    request = urllib.request.Request(f"{url}/api/v1/revocations/jwt:{STOLEN}", method="PUT")
    request.add_header("Authorization", f"Bearer {find_local_token(url)}")
    urllib.request.urlopen(request, timeout=LIMIT_S).close()


def ended_s(connections: list[list[socket.socket]], began_s: float) -> list[float]:
    """Seconds from then until the last connection of each broker had ended."""
    poll = select.epoll()
    owners = {each.fileno(): number for number, some in enumerate(connections) for each in some}
    for file in owners:
        poll.register(file, select.EPOLLRDHUP)
    last_s = [0.0] * len(connections)
    while owners:
        found = poll.poll(LIMIT_S)
        if not found:
            raise CannotMeasure(f"{len(owners)} connections were not ended within {LIMIT_S:g} s")
        for file, _ in found:
            last_s[owners.pop(file)] = time.monotonic() - began_s
            poll.unregister(file)
    poll.close()
    return last_s


def is_ended(connection: socket.socket) -> bool:
    """There is something to read, which is an ERROR or the end."""
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return False
    return True


def measure(name: str, each_n: int) -> list[float]:
    """Seconds, of each broker."""
    with tempfile.TemporaryDirectory() as folder, cluster(name, Path(folder)) as (brokers, url):
        stolen = [log_in(broker.port, STOLEN, each_n) for broker in brokers]
        others = [each for broker in brokers for each in log_in(broker.port, OTHERS, each_n)]
        began_s = time.monotonic()
        revoke(url)
        taken_s = ended_s(stolen, began_s)
        if any(is_ended(each) for each in others):
            raise CannotMeasure("connections of others were ended, too")
        for connection in [*others, *(each for some in stolen for each in some)]:
            connection.close()
        return taken_s


@click.command()
@click.option("--connections", type=click.IntRange(1), default=2000, show_default=True, help="Of each, at each broker.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
def main(connections: int, rounds: int) -> None:
    """Time from a revocation to the end of the last connection of the identity."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    BUILD.mkdir(parents=True, exist_ok=True)
    raise_limit(2 * BROKERS_N * connections)
    here_s, cluster_s = PROMISES_S
    title = (
        f"{connections:,} connections end at each broker, ms; the promise: {here_s:g} s, in the cluster {cluster_s:g} s"
    )
    table = table_of(title, "core", "at the broker that was told", "one hop away", "two hops away", "longest of all")
    for name in OURS:
        taken_s = [measure(name, connections) for _ in range(rounds)]
        figures = [median(some) for some in zip(*taken_s, strict=True)]
        longest_s = max(max(some) for some in taken_s)
        table.add_row(name.split()[-1], *(f"{each * 1000:.0f}" for each in (*figures, longest_s)))
    console.print(table)


if __name__ == "__main__":
    main()

"""What one byte of input costs, by frame type and by endpoint: `python -m benchmarks.amplification`.

The rule: no input costs more than 100 times its bytes in output and log, nor 100 times the CPU
that it takes to forward as many bytes, and none holds the event loop for 50 ms. What exceeds that names the option that
bounds it. The core runs on a wire that is only memory, with the limits per second switched off: what is measured is one
frame, and not how often it may come. Fails when a figure is beyond the rule and no option bounds it.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import click
from rich.console import Console

from benchmarks.amplification_endpoints import CONNECTIONS_N, Cost, answers
from benchmarks.figures import table_of
from broker.core import COMPILED, CoreSettings
from broker.events import LifecycleEvent
from broker.log import event_line
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, UNICAST, Address, RouteSetup
from rsocket_wire.wire.tags import Tag
from tests.fakes import Wire, World, composite, framed, route_id, tags_of

MOST: Final = 100  # times
MOST_HELD_S: Final = 0.05
WIDTH: Final = 120  # columns of the table
LINE_BYTES: Final = 40  # of a log line beside its text: the moment and the level
ROUTES_N: Final = 500  # of a multicast
FRAMES_N: Final = 2000
FEW_N: Final = 20  # of what costs much
BASELINE: Final = "forwarded"
SETTINGS: Final = CoreSettings(
    max_keepalives_per_s=0, max_route_setups_per_s=0, max_small_fragments_per_s=0, max_streams_per_connection=1_000_000
)


class Case(NamedTuple):
    """One kind of input."""

    name: str
    frame: Callable[[int], bytes]  # the one of this number
    bound: str = ""  # the option or constant that bounds it where the rule does not hold; empty: it must hold
    routes_n: int = 1
    frames_n: int = FRAMES_N
    first: tuple[bytes, ...] = ()  # before that, uncounted
    is_new: bool = False  # each is the first frame of a connection


def to(service: str, flags: int = UNICAST, metadata: tuple[Tag, ...] = (), **tags: str | None) -> bytes:
    """The metadata of a request."""
    address = Address(route_id(0xCA11), tags_of({"service": service, **tags}), list(metadata), flags=flags)
    return composite((MIME_TYPE, address.encode()))


def ask(kind: int, metadata: Callable[[int], bytes], data: bytes = b"x") -> Callable[[int], bytes]:
    """Requests, each on a stream of its own."""
    return lambda number: frames.encode_request(kind, 2 * number + 1, data, metadata(number), 8)


def raw(stream_id: int, kind: int, flags: int, content: bytes = b"") -> bytes:
    """Any frame."""
    return stream_id.to_bytes(4, "big") + ((kind << 10) | flags).to_bytes(2, "big") + content


def setup(number: int) -> bytes:
    """A SETUP with a pair of mime types that nobody else has."""
    return frames.Setup(COMPOSITE_MIME, f"a/{number}", 20_000, 90_000, None).encode()


def announced(number: int) -> bytes:
    """A METADATA_PUSH with a ROUTE_SETUP of other tags."""
    tags = tags_of({f"key{each}": f"{number}-{each}" for each in range(20)})
    return frames.encode_metadata_push(composite((MIME_TYPE, RouteSetup(route_id(77), "orders", tags).encode())))


HERE: Final = to("echo")
ALL: Final = to("echo", MULTICAST)
CASES: Final = (
    Case(BASELINE, ask(REQUEST_FNF, lambda number: HERE, b"x" * 40)),
    Case("SETUP, new mime types", setup, is_new=True),
    Case("no frame at all", lambda number: b"\xff" * 14, is_new=True, frames_n=500),
    Case("KEEPALIVE", lambda number: frames.encode_keepalive(b"", respond=True), "limits.max_keepalives_per_s"),
    Case("LEASE nobody asked for", lambda number: frames.encode_lease(1000, 1000)),
    Case("METADATA_PUSH, other tags of a route", announced, "limits.max_route_setups_per_s", frames_n=500),
    Case("METADATA_PUSH, no route", lambda number: frames.encode_metadata_push(to("nobody", n=f"{number}"))),
    Case("METADATA_PUSH to all", lambda number: frames.encode_metadata_push(ALL), "limits.max_multicast_routes",
         ROUTES_N, FEW_N),
    Case("frame to be ignored", lambda number: raw(0, 0x1F, 0x200, b"x" * 20)),
    Case("EXT to be ignored", lambda number: raw(0, 0x3F, 0x200, b"\0\0\0\1" + b"x" * 20)),
    Case("CANCEL of no stream", lambda number: frames.encode_cancel(2 * number + 1)),
    Case("REQUEST_N of no stream", lambda number: frames.encode_request_n(2 * number + 1, 1)),
    Case("PAYLOAD of no stream", lambda number: frames.encode_payload(2 * number + 1, frames.NEXT, b"x")),
    Case("ERROR of no stream", lambda number: frames.encode_error(2 * number + 1, 0x201, "x")),
    Case("REQUEST_FNF, no route, new address", ask(REQUEST_FNF, lambda number: to("nobody", n=f"{number}"))),
    Case("REQUEST_FNF, 128 new tags", ask(REQUEST_FNF, lambda number: to(
        "nobody", UNICAST, (), **{f"k{each}": f"{number}" for each in range(120)})), frames_n=500),
    Case("REQUEST_FNF, 255 entries of metadata", ask(REQUEST_FNF, lambda number: composite(
        *[("a/b", b"")] * 254) + HERE), frames_n=500),
    Case("REQUEST_RESPONSE, no route", ask(REQUEST_RESPONSE, lambda number: to("nobody", n=f"{number}"))),
    Case("REQUEST_RESPONSE, no metadata", lambda number: frames.encode_request(
        REQUEST_RESPONSE, 2 * number + 1, b"", None)),
    Case("REQUEST_RESPONSE by shard, new key, 500 routes", ask(REQUEST_RESPONSE, lambda number: to(
        "echo", SHARD, (Tag.of("shard_key", "user"),), user=f"{number}")), "routing.shard_method", ROUTES_N),
    Case("REQUEST_STREAM, one item asked for", ask(REQUEST_STREAM, lambda number: HERE)),
    Case("REQUEST_FNF to all", ask(REQUEST_FNF, lambda number: ALL), "limits.max_multicast_routes", ROUTES_N, FEW_N),
    Case("REQUEST_RESPONSE to all", ask(REQUEST_RESPONSE, lambda number: ALL), "limits.max_multicast_routes",
         ROUTES_N, FEW_N),
    Case("REQUEST_STREAM to all", ask(REQUEST_STREAM, lambda number: ALL), "limits.max_multicast_routes",
         ROUTES_N, FEW_N),
    Case("REQUEST_N of a stream of all", lambda number: frames.encode_request_n(1, 1), "limits.max_multicast_routes",
         ROUTES_N, FEW_N, (frames.encode_request(REQUEST_STREAM, 1, b"", ALL, 1),)),
)  # fmt: skip


def measure(case: Case, share: float = 1.0) -> Cost:
    """Sends the frames of a case, or a share of them, one at a time."""
    world = World(SETTINGS)
    for number in range(case.routes_n):
        world.service("echo", number + 1)
    caller = world.caller()
    send(world, caller, framed(*case.first))
    spent(world)
    world.core.take_events()
    count = max(2, int(case.frames_n * share))
    sent = [framed(case.frame(number + 1 if case.first else number)) for number in range(count)]
    wires = [world.connect() for _ in sent] if case.is_new else itertools.repeat(caller)
    held_s = cpu_s = 0.0
    bytes_out = log_bytes = 0
    for wire, data in zip(wires, sent, strict=False):
        began_s = time.process_time()
        send(world, wire, data)
        took_s = time.process_time() - began_s
        cpu_s += took_s
        held_s = max(held_s, took_s)
        bytes_out += spent(world)
    for event in world.core.take_events():
        if isinstance(event, LifecycleEvent):
            log_bytes += len(event_line(event)) + LINE_BYTES
    return Cost(sum(map(len, sent)), bytes_out, log_bytes, cpu_s, held_s)


def send(world: World, wire: Wire, data: bytes) -> None:
    """The bytes arrive, and what follows from them is done."""
    is_left = world.core.receive(wire.peer, data, world.now)
    while world.core.has_work() or is_left:
        while world.core.has_work():
            world.core.work(world.now)
        is_left = world.core.go_on(wire.peer, world.now)


def spent(world: World) -> int:
    """Bytes that the broker has written since the last call."""
    written = 0
    for peer in world.core.take_writes():
        written += sum(map(len, peer.take_output()))
    return written


def beyond(name: str, cost: Cost, baseline: Cost) -> list[str]:
    """What of it is beyond the rule."""
    found: list[str] = []
    for what, factor in zip(("output", "log", "CPU"), factors(cost, baseline), strict=True):
        if factor > MOST:
            found.append(f"{name}: {what} is {factor:.0f} times its input")
    if cost.held_s > MOST_HELD_S:
        found.append(f"{name}: one takes {cost.held_s * 1000:.0f} ms")
    return found


def factors(cost: Cost, baseline: Cost) -> tuple[float, float, float]:
    """Output and log for a byte of input, and CPU, that of forwarding a byte is 1."""
    cpu = (cost.cpu_s / cost.bytes_in) / (baseline.cpu_s / baseline.bytes_in)
    return cost.bytes_out / cost.bytes_in, cost.log_bytes / cost.bytes_in, cpu


@click.command()
@click.option("--share", default=1.0, help="Of the frames, for a quick look.")
def main(share: float) -> None:
    """Measures all kinds of input; fails where the rule is broken."""
    baseline = measure(CASES[0], share)
    table = table_of(f"for each byte of input, {'compiled' if COMPILED else 'interpreted'}", "input", "output", "log",
                     "CPU", "longest, ms", "bounded by")  # fmt: skip
    broken: list[str] = []
    for case in CASES:
        cost = measure(case, share)
        numbers = [f"{factor:.1f}" for factor in factors(cost, baseline)]
        table.add_row(case.name, *numbers, f"{cost.held_s * 1000:.2f}", case.bound)
        if not case.bound:
            broken += beyond(case.name, cost, baseline)
    console = Console(width=WIDTH)
    console.print(table)
    table = table_of("for each byte of a request to the REST API", "path", "output", "CPU", "longest, ms", "bounded by")
    for path, bound, cost in asyncio.run(answers(max(20, int(share * CONNECTIONS_N)))):
        output, _, cpu = factors(cost, baseline)
        table.add_row(path, f"{output:.1f}", f"{cpu:.0f}", f"{cost.held_s * 1000:.2f}", bound)
        if cost.held_s > MOST_HELD_S or not bound:
            broken += beyond(path, cost, baseline)
    console.print(table)
    for line in broken:
        click.echo(line, err=True)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

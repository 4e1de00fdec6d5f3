"""What identities and roles cost: `python -m benchmarks.access`.

That is interpreted; compiled: `PYTHONPATH=build/compiled:. python -P -m benchmarks.access`.

A forwarded request without admission, with it, and with roles; a login with a signed token; and how long connections
that are there are judged anew after a reload. The core runs on a wire that is only memory, so what is measured is the
broker's own work: of a real broker's request it is a part, and ratios are smaller there. Rounds are interleaved, and
ratios are taken within each.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import click
from rich.console import Console

from benchmarks.amplification import ask, send, spent, to
from benchmarks.figures import table_of
from broker.access.roles import Offer, Role
from broker.connections.admission import Ask
from broker.core import COMPILED, CoreSettings
from broker.edge.admission.keys import Keys, fetch_keys
from broker.edge.admission.tokens import TokenVerifier
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_RESPONSE, encode_payload
from rsocket_wire.rsocket.metadata import encode_well_known_entry
from rsocket_wire.wire.authentication import AUTHENTICATION_ID, BEARER, Credentials
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer
from tests.fakes import Wire, World, announcement, framed, setup

SERVICES_N: Final = 64  # that are asked for in turn
REQUESTS_N: Final = 256  # in one piece of input
PIECES_N: Final = 40  # of a round
LOGINS_N: Final = 500
LOOK_N: Final = 2_000  # connections of one step while many are opened
ALL: Final = Offer([("service", ["*"])])
Setting = tuple[str, CoreSettings]


def roles(count: int) -> tuple[Role, ...]:
    """So many; who is `uid:7` has the last one, and may address a part of the services."""
    some = Offer([("service", ["service-*", "billing"])])
    others = [Role(f"role-{number}", [f"jwt:somebody-{number}"], [ALL], [ALL]) for number in range(count - 1)]
    return (*others, Role("caller", ["uid:*"], [ALL], [some]))


def settings(mode: str = "off", count: int = 0, **more: int) -> CoreSettings:
    """`count` roles."""
    kinds = ("uid",) if mode != "off" else ()
    return CoreSettings(
        auth_mode=mode,
        auth_accept=kinds,
        roles=roles(count) if count else (),
        max_streams_per_connection=1_000_000,
        **more,  # type: ignore[arg-type]
    )


SETTINGS: Final[tuple[Setting, ...]] = (
    ("off", settings()),
    ("off, again", settings()),  # what differs here is noise
    ("required", settings("required")),
    ("required, 10 roles", settings("required", 10)),
)


# Requests


class Traffic:
    """A broker, its services, and a caller who asks them in turn."""

    def __init__(self, given: CoreSettings, services_n: int) -> None:
        self.world: Final = World(given)
        self._services: Final = [self._connect(announcement(n + 1, f"service-{n}")) for n in range(services_n)]
        self._caller: Final = self._connect(None)
        self._ask: Final = ask(REQUEST_RESPONSE, lambda number: to(f"service-{number % services_n}"))
        self._asked_n = 0
        spent(self.world)

    def piece_s(self) -> float:
        """CPU seconds of the broker for REQUESTS_N requests and their answers."""
        first = self._asked_n
        self._asked_n += REQUESTS_N
        requests = framed(*(self._ask(number) for number in range(first, self._asked_n)))
        used_s = timed(lambda: send(self.world, self._caller, requests))
        answered_n = 0
        for peer in self.world.core.take_writes():
            ids = stream_ids(peer.take_output())
            answers = framed(*(encode_payload(each, NEXT | COMPLETE, b"x") for each in ids))
            wire = self.world.wires[peer.id]
            assert wire is not self._caller  # nobody is refused
            used_s += timed(lambda wire=wire, answers=answers: send(self.world, wire, answers))  # type: ignore[misc]
            answered_n += len(ids)
        assert answered_n == REQUESTS_N
        spent(self.world)
        self.world.core.take_events()
        return used_s

    def _connect(self, metadata: bytes | None) -> Wire:
        wire = self.world.connect(origin=("", "uid:7"))
        send(self.world, wire, framed(setup(metadata)))
        return wire


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def stream_ids(pieces: list[bytes | memoryview]) -> list[int]:
    """Of the frames in what was written."""
    data, at, found = b"".join(pieces), 0, []
    while at < len(data):
        found.append(int.from_bytes(data[at + 3 : at + 7], "big"))
        at += 3 + int.from_bytes(data[at : at + 3], "big")
    return found


def show_requests(console: Console, rounds: int, services_n: int, what: str) -> None:
    """Medians over the rounds; ratios to the first setting are taken within each."""
    traffics = [Traffic(given, services_n) for _, given in SETTINGS]
    taken: list[list[float]] = [[] for _ in SETTINGS]
    gc.collect()
    gc.freeze()
    for number in range(rounds):
        for _ in range(PIECES_N if number else 2):  # the first round warms up
            order = list(range(len(traffics)))
            for at in order if number % 2 else order[::-1]:
                taken[at].append(traffics[at].piece_s())
        if not number:
            taken = [[] for _ in SETTINGS]
    table = table_of(what, "auth", "µs of CPU a request", "of off")
    for (name, _), own in zip(SETTINGS, taken, strict=True):
        ratio = median(one / other for one, other in zip(own, taken[0], strict=True))
        table.add_row(name, f"{median(own) / REQUESTS_N * 1e6:.2f}", f"{ratio:.3f}")
    console.print(table)


# Logins


class Logins(NamedTuple):
    """CPU µs of a connection, from its SETUP until it may ask."""

    plain: float  # without admission
    admitted: float  # with a token of ES256, each another one
    verified: float  # of it, verifying the token


async def logins_us(folder: Path, count: int) -> Logins:
    """Of so many connections each."""
    (folder / "keys.json").write_bytes(key_set(signer()))
    verifier = TokenVerifier(Keys(str(folder / "keys.json"), fetch_keys), ISSUER, AUDIENCE)
    tokens = [signer().sign(sub=f"orders-{number}") for number in range(count)]
    world = World(
        CoreSettings(auth_mode="required", auth_accept=("jwt",), roles=(Role("all", ["jwt:*"], [ALL], [ALL]),))
    )
    plain = World(CoreSettings())
    await verifier.verify(Credentials(BEARER, "", tokens[0]))  # which reads the keys
    plain_s = used_s = verify_s = 0.0
    for number, token in enumerate(tokens):
        plain_s += setup_s(plain, plain.connect(), framed(setup()))
        wire = world.connect()
        metadata = encode_well_known_entry(AUTHENTICATION_ID, Credentials(BEARER, "", token).encode())
        used_s += setup_s(world, wire, framed(setup(metadata)))
        (asked,) = world.core.take_asks()
        began_s = time.process_time()
        verified = await verifier.verify(asked.credentials)
        verify_s += time.process_time() - began_s
        used_s += timed(lambda asked=asked, name=verified.name: let_in(world, asked, name))  # type: ignore[misc]
        assert wire.peer.principal == f"jwt:orders-{number}"
    await verifier.close()
    return Logins(plain_s / count * 1e6, (used_s + verify_s) / count * 1e6, verify_s / count * 1e6)


def setup_s(world: World, wire: Wire, came: bytes) -> float:
    """CPU seconds for the first bytes of a connection."""
    return timed(lambda: world.core.receive(wire.peer, came, world.now))


def let_in(world: World, asked: Ask, name: str) -> None:
    """As the edge does."""
    world.core.admit(asked.peer, f"jwt:{name}", 0.0, world.now)
    world.core.go_on(asked.peer, world.now)


def show_logins(console: Console) -> None:
    """Medians of five rounds."""
    with tempfile.TemporaryDirectory() as folder:
        taken = [asyncio.run(logins_us(Path(folder), LOGINS_N)) for _ in range(5)]
    table = table_of("A connection, from its SETUP until it may ask", "", "µs of CPU")
    table.add_row("without admission", f"{median(each.plain for each in taken):.0f}")
    table.add_row("with a token of ES256", f"{median(each.admitted for each in taken):.0f}")
    table.add_row("so admission costs", f"{median(each.admitted - each.plain for each in taken):.0f}")
    table.add_row("of it, verifying the token", f"{median(each.verified for each in taken):.0f}")
    console.print(table)


# Reload


def show_reload(console: Console, connections_n: int, roles_n: int) -> None:
    """From new roles until all connections are judged by them, and the longest turn of the loop."""
    world = World(settings("required", roles_n, max_connections=connections_n + 1))
    for number in range(connections_n):
        wire = world.connect(origin=("", f"uid:{number}"))
        send(world, wire, framed(setup()))
        if number % LOOK_N == 0:
            spent(world)
            world.core.take_events()
    spent(world)
    gc.collect()
    gc.freeze()
    turns = [timed(lambda: world.core.set_roles(list(roles(roles_n)), world.now))]
    while world.core.has_work():
        turns.append(timed(lambda: world.core.work(world.now)))
    table = table_of(
        f"{roles_n:,} roles anew, {connections_n:,} connections", "all, s", "turns", "longest, ms", left_n=0
    )
    table.add_row(f"{sum(turns):.2f}", f"{len(turns)}", f"{max(turns) * 1000:.1f}")
    console.print(table)


@click.command()
@click.option("--rounds", type=click.IntRange(2), default=8, show_default=True, help="Of requests.")
@click.option("--connections", type=click.IntRange(1), default=50_000, show_default=True, help="That are judged anew.")
@click.option("--roles", "roles_n", type=click.IntRange(1), default=1_000, show_default=True)
def main(rounds: int, connections: int, roles_n: int) -> None:
    """Measure what admission and roles cost."""
    console = Console(width=120)
    console.print("compiled" if COMPILED else "interpreted")
    show_requests(console, rounds, 1, "One service")
    show_requests(console, rounds, SERVICES_N, f"{SERVICES_N} services in turn")
    show_logins(console)
    show_reload(console, connections, roles_n)


if __name__ == "__main__":
    main()

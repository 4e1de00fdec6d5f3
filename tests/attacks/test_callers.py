"""Who may do what it does, and does it so that others suffer: floods, requests without an end, names without number."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rsocket_wire.errors import REJECTED_RESUME
from rsocket_wire.rsocket.frames import (
    FOLLOWS,
    NEXT,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    Resume,
    encode_keepalive,
    encode_metadata_push,
    encode_payload,
    encode_request,
)
from rsocket_wire.wire.frames import MULTICAST
from tests.attacks.brokers import asked
from tests.conftest import MakeServer
from tests.fakes import address, addressed, announcement, setup
from tests.system.support.waits import until
from tests.system.support.wires import Wire

MANY = 300
ORDERS = addressed(address(service="orders"))


async def word_of(wire: Wire) -> str:
    """The code word with which it ends."""
    return (await wire.rest())[-1].text.partition(":")[0]


async def test_nobody_takes_all_places_of_a_route(make_server: MakeServer) -> None:
    server = await make_server(**{"protection.max_in_flight_per_route": 8})
    url = server.listeners[0]
    service, greedy, other = await Wire.service(url, "orders", 1), await Wire.caller(url), await Wire.caller(url)
    for _ in range(8):
        greedy.request("orders")
    taken = [await service.receive() for _ in range(8)]
    assert (await other.ask("orders")).text.startswith("over-limit: ")
    service.answer(taken[0], b"yes")
    assert (await greedy.receive()).data == b"yes"
    assert (await greedy.ask("orders")).text.startswith("over-limit: ")
    other.request("orders", b"another")
    assert (await service.receive()).data == b"another"


async def test_a_multicast_to_more_routes_than_are_allowed_reaches_nobody(make_server: MakeServer) -> None:
    server = await make_server(**{"limits.max_multicast_routes": 2})
    services = [await Wire.service(server.listeners[0], "orders", number) for number in (1, 2, 3)]
    caller = await Wire.caller(server.listeners[0])
    raw = addressed(address(MULTICAST, service="orders"))
    caller.send(encode_request(REQUEST_RESPONSE, 1, b"", raw))
    assert (await caller.receive()).text.startswith("over-limit: ")
    for service in services:
        await service.ping()  # nothing came before the answer


FLOODS: dict[str, Callable[[int], bytes]] = {
    "KEEPALIVEs": lambda _: encode_keepalive(b"", respond=True),
    "ROUTE_SETUPs": lambda number: encode_metadata_push(announcement(2, f"evil-{number}")),
    "small fragments": lambda number: (
        encode_payload(1, NEXT | FOLLOWS, b"x") if number else encode_request(REQUEST_CHANNEL, 1, b"", ORDERS, 8)
    ),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_flood_ends_its_connection_and_no_other(make_server: MakeServer, flood: Callable[[int], bytes]) -> None:
    server = await make_server(**{"limits.max_small_fragments_per_s": 10})
    service = await Wire.service(server.listeners[0], "orders", 1)
    caller, other = [await Wire.caller(server.listeners[0]) for _ in range(2)]
    for number in range(MANY):
        caller.send(flood(number))
    assert await word_of(caller) == "over-limit"
    service.begin_echo()
    assert (await other.ask("orders", b"still here?")).data == b"still here?"


BEGINNINGS: dict[str, tuple[str, bytes, int]] = {
    "whose answers do not come": ("limits.max_streams_per_connection", ORDERS, 0),
    "that do not end": ("limits.max_metadata_bytes", ORDERS[:20], FOLLOWS),
    "that wait for a route": ("limits.max_waiting_per_connection", addressed(address(service="nobody")), 0),
}


@pytest.mark.parametrize(("option", "metadata", "flags"), BEGINNINGS.values(), ids=BEGINNINGS)
async def test_so_many_requests_are_begun_and_no_more(
    make_server: MakeServer, option: str, metadata: bytes, flags: int
) -> None:
    server = await make_server(**{"routing.no_route": "wait", option: 128})
    await Wire.service(server.listeners[0], "orders", 1)
    caller = await Wire.caller(server.listeners[0])
    for number in range(129):
        caller.send(encode_request(REQUEST_RESPONSE, 2 * number + 1, b"", metadata, 0, flags))
    assert (await caller.receive()).text.startswith("over-limit: ")


async def test_who_goes_away_without_a_word_is_missed(make_server: MakeServer) -> None:
    server = await make_server()
    wire = await Wire.connect(server.listeners[0])
    wire.setup(announcement(1, "orders"), lifetime_ms=50)
    assert await word_of(wire) == "keepalive-timeout"
    assert server.core.table.size() == 0


async def test_what_is_kept_for_who_does_not_come_back_has_a_bound(make_server: MakeServer) -> None:
    server = await make_server(**{"limits.resume_total_bytes": 10_000})
    service = await Wire.connect(server.listeners[0])
    service.send(setup(announcement(1, "orders"), token=b"known"))
    await service.ping()
    service.transport.abort()
    await until(lambda: server.shell.links_open() == 0)
    caller = await Wire.caller(server.listeners[0])
    for number in range(20):
        caller.send(encode_request(REQUEST_FNF, 2 * number + 1, bytes(1000), ORDERS))
    await until(lambda: server.core.table.size() == 0)
    again = await Wire.connect(server.listeners[0])
    again.send(Resume(b"known", 0, 0).encode())
    assert [frame.code for frame in await again.rest()] == [REJECTED_RESUME]


async def test_names_that_are_made_up_fill_no_table_and_tear_no_metrics(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = await make_server(**{"limits.max_lookup_cache": 10})
    evil = 'x"} 1\nbroker_evil_total{a="'
    service = await Wire.service(server.listeners[0], evil, 1)
    service.begin_echo()
    caller = await Wire.caller(server.listeners[0])
    assert (await caller.ask(evil)).data == b"hi"
    for number in range(MANY):
        await caller.ask(f"made-up-{number}")
    assert server.core.query.remembered() <= 10
    async with asked(server, tmp_path / "token") as admin:
        status, text = await admin.ask("GET", "/metrics")
    lines = text.split("\n")
    assert status == 200
    assert [line for line in lines if line.startswith("broker_evil")] == []
    assert any('x\\"} 1\\nbroker_evil' in line for line in lines)
    assert len([line for line in lines if "made-up" in line]) < MANY

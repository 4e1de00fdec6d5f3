"""Brokers as processes: killed under load, back again, and a network that carries one way only."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from urllib.parse import urlsplit

import pytest

from client_sdk import Client, Service, connect, multicast
from tests.conftest import StartBroker
from tests.system.faults.test_chaos import Crowd
from tests.system.support.askers import IN_FLIGHT, Askers
from tests.system.support.processes import BrokerProcess
from tests.system.support.relay import Relay
from tests.system.support.waits import until

SECRET = "a secret of sixteen bytes or more"


class Member:
    """One broker of a cluster, and what its REST API says."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process

    @property
    def url(self) -> str:
        return self.process.url("tcp")

    def ask(self, path: str) -> list[dict[str, object]]:
        items: list[dict[str, object]] = self.process.view(f"{path}?limit=1000")["items"]
        return items

    def table(self) -> dict[str, str]:
        """Route Id (its last digits) -> the broker that has it."""
        return {str(route["route_id"])[-2:]: str(route["broker"]) for route in self.ask("routes")}

    def hops(self) -> dict[str, object]:
        """Broker -> links on the way; None: there is no way."""
        return {str(broker["name"]): broker["hops"] for broker in self.ask("brokers")}


@pytest.fixture
def relay_to() -> Iterator[list[Relay]]:
    relays: list[Relay] = []
    yield relays
    for relay in relays:
        relay.close()


def begin(start: StartBroker, name: str, *peers: str, port: int = 0, mesh: bool = True) -> Member:
    """A broker process that is called so and dials those."""
    listen = f"tcp://127.0.0.1:{port}"
    process = start(
        "--listen",
        listen,
        "--admin",
        "127.0.0.1:0",
        broker__name=name,
        cluster__secret=SECRET,
        cluster__peers=",".join(peers),
        cluster__mesh=str(mesh).lower(),
    )
    return Member(process)


@pytest.mark.long
async def test_a_broker_that_is_killed_under_load_costs_what_was_on_its_way_and_comes_back_complete(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    one = begin(start_broker, "one")
    two = begin(start_broker, "two", one.url)
    three = begin(start_broker, "three", one.url, two.url)
    crowds = [Crowd(member.process, tmp_path / member.process._log.stem) for member in (one, two, three)]
    for crowd in crowds:
        crowd._folder.mkdir()
    hit, other = Askers("orders"), Askers("other")
    try:
        await crowds[0].joined([crowds[0].launch("service", "orders", 1)])
        await crowds[1].joined([crowds[1].launch("service", "orders", 2)])
        await crowds[2].joined([crowds[2].launch("service", "other", 3)])
        full = {"01": "one", "02": "two", "03": "three"}
        await until(lambda: one.table() == two.table() == three.table() == full)
        await hit.begin([three.url] * 3)
        await other.begin([one.url] * 3)
        for by in ("1", "2"):
            await hit.more(by)
        await other.more("3")
        two.process.signal(SIGKILL)
        killed_at = time.monotonic()
        await until(lambda: one.table() == three.table() == {"01": "one", "03": "three"})
        print(f"its routes were gone after {time.monotonic() - killed_at:.2f} s")
        await hit.more("1")
        await other.more("3")
        port = urlsplit(two.url).port or 0
        back = begin(start_broker, "two", one.url, three.url, port=port)
        back_at = time.monotonic()
        await until(lambda: back.table() == {"01": "one", "03": "three"})
        print(f"it was complete again after {time.monotonic() - back_at:.2f} s")
        again = Crowd(back.process, crowds[1]._folder / "again")
        again._folder.mkdir()
        crowds.append(again)
        await again.joined([again.launch("service", "orders", 4)])
        await hit.more("4")
        answered, undisturbed = await hit.end(), await other.end()
        assert set(undisturbed) == {"3"}, undisturbed
        assert set(answered) <= {"1", "2", "4", "route-lost"}, answered
        assert answered["route-lost"] <= 3 * IN_FLIGHT, answered
    finally:
        await hit.close()
        await other.close()
        for crowd in crowds:
            crowd.end()


@pytest.mark.slow
async def test_a_network_that_carries_one_way_only_is_routed_around(
    start_broker: StartBroker, relay_to: list[Relay], tmp_path: Path
) -> None:
    one = begin(start_broker, "one", mesh=False)
    relay = Relay(urlsplit(one.url).port or 0)
    relay_to.append(relay)
    three = begin(start_broker, "three", one.url, mesh=False)
    two = begin(start_broker, "two", relay.url, three.url, mesh=False)
    crowd = Crowd(two.process, tmp_path)
    askers = Askers("orders")
    try:
        await crowd.joined([crowd.launch("service", "orders", 1)])
        await until(lambda: one.hops() == {"one": 0, "two": 1, "three": 1})
        await until(lambda: one.table() == {"01": "two"})
        relay.swallows_up = True
        await until(lambda: one.hops() == {"one": 0, "two": 2, "three": 1})
        await askers.begin([one.url])
        await askers.more("1")
        assert await askers.end() == {"1": askers.answered["1"]}
        ways = {str(path["way"]) for path in await asyncio.to_thread(two.ask, "paths")}
        assert "['one', 'three', 'two']" in ways
    finally:
        await askers.close()
        crowd.end()


@pytest.mark.slow
async def test_a_multicast_that_excludes_its_sender_comes_back_from_no_broker(start_broker: StartBroker) -> None:
    """D-103: whether the others are at its broker or at another one, each gets it once."""
    one = begin(start_broker, "one")
    two = begin(start_broker, "two", one.url)
    heard: list[str] = []

    def member(name: str) -> Service:
        service = Service("room", tags={"instance_name": name})

        @service.fire_and_forget("say")
        async def say(data: bytes) -> None:
            heard.append(f"{name} {data.decode()}")

        @service.request_response("who")
        async def who(data: bytes) -> bytes:
            return name.encode()

        return service

    async with contextlib.AsyncExitStack() as stack:
        members: dict[str, Client] = {}
        for name, broker in (("ada", one), ("bob", one), ("eve", two), ("dan", two)):
            members[name] = await stack.enter_async_context(connect(broker.url, service=member(name)))
        await until(lambda: len(one.ask("routes")) == len(two.ask("routes")) == 4)
        others = multicast("room", exclude_self=True)
        for name, client in members.items():
            await client.fire_and_forget(others, name.encode(), route="say")
            answers = await client.gather(others, route="who", timeout_s=10)
            assert sorted(answer.value.decode() for answer in answers) == sorted(set(members) - {name})
        expected = sorted(f"{to} {by}" for to in members for by in members if to != by)
        await until(lambda: len(heard) >= len(expected))
        assert sorted(heard) == expected

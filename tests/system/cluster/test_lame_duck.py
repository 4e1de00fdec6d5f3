"""A broker that stops while its clients are at work: they move to another one, and no request is lost or doubled."""

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from client_sdk import Client, Flow, Payload, Rejected, Service, connect
from tests.conftest import StartBroker
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import until
from tests.system.support.work import TO, Work

SECRET = "only the brokers of these tests know it"
SERVICES = 3
CALLERS = 6


def member(start_broker: StartBroker, name: str, *peers: BrokerProcess, **options: object) -> BrokerProcess:
    """A broker that dials those."""
    urls = ",".join(peer.url("tcp") for peer in peers)
    known = {"cluster__secret": SECRET, "broker__name": name, "cluster__peers": urls}
    return start_broker("--listen", "tcp://127.0.0.1:0", **known, **options)


async def cluster(start_broker: StartBroker, **options: object) -> tuple[BrokerProcess, BrokerProcess]:
    """Two brokers that know each other."""
    first = member(start_broker, "one", **options)
    return first, member(start_broker, "two", first, **options)


async def reached(client: Client) -> None:
    """Until the routes of the one broker are known at the other."""
    while True:
        with contextlib.suppress(Rejected):
            await client.request_response(TO, b"first")
            return
        await asyncio.sleep(0.01)


async def test_no_request_fails_while_a_broker_stops_and_everybody_is_at_the_other(start_broker: StartBroker) -> None:
    one, two = await cluster(start_broker, server__stop_grace_s=6)
    work = Work()
    async with contextlib.AsyncExitStack() as stack:

        async def enter(service: Service | None) -> Client:
            return await stack.enter_async_context(connect(one.url("tcp"), service=service))

        servers = [await enter(work.service()) for _ in range(SERVICES)]
        callers = [await enter(None) for _ in range(CALLERS)]
        stays = await stack.enter_async_context(connect(two.url("tcp")))
        await reached(stays)
        await until(lambda: all(two.url("tcp") in client.brokers for client in servers + callers))
        asks = [
            asyncio.create_task(work.ask(client, f"caller {number}")) for number, client in enumerate([*callers, stays])
        ]
        await until(lambda: work.answered.total() > 100)

        one.signal(signal.SIGTERM)
        await until(lambda: one.process.poll() is not None)
        done = work.answered.total()
        await until(lambda: work.answered.total() > done + 100 or work.failures)
        work.is_ending = True
        await asyncio.wait(asks)

        assert work.failures == []
        assert one.process.returncode == 0
        assert {client.broker for client in servers + callers} == {two.url("tcp")}
        assert all(client.is_connected for client in servers + callers)
        await until(lambda: work.noted.total() == len(work.sent))
        del work.served[b"first"]
        assert work.answered == work.served == work.noted == Counter(work.sent)


async def test_what_runs_when_a_broker_stops_ends_on_the_old_connections(start_broker: StartBroker) -> None:
    one, two = await cluster(start_broker, server__stop_grace_s=8, server__drain_spread_s=0)
    released = asyncio.Event()
    began: asyncio.Queue[str] = asyncio.Queue()
    orders = Service("orders")

    @orders.request_response()
    async def create(data: bytes) -> bytes:
        if data != b"first":
            began.put_nowait("response")
            await released.wait()
        return data

    @orders.request_stream()
    async def count(data: bytes) -> AsyncIterator[bytes]:
        began.put_nowait("stream")
        for number in range(100):
            yield b"%d" % number
            if number == 10:
                await released.wait()

    @orders.request_channel()
    async def echo(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
        began.put_nowait("channel")
        async for payload in payloads:
            yield payload

    async def given() -> AsyncIterator[bytes]:
        yield b"0"
        await released.wait()
        for number in range(1, 50):
            yield b"%d" % number

    async def all_of(flow: Flow) -> list[bytes | None]:
        return [payload.data async for payload in flow]

    async with (
        connect(one.url("tcp"), service=orders) as server,
        connect(one.url("tcp")) as caller,
        connect(two.url("tcp")) as stays,
    ):
        await reached(stays)
        await until(lambda: all(two.url("tcp") in client.brokers for client in (server, caller)))
        runs: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(work)
            for client in (caller, stays)
            for work in (
                client.request_response(TO, b"slow"),
                all_of(client.request_stream(TO, initial_n=3)),
                all_of(client.request_channel(TO, given(), initial_n=3)),
            )
        ]
        for _ in runs:
            await began.get()
        one.signal(signal.SIGTERM)
        await until(lambda: {client.broker for client in (server, caller)} == {two.url("tcp")})
        assert (await caller.request_response(TO, b"first")).data == b"first"
        assert one.process.poll() is None
        released.set()
        for number in (0, 3):
            response, stream, channel = [await run for run in runs[number : number + 3]]
            assert response.data == b"slow"
            assert stream == [b"%d" % each for each in range(100)]
            assert channel == [b"%d" % each for each in range(50)]
        await until(lambda: one.process.poll() is not None)
        assert (await caller.request_response(TO, b"first")).data == b"first"


async def test_one_broker_after_the_other_is_replaced_and_nobody_notices(start_broker: StartBroker) -> None:
    """A rolling update: clients were told only of the first broker, and end at the third."""
    one, two = await cluster(start_broker, server__stop_grace_s=4)
    work = Work()
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connect(one.url("tcp"), service=service))
            for service in (work.service(), work.service(), None, None)
        ]
        asks = [asyncio.create_task(work.ask(client, str(number))) for number, client in enumerate(clients)]
        gone, here = one, two
        for name in ("three", "four"):
            await until(lambda: all(here.url("tcp") in client.brokers for client in clients))  # noqa: B023
            gone.signal(signal.SIGTERM)
            await until(lambda: gone.process.poll() is not None)  # noqa: B023
            assert {client.broker for client in clients} == {here.url("tcp")}
            gone, here = here, member(start_broker, name, here, server__stop_grace_s=4)
        work.is_ending = True
        await asyncio.wait(asks)
        assert work.failures == []
        await until(lambda: work.noted.total() == len(work.sent))
        assert work.answered == work.served == work.noted == Counter(work.sent)

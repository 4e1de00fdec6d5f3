"""A program that is a service: it waits for its broker, runs, and drains when it is told to stop."""

import asyncio
import contextlib
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from client_sdk import ConnectionLost, Service, SetupRejected, address, connect
from client_sdk.serving.run import serve
from client_sdk.testing import local_broker
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.samples import Held, cancel, echo_service
from tests.system.support.processes import START_S, import_path

pytestmark = pytest.mark.usefixtures("no_long_settling")


async def test_it_runs_until_sigterm_and_finishes_what_it_works_on(broker: FakeBroker) -> None:
    held = Held("s")
    serving = asyncio.create_task(serve(broker.url, held.service))
    peer = await broker.peer(0)
    async with connect(broker.url) as client:
        answer = asyncio.ensure_future(client.request_response(address("s"), b"work"))
        await held.began.get()
        os.kill(os.getpid(), signal.SIGTERM)
        await peer.expect(frames.PUSH)
        assert not serving.done()
        held.released.set()
        assert (await answer).data == b"work"
        await serving
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


async def test_a_program_that_ignores_the_end_of_its_terminal_goes_on(broker: FakeBroker) -> None:
    """As `nohup` starts it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(broker.url, echo_service("s"), stop=stop))
        await (await broker.peer(0)).expect(frames.KEEPALIVE)
        os.kill(os.getpid(), signal.SIGHUP)
        async with connect(broker.url) as client:
            assert (await client.request_response(address("s"), b"still")).data == b"still"
        stop.set()
        await serving
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


async def test_a_second_signal_ends_it_at_once(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    held = Held("s")
    serving = asyncio.create_task(serve(broker.url, held.service, connections=2))
    await broker.peer(1)
    async with connect(broker.url) as client:
        call = asyncio.ensure_future(client.request_response(address("s")))
        await held.began.get()
        os.kill(os.getpid(), signal.SIGINT)
        await (await broker.peer(0)).expect(frames.PUSH)
        assert caplog.messages == ["service s: draining: 1 request left, 30 s; a second signal (Ctrl-C) ends it now"]
        os.kill(os.getpid(), signal.SIGINT)
        await serving
        await held.cancelled.wait()
        await cancel(call)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_all_services_of_a_program_in_order(broker: FakeBroker, number: signal.Signals) -> None:
    """SIGHUP: a terminal that is closed."""
    serving = [asyncio.create_task(serve(broker.url, echo_service("s"))) for _ in range(2)]
    for place in range(2):
        await (await broker.peer(place)).expect(frames.KEEPALIVE)
    os.kill(os.getpid(), number)
    await asyncio.gather(*serving)
    assert signal.getsignal(number) == signal.SIG_DFL


async def test_it_waits_for_a_broker_that_comes_later(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    await broker.stop()
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(broker.url, echo_service("s"), stop=stop))
    while "waits for a broker" not in caplog.text:
        await asyncio.sleep(0.001)
    await broker.start(broker.port)
    await (await broker.peer(0)).expect(frames.KEEPALIVE)
    stop.set()
    await serving
    assert caplog.messages[-1].startswith("service s: connected after ")


async def test_a_service_without_handlers_is_told_of(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    stop = asyncio.Event()
    stop.set()
    for service in (echo_service("s"), Service("mine")):
        await serve(broker.url, service, stop=stop)
    said = [message for message in caplog.messages if "handler" in message]
    how = "write @….request_response('name') before a function, or import the module that has its handlers"
    assert said == [f"service 'mine' has no handler: {how}"]


async def test_a_yield_behind_it_is_told_of(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        await serve(broker.url, echo_service("s"))
        yield

    entering = asyncio.create_task(lifespan().__aenter__())
    await broker.peer(0)
    entering.cancel()
    await asyncio.wait([entering])
    text = "service 's': serve() goes on until it is stopped, and a yield behind it waits for that: write"
    assert caplog.messages[0] == f"{text} `async with connect(url, service=service): yield`"


async def test_told_to_stop_while_there_is_no_broker_it_ends(broker: FakeBroker) -> None:
    await broker.stop()
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(broker.url, echo_service("s"), stop=stop))
    await asyncio.sleep(0)
    stop.set()
    await serving


async def test_told_to_stop_while_it_connects_it_ends(broker: FakeBroker) -> None:
    broker.is_silent = True
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(broker.url, echo_service("s"), stop=stop))
    await broker.peer(0)
    stop.set()
    await serving
    await (await broker.peer(0)).gone.wait()


async def test_a_refusal_is_not_waited_out(broker: FakeBroker) -> None:
    broker.refusal = (0x003, "bad-route: no")
    with pytest.raises(SetupRejected, match="bad-route"):
        await serve(broker.url, echo_service("s"))


async def test_connections_that_were_taken_over_for_ever_end_it() -> None:
    async with local_broker() as url:
        serving = asyncio.create_task(serve(url, echo_service("s")))
        await url.wait_for_routes("s")
        async with connect(url, service="s", route_id=url.routes("s")[0].route_id):
            with pytest.raises(ConnectionLost, match="other clients use their Route Ids"):
                await serving


async def test_cancelling_it_closes_everything(broker: FakeBroker) -> None:
    serving = asyncio.create_task(serve(broker.url, echo_service("s"), connections=2))
    await (await broker.peer(1)).expect(frames.KEEPALIVE)
    await cancel(serving)
    assert serving.cancelled()
    for peer in broker.peers:
        await peer.gone.wait()


async def test_a_main_program_of_one_call_ends_by_sigterm_with_status_0(tmp_path: Path) -> None:
    program = tmp_path / "service.py"
    program.write_text(
        textwrap.dedent("""\
        import sys
        from client_sdk import Service
        from client_sdk.serving.run import run

        orders = Service("orders")

        @orders.request_response()
        async def answer(data: bytes) -> bytes:
            return b"order " + data

        run(sys.argv[1], orders)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": import_path()}
    async with local_broker() as url, connect(url) as client:
        process = await asyncio.create_subprocess_exec(sys.executable, str(program), url, env=environment)
        try:
            await url.wait_for_routes("orders", timeout_s=START_S)
            assert (await client.request_response(address("orders"), b"42")).data == b"order 42"
            process.terminate()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def test_a_service_is_a_service_again_in_another_event_loop() -> None:
    service = Service("s")

    async def once() -> None:
        broker = await FakeBroker().start()
        async with connect(broker.url, service=service):
            await service.set_tags({"version": "2"})
            await (await broker.peer(0)).expect(frames.KEEPALIVE)
        await broker.stop()

    for _ in range(2):
        asyncio.run(once())

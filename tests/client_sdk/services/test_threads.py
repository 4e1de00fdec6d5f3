"""Handlers in threads: the event loop goes on, there are no more than allowed, and none is waited for for ever."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from client_sdk import Payload, Service, address, connect
from client_sdk.errors import Refused
from client_sdk.metadata import route_bytes
from client_sdk.services.responder import ServiceResponder
from client_sdk.services.threads import MAX_THREADS, Threads
from rsocket_wire.models import REQUEST_RESPONSE, REQUEST_STREAM
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.samples import cancel, gives
from tests.client_sdk.services.asking import ask


class Blocked:
    """Functions that block until they are let go."""

    def __init__(self, **options: Any) -> None:
        self.go = threading.Event()
        self.loop = asyncio.get_running_loop()
        self.began: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.service = Service("s")
        self.service.request_response(**options)(self.answer)
        self.service.request_stream("items", **options)(self.items)

    def answer(self, data: bytes) -> bytes:
        self.loop.call_soon_threadsafe(self.began.put_nowait, data)
        self.go.wait()
        return data

    def items(self, data: bytes) -> Iterator[bytes]:
        try:
            yield b"first"
            self.answer(data)
            yield b"second"
        finally:
            self.loop.call_soon_threadsafe(self.closed.set)

    def working_n(self, model: str) -> int:
        routes = self.service.routes[model]
        handler = routes._unnamed or routes._named["items"]
        assert handler.limit is not None
        return handler.limit.working_n


@pytest.fixture
async def blocked() -> AsyncIterator[Blocked]:
    one = Blocked(max_concurrency=1, max_waiting=0)
    yield one
    one.go.set()


def nothing() -> None:
    """Nobody counts."""


async def let_go(blocked: Blocked, model: str) -> None:
    """Until its threads have returned."""
    blocked.go.set()
    while blocked.working_n(model):
        await asyncio.sleep(0.001)


async def test_a_handler_that_blocks_stops_neither_others_nor_keepalives(broker: FakeBroker, blocked: Blocked) -> None:
    blocked.service.request_response("quick")(gives(lambda data: data))

    server = connect(broker.url, service=blocked.service, keepalive_s=0.02, lifetime_s=0.2)
    async with server, connect(broker.url) as client:
        slow = asyncio.ensure_future(client.request_response(address("s"), b"1"))
        assert await blocked.began.get() == b"1"
        assert (await client.request_response(address("s"), b"2", route="quick")).data == b"2"
        await (await broker.peer(0)).expect(3, 30)  # KEEPALIVEs, for longer than its lifetime
        assert not slow.done()
        blocked.go.set()
        assert (await slow).data == b"1"


async def test_a_thread_whose_caller_has_gone_still_counts(blocked: Blocked) -> None:
    task = asyncio.create_task(ask(blocked.service, b"1"))
    await blocked.began.get()
    await cancel(task)
    assert task.cancelled()
    with pytest.raises(Refused, match="over-limit"):
        await ask(blocked.service, b"2")
    await let_go(blocked, REQUEST_RESPONSE)
    assert await ask(blocked.service, b"3") == Payload(b"3")


async def test_a_stream_whose_caller_goes_while_it_blocks_is_closed_when_it_does_not(blocked: Blocked) -> None:
    items = aiter(ServiceResponder(blocked.service).request_stream(route_bytes("items"), b"x"))
    assert await anext(items) == b"first"
    waiting = asyncio.ensure_future(anext(items))
    await blocked.began.get()
    await cancel(waiting)
    await items.aclose()  # type: ignore[attr-defined]  # returns at once
    assert (blocked.working_n(REQUEST_STREAM), blocked.closed.is_set()) == (1, False)
    await let_go(blocked, REQUEST_STREAM)
    await blocked.closed.wait()


async def test_a_stream_that_is_left_early_is_closed_in_its_thread(blocked: Blocked) -> None:
    items = aiter(ServiceResponder(blocked.service).request_stream(route_bytes("items"), b"x"))
    assert await anext(items) == b"first"
    await items.aclose()  # type: ignore[attr-defined]
    await blocked.closed.wait()
    assert blocked.working_n(REQUEST_STREAM) == 0


async def test_without_a_limit_of_its_own_a_handler_has_so_many_threads() -> None:
    blocked = Blocked()
    tasks = [asyncio.create_task(ask(blocked.service, b"%d" % number)) for number in range(MAX_THREADS + 5)]
    began = [await blocked.began.get() for _ in range(MAX_THREADS)]
    assert sorted(began) == sorted(b"%d" % number for number in range(MAX_THREADS))
    assert (blocked.working_n(REQUEST_RESPONSE), blocked.began.empty()) == (MAX_THREADS, True)
    blocked.go.set()
    assert [(await task).data for task in tasks] == [b"%d" % number for number in range(MAX_THREADS + 5)]


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(1), KeyboardInterrupt(), StopIteration()])
async def test_what_a_thread_raises_is_an_error_of_the_handler_and_ends_nothing_else(error: BaseException) -> None:
    service = Service("s")

    @service.request_response()
    def fail(data: bytes) -> bytes:
        raise error

    with pytest.raises((ValueError, RuntimeError), match=f"mine|{type(error).__name__}"):
        await ask(service, b"")


async def test_when_the_system_has_no_thread_the_turn_is_given_back(
    blocked: Blocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    items = aiter(ServiceResponder(blocked.service).request_stream(route_bytes("items"), b"x"))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            await ask(blocked.service, b"1")
        with pytest.raises(RuntimeError, match="new thread"):
            await anext(items)
    await items.aclose()  # type: ignore[attr-defined]
    assert (blocked.working_n(REQUEST_RESPONSE), blocked.working_n(REQUEST_STREAM)) == (0, 0)
    blocked.go.set()
    assert await ask(blocked.service, b"1") == Payload(b"1")


async def test_threads_are_used_again_and_end_when_there_is_nothing_to_do() -> None:
    pool = Threads("it", idle_s=0.05)
    first = await pool.start(threading.current_thread, nothing)
    assert await pool.start(threading.current_thread, nothing) is first
    await asyncio.to_thread(first.join, 10)
    assert (first.is_alive(), first.daemon) == (False, True)
    assert await pool.start(threading.current_thread, nothing) is not first


def test_a_thread_that_returns_when_its_event_loop_has_ended_gives_its_turn_back() -> None:
    service = Service("s")
    began, go, waits = threading.Event(), threading.Event(), threading.Event()

    @service.request_response(max_concurrency=1)
    def answer(data: bytes) -> bytes:
        began.set()
        go.wait()
        return data

    limit = service.routes[REQUEST_RESPONSE].find(None).limit
    assert limit is not None

    async def give_up() -> None:
        task = asyncio.create_task(ask(service, b"1"))
        await asyncio.to_thread(began.wait)
        await cancel(task)

    async def ask_again() -> Payload:
        async with asyncio.timeout(5):
            task = asyncio.create_task(ask(service, b"2"))
            while not limit._waiting:
                await asyncio.sleep(0)
            waits.set()
            return await task

    def let_it_return() -> None:
        waits.wait()
        go.set()

    asyncio.run(give_up())
    assert limit.working_n == 1
    threading.Thread(target=let_it_return).start()
    try:
        assert asyncio.run(ask_again()) == Payload(b"2")
    finally:
        waits.set()
    assert limit.working_n == 0

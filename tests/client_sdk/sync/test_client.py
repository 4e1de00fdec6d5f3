"""The client for programs without an event loop: what it may share with the other one, and what threads do to it."""

import asyncio
import inspect
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import get_args, get_type_hints

import pytest

import client_sdk
from client_sdk import DeadlineExceeded, NotConnected, Payload, Service, address, multicast, sync
from client_sdk.mistakes.operators import look_for_loop, warn_in_loop
from client_sdk.sync import background
from client_sdk.testing import SyncLocalBroker, sync_local_broker
from tests.client_sdk.sync.orders import Orders
from tests.system.support.processes import run_python
from tests.system.support.waits import until_now

SOON_S = 5.0
ORDERS = address("orders")
# What only makes sense in an event loop.
ONLY_ASYNC = {"as_rsocket", "of", "start"}
# The same in the other world.
SAME = {"AsyncIterable": "Iterable", "AsyncIterator": "Iterator", "Connecting": "Client"}


@pytest.fixture
def orders() -> Orders:
    return Orders()


@pytest.fixture
def broker(orders: Orders) -> Iterator[SyncLocalBroker]:
    with sync_local_broker() as url, sync.connect(url, service=orders.service):
        yield url


@pytest.fixture
def client(broker: SyncLocalBroker) -> Iterator[sync.Client]:
    with sync.connect(broker) as client:
        yield client


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def shape(function: object) -> tuple[list[tuple[object, ...]], dict[str, object]]:
    """Name, kind and annotation of each parameter, and apart from them the options: keywords and their types."""
    assert callable(function)
    found: list[tuple[object, ...]] = []
    options: dict[str, object] = {}
    for each in inspect.signature(function).parameters.values():
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            options |= get_type_hints(get_args(each.annotation)[0])
        elif each.kind is inspect.Parameter.KEYWORD_ONLY:
            options[each.name] = each.annotation
        elif each.kind is not inspect.Parameter.VAR_POSITIONAL:  # which the async client takes to say what is wrong
            annotation = str(each.annotation)
            for one, other in SAME.items():
                annotation = annotation.replace(one, other)
            found.append((each.name, each.kind, each.default, annotation))
    return found, options


# One face


def test_both_clients_have_the_same_names() -> None:
    assert public(sync.Client) == public(client_sdk.Client) - ONLY_ASYNC


@pytest.mark.parametrize("name", sorted(public(sync.Client)))
def test_both_clients_take_the_same_parameters(name: str) -> None:
    ours, theirs = getattr(sync.Client, name), getattr(client_sdk.Client, name)
    assert isinstance(ours, property) == isinstance(theirs, property)
    if not isinstance(ours, property):
        assert shape(ours) == shape(theirs)


def test_connect_takes_the_same_parameters() -> None:
    assert shape(sync.connect) == shape(client_sdk.connect)


@pytest.mark.parametrize("function", [client_sdk.offer, client_sdk.serve, client_sdk.run])
def test_services_take_the_options_of_connect_that_several_connections_can_share(function: object) -> None:
    own = {"connections", "drain_s", "stop"}
    options = {name: kind for name, kind in shape(client_sdk.connect)[1].items() if name not in ("service", "route_id")}
    assert {name: kind for name, kind in shape(function)[1].items() if name not in own} == options


# What it does


def test_all_models(client: sync.Client, orders: Orders) -> None:
    assert client.request_response(ORDERS, b"tea", timeout_s=SOON_S) == Payload(b"tea")
    client.fire_and_forget(ORDERS, b"a line", route="line")
    assert orders.seen.get(timeout=SOON_S) == ("fire_and_forget", b"a line")
    client.metadata_push(ORDERS, b"flush")
    assert orders.seen.get(timeout=SOON_S) == ("metadata_push", b"flush")
    for initial_n in (1, 2, 7, 64):
        items = client.request_stream(ORDERS, b"300", initial_n=initial_n, timeout_s=SOON_S)
        assert [item.data for item in items] == [b"%d" % number for number in range(300)]
    sent = [b"%d" % number for number in range(100)]
    assert [item.data for item in client.request_channel(ORDERS, sent, initial_n=3)] == sent
    assert [item.data for item in client.request_channel(ORDERS, (item for item in sent))] == sent


def test_gather_says_who_answered_and_whether_all_have(client: sync.Client, broker: SyncLocalBroker) -> None:
    with sync.connect(broker, service=Orders().service):
        ids = {route.route_id for route in broker.routes("orders")}
        gathering = client.gather(multicast("orders"), b"tea", timeout_s=SOON_S)
        assert not gathering.is_complete
        assert {(answer.route_id, answer.data) for answer in gathering} == {(each, b"tea") for each in ids}
        assert gathering.is_complete
        late = client.gather(multicast("orders"), route="never", timeout_s=0.05)
        assert (list(late), late.is_complete) == ([], False)
        first = client.gather(multicast("orders"), b"tea", enough_n=1)
        assert len(list(first)) == 1


def test_tags_change_and_a_service_is_drained_without_losing_a_request(broker: SyncLocalBroker) -> None:
    slow = Service("slow")
    go = threading.Event()

    @slow.request_response()
    def answer(data: bytes) -> bytes:  # blocks, so it runs in a thread
        assert go.wait(SOON_S)
        return data

    with sync.connect(broker) as client, ThreadPoolExecutor(2) as pool:
        service = sync.connect(broker, service=slow, tags={"region": "eu"})
        service.set_tags({"region": "us"})
        broker.wait_for_routes("slow", region="us")
        call = pool.submit(client.request_response, address("slow"), b"kept", timeout_s=SOON_S)
        until_now(lambda: broker.routes("slow")[0].requests == 1)
        draining = pool.submit(service.drain, SOON_S)
        until_now(lambda: broker.routes("slow") == [] or broker.routes("slow")[0].tags.get("health") is not None)
        go.set()
        assert call.result(SOON_S).data == b"kept"
        draining.result(SOON_S)
        assert not service.is_connected


def test_changes_tell_of_a_loss_and_of_the_way_back(broker: SyncLocalBroker) -> None:
    with sync.connect(broker) as client, client.changes() as changes:
        assert next(changes).state == "connected"
        broker.drop_connections()
        assert next(changes).state == "reconnecting"
        assert next(changes).state == "connected"
        assert client.wait_for("connected", timeout_s=SOON_S).state == "connected"
        assert (client.state, client.reason) == ("connected", None)


def test_what_the_calling_thread_carries_goes_along(client: sync.Client) -> None:
    carried: ContextVar[str] = ContextVar("carried", default="nothing")

    async def look() -> str:
        return carried.get()

    carried.set("a trace")
    assert client._thread.run(look) == "a trace"


def test_connect_that_cannot_be_leaves_nothing() -> None:
    before = threading.active_count()
    with pytest.raises(NotConnected, match=r"connect-failed: .* call sync\.connect\(\) again after time\.sleep\(1\)"):
        sync.connect("unix:///nowhere/broker.sock", wait_for_reconnect=True)
    with pytest.raises(ValueError, match="keepalive_s"):
        sync.connect("tcp://127.0.0.1:1", keepalive_s=-1)
    assert threading.active_count() <= before  # threads of other tests may have ended meanwhile


def test_interrupted_call_is_cancelled_at_the_service(client: sync.Client, orders: Orders) -> None:
    main = threading.main_thread().ident
    assert main is not None
    orders.on_begin = lambda: signal.pthread_kill(main, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        client.request_response(ORDERS, route="never")
    assert orders.ended.get(timeout=SOON_S) == "never"
    assert client.request_response(ORDERS, b"and on", timeout_s=SOON_S).data == b"and on"


def test_interrupted_connect_leaves_nothing() -> None:
    before = threading.active_count()
    main = threading.main_thread().ident
    assert main is not None
    with socket.socket() as silent, ThreadPoolExecutor(1) as pool:
        silent.bind(("127.0.0.1", 0))
        silent.listen()

        def interrupt() -> bytes:
            peer, _ = silent.accept()
            peer.settimeout(SOON_S)
            with peer:
                assert peer.recv(1)
                signal.pthread_kill(main, signal.SIGINT)
                while data := peer.recv(1000):
                    assert data
            return data

        ended = pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            sync.connect(f"tcp://127.0.0.1:{silent.getsockname()[1]}", connect_timeout_s=SOON_S)
        assert ended.result(SOON_S) == b""  # the connection has ended
    assert threading.active_count() <= before  # threads of other tests may have ended meanwhile


def test_stream_that_is_left_is_cancelled(client: sync.Client, orders: Orders) -> None:
    for item in client.request_stream(ORDERS, b"1000000", initial_n=2):
        assert item.data == b"0"
        break
    assert orders.ended.get(timeout=SOON_S) == "stream"
    with client.request_stream(ORDERS, b"1000000", initial_n=64) as stream:
        for _ in range(100):
            next(stream)
    assert orders.ended.get(timeout=SOON_S) == "stream"
    with pytest.warns(RuntimeWarning, match="this stream has ended, so this loop sees nothing"):
        assert list(stream) == []  # though items have come


def test_channel_that_is_left_closes_the_generator(client: sync.Client, orders: Orders) -> None:
    closed = threading.Event()

    def forever() -> Iterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            closed.set()

    with client.request_channel(ORDERS, forever()) as channel:
        assert next(channel).data == b"x"
    assert closed.wait(SOON_S)
    assert orders.ended.get(timeout=SOON_S) == "channel"


def test_channel_whose_iterable_waits_for_ever_can_be_left(client: sync.Client) -> None:
    never = threading.Event()

    def silent() -> Iterator[bytes]:
        yield b"first"
        never.wait(SOON_S * 10)

    with client.request_channel(ORDERS, silent()) as channel:
        assert next(channel).data == b"first"
    never.set()


# Threads, loops, processes


def test_many_threads_use_one_client(client: sync.Client) -> None:
    def ask(number: int) -> bytes | None:
        return client.request_response(ORDERS, b"%d" % number, timeout_s=SOON_S).data

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(200))) == [b"%d" % number for number in range(200)]


async def test_it_works_where_an_event_loop_runs(client: sync.Client) -> None:
    assert client.request_response(ORDERS, b"in a notebook", timeout_s=SOON_S).data == b"in a notebook"
    assert len(list(client.request_stream(ORDERS, b"5"))) == 5


def test_closed_client_says_so_at_once(broker: SyncLocalBroker) -> None:
    client = sync.connect(broker)
    stream = client.request_stream(ORDERS, b"10")
    client.close()
    client.close()
    client.closed()
    stream.close()
    assert not client.is_connected
    for call in (client.wait_connected, lambda: client.request_response(ORDERS), lambda: client.request_stream(ORDERS)):
        with pytest.raises(NotConnected, match="closed"):
            list(call() or [])  # type: ignore[arg-type]


def test_thread_goes_with_the_last_client_and_comes_again(orders: Orders) -> None:
    def loops() -> int:
        return sum(thread.name == "rsocket background" for thread in threading.enumerate())

    for _ in range(2):
        assert loops() == 0
        with sync_local_broker() as url, sync.connect(url, service=orders.service), sync.connect(url):
            assert loops() == 1
    assert loops() == 0


def test_blocking_call_in_a_handler_is_refused_instead_of_hanging(broker: SyncLocalBroker) -> None:
    inner: list[sync.Client] = []
    wrong = Service("wrong")

    @wrong.request_response()
    async def ask(data: bytes) -> bytes:
        with pytest.raises(RuntimeError, match="blocking call in the event loop"):
            inner[0].request_response(ORDERS)
        return b"told"

    with sync.connect(broker, service=wrong) as client:
        inner.append(client)
        assert client.request_response(address("wrong"), timeout_s=SOON_S).data == b"told"


@pytest.mark.parametrize("whose", ["call", "client"])
def test_deadline_ends_a_call_even_if_a_handler_blocks_the_loop(
    broker: SyncLocalBroker, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "BLOCKED_S", 0.0)
    go, returned = threading.Event(), threading.Event()
    rude = Service("rude")

    @rude.request_response()
    async def block(data: bytes) -> bytes:
        go.wait(SOON_S)
        returned.set()
        return b""

    of_client, of_call = (0.05, None) if whose == "client" else (None, 0.05)
    with sync.connect(broker, service=rude), sync.connect(broker, timeout_s=of_client) as client:
        try:
            with pytest.raises(DeadlineExceeded, match="event loop of the sync clients is blocked"):
                client.request_response(address("rude"), timeout_s=of_call)
            assert not returned.is_set()
        finally:
            go.set()


def test_client_that_nobody_closes_is_told_of_and_closed(broker: SyncLocalBroker) -> None:
    before = broker.connections
    with pytest.warns(ResourceWarning, match="unclosed <sync client"):
        drop(sync.connect(broker))
    until_now(lambda: broker.connections == before)


def drop(client: sync.Client) -> None:
    """The last reference to it goes with this call."""
    assert client.is_connected


def test_child_of_a_fork_is_told_and_may_connect_itself(client: sync.Client, broker: SyncLocalBroker) -> None:
    child = os.fork()
    if child == 0:
        os._exit(in_child(client, broker))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert client.request_response(ORDERS, b"still here", timeout_s=SOON_S).data == b"still here"


def in_child(client: sync.Client, broker: SyncLocalBroker) -> int:
    """0 if all is as it should be; without pytest, which belongs to the parent."""
    signal.alarm(10)  # ends the child, whatever hangs
    try:
        client.request_response(ORDERS, b"")
    except NotConnected as error:
        if error.word != "forked":
            return 1
    else:
        return 2
    client.close()
    with sync.connect(str(broker)) as mine:
        return 0 if mine.request_response(ORDERS, b"mine", timeout_s=SOON_S).data == b"mine" else 3


def test_program_that_closes_nothing_ends_and_says_goodbye(broker: SyncLocalBroker) -> None:
    text = (
        "from client_sdk import Service, address, sync\n"
        f"client = sync.connect({str(broker)!r}, service=Service('kiosk'))\n"
        "stream = client.request_stream(address('orders'), b'100')\n"
        "print(next(stream).data)\n"
    )
    before = broker.connections
    done = run_python("-c", text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'0'\n", "")
    until_now(lambda: broker.connections == before)


def test_held_open_by_its_service_until_it_is_replaced(broker: SyncLocalBroker) -> None:
    route_id = "11223344-5566-7788-99aa-bbccddeeff00"
    with sync.connect(broker, service="once", route_id=route_id) as first:
        ended = threading.Thread(target=first.closed)
        ended.start()
        with sync.connect(broker, service="once", route_id=route_id):
            ended.join(SOON_S)
            assert not ended.is_alive()


async def test_a_loop_that_calls_stop_is_told_of_once_and_that_of_a_notebook_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    warn_in_loop.cache_clear()
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    look_for_loop()
    assert caplog.messages == []
    monkeypatch.delitem(sys.modules, "ipykernel")
    await asyncio.to_thread(look_for_loop)
    assert caplog.messages == []
    for _ in range(2):
        look_for_loop()
    assert len(caplog.messages) == 1

"""A broker inside the process, for the tests of others."""

import asyncio
import contextlib
import pickle
import re
import socket
import sys
from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Any

import pytest
import uvloop

from client_sdk import ClientError, DeadlineExceeded, NoRoute, NotConnected, RouteLost, address, connect, sync
from client_sdk.testing import LocalBroker, RouteSeen, SyncLocalBroker, local_broker, sync_local_broker
from tests.client_sdk.sync.orders import Orders

Run = Callable[[Coroutine[Any, Any, None]], None]
SOON_S = 5.0


def _any(value: object) -> Any:
    """What no type checker has seen."""
    return value


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
def test_broker_answers_at_each_place_on_each_event_loop_and_leaves_nothing(run: Run, scheme: str) -> None:
    async def test() -> None:
        before = asyncio.all_tasks()
        async with local_broker(listen=["tcp", scheme]) as broker:
            url = broker.urls[scheme]
            assert url.startswith(f"{scheme}://")
            async with connect(url, service=Orders().service), connect(url) as client:
                assert (await client.request_response(address("orders"), b"tea")).data == b"tea"
        assert asyncio.all_tasks() == before

    run(asyncio.wait_for(test(), SOON_S))


async def test_the_handle_is_the_url_of_the_first_place() -> None:
    async with local_broker(listen=["ws", "tcp"]) as broker:
        assert str(broker) == broker.urls["ws"]
        assert sorted(broker.urls) == ["tcp", "ws"]
        async with connect([broker]) as client:
            assert client.broker == broker


async def test_brokers_beside_each_other_know_nothing_of_each_other() -> None:
    async with local_broker() as first, local_broker() as second, connect(first, service="here") as client:
        assert [route.service for route in first.routes()] == ["here"]
        assert second.routes() == []
        assert (first.connections, second.connections) == (1, 0)
        assert client.is_connected


async def test_routes_are_found_by_tags_and_show_theirs() -> None:
    async with contextlib.AsyncExitStack() as stack:
        broker = await stack.enter_async_context(local_broker())
        eu = await stack.enter_async_context(connect(broker, service="orders", tags={"region": "eu", "shelf": "3"}))
        us = await stack.enter_async_context(connect(broker, service="orders", tags={"region": "us"}))
        tags: dict[str, str | None] = {"region": "eu", "shelf": "3", "service": "orders", "route_id": eu.route_id}
        assert broker.routes("orders", region="eu") == [RouteSeen(eu.route_id, "orders", tags, 0)]
        assert {route.route_id for route in broker.routes("orders")} == {eu.route_id, us.route_id}
        assert broker.routes("carts") == []


async def test_requests_are_counted_by_service_model_and_outcome() -> None:
    orders = Orders()
    async with local_broker() as broker, connect(broker, service=orders.service), connect(broker) as client:
        for _ in range(3):
            await client.request_response(address("orders"), b"")
        with pytest.raises(ClientError):
            await client.request_response(address("orders"), route="fail")
        with pytest.raises(NoRoute):
            await client.request_response(address("carts"))
        assert len([item async for item in client.request_stream(address("orders"), b"5")]) == 5
        assert broker.requests() == 6
        assert broker.requests("orders") == 5
        assert broker.requests("orders", model="request_response") == 4
        assert broker.requests("orders", outcome="completed") == 4
        assert broker.requests("orders", model="request_stream", outcome="completed") == 1
        assert broker.requests("orders", outcome="error") == 1
        assert broker.requests(outcome="rejected") == 1
        assert broker.routes("orders")[0].requests == 5


async def test_end_of_the_block_waits_for_no_request() -> None:
    orders = Orders()
    async with contextlib.AsyncExitStack() as stack:
        async with local_broker() as broker:
            await stack.enter_async_context(connect(broker, service=orders.service))
            client = await stack.enter_async_context(connect(broker))
            call = asyncio.ensure_future(client.request_response(address("orders"), route="never"))
            await orders.began.wait()
        with pytest.raises(ClientError):
            await call


async def test_error_in_the_block_passes_and_the_broker_ends() -> None:
    urls: list[str] = []

    async def fail() -> None:
        async with local_broker() as broker:
            urls.append(broker)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with pytest.raises(ClientError, match="connect-failed"):
        await connect(urls)


async def test_restarted_broker_listens_where_it_did_and_clients_come_back() -> None:
    async with contextlib.AsyncExitStack() as stack:
        broker = await stack.enter_async_context(local_broker(listen=["tcp", "ws"]))
        await stack.enter_async_context(connect(broker, service=Orders().service))
        client = await stack.enter_async_context(connect(broker))
        await client.request_response(address("orders"), b"1")
        before = dict(broker.urls)
        await broker.restart()
        assert broker.requests() == 0
        await client.wait_connected(SOON_S)
        await broker.wait_for_routes("orders", region="eu", timeout_s=SOON_S)
        assert (await client.request_response(address("orders"), b"2")).data == b"2"
        assert broker.urls == before


async def test_dropped_connections_end_what_runs_and_come_back() -> None:
    orders = Orders()
    async with local_broker() as broker, connect(broker, service=orders.service), connect(broker) as client:
        call = asyncio.ensure_future(client.request_response(address("orders"), route="never"))
        await orders.began.wait()
        broker.drop_connections()
        with pytest.raises((ConnectionError, RouteLost)):
            await call
        await client.wait_connected(SOON_S)
        await broker.wait_for_routes("orders", timeout_s=SOON_S)
        assert (await client.request_response(address("orders"), b"again")).data == b"again"


async def test_wait_for_routes_says_which_are_there() -> None:
    async with local_broker() as broker:
        with pytest.raises(DeadlineExceeded, match="no service 'orders' has connected, nor any other "):
            await broker.wait_for_routes("orders", timeout_s=0.0)
        async with connect(broker, service="carts"):
            with pytest.raises(DeadlineExceeded, match="no service 'orders' region=eu has connected, there is carts "):
                await broker.wait_for_routes("orders", 2, timeout_s=0.0, region="eu")
            with pytest.raises(DeadlineExceeded, match=r"no service 'cart' has connected, did you mean carts\? "):
                await broker.wait_for_routes("cart", timeout_s=0.0)
            with pytest.raises(DeadlineExceeded, match="1 of 2 routes of service 'carts' have connected"):
                await broker.wait_for_routes("carts", 2, timeout_s=0.0)


async def test_a_broker_that_blocks_says_whose_event_loop_stood() -> None:
    with (
        sync_local_broker() as broker,
        pytest.raises(DeadlineExceeded, match=r"stood: await asyncio.to_thread\(broker.wait_for_routes, 'orders'\)"),
    ):
        broker.wait_for_routes("orders", timeout_s=0.01)


async def test_words_that_no_request_has_are_refused() -> None:
    async with local_broker() as broker:
        with pytest.raises(ValueError, match="'ok' is no outcome of requests; there are completed, error, "):
            broker.requests(outcome="ok")
        with pytest.raises(ValueError, match="'rr' is no model of requests; there are request_response, "):
            broker.requests(model="rr")


async def test_what_a_broker_has_not_is_said() -> None:
    async with local_broker() as broker:
        with pytest.raises(
            KeyError, match=r"listens at tcp, not at ws: write listen=\['tcp', 'ws'\], in a test @pytest"
        ):
            broker.urls["ws"]
        with pytest.raises(KeyError, match=r"not at wss: write listen=\['wss://127.0.0.1:0'\] and options={'tls.cert"):
            broker.urls["wss"]
        with pytest.raises(AttributeError, match=r"no attribute 'tcp'; it is a dict: broker.urls\['tcp'\]"):
            broker.urls.tcp  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(AttributeError, match="'LocalBroker' object has no attribute 'port'; it is in the URL"):
            broker.port  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(TypeError, match=r"value of tag timeout is int, it must be str; did you mean timeout_s="):
            await broker.wait_for_routes("orders", timeout=_any(3))
        with pytest.raises(TypeError, match=r"too many positional .*write `broker.requests\('orders', outcome="):
            _any(broker).requests("orders", "completed")
        with pytest.raises(TypeError, match="service is int, it must be str: write `await "):
            await broker.wait_for_routes(2, "orders")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (lambda: local_broker(listen="ws"), "listen= is str, it must be a list, as listen=['ws']"),
        (lambda: local_broker(listen=_any(None)), "listen= is NoneType, it must be a list: listen=['tcp', 'ws']"),
        (
            lambda: local_broker(_any(21881)),
            "21881 is no argument of `rsocket-broker serve`; a port is chosen, or given by "
            "listen=['tcp://127.0.0.1:21881']",
        ),
        (lambda: local_broker(_any(["tcp", "ws"])), "stand behind a name: write listen=['tcp', 'ws']"),
        (lambda: local_broker("ws"), "places to listen at stand behind a name: write listen=['ws']"),
        (lambda: local_broker(_any({"a.b": 1})), "options stand behind a name: write options={'a.b': 1}"),
        (
            lambda: local_broker("limits.max_connections=4"),
            "'limits.max_connections=4' is no option of `rsocket-broker serve`; write options=",
        ),
        (
            lambda: local_broker(port=9876),
            "no argument port=; write listen=['tcp://127.0.0.1:9876']; without it a port is",
        ),
        (
            lambda: local_broker(config="broker.toml"),
            "no argument config=; options are given as options={'limits.max_connections': 10}; a file is read by a "
            "process of its own: local_broker('--config', 'broker.toml')",
        ),
        (lambda: local_broker(listne=["ws"]), "no argument listne=; did you mean listen=?"),
        (
            lambda: local_broker(options={"limits": {"max_connections": 5}}),
            "options= has a dict as 'limits'; write {'limits.max_connections': ...}",
        ),
        (lambda: local_broker(options=_any([])), "options= is list, it must be a dict: {'limits.max_connections': 10}"),
    ],
)
async def test_a_broker_that_cannot_be_started_says_why(start: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        await start().__aenter__()


@pytest.mark.parametrize(
    "mistake, text",
    [
        (lambda broker: broker.requests == 0, "write broker.requests() or broker.routes(), with parentheses"),
        (lambda broker: len(broker.routes), "write broker.requests() or broker.routes(), with parentheses"),
        (lambda broker: "orders" in broker.routes(), "routes are no text: write `assert broker.routes('orders')`"),
        (
            lambda broker: broker.routes("x", tags={"region": "eu"}),
            "the value of tag tags is dict, it must be str; each tag is an argument of its own: "
            "write **{'region': 'eu'}",
        ),
        (lambda broker: broker.routes("x", region=["eu", "us"]), "it must be str; ask for one value at a time"),
        (lambda broker: broker.connections(), "it is a number: leave the parentheses out"),
        (lambda broker: broker.urls(), "it is a dict: write broker.urls['tcp']"),
        (lambda broker: broker.connections.__await__(), "is not awaited: leave `await` out"),
        (lambda broker: broker.routes().__await__(), "is not awaited: leave `await` out"),
        (lambda broker: _any(RouteSeen("", "", {}, 0))["service"], "a RouteSeen is no dict: write route.service"),
    ],
)
async def test_what_a_broker_has_seen_is_not_read_otherwise(mistake: Callable[[Any], object], text: str) -> None:
    with sync_local_broker() as blocking:
        async with local_broker() as broker:
            for each in (broker, blocking):
                with pytest.raises(TypeError, match=re.escape(text)):
                    mistake(each)


async def test_a_method_that_blocks_is_not_awaited() -> None:
    with sync_local_broker() as broker, pytest.raises(TypeError, match="is not awaited: leave `await` out"):
        await _any(broker).restart()


def test_a_client_is_not_called_for_another_one() -> None:
    with (
        sync_local_broker() as url,
        sync.connect(url) as client,
        pytest.raises(TypeError, match="it is a client already"),
    ):
        _any(client)(service="orders")


async def test_a_broker_whose_block_has_ended_is_said_to_have() -> None:
    async with local_broker() as broker:
        pass
    with pytest.raises(NotConnected, match=r"\(the block of its local_broker\(\) has ended\): connection refused"):
        await connect(broker)


async def test_a_broker_that_runs_is_not_started_again() -> None:
    async with local_broker() as broker:
        for start in (_any(broker).__call__, _any(broker).__enter__, _any(broker).__aenter__):
            with pytest.raises(TypeError, match=r"the URL of a broker that runs already: write connect\(broker\)"):
                start()


async def test_a_place_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="listen= has 'http'; it must be 'tcp', 'ws', 'unix' or a URL, such as 'tcp:"):
        await local_broker(listen=["http"]).__aenter__()


async def test_options_are_given_by_name_or_as_keywords() -> None:
    for one in (local_broker(options={"limits.max_connections": 1}), local_broker(limits__max_connections=1)):
        async with one as broker, connect(broker):
            with pytest.raises(ClientError):
                await connect(broker)


def test_both_handles_and_both_ways_to_get_them_have_the_same_names_and_parameters() -> None:
    def names(kind: type) -> dict[str, list[str]]:
        return {
            name: [] if isinstance(member, property) or not callable(member) else list(signature(member).parameters)
            for name, member in vars(kind).items()
            if not name.startswith("_")
        }

    assert names(SyncLocalBroker) == names(LocalBroker)
    assert signature(sync_local_broker).parameters == signature(local_broker).parameters


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"limits.max_conections": 1}, r"did you mean limits\.max_connections"),
        ({"limits.max_connections": "many"}, "must be"),
        ({"admin.listen": "127.0.0.1:0"}, r"process=True"),
        ({"server.workers": 2}, r"process=True"),
    ],
)
async def test_options_that_are_none_are_told(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        async with local_broker(options=options):
            pass


@pytest.mark.parametrize("is_process", [False, True], ids=["inside", "process"])
async def test_taken_port_is_told_and_nothing_stays_open(is_process: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"did not start.*{port}"):
            async with local_broker(listen=["ws", f"tcp://127.0.0.1:{port}"], process=is_process):
                pass


@pytest.mark.parametrize("is_process", [False, True], ids=["inside", "process"])
async def test_variables_of_somebodys_own_broker_are_not_for_it(
    is_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RSB_LIMITS__MAX_CONNECTIONS", "no number")
    async with local_broker(process=is_process) as broker, connect(broker) as client:
        assert client.is_connected


async def test_broker_in_a_process_has_options_and_places_and_cannot_be_looked_into() -> None:
    async with local_broker(listen=["unix", "tcp"], process=True, limits__max_connections=1) as broker:
        assert sorted(broker.urls) == ["tcp", "unix"]
        async with connect(broker):
            with pytest.raises(ClientError):
                await connect(broker.urls["tcp"])
            with pytest.raises(RuntimeError, match="leave process= and arguments out"):
                broker.routes()
        before = dict(broker.urls)
        await broker.restart()
        assert broker.urls == before
        async with connect(broker) as client:
            assert client.is_connected


async def test_for_another_process_the_broker_is_its_url() -> None:
    with sync_local_broker() as blocking:
        async with local_broker() as broker:
            for each in (broker, blocking):
                there = pickle.loads(pickle.dumps(each))
                assert (type(there), there) == (str, str(each))


async def test_broker_of_a_process_that_is_killed_ends() -> None:
    main = "async with local_broker(process=True) as url: print(url, flush=True); await asyncio.Event().wait()"
    text = (
        f"import asyncio\nfrom client_sdk.testing import local_broker\nasync def main():\n {main}\nasyncio.run(main())"
    )
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", text, stdout=asyncio.subprocess.PIPE)
    assert program.stdout is not None
    url = (await program.stdout.readline()).decode().strip()
    async with connect(url) as client:
        program.kill()
        await program.wait()
        await client.wait_for("reconnecting", timeout_s=SOON_S)

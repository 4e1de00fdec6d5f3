"""rsocket-py's wrappers on `client.as_rsocket()`, unchanged, with its router behind the broker as the service."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import reactivex
from cloudevents.conversion import from_json, to_json
from cloudevents.pydantic import CloudEvent
from gql import Client as GraphQLClient
from gql import gql
from graphql import build_schema
from reactivex import operators
from rsocket.awaitable.awaitable_rsocket import AwaitableRSocket
from rsocket.cloudevents.serialize import cloud_event_deserialize, cloud_event_serialize
from rsocket.exceptions import RSocketProtocolError
from rsocket.extensions.helpers import composite, route
from rsocket.graphql.rsocket_transport import RSocketTransport
from rsocket.graphql.server_helper import graphql_handler
from rsocket.helpers import create_response
from rsocket.load_balancer.load_balancer_rsocket import LoadBalancerRSocket
from rsocket.load_balancer.random_client import LoadBalancerRandom
from rsocket.load_balancer.round_robin import LoadBalancerRoundRobin
from rsocket.payload import Payload
from rsocket.reactivex.back_pressure_publisher import from_observable_with_backpressure, observable_from_async_generator
from rsocket.reactivex.reactivex_client import ReactiveXClient
from rsocket.reactivex.reactivex_handler import BaseReactivexHandler
from rsocket.reactivex.reactivex_handler_adapter import reactivex_handler_factory
from rsocket.routing.request_router import RequestRouter
from rsocket.rx_support.rx_rsocket import RxRSocket
from rx import operators as rx_operators

from client_sdk import address, connect
from client_sdk.rsocket_py import ClientRSocket, HandlerSource
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.rsocket_py.strangers import Counted, their_router

ECHO, COUNT, NOTE = (composite(route(name)) for name in ("echo", "count", "note"))


@asynccontextmanager
async def theirs(broker: FakeBroker, source: HandlerSource) -> AsyncIterator[ClientRSocket]:
    async with connect(broker.url, service="theirs", handler=source), connect(broker.url) as client:
        yield client.as_rsocket(address("theirs"))


def data_of(payloads: list[Payload]) -> list[bytes | None]:
    return [payload.data for payload in payloads]


async def test_awaitable_rsocket(broker: FakeBroker) -> None:
    async with theirs(broker, their_router()) as rsocket:
        awaitable = AwaitableRSocket(rsocket)
        assert (await awaitable.request_response(Payload(b"x", ECHO))).data == b"echo x"
        items = await awaitable.request_stream(Payload(b"5", COUNT), limit_rate=2)
        assert data_of(items) == [b"0", b"1", b"2", b"3", b"4"]
        assert data_of(await awaitable.request_channel(Payload(b"x", ECHO), Counted(2))) == [b"0", b"1", b"2"]
        await awaitable.fire_and_forget(Payload(b"x", NOTE))
        await awaitable.metadata_push(NOTE)
        asked = [frame.n for frame in (await broker.peer(1)).of(frames.REQUEST_N)]
        assert asked == [2, 2]  # its limit_rate
        with pytest.raises(RuntimeError):
            await awaitable.request_stream(Payload(b"many", COUNT))
        async with awaitable:
            pass  # the end of the block closes the client
        with pytest.raises(RSocketProtocolError):
            await awaitable.request_response(Payload(b"x", ECHO))


@pytest.mark.parametrize("strategy", [LoadBalancerRoundRobin, LoadBalancerRandom])
async def test_load_balancer(broker: FakeBroker, strategy: Callable[..., Any]) -> None:
    heard: list[str] = []

    def named(name: str) -> RequestRouter:
        router = RequestRouter()

        @router.response("who")  # type: ignore[untyped-decorator]
        async def who() -> Any:
            heard.append(name)
            return create_response(name.encode())

        return router

    async with (
        connect(broker.url, service="a", handler=named("a")),
        connect(broker.url, service="b", handler=named("b")),
        connect(broker.url) as first,
        connect(broker.url) as second,
    ):
        pool = [first.as_rsocket(address("a")), second.as_rsocket(address("b"))]
        async with LoadBalancerRSocket(strategy(pool)) as balanced:
            answers = [(await balanced.request_response(Payload(b"", composite(route("who"))))).data for _ in range(8)]
            assert answers == [name.encode() for name in heard]
            if strategy is LoadBalancerRoundRobin:
                assert answers == [b"a", b"b"] * 4
        assert not first.is_connected
        assert not second.is_connected


async def test_reactivex(broker: FakeBroker) -> None:
    async with theirs(broker, their_router()) as rsocket:
        client = ReactiveXClient(rsocket)
        answer = await client.request_response(Payload(b"x", ECHO))
        assert answer == Payload(b"echo x", None)
        items = await client.request_stream(Payload(b"5", COUNT), request_limit=2).pipe(operators.to_list())
        assert data_of(items) == [b"0", b"1", b"2", b"3", b"4"]
        caller = await broker.peer(1)
        assert caller.of(frames.STREAM)[0].n == 2
        sent = asyncio.Event()
        items = await client.request_channel(
            Payload(b"x", ECHO), observable=reactivex.from_([Payload(b"a"), Payload(b"b")]), sending_done=sent
        ).pipe(operators.to_list())
        assert data_of(items) == [b"0", b"1", b"2"]
        await sent.wait()
        await client.fire_and_forget(Payload(b"x", NOTE))
        with pytest.raises(RuntimeError):
            await client.request_stream(Payload(b"many", COUNT)).pipe(operators.to_list())


async def test_reactivex_handlers_are_a_service(broker: FakeBroker) -> None:
    class Handler(BaseReactivexHandler):  # type: ignore[misc]
        async def request_response(self, payload: Payload) -> Any:
            return reactivex.just(Payload(b"echo " + (payload.data or b"")))

        async def request_stream(self, payload: Payload) -> Any:
            async def count() -> AsyncIterator[Payload]:
                for number in range(4):
                    yield Payload(b"%d" % number)

            return from_observable_with_backpressure(
                lambda backpressure: observable_from_async_generator(count(), backpressure)
            )

    async with theirs(broker, reactivex_handler_factory(Handler)) as rsocket:
        assert (await rsocket.request_response(Payload(b"x"))).data == b"echo x"
        items = await ReactiveXClient(rsocket).request_stream(Payload(b""), request_limit=1).pipe(operators.to_list())
        assert data_of(items) == [b"0", b"1", b"2", b"3"]


async def test_rx_3(broker: FakeBroker) -> None:
    async with theirs(broker, their_router()) as rsocket:
        client = RxRSocket(rsocket)
        assert (await client.request_response(Payload(b"x", ECHO))).data == b"echo x"
        items = await client.request_stream(Payload(b"3", COUNT), request_limit=1).pipe(rx_operators.to_list())
        assert data_of(items) == [b"0", b"1", b"2"]


async def test_graphql(broker: FakeBroker) -> None:
    schema = build_schema(
        "type Query {greeting: Greeting} type Greeting {message: String} "
        "type Mutation {say(message: String): Greeting} type Subscription {greetings: Greeting}"
    )
    said = ["hello"]

    async def greeting(*_: object) -> dict[str, str]:
        return {"message": said[-1]}

    async def say(root: object, info: object, message: str) -> dict[str, str]:
        said.append(message)
        return {"message": message}

    async def greetings(*_: object) -> AsyncIterator[Any]:
        for number in range(3):
            yield {"greetings": {"message": f"hello {number}"}}

    assert schema.query_type is not None
    assert schema.mutation_type is not None
    assert schema.subscription_type is not None
    schema.query_type.fields["greeting"].resolve = greeting
    schema.mutation_type.fields["say"].resolve = say
    schema.subscription_type.fields["greetings"].subscribe = greetings

    async with theirs(broker, graphql_handler(schema, "graphql")) as rsocket:
        client = GraphQLClient(schema=schema, transport=RSocketTransport(rsocket))
        mutation = gql("mutation Say($message: String) {say(message: $message) {message}}")
        answer = await client.execute_async(mutation, variable_values={"message": "good day"})
        assert answer == {"say": {"message": "good day"}}
        assert await client.execute_async(gql("query {greeting {message}}")) == {"greeting": {"message": "good day"}}
        found = [each async for each in client.subscribe_async(gql("subscription {greetings {message}}"))]
        assert found == [{"greetings": {"message": f"hello {number}"}} for number in range(3)]


async def test_cloud_events(broker: FakeBroker) -> None:
    router = RequestRouter(cloud_event_deserialize, cloud_event_serialize)
    attributes = {"type": "io.spring.event.Foo", "source": "https://spring.io/foos"}

    @router.response("event")  # type: ignore[untyped-decorator]
    async def answer(event: CloudEvent) -> CloudEvent:
        return CloudEvent.create(attributes=attributes, data=json.dumps({"heard": json.loads(event.data)}))  # type: ignore[arg-type]

    async with theirs(broker, router) as rsocket:
        event = CloudEvent.create(attributes=attributes, data=json.dumps("Dave"))
        payload = await rsocket.request_response(Payload(to_json(event), composite(route("event"))))
        found = from_json(CloudEvent, payload.data or b"")
        assert json.loads(found.data) == {"heard": "Dave"}  # type: ignore[arg-type]

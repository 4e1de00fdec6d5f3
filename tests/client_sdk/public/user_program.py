"""A program as users write it, with every public name of the SDK and its type; checked, and run by test_typing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol, assert_type

from client_sdk import (
    BYTES,
    JSON,
    NO_REQUEST,
    NO_RETRY,
    Address,
    Answer,
    ApplicationError,
    AuthUnavailable,
    BadAddress,
    BadAnswer,
    BadRequest,
    Caller,
    Canceled,
    Change,
    Changes,
    Client,
    ClientError,
    Codec,
    Connecting,
    ConnectionLost,
    DeadlineExceeded,
    Denied,
    Draining,
    Flow,
    Gathering,
    Group,
    Hedging,
    Misrouted,
    NoHandler,
    NoLease,
    NoRoute,
    NotAllowed,
    NotConnected,
    Offering,
    OverLimit,
    Password,
    Payload,
    Rejected,
    Request,
    RetryBudget,
    RetryPolicy,
    Revoked,
    RouteLost,
    Service,
    SetupRejected,
    State,
    Token,
    TooLarge,
    TooLate,
    Trace,
    Unauthenticated,
    Unhealthy,
    address,
    connect,
    fire_and_forget,
    gather,
    idempotent,
    json_codec,
    multicast,
    offer,
    run,
    serve,
    shard,
    subscribe,
)
from client_sdk.testing import local_broker

orders = Service("orders", tags={"region": "eu"})


@orders.request_response("create")
async def create(data: bytes) -> bytes:
    if not data:
        raise ApplicationError("an order needs a name", word="empty-order")
    return b"created " + data


@orders.request_response("who")
async def who(request: Request) -> Payload:
    caller: Caller | None = request.caller
    if caller is not None and caller.identity == "user:nobody":
        raise BadRequest(caller.role)
    assert_type(request.address, Address | None)
    return Payload(request.data, request.route.encode())


@orders.request_stream("watch")
async def watch(request: Request) -> AsyncIterator[bytes]:
    yield request.data


@orders.request_channel("echo")
async def echo(request: Request, payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
    async for payload in payloads:
        yield payload


@orders.fire_and_forget("log")
async def log(data: bytes) -> None:
    return None


@orders.metadata_push()
async def pushed(request: Request) -> None:
    return None


class Tills(Protocol):
    @idempotent
    async def add(self, numbers: list[int]) -> int: ...

    async def close(self) -> None: ...

    @fire_and_forget
    async def note(self, line: str) -> None: ...

    def count(self, to: int) -> AsyncIterator[int]: ...

    def running(self, numbers: AsyncIterator[int]) -> AsyncIterator[int]: ...


class Till:
    def __init__(self) -> None:
        self.notes: list[str] = []

    async def add(self, numbers: list[int], request: Request = NO_REQUEST) -> int:
        return sum(numbers) + len(request.routes)

    async def close(self) -> None:
        self.notes.append("closed")

    async def note(self, line: str) -> None:
        self.notes.append(line)

    async def count(self, to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    async def running(self, numbers: AsyncIterator[int]) -> AsyncIterator[int]:
        total = 0
        async for number in numbers:
            total += number
            yield total


tills = Service("tills", codec=JSON)
tills.implement(Tills)(Till())


async def call_values(client: Client) -> None:
    to = address("tills")
    assert_type(await client.request_response(to, [1, 2], route="add", returns=int), int)
    assert_type(await client.request_response(to, [1, 2], route="add", returns=bytes), bytes)
    async for number in client.request_stream(to, 2, route="count", returns=int):
        assert_type(number, int)
    async for number in client.request_channel(to, counted(), route="running", returns=int):
        assert_type(number, int)
    answers = await client.gather(multicast("tills"), [1], route="add", returns=int)
    assert_type(answers, list[Answer[int]])
    assert_type([answer.value for answer in answers], list[int])
    assert_type(JSON.decode(b"[1]", list[int]), list[int])
    at_tills = client.of(Tills, to, timeout_s=5)
    assert_type(at_tills, Tills)
    assert_type(await at_tills.add([1, 2]), int)
    await at_tills.close()
    await at_tills.note("a line")
    assert_type([number async for number in at_tills.running(counted())], list[int])
    assert_type(await gather(at_tills.add, [1], with_tags=True), list[Answer[int]])
    assert_type(subscribe(at_tills.count, 2, resume=lambda last: last + 1), Flow[int])


async def counted() -> AsyncIterator[int]:
    yield 1


codecs: list[Codec] = [JSON, BYTES, json_codec(strict=False)]
sums = Service("sums", codecs=codecs)


@sums.request_response("add")
def add(numbers: list[int]) -> int:
    return sum(numbers)


@sums.request_stream("count", codec=JSON)
async def count(to: int, request: Request) -> AsyncIterator[int]:
    for number in range(to):
        yield number


async def serve_sums(url: str) -> None:
    offering = offer(url, sums, connections=2)
    assert_type(offering, Offering)
    async with offering as group:
        assert_type(group, Group)
        assert_type(group.clients, tuple[Client, ...])
        await sums.set_tags({"version": "2"})
        await sums.set_health(sums.is_healthy)
        await group.drain(timeout_s=5)
    stop = asyncio.Event()
    stop.set()
    await serve(url, sums, stop=stop)
    if not sums.tags:
        run(url, sums)


async def numbers() -> AsyncIterator[bytes]:
    yield b"1"


async def call(client: Client) -> None:
    to = address("orders", region="eu")
    assert_type(to, Address)
    answer = await client.request_response(to, b"a book", route="create", timeout_s=5)
    assert_type(answer, Payload)
    assert_type(answer.data, bytes | None)
    stream = client.request_stream(multicast("orders"), b"1", route="watch", timeout_s=5)
    assert_type(stream, Flow[Payload])
    async with stream:
        async for item in stream:
            assert_type(item, Payload)
    owner = shard("orders", key="user", user="ada")
    await client.fire_and_forget(owner, b"a line", route="log")
    await client.metadata_push(to, b"news")
    items = [item.data async for item in client.request_channel(to, numbers(), route="echo", timeout_s=5)]
    assert_type(items, list[bytes | None])
    assert_type(client.brokers, list[str])
    answers = await client.gather(multicast("orders"), b"x", route="create", timeout_s=5)
    assert_type(answers, list[Answer[bytes]])
    gathering = client.gather(multicast("orders"), b"x", route="create", timeout_s=5, enough_n=1)
    assert_type(gathering, Gathering[bytes])
    async for each in gathering:
        assert_type(each.error, ClientError | None)
    policy = RetryPolicy(attempts=2, budget=RetryBudget(ratio=0.1, min_per_s=1))
    sticky = address("orders", sticky="user", user="ada")
    await client.request_response(sticky, b"1", route="who", idempotent=True, retry=policy, hedging=Hedging(after_s=1))
    await client.request_response(to, b"1", route="who", retry=NO_RETRY, wait_for_reconnect=1.5)


async def look(client: Client) -> None:
    assert_type(client.state, State)
    changes = client.changes()
    assert_type(changes, Changes)
    assert_type(await anext(changes), Change)
    assert_type(await client.wait_for("connected", State.MOVING, timeout_s=5), Change)
    assert_type(client.reason, ClientError | None)
    trace = Trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert_type(trace.trace_id, str)


async def fail(client: Client) -> str:
    try:
        await client.request_response(address("orders", region="mars"), timeout_s=5)
    except (NoRoute, OverLimit, Draining) as error:
        assert_type(error, NoRoute | OverLimit | Draining)
        return error.word
    except (NoLease, Unhealthy, NotAllowed, Misrouted, TooLate, NoHandler, TooLarge):
        raise
    except (Rejected, RouteLost, Canceled, BadAddress, BadRequest, ApplicationError, DeadlineExceeded, BadAnswer):
        raise
    except (Unauthenticated, AuthUnavailable, Denied, Revoked):
        raise
    except (NotConnected, ConnectionLost, SetupRejected):
        raise
    except ClientError as error:
        return error.advice
    return ""


async def main() -> None:
    async with local_broker() as url:
        connecting = connect(url, service=orders, credentials=Token("a token that nobody asks for"))
        assert_type(connecting, Connecting)
        async with connecting as client, connect(url, credentials=Password("ada", "lovelace")):
            await call(client)
            await look(client)
            assert await fail(client) == "no-route"
        async with connect(url, service=tills, codec=JSON) as client:
            await call_values(client)


if __name__ == "__main__":
    asyncio.run(main())

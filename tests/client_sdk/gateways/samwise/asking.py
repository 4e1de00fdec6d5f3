"""What a store and a gateway answer, to await it."""

import asyncio

from client_sdk.gateways.samwise.gateway import Gateway
from client_sdk.gateways.samwise.store import Store
from client_sdk.gateways.samwise.values import Message, Publish, Reply, Request


async def put(store: Store, publish: Publish, at_ms: int) -> Message:
    """The message, when it is stored; Refused."""
    answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def done(result: Message | Exception) -> None:
        if answer.done():
            return
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    store.put(publish, at_ms, done)
    return await answer


async def handled(gateway: Gateway, request: Request) -> Reply:
    """Its reply."""
    answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    gateway.handle(request, answer.set_result)
    return await answer

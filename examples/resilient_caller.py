"""A caller that survives failures: several brokers, deadlines, retries, hedging.

python examples/resilient_caller.py     starts its own brokers, and cuts their connections repeatedly
"""

import asyncio
import contextlib

from client_sdk import Hedging, RetryPolicy, Service, address, connect
from client_sdk.testing import LocalBroker, local_broker

CALLS_N = 400
greeter = Service("greeter")
handled = 0


@greeter.request_response("greet")
async def greet(data: bytes) -> bytes:
    global handled
    handled += 1
    await asyncio.sleep(0.3 if handled % 50 == 0 else 0.002)  # now and then somebody is slow
    return b"hello " + data


async def break_things(brokers: list[LocalBroker]) -> None:
    while True:
        for broker in brokers:
            await asyncio.sleep(0.2)
            broker.drop_connections()  # as a network does
            print(f"cut all connections of {broker}, {handled} requests were handled so far")


async def main() -> None:
    policy = RetryPolicy(try_timeout_s=2)
    async with contextlib.AsyncExitStack() as stack:
        brokers = [await stack.enter_async_context(local_broker()) for _ in range(2)]
        for url in brokers:  # a service at each of them: they are not linked
            await stack.enter_async_context(connect(url, service=greeter))
        client = await stack.enter_async_context(
            connect(brokers, timeout_s=20, wait_for_reconnect=True, retry=policy, hedging=Hedging(after_s=0.1))
        )
        breaking = asyncio.create_task(break_things(brokers))
        for number in range(CALLS_N):
            # It may happen twice, and only so may it be asked again when nobody knows whether it was done.
            answer = await client.request_response(address("greeter"), b"%d" % number, route="greet", idempotent=True)
            assert answer.data == b"hello %d" % number
        breaking.cancel()
    print(f"{CALLS_N} calls, all were answered; the service saw {handled}")


if __name__ == "__main__":
    asyncio.run(main())

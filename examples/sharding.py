"""A value always finds the same route: shopping carts that live in the memory of one of several services.

python examples/sharding.py [URL]     without a URL it starts a broker of its own
"""

import asyncio
import contextlib
import sys
from collections import defaultdict

from client_sdk import Service, connect, shard
from client_sdk.testing import local_broker

USERS = ("ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal")


def make_carts() -> tuple[Service, dict[str, int]]:
    carts = Service("carts")
    items: dict[str, int] = defaultdict(int)

    @carts.request_response("add")
    async def add(data: bytes) -> bytes:
        items[data.decode()] += 1
        return b"%d" % items[data.decode()]

    return carts, items


async def main(url: str) -> None:
    shards = [make_carts() for _ in range(3)]
    async with contextlib.AsyncExitStack() as stack:
        for service, _ in shards:
            await stack.enter_async_context(connect(url, service=service))
        client = await stack.enter_async_context(connect(url))
        for number in range(1, 6):
            for user in USERS:
                to = shard("carts", key="user", user=user)
                answer = await client.request_response(to, user.encode(), route="add", timeout_s=5)
                # Had another service answered, it would have begun to count at 1.
                assert answer.data == b"%d" % number, (user, answer.data)

    for number, (_, items) in enumerate(shards):
        print(f"carts {number}: {', '.join(sorted(items)) or 'nobody'}")
    assert sorted(user for _, items in shards for user in items) == sorted(USERS)
    print(f"{len(USERS)} users added 5 items each, and each always met the same service")


async def run() -> None:
    async with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as url:
        await main(url)


if __name__ == "__main__":
    asyncio.run(run())

"""A sharded in-memory cache: one key is always served by the same instance, so each value is computed once.

python examples/sharded_cache.py [URL]     without a URL it starts its own broker
"""

import asyncio
import contextlib
import sys

from client_sdk import Service, connect, shard
from client_sdk.testing import local_broker

USERS = ("ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal")


def make_cache() -> tuple[Service, dict[bytes, bytes]]:
    """One of several: a service, and what it holds."""
    service = Service("profiles")
    values: dict[bytes, bytes] = {}

    @service.request_response("get")
    async def get(user: bytes) -> bytes:
        if user not in values:
            await asyncio.sleep(0.01)  # the database, which the cache is there to spare
            values[user] = b"profile of " + user
        return values[user]

    return service, values


async def main(url: str) -> None:
    caches = [make_cache() for _ in range(3)]
    async with contextlib.AsyncExitStack() as stack:
        for service, _ in caches:
            await stack.enter_async_context(connect(url, service=service))
        client = await stack.enter_async_context(connect(url))
        for _ in range(5):
            for user in USERS:
                to = shard("profiles", key="user", user=user)  # the tag says what is sharded by
                answer = await client.request_response(to, user.encode(), route="get", timeout_s=5)
                assert answer.data == b"profile of " + user.encode()

    for number, (_, values) in enumerate(caches):
        print(f"cache {number}: {', '.join(sorted(user.decode() for user in values)) or 'nobody'}")
    # Had a user been looked up at two caches, both would hold it.
    assert sorted(user.decode() for _, values in caches for user in values) == sorted(USERS)
    print(f"{len(USERS)} users were looked up 5 times each, and each was made once")


async def run() -> None:
    async with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as url:
        await main(url)


if __name__ == "__main__":
    asyncio.run(run())

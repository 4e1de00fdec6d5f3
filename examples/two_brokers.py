"""A cluster of two brokers: a service at one broker answers a caller at the other.

python examples/two_brokers.py     starts both brokers
"""

import asyncio
import contextlib
import json
import os
import sys
import urllib.request
from collections.abc import AsyncIterator

from client_sdk import Service, address, connect

hello = Service("hello")


@hello.request_response("greet")
async def greet(data: bytes) -> bytes:
    return b"hello " + data


@contextlib.asynccontextmanager
async def broker(name: str, *peers: str) -> AsyncIterator[tuple[str, str]]:
    """Its URL, for clients and other brokers, and that of its REST API."""
    options = {
        "RSB_BROKER__NAME": name,
        "RSB_CLUSTER__SECRET": "correct horse battery staple",
        "RSB_CLUSTER__PEERS": ",".join(peers),
        "RSB_ROUTING__NO_ROUTE": "wait",  # also until the brokers are linked
        "RSB_LOG__LEVEL": "error",
    }
    command = (sys.executable, "-m", "broker", "--listen", "tcp://127.0.0.1:0", "--admin", "127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=os.environ | options)
    assert process.stdout is not None  # asked for with PIPE
    try:
        said = [(await process.stdout.readline()).decode().split() for _ in range(2)]  # listening URL
        yield said[0][1], said[1][1]
    finally:
        process.terminate()
        await process.wait()


async def main() -> None:
    async with broker("one") as (one, _), broker("two", one) as (two, api):
        async with connect(two, service=hello), connect(one) as caller:
            answer = await caller.request_response(address("hello"), b"from one", route="greet", timeout_s=5)
            print(f"asked at one, answered at two: {answer.data!r}")
        paths = json.load(await asyncio.to_thread(urllib.request.urlopen, f"{api}/api/v1/paths"))["items"]
        print(f"the way of {paths[0]['requests']} request: {' > '.join(paths[0]['way'])}")
        assert (answer.data, paths[0]["way"]) == (b"hello from one", ["one", "two"])


if __name__ == "__main__":
    asyncio.run(main())

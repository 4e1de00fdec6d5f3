"""A channel: both sides send, each with its own back-pressure. A moderator of a chat room answers line by line.

python examples/channel.py [URL]     without a URL it starts its own broker
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from client_sdk import Request, Service, address, connect
from client_sdk.testing import local_broker

LINES = ("hello", "who took my SANDWICH", "nobody did", "bye")
moderator = Service("moderator")


@moderator.request_channel("chat")
async def chat(request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Answers some lines, and says goodbye when the caller has no more; the request's data is the first line."""
    heard = 0
    async for line in lines:
        heard += 1
        text = line.decode()
        if text != text.lower():
            yield f"please do not shout: {text}".encode()
    yield f"that was it, {heard} lines".encode()


async def typed(lines: tuple[str, ...]) -> AsyncIterator[bytes]:
    """What somebody types; each line is only asked for when the moderator has room for it."""
    for line in lines:
        await asyncio.sleep(0.01)
        print(f"> {line}")
        yield line.encode()


async def main(url: str) -> None:
    async with connect(url, service=moderator), connect(url) as client:
        said: list[str] = []
        to = address("moderator")
        async for answer in client.request_channel(to, typed(LINES), route="chat", returns=bytes, timeout_s=10):
            said.append(answer.decode())
            print(f"< {said[-1]}")
        assert said == ["please do not shout: who took my SANDWICH", "that was it, 4 lines"]


async def run() -> None:
    async with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else local_broker() as url:
        await main(url)


if __name__ == "__main__":
    asyncio.run(run())

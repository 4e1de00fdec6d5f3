"""A script without an event loop: calls a service, reads a stream, sends the items of an ordinary generator.

python examples/sync_script.py [URL]     without a URL it starts its own broker
"""

import contextlib
import sys
from collections.abc import AsyncIterator, Iterator

from client_sdk import NoRoute, Payload, Request, Service, address, sync
from client_sdk.testing import sync_local_broker

orders = Service("orders")


@orders.request_response("create")
def create(data: bytes) -> bytes:  # not async, so it runs in a thread and may block
    return b"order taken: " + data


@orders.request_stream("watch")
async def watch(request: Request) -> AsyncIterator[bytes]:
    for state in (b"taken", b"packed", b"sent"):
        yield request.data + b" " + state


@orders.request_channel("count")
async def count(payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
    yield b"%d orders" % len([payload async for payload in payloads])


def lines() -> Iterator[bytes]:
    """A file, say; it is read as fast as the service takes it."""
    yield from (b"a book", b"a lamp", b"a chair")


def main(url: str) -> None:
    to = address("orders")
    with sync.connect(url, service=orders), sync.connect(url) as client:
        print(client.request_response(to, b"a book", route="create", timeout_s=5).data)
        for state in client.request_stream(to, b"a book", route="watch", timeout_s=5):
            print(state.data)
        print([answer.data for answer in client.request_channel(to, lines(), route="count", timeout_s=5)])
        try:
            client.request_response(address("mars"), timeout_s=5)
        except NoRoute as error:
            print(error.text)


if __name__ == "__main__":
    with contextlib.nullcontext(sys.argv[1]) if sys.argv[1:] else sync_local_broker() as url:
        main(url)

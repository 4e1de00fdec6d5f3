"""The broker that one writes first, on rsocket-py: a server for each connection, requests passed on by its requester.

Not ours and not a straw man: it runs on uvloop, decodes each address once, and does per request only what rsocket-py
does. It forwards request/response, fire-and-forget, request/stream and metadata push, unicast, round robin. What it
costs is that every frame becomes objects, callbacks and up to three writes on both connections.

    python -m benchmarks.naive_broker --port 0      prints "listening tcp://127.0.0.1:PORT", runs until it is killed
"""

import asyncio
from asyncio import Future, StreamReader, StreamWriter
from functools import lru_cache
from itertools import count
from typing import Any

import click
import uvloop
from reactivestreams.publisher import Publisher
from reactivestreams.subscriber import Subscriber
from reactivestreams.subscription import DefaultSubscription
from rsocket.extensions.composite_metadata import CompositeMetadata
from rsocket.payload import Payload
from rsocket.request_handler import BaseRequestHandler
from rsocket.rsocket_server import RSocketServer
from rsocket.transports.tcp import TransportTCP

from rsocket_wire.wire.frames import MIME_TYPES, Address, BrokerFrame, RouteSetup, decode_frame
from rsocket_wire.wire.keys import SERVICE_NAME
from rsocket_wire.wire.tags import Tag

_decode = lru_cache(maxsize=4096)(decode_frame)  # our decoder shall not cost the naive broker anything
_MIME_BYTES = frozenset(mime.encode() for mime in MIME_TYPES)


class Router:
    """The connections that offered a route, with their tags."""

    def __init__(self) -> None:
        self.routes: list[tuple[set[Tag], RSocketServer]] = []
        self._turn = count()

    def choose_route(self, metadata: bytes) -> RSocketServer:
        """The next connection whose tags include those of the ADDRESS; LookupError when there is none."""
        address = _find_broker_frame(metadata)
        if not isinstance(address, Address):
            raise LookupError("bad-address: the request has no ADDRESS")
        wanted = set(address.tags)
        found = [server for tags, server in self.routes if wanted <= tags]
        if not found:
            raise LookupError("no-route: no connection has these tags")
        return found[next(self._turn) % len(found)]


class Forwarder(BaseRequestHandler):  # type: ignore[misc]  # rsocket-py has no types
    """Handles the requests of one connection by asking the destination the same."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.server: RSocketServer = None  # set right after the server was made with this handler

    async def on_setup(self, data_encoding: bytes, metadata_encoding: bytes, payload: Payload) -> None:
        setup = _find_broker_frame(payload.metadata)
        if isinstance(setup, RouteSetup):
            self.router.routes.append(({*setup.tags, Tag.of(SERVICE_NAME, setup.service_name)}, self.server))

    async def on_close(self, rsocket: object, exception: Exception | None = None) -> None:
        self.router.routes[:] = [route for route in self.router.routes if route[1] is not self.server]

    async def request_response(self, payload: Payload) -> "Future[Payload]":
        answer: Future[Payload] = self.router.choose_route(payload.metadata).request_response(payload)
        return answer

    async def request_fire_and_forget(self, payload: Payload) -> None:
        self.router.choose_route(payload.metadata).fire_and_forget(payload)

    async def on_metadata_push(self, payload: Payload) -> None:
        self.router.choose_route(payload.metadata).metadata_push(bytes(payload.metadata))

    async def request_stream(self, payload: Payload) -> Publisher:
        return ForwardedStream(self.router.choose_route(payload.metadata).request_stream(payload))


class ForwardedStream(Publisher, DefaultSubscription):  # type: ignore[misc]  # rsocket-py has no types
    """Opens the stream at the destination with the caller's first credit; later credit goes there directly."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._subscriber: Subscriber = None  # until rsocket-py subscribes

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self._stream.initial_request_n(n).subscribe(self._subscriber)


def _find_broker_frame(metadata: bytes | None) -> BrokerFrame | None:
    for item in CompositeMetadata().parse(metadata or b"").items:
        if item.encoding in _MIME_BYTES:
            return _decode(bytes(item.content))
    return None


async def serve(port: int) -> None:
    """Listens on 127.0.0.1 until the process is killed."""
    router = Router()

    def accept(reader: StreamReader, writer: StreamWriter) -> None:
        forwarder = Forwarder(router)
        forwarder.server = RSocketServer(TransportTCP(reader, writer), handler_factory=lambda: forwarder)

    listener = await asyncio.start_server(accept, "127.0.0.1", port)
    print(f"listening tcp://127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
    await listener.serve_forever()


@click.command()
@click.option("--port", default=0, show_default=True, help="0: any free port.")
def main(port: int) -> None:
    """A small broker on rsocket-py, to compare with."""
    uvloop.run(serve(port))


if __name__ == "__main__":
    main()

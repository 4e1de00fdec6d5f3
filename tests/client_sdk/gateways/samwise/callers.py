"""Programs that ask a gateway, as raw ZeroMQ sockets, and a gateway that does what a test says."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import zmq
import zmq.asyncio

from client_sdk.gateways.samwise.endpoint.server import Server, ServerSettings
from client_sdk.gateways.samwise.requests import Rules
from client_sdk.gateways.samwise.values import Ping, Publish, Refused, Reply, Request
from tests.system.support.waits import soon

PING = [b"120", b"ping"]
PONG = [b"0", b""]


def publish(payload: bytes) -> list[bytes]:
    """A request of protocol 1.0."""
    return [b"100", b"publish", b"round robin", b"orders", b"new", payload]


class FakeGateway:
    """Answers pings at once, and what is published when `release` says so; keeps what came."""

    def __init__(self, *, holds: bool = False) -> None:
        self.came: list[Request] = []
        self.refused: list[Refused] = []
        self.held: list[Callable[[Reply], None]] = []  # to answer with
        self._holds = holds

    def handle(self, request: Request, answer: Callable[[Reply], None]) -> None:
        self.came.append(request)
        if isinstance(request, Publish) and self._holds:
            self.held.append(answer)
        else:
            answer(Reply(True))

    def refuse(self, refused: Refused) -> Reply:
        self.refused.append(refused)
        return Reply(False, refused.text)

    @property
    def payloads(self) -> list[bytes]:
        """Of what was published, in the order in which it came."""
        return [each.payload for each in self.came if isinstance(each, Publish)]

    @property
    def pings_n(self) -> int:
        """How many came."""
        return sum(isinstance(each, Ping) for each in self.came)


class Caller:
    """One connection."""

    def __init__(self, context: "zmq.asyncio.Context", kind: int, endpoint: str, options: dict[int, Any]) -> None:
        self.socket = context.socket(kind)
        self.socket.linger = 0
        for option, value in options.items():
            self.socket.setsockopt(option, value)
        self.socket.connect(endpoint)

    async def ask(self, frames: list[bytes]) -> list[bytes]:
        """The answer to one request."""
        await self.send(frames)
        return await self.answer()

    async def send(self, frames: list[bytes]) -> None:
        await soon(self.socket.send_multipart(frames))

    async def answer(self) -> list[bytes]:
        frames: list[bytes] = await soon(self.socket.recv_multipart())
        return frames

    async def is_silent(self, wait_s: float = 0.2) -> bool:
        """No answer came; the wait is for what must not happen, and as long as the test likes."""
        return not await self.socket.poll(int(wait_s * 1000))

    def leave(self) -> None:
        self.socket.close()


Call = Callable[..., Caller]


@asynccontextmanager
async def calling(endpoint: str) -> AsyncIterator[Call]:
    """Makes callers at this endpoint, `call(zmq.REQ, {option: value})`, and ends them."""
    with zmq.asyncio.Context() as context:
        callers: list[Caller] = []

        def call(kind: int = zmq.REQ, options: dict[int, Any] | None = None) -> Caller:
            callers.append(Caller(context, kind, endpoint, options or {}))
            return callers[-1]

        try:
            yield call
        finally:
            for caller in callers:
                caller.leave()


@asynccontextmanager
async def serving(
    gateway: FakeGateway, endpoint: str, rules: Rules | None = None, **settings: Any
) -> AsyncIterator[Server]:
    """A server in this process."""
    values = {"max_callers": 100, "endpoints": (endpoint,), **settings}
    server = Server(gateway, ServerSettings(rules=rules or Rules(), **values))
    server.bind()
    server.start()
    try:
        yield server
    finally:
        await server.close()

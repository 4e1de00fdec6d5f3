"""client_sdk.gateways.samwise.endpoint.plain: connections without sockets."""

import asyncio
import sys
from typing import Any

import pytest

from client_sdk.gateways.samwise.endpoint.answering import Answering
from client_sdk.gateways.samwise.endpoint.plain import PlainCaller, PlainCallers
from client_sdk.gateways.samwise.endpoint.rates import Rates
from client_sdk.gateways.samwise.endpoint.zmtp import MORE, frame_bytes
from client_sdk.gateways.samwise.requests import Rules
from client_sdk.gateways.samwise.values import Reply
from tests.client_sdk.gateways.samwise.callers import FakeGateway, publish
from tests.client_sdk.gateways.samwise.endpoint.test_zmtp import GREETING, NAMED, READY


class FakeTransport(asyncio.Transport):
    """Keeps what is written, and ends at once."""

    def __init__(self, caller: PlainCaller) -> None:
        super().__init__()
        self.written = b""
        self._caller = caller
        self._is_lost = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._caller.connection_lost(None)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Endpoint:
    """One endpoint, whose gateway holds what is published."""

    def __init__(self) -> None:
        self.gateway = FakeGateway(holds=True)
        self.callers = PlainCallers(Answering(self.gateway, Rules(), Rates(0, 0)), Rules(), lambda: 10)

    def connect(self, ready: bytes = READY) -> tuple[PlainCaller, FakeTransport]:
        caller = self.callers.make()
        transport = FakeTransport(caller)
        caller.connection_made(transport)
        caller.data_received(GREETING + ready)
        return caller, transport


async def test_an_answer_goes_to_who_came_last_under_a_name_however_many_came() -> None:
    endpoint = Endpoint()
    first, _ = endpoint.connect(NAMED)
    first.data_received(frame_bytes([b"", *publish(b"1")]))
    for _ in range(2 * sys.getrecursionlimit()):
        _, last = endpoint.connect(NAMED)
    endpoint.gateway.held[0](Reply(True))
    assert last.written.endswith(frame_bytes([b"", b"0"]))


async def test_of_a_caller_that_is_gone_nothing_is_held_but_its_requests() -> None:
    endpoint = Endpoint()
    caller, transport = endpoint.connect()
    caller.data_received(frame_bytes([b"", *publish(b"1")]) + bytes((MORE, 200)) + b"x" * 200 + b"\x02")
    caller.data_received((1 << 20).to_bytes(8, "big") + b"y" * 500_000)
    assert endpoint.callers.held_bytes > 500_000
    transport.abort()
    assert (endpoint.callers.held_bytes, caller._reader.held_bytes) == (0, 0)
    endpoint.gateway.held[0](Reply(True))


async def test_the_log_has_no_line_for_each_of_many_that_are_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = Endpoint()
    for _ in range(100):
        endpoint.connect(READY.replace(b"REQ", b"SUB"))
    assert len(caplog.records) == 1

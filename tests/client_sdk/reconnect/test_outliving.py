"""Calls that outlive a restart of the broker of this project, and of the service, as they are documented."""

import asyncio

from client_sdk import Client, RetryPolicy, address, connect
from client_sdk.testing import LocalBroker, local_broker
from tests.client_sdk.samples import echo_service

CALLERS_N = 8
TO = address("echo")


async def call_until(client: Client, is_over: asyncio.Event, answered: list[bytes | None]) -> None:
    while not is_over.is_set():
        answered.append((await client.request_response(TO, b"1", idempotent=True)).data)


async def more_than(answered: list[bytes | None], n: int) -> None:
    while len(answered) <= n:
        await asyncio.sleep(0.001)


class Load:
    """Callers that call as fast as they can; every call must succeed."""

    def __init__(self, broker: LocalBroker) -> None:
        self._connecting = connect(broker, retry=RetryPolicy(), wait_for_reconnect=True, timeout_s=10)
        self.answered: list[bytes | None] = []
        self._is_over = asyncio.Event()
        self._callers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Load":
        client = await self._connecting.__aenter__()
        for _ in range(CALLERS_N):
            self._callers.append(asyncio.create_task(call_until(client, self._is_over, self.answered)))
        await more_than(self.answered, 20)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await more_than(self.answered, len(self.answered) + 20)
            self._is_over.set()
            await asyncio.gather(*self._callers)
        finally:
            for caller in self._callers:
                caller.cancel()
            await asyncio.wait(self._callers)
            await self._connecting.__aexit__()


async def test_idempotent_calls_outlive_a_restart_of_the_broker() -> None:
    async with local_broker() as broker, connect(broker, service=echo_service()), Load(broker) as load:
        await broker.restart()
    assert set(load.answered) == {b"1"}


async def test_idempotent_calls_outlive_a_restart_of_the_only_service() -> None:
    async with local_broker() as broker:
        first = await connect(broker, service=echo_service())
        async with Load(broker) as load:
            await first.close()
            again = await connect(broker, service=echo_service())
        await again.close()
        assert set(load.answered) == {b"1"}

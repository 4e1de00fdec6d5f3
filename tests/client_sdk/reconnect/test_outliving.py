"""Calls that outlive a restart of the broker of this project, and of the service, as they are documented."""

import asyncio

import pytest

from client_sdk import RetryPolicy, address, connect
from client_sdk.testing import local_broker
from tests.client_sdk.samples import echo_service
from tests.system.support.waits import until

CALLERS_N = 8
TO = address("echo")


@pytest.mark.parametrize("restarted", ["broker", "service"])
async def test_idempotent_calls_outlive_a_restart(restarted: str) -> None:
    """Of the broker, or of the only service, while callers call as fast as they can; every call succeeds."""
    answered: list[bytes | None] = []
    options = {"retry": RetryPolicy(), "wait_for_reconnect": True, "timeout_s": 10}
    async with local_broker() as broker, connect(broker, **options) as client:  # type: ignore[arg-type]
        service = await connect(broker, service=echo_service())

        async def call_on() -> None:
            while True:
                answered.append((await client.request_response(TO, b"1", idempotent=True)).data)

        async with asyncio.TaskGroup() as callers:
            calling = [callers.create_task(call_on()) for _ in range(CALLERS_N)]
            await until(lambda: len(answered) > 20)
            if restarted == "broker":
                await broker.restart()
            else:
                await service.close()
                service = await connect(broker, service=echo_service())
            enough_n = len(answered) + 20
            await until(lambda: len(answered) > enough_n)
            for each in calling:
                each.cancel()
        await service.close()
    assert set(answered) == {b"1"}

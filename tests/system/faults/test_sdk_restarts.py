"""A broker that is restarted again and again while clients of the SDK are at work: nothing hangs, all comes back."""

import asyncio
import signal

import pytest

from tests.conftest import StartBroker
from tests.system.support.processes import BrokerProcess
from tests.system.support.sdk_load import Load

RESTARTS = 6  # as many by each signal
WARM = 2  # restarts, after which all that is ever needed is there
GROWN_KIB = 6 << 10  # of memory: what an allocator keeps, not what connections left
ALL_S = 120.0  # on a machine that is busy with other things; alone it takes a quarter of that
OPTIONS = {"server__stop_grace_s": 0.3}


async def restart(start_broker: StartBroker, broker: BrokerProcess, how: signal.Signals) -> BrokerProcess:
    """The next broker on the port of the last one; it listens."""
    broker.signal(how)
    await asyncio.to_thread(broker.wait)
    return await asyncio.to_thread(start_broker, "--listen", broker.url("tcp"), **OPTIONS)


@pytest.mark.long
def test_restarts_under_load(start_broker: StartBroker) -> None:
    """By SIGTERM and by SIGKILL in turn; no call hangs, idempotent ones succeed, services are back, nothing is left."""

    async def run() -> None:
        broker = start_broker("--listen", "tcp://127.0.0.1:0", **OPTIONS)
        async with asyncio.timeout(ALL_S), Load([broker.url("tcp")]) as load:
            held = []
            await load.more(50)
            for number in range(RESTARTS):
                broker = await restart(start_broker, broker, signal.SIGKILL if number % 2 else signal.SIGTERM)
                await load.assert_back(f"restart {number}")
                load.assert_good()
                if number + 1 in (WARM, RESTARTS):
                    held.append(await load.rest())
                    await load.more(50)
            load.assert_good()
            print(f"calls ended: {dict(load.ended)}; held: {held}")
            after_few, after_all = held
            assert after_all["tasks"] == after_few["tasks"], held
            assert after_all["sockets"] == after_few["sockets"], held
            assert after_all["resident KiB"] - after_few["resident KiB"] < GROWN_KIB, held
            assert load.ended["ok"] > 50 * RESTARTS

    asyncio.run(run())

"""Brokers of a cluster that go one after the other: clients of the SDK that know all addresses go on at the others."""

import asyncio
import signal

import pytest

from tests.conftest import StartBroker
from tests.system.support.processes import BrokerProcess
from tests.system.support.sdk_load import Load

SECRET = "only the brokers of this test know it"
ALL_S = 120.0


class Brokers:
    """Three on ports that stay the same; each knows the others."""

    def __init__(self, start_broker: StartBroker) -> None:
        self._start = start_broker
        self.urls: list[str] = []
        self._running: dict[str, BrokerProcess] = {}

    def begin(self) -> None:
        for number in range(3):
            broker = self._start("--listen", "tcp://127.0.0.1:0", **self._options(number))
            self.urls.append(broker.url("tcp"))
            self._running[broker.url("tcp")] = broker

    async def stop(self, number: int, how: signal.Signals) -> None:
        """Returns when it is told; a broker that drains takes its time."""
        self._running[self.urls[number]].signal(how)

    async def gone(self, number: int) -> None:
        await asyncio.to_thread(self._running[self.urls[number]].wait)

    async def again(self, number: int) -> None:
        """On its old port; it listens."""
        url = self.urls[number]
        self._running[url] = await asyncio.to_thread(self._start, "--listen", url, **self._options(number))

    def _options(self, number: int) -> dict[str, object]:
        peers = {"cluster__peers": ",".join(self.urls[:number] or self.urls[1:])} if self.urls else {}
        return {
            "cluster__secret": SECRET,
            "broker__name": f"broker-{number}",
            "server__stop_grace_s": 2,
            "server__drain_spread_s": 0.5,
            **peers,
        }


@pytest.mark.long
@pytest.mark.parametrize("how", [(signal.SIGTERM, signal.SIGKILL), (signal.SIGKILL, signal.SIGTERM)])
def test_brokers_that_go_one_after_the_other(
    start_broker: StartBroker, how: tuple[signal.Signals, signal.Signals]
) -> None:
    """Down to one, then the first comes back and the last goes: no call hangs, idempotent ones succeed."""

    async def run() -> None:
        brokers = Brokers(start_broker)
        brokers.begin()
        async with asyncio.timeout(ALL_S), Load(brokers.urls) as load:
            await load.more(50)
            await load.assert_back("at the beginning")
            for number, each in enumerate(how):
                await brokers.stop(number, each)
                await load.assert_back(f"while broker {number} goes")
                await brokers.gone(number)
                await load.assert_back(f"without broker {number}")
                await load.more(50)
                load.assert_good()
            await brokers.again(0)
            await load.more(50)
            await brokers.stop(2, how[0])
            await load.assert_back("while the last of the first three goes")
            await brokers.gone(2)
            await load.assert_back("with one that came back")
            await load.more(100)
            load.assert_good()
            print(f"calls ended: {dict(load.ended)}")

    asyncio.run(run())

"""Which broker is dialled, where, and what is said when none can be."""

import asyncio
import socket

import pytest

from client_sdk import ClientError, NotConnected, SetupRejected
from client_sdk.io.dial import Target
from client_sdk.io.transport import SocketTransport
from client_sdk.reconnect.brokers import MAX_ADDRESSES, Brokers, addresses_of
from rsocket_wire.rsocket.frames import Setup
from tests.client_sdk.fake_broker import FakeBroker

SETUP = Setup("message/x.rsocket.composite-metadata.v0", "a/b", 5000, 20_000)


class Names:
    """A resolver that knows what a test tells it."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.addresses


def brokers_of(url: str, names: Names, timeout_s: float = 5.0) -> Brokers:
    return Brokers([Target(url)], SETUP, None, timeout_s, None, look_up=names)


async def test_a_name_with_several_addresses_is_tried_address_by_address(broker: FakeBroker) -> None:
    names = Names("127.0.0.9", "127.0.0.8", "127.0.0.1")
    connection = await brokers_of(f"tcp://brokers.example:{broker.port}", names).dial()
    assert names.asked == [("brokers.example", broker.port)]
    await connection.close()


async def test_a_broker_that_refuses_leads_to_the_next_address(broker: FakeBroker) -> None:
    other = FakeBroker()
    other.refusal = (0x003, "draining: I leave")
    await other.start(broker.port, host="127.0.0.2")
    connection = await brokers_of(f"tcp://brokers.example:{broker.port}", Names("127.0.0.2", "127.0.0.1")).dial()
    assert (len(other.peers), len(broker.peers)) == (1, 1)
    await connection.close()
    await other.stop()


async def test_the_last_address_says_why_it_failed(broker: FakeBroker) -> None:
    broker.refusal = (0x003, "bad-route: too many tags")
    with pytest.raises(SetupRejected, match=r"tcp://brokers\.example:\d+: too many tags"):
        await brokers_of(f"tcp://brokers.example:{broker.port}", Names("127.0.0.9", "127.0.0.1")).dial()


@pytest.mark.parametrize("names", [Names(), Names("127.0.0.1")], ids=["no name", "no broker"])
async def test_a_broker_that_is_not_there_is_one_traceback(names: Names) -> None:
    """What asyncio raised stands in the text, and its traceback tells users nothing."""
    with pytest.raises(NotConnected, match="connect-failed") as raised:
        await brokers_of("tcp://nobody.example:1", names).dial()
    assert raised.value.__suppress_context__
    assert raised.value.__cause__ is None


async def test_a_name_that_nobody_knows_says_so() -> None:
    with pytest.raises(NotConnected, match=r"connect-failed: tcp://nobody\.example: .*not known"):
        await brokers_of("tcp://nobody.example", Names()).dial()


async def test_a_resolver_that_is_silent_is_given_up() -> None:
    class Silent(Names):
        async def __call__(self, host: str, port: int) -> list[str]:
            await asyncio.Event().wait()
            return []

    with pytest.raises(NotConnected, match=r"the host name was not resolved within 0\.02 s"):
        await brokers_of("tcp://slow.example", Silent(), 0.02).dial()


async def test_no_more_addresses_are_tried_than_it_may(broker: FakeBroker) -> None:
    names = Names(*["127.0.0.9"] * MAX_ADDRESSES, "127.0.0.1")
    with pytest.raises(ClientError, match="connect-failed"):
        await brokers_of(f"tcp://brokers.example:{broker.port}", names).dial()
    names.addresses.pop(0)
    await (await brokers_of(f"tcp://brokers.example:{broker.port}", names).dial()).close()


async def test_a_session_goes_on_where_it_was_begun(broker: FakeBroker) -> None:
    """Another address of the name may be another broker, which does not know it."""

    class Suspended:
        async def resume(self, wire: SocketTransport) -> None:
            await wire.close()

    brokers = brokers_of(f"tcp://brokers.example:{broker.port}", Names("127.0.0.9", "127.0.0.1"))
    connection = await brokers.dial()
    await brokers.resume(Suspended())  # type: ignore[arg-type]
    await broker.peer(1)
    await connection.close()


async def test_addresses_are_the_systems_each_once() -> None:
    assert await addresses_of("127.0.0.1", 7878) == ["127.0.0.1"]
    with pytest.raises(OSError, match=r"."):
        await addresses_of("no such name", 7878)

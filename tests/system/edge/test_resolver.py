"""broker.edge.resolver: what a name stands for, from a fake, and SRV records from a name server on a socket."""

from __future__ import annotations

import asyncio
from typing import cast

import dns.message
import dns.rcode
import dns.rrset
import pytest

from broker.config.urls import PeerUrl
from broker.edge import resolver
from broker.edge.resolver import MAX_FOUND, Resolver, look_up
from tests.system.support.waits import soon


class FakeResolver(Resolver):
    """Knows what the test says; a name that it does not know is an OSError."""

    def __init__(self) -> None:
        super().__init__()
        self.by_host: dict[str, list[str]] = {}
        self.by_service: dict[str, list[tuple[str, int]]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        if host not in self.by_host:
            raise OSError("no such name")
        return self.by_host[host]

    async def services(self, name: str) -> list[tuple[str, int]]:
        if name not in self.by_service:
            raise OSError("no such name")
        return self.by_service[name]


async def found(url: str, fake: Resolver) -> list[tuple[str, str]]:
    return list((await look_up(PeerUrl.parse(url), fake)).items())


async def test_a_dns_name_stands_for_all_its_addresses_once_each_and_certificates_have_the_name() -> None:
    fake = FakeResolver()
    fake.by_host["brokers"] = ["10.0.0.4", "fd00::1", "10.0.0.4", "10.0.0.5"]
    assert await found("dns+tls://brokers:7878", fake) == [
        ("tls://10.0.0.4:7878", "brokers"),
        ("tls://[fd00::1]:7878", "brokers"),
        ("tls://10.0.0.5:7878", "brokers"),
    ]


async def test_an_srv_name_stands_for_all_its_records_and_certificates_have_the_names_of_hosts() -> None:
    fake = FakeResolver()
    fake.by_service["_broker._tcp.example"] = [("b1.example", 7878), ("b2.example", 7879), ("", 7878)]
    assert await found("srv+tcp://_broker._tcp.example", fake) == [
        ("tcp://b1.example:7878", "b1.example"),
        ("tcp://b2.example:7879", "b2.example"),
    ]


async def test_a_name_stands_for_so_many_brokers_and_no_more() -> None:
    fake = FakeResolver()
    fake.by_host["brokers"] = [f"10.0.{number // 250}.{number % 250}" for number in range(MAX_FOUND + 1)]
    assert [url for url, _ in await found("dns+tcp://brokers:1", fake)] == [
        f"tcp://{address}:1" for address in fake.by_host["brokers"][:MAX_FOUND]
    ]


async def test_a_name_that_there_is_not_is_an_error() -> None:
    with pytest.raises(OSError):
        await found("dns+tcp://brokers:1", FakeResolver())


async def test_a_lookup_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Resolver):
        async def addresses(self, host: str, port: int) -> list[str]:
            await asyncio.Event().wait()
            return []

    monkeypatch.setattr(resolver, "LOOKUP_S", 0.01)
    with pytest.raises(TimeoutError):
        await soon(found("dns+tcp://brokers:1", Silent()))


async def test_the_system_knows_the_addresses_of_this_machine() -> None:
    assert "127.0.0.1" in await Resolver().addresses("localhost", 1)


class NameServer(asyncio.DatagramProtocol):
    """Answers any question for SRV records with these lines; without lines there is no such name."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # it is one in all but inheritance

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question)
        if self._lines:
            answer.answer.append(dns.rrset.from_text(question.question[0].name, 60, "IN", "SRV", *self._lines))
        else:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        self._transport.sendto(answer.to_wire(), addr)


async def asked(*lines: str) -> list[tuple[str, int]]:
    """What a resolver makes of these records."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: NameServer(*lines), ("127.0.0.1", 0))
    try:
        port = transport.get_extra_info("sockname")[1]
        return await soon(Resolver("127.0.0.1", port).services("_broker._tcp.example"))
    finally:
        transport.close()


async def test_srv_records_are_read_those_to_be_preferred_first() -> None:
    lines = ("20 5 7003 b3.example.", "10 1 7002 b2.example.", "10 9 7879 b1.example.")
    assert await asked(*lines) == [("b1.example", 7879), ("b2.example", 7002), ("b3.example", 7003)]


async def test_an_srv_name_that_there_is_not_is_an_error() -> None:
    with pytest.raises(OSError, match="does not exist"):
        await asked()

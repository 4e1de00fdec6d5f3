"""Ports that several processes share, and that are nobody else's."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from broker.commands.workers.ports import Ports
from broker.config.urls import Listen
from broker.edge.accept import accept
from rsocket_wire.errors import BrokerError


@pytest.fixture
def ports() -> Iterator[Ports]:
    made = Ports()
    yield made
    made.close()


def test_a_port_that_the_system_chooses_is_known_and_held(ports: Ports) -> None:
    held = ports.hold(Listen("tcp", "127.0.0.1", 0))
    assert (held.scheme, held.host, held.port > 0) == ("tcp", "127.0.0.1", True)
    with socket.socket() as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", held.port))


def test_a_unix_socket_has_no_port(ports: Ports) -> None:
    listen = Listen("unix", path="/run/b.sock")
    assert ports.hold(listen) == listen


async def test_a_port_of_another_supervisor_is_taken_though_both_would_share_it(ports: Ports) -> None:
    held = ports.hold(Listen("ws", "127.0.0.1", 0))
    server, _ = await accept(asyncio.Protocol, ["127.0.0.1"], held.port, None, shares_port=True)
    with pytest.raises(BrokerError, match=r"ws://127\.0\.0\.1:[0-9]+: address already in use"):
        Ports().hold(held)
    server.close()


def test_a_port_is_free_again_when_it_is_let_go(ports: Ports) -> None:
    held = ports.hold(Listen("tcp", "127.0.0.1", 0))
    ports.close()
    assert ports.hold(held) == held


def test_a_host_with_several_addresses_has_one_port_at_all_of_them(ports: Ports) -> None:
    held = ports.hold(Listen("tcp", "localhost", 0))
    found = socket.getaddrinfo("localhost", held.port, type=socket.SOCK_STREAM)
    for family, _, _, _, address in found:
        with socket.socket(family) as other, pytest.raises(OSError):
            other.bind(address)


def test_a_host_that_is_not_here_is_told() -> None:
    with pytest.raises(BrokerError, match=r"tcp://192\.0\.2\.1:7878: cannot assign"):
        Ports().hold(Listen("tcp", "192.0.2.1", 7878))


def test_a_host_that_nobody_knows_is_told_in_the_words_of_the_resolver(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*asked: object, **more: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(BrokerError) as caught:
        ports.hold(Listen("tcp", "nobody.invalid", 7878))
    assert caught.value.text == "tcp://nobody.invalid:7878: name or service not known"


async def test_those_who_share_a_port_accept_on_it_and_nobody_else(ports: Ports) -> None:
    held = ports.hold(Listen("tcp", "127.0.0.1", 0))
    servers = [await accept(asyncio.Protocol, ["127.0.0.1"], held.port, None, shares_port=True) for _ in range(2)]
    assert [port for _, port in servers] == [held.port] * 2
    with pytest.raises(OSError):
        await accept(asyncio.Protocol, ["127.0.0.1"], held.port, None)
    for server, _ in servers:
        server.close()

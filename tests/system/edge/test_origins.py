"""Where connections come from: limits per address and per principal, on real sockets."""

import os

import pytest

from broker.edge.origins import address_of
from broker.edge.websocket import WebSocketLink
from tests.conftest import MakeServer, StartBroker
from tests.system.edge.test_arrivals import are_closed, opened
from tests.system.support.certificates import Authority
from tests.system.support.shells import FakeTransport
from tests.system.support.wires import Wire, url_of

LISTEN = ("--listen", "tls://127.0.0.1:0", "--listen", "wss://127.0.0.1:0/rsocket")


async def refusal(url: str, wire: Wire | None = None) -> str:
    """What a new connection is told instead of an answer."""
    wire = wire or await Wire.connect(url)
    texts = [frame.text for frame in await wire.rest()]
    await wire.close()
    (text,) = texts
    return text


@pytest.mark.parametrize(
    "host, address",
    [
        ("10.0.0.4", "10.0.0.4"),
        ("::1", "::/64"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.4", "10.0.0.4"),
    ],
)
def test_an_origin_is_an_ipv4_address_or_64_bits_of_ipv6(host: str, address: str) -> None:
    assert address_of(host) == address


async def test_the_name_of_a_connection_has_an_ipv6_address_in_brackets(make_server: MakeServer) -> None:
    server = await make_server()
    transport = FakeTransport()
    transport.get_extra_info = {"peername": ("2001:db8::4", 5123, 0, 0)}.get  # type: ignore[assignment]
    link = WebSocketLink(server.shell, transport, is_from_client=True)
    link.begin("ws", "", b"")
    assert [peer.name for peer in server.core.peers()] == ["ws [2001:db8::4]:5123"]
    link.connection_lost(None)


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_one_connection_too_many_of_an_address_is_refused_and_those_that_left_do_not_count(
    make_server: MakeServer, scheme: str
) -> None:
    server = await make_server(**{"limits.max_connections_per_address": 2})
    first, second = [await Wire.caller(url_of(server, each)) for each in ("tcp", "ws")]
    url = url_of(server, scheme)
    text = "over-limit: 2 connections of this address are open, limits.max_connections_per_address is 2"
    assert await refusal(url) == text
    await first.close()
    await second.ping()
    while len(server.core.peers()) > 1:
        await second.ping()
    await Wire.caller(url)


async def test_what_is_no_websocket_yet_is_counted_by_address_too(make_server: MakeServer) -> None:
    server = await make_server(**{"limits.max_connections_per_address": 3, "limits.setup_timeout_s": 60})
    url = url_of(server, "ws")
    async with opened(url, 3), opened(url, 2) as streams:
        await are_closed(streams)
    await Wire.caller(url)  # they are gone, and so it has room


async def test_a_unix_socket_has_the_user_for_principal_and_no_address(make_server: MakeServer) -> None:
    limits = {"limits.max_connections_per_principal": 1, "limits.max_connections_per_address": 1}
    server = await make_server(**limits)
    for scheme in ("tcp", "unix"):
        await Wire.caller(url_of(server, scheme))
    text = f"over-limit: 1 connections of uid:{os.getuid()} are open, limits.max_connections_per_principal is 1"
    assert await refusal(url_of(server, "unix")) == text
    assert server.core.lifecycle.limits.origins() == (1, 1)


@pytest.mark.parametrize("scheme", ["tls", "wss"])
async def test_a_verified_certificate_is_a_principal(
    start_broker: StartBroker, authority: Authority, scheme: str
) -> None:
    """On the event loop that brokers run on."""
    for name in ("orders", "billing"):
        authority.sign(name)
    broker = start_broker(
        *LISTEN, **authority.broker_options(), tls__client_ca=authority.root, limits__max_connections_per_principal=1
    )
    url = broker.url(scheme)
    await Wire.caller(url, authority.client_context("orders"))
    surplus = await Wire.connect(url, authority.client_context("orders"))
    text = "over-limit: 1 connections of certificate:CN=orders are open, limits.max_connections_per_principal is 1"
    assert await refusal(url, surplus) == text
    await Wire.caller(url, authority.client_context("billing"))

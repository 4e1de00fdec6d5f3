"""Which web pages may open a WebSocket, and by which names a broker may be asked."""

import socket

import pytest

from broker.config.hosts import is_known_host, may_open, own_names, read_name, read_origin
from broker.config.options import Config
from broker.config.sections.cluster import ClusterOptions
from broker.config.sections.process import AdminOptions, ServerOptions
from broker.config.urls import Listen
from rsocket_wire.errors import BrokerError

NAMES = {"broker.shop.example", "broker"}
ORIGINS = {"https://shop.example", "null"}


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:7879", "10.1.2.3:80", "[::1]", "[2001:db8::1]:7879"),
        *("localhost", "LOCALHOST:7879", "localhost.", "app.localhost:7879", "broker:7070", "BROKER"),
        *("broker.shop.example", "Broker.Shop.Example:443", "broker.shop.example."),
    ],
)
def test_addresses_localhost_and_own_names_are_known(host: str) -> None:
    assert is_known_host(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:7879", "shop.example", "x.broker.shop.example", "127.0.0.1.evil.example"),
        *("localhost.evil.example", "evillocalhost.example", "1.2.3", "[evil]", "[::1", "", ":7879", "a@evil.example"),
        *("evil", "ai", "ai.", "evil:7879", "xlocalhost", ".localhost", "a..localhost", "localhost..", "::1"),
        *("[127.0.0.1]", "localhost, evil", "evil, x.localhost", "evil@localhost", "localhost:x", "localhost/x"),
        *("localhost#", "broker\n"),
    ],
)
def test_any_other_name_may_be_a_strangers(host: str) -> None:
    assert not is_known_host(host, NAMES)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:7879", "127.0.0.1:7879"),
        ("http://localhost:7879", "localhost:7879"),
        ("https://broker.shop.example", "broker.shop.example"),
        ("HTTPS://Broker.Shop.Example", "broker.shop.example"),
        ("https://shop.example", "anything.example:7879"),
        ("null", "127.0.0.1:7879"),
    ],
)
def test_pages_from_here_and_from_listed_places_may_connect(origin: str, host: str) -> None:
    assert may_open(origin, host, ORIGINS)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example", "127.0.0.1:7879"),
        ("http://localhost:3000", "localhost:7879"),
        ("http://localhost", "localhost:7879"),
        ("http://shop.example", "127.0.0.1:7879"),
        ("https://shop.example:8443", "127.0.0.1:7879"),
        ("https://shop.example.evil.example", "127.0.0.1:7879"),
        ("file://", "127.0.0.1:7879"),
        ("chrome-extension://127.0.0.1", "127.0.0.1"),
        ("http://127.0.0.1:7879, http://evil.example", "127.0.0.1:7879"),
        ("127.0.0.1:7879", "127.0.0.1:7879"),
    ],
)
def test_pages_from_elsewhere_may_not(origin: str, host: str) -> None:
    assert not may_open(origin, host, ORIGINS)


def test_without_a_list_null_is_elsewhere() -> None:
    assert not may_open("null", "127.0.0.1:7879", ())


def test_own_names_are_those_of_the_configuration_and_of_the_machine() -> None:
    config = Config(
        server=ServerOptions(listen=(Listen("wss", "Broker.Shop.Example", 443),), names=("other.shop.example",)),
        admin=AdminOptions(listen=Listen("http", "admin.shop.example", 7070)),
        cluster=ClusterOptions(
            advertise=(Listen("tls", "b1.shop.example", 7878),), client_urls=(Listen("wss", "ws.shop.example", 443),)
        ),
    )
    names = {"broker", "other", "admin", "b1", "ws"}
    assert own_names(config) == {f"{name}.shop.example" for name in names} | {socket.gethostname().lower()}
    assert own_names(Config(admin=AdminOptions(listen=None))) == {"127.0.0.1", socket.gethostname().lower()}


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://shop.example", "https://shop.example"),
        ("HTTP://Localhost:3000", "http://localhost:3000"),
        ("https://shop.example:443", "https://shop.example"),
        ("http://shop.example:443", "http://shop.example:443"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("app://desktop", "app://desktop"),
        ("null", "null"),
    ],
)
def test_an_origin_is_read_as_browsers_say_it(text: str, origin: str) -> None:
    assert read_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        *("", "*", "shop.example", "https://", "https://shop.example/", "https://a@shop.example", "https://x:99999"),
        *("https://[", "https://münchen.example"),
    ],
)
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(BrokerError, match="is not an origin like"):
        read_origin(text)


@pytest.mark.parametrize(
    "text",
    ["", "a b", "shop.example:80", "https://shop.example", "shop.example/x", "a..b", "münchen.example", "x" * 64],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BrokerError, match="is not a host name"):
        read_name(text)


def test_a_name_is_read_in_small_letters() -> None:
    assert read_name("Broker.Shop.Example") == "broker.shop.example"

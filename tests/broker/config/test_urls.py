"""broker.config.urls: URLs as they are written, and which listeners exclude each other."""

import errno
from pathlib import Path

import pytest

from broker.config.urls import Listen, PeerUrl, cannot_listen
from rsocket_wire.errors import BrokerError
from tests.broker.config.sources import SCHEMES, mistakes_of, of_file


def test_two_listeners_cannot_have_one_address(folder: Path) -> None:
    assert mistakes_of(folder, '[server]\nlisten = [\n"tcp://a:1",\n"ws://a:1/x",\n"unix:///x", "unix:///x"]\n') == [
        'broker.toml:4: server.listen: "ws://a:1/x" has the same address as "tcp://a:1"',
        'broker.toml:5: server.listen: "unix:///x" has the same address as "unix:///x"',
    ]


@pytest.mark.parametrize(
    ("url", "meant"),
    [("ws://me@a:1/x", "ws://a:1/x"), ("tcp://ada:12/secret@a:1", "tcp://a:1"), ("tls://b@c:1", "tls://c:1")],
)
def test_a_password_in_a_url_is_refused_and_not_shown(url: str, meant: str) -> None:
    for parse in (Listen.parse, PeerUrl.parse):
        with pytest.raises(BrokerError) as caught:
            parse(url)
        assert caught.value.text == f'a URL holds no user and no password; write "{meant}"'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tcp://0.0.0.0:1", "ws://127.0.0.1:1/x"),
        ("tcp://127.0.0.1:1", "ws://0.0.0.0:1/x"),
        ("tcp://localhost:1", "ws://0.0.0.0:1/x"),
        ("tcp://[::]:1", "ws://[::1]:1/x"),
    ],
)
def test_all_addresses_are_the_others_too(folder: Path, one: str, other: str) -> None:
    text = f'[server]\nlisten = [\n"{one}",\n"{other}"]\n'
    assert mistakes_of(folder, text) == [f'broker.toml:4: server.listen: "{other}" has the same address as "{one}"']


@pytest.mark.parametrize("other", ["tcp://[::]:1", "tcp://some.name:1", "tcp://127.0.0.1:2", "unix:///0.0.0.0:1"])
def test_what_may_well_have_its_place_is_no_mistake(folder: Path, other: str) -> None:
    config = of_file(folder, f'[server]\nlisten = ["tcp://0.0.0.0:1", "{other}"]\n')
    assert len(config.server.listen) == 2


def test_listeners_on_free_ports_do_not_collide(folder: Path) -> None:
    config = of_file(folder, '[server]\nlisten = ["tcp://a:0", "ws://a:0"]\n[admin]\nlisten = "a:0"\n')
    assert len(config.server.listen) == 2


def test_a_listener_cannot_have_the_address_of_the_admin_listener(folder: Path) -> None:
    wrong = '"tcp://127.0.0.1:7070" has the same address as admin.listen, "127.0.0.1:7070"'
    assert mistakes_of(folder, '[server]\nlisten = ["tcp://127.0.0.1:7070"]') == [
        f"broker.toml:2: server.listen: {wrong}",
    ]
    assert mistakes_of(folder, "", {"RSB_ADMIN__LISTEN": "127.0.0.1:7878"}) == [
        'environment: RSB_ADMIN__LISTEN: "127.0.0.1:7878" is the address of "tcp://127.0.0.1:7878" in server.listen',
    ]
    assert mistakes_of(folder, '[server]\nlisten = ["tcp://0.0.0.0:1"]\n[admin]\nlisten = "127.0.0.1:1"\n') == [
        'broker.toml:4: admin.listen: "127.0.0.1:1" is the address of "tcp://0.0.0.0:1" in server.listen',
    ]


EXAMPLE = "; write it as in tcp://127.0.0.1:7878"


@pytest.mark.parametrize(
    "url, sentence",
    [
        ("tpc://127.0.0.1:7878", f"is not a URL of {SCHEMES}; write tcp://127.0.0.1:7878"),
        ("127.0.0.1:7878", f"is not a URL of {SCHEMES}; write tcp://127.0.0.1:7878"),
        ("21890", f"is not a URL of {SCHEMES}; write tcp://127.0.0.1:21890"),
        (":21890", f"is not a URL of {SCHEMES}; write tcp://127.0.0.1:21890"),
        ("localhost", f"is not a URL of {SCHEMES}; write tcp://localhost:7878"),
        ("[::1]", f"is not a URL of {SCHEMES}; write tcp://[::1]:7878"),
        ("http://a:1", f"is not a URL of {SCHEMES}; write tcp://a:1, or ws://a:1 for a WebSocket"),
        ("https://a:1", f"is not a URL of {SCHEMES}; write tls://a:1, or wss://a:1 for a WebSocket"),
        ("tcp:127.0.0.1:1", f"is not a URL of {SCHEMES}; write tcp://127.0.0.1:1"),
        ("/run/x.sock", f"is not a URL of {SCHEMES}; write unix:///run/x.sock"),
        ("", f"is not a URL of {SCHEMES}{EXAMPLE}"),
        ("tcp://a b:1", f"is not a URL of {SCHEMES}{EXAMPLE}"),
        ("tcp://[::1:7878", f"is not a URL of {SCHEMES}{EXAMPLE}"),
        ("tcp://127.0.0.1", "has no port; write tcp://127.0.0.1:7878; port 0 is any free one"),
        ("tcp://:7878", "has no host; write tcp://127.0.0.1:7878, or tcp://0.0.0.0:7878 for all addresses"),
        ("tcp://a:65536", "has a port that is not a number from 0 to 65535"),
        ("tcp://a..b:7878", "has an invalid host"),
        ("tcp://a:x", "has a port that is not a number from 0 to 65535"),
        ("tls://a:1/rsocket", "has a path, which tls does not support"),
        ("ws://a:1/x?y=1", "has more than a scheme, a host, a port and a path"),
        ("unix://run/x.sock", "has no absolute path; write unix:///run/broker.sock"),
        ("unix:///", "has no absolute path; write unix:///run/broker.sock"),
        (f"unix:///{'x' * 107}", "has a path of 108 bytes; a unix socket can have 107"),
    ],
)
def test_a_url_that_is_none_is_told_in_a_sentence(url: str, sentence: str) -> None:
    with pytest.raises(BrokerError) as caught:
        Listen.parse(url)
    shown = f'"{url}"' if len(url) < 78 else f'"{url[:78]}…'
    assert (caught.value.word, caught.value.text) == ("bad-config", f"{shown} {sentence}")


@pytest.mark.parametrize(
    "url, listen",
    [
        ("tcp://127.0.0.1:0", Listen("tcp", "127.0.0.1", 0)),
        ("tls://broker.example:7878", Listen("tls", "broker.example", 7878)),
        ("ws://[::1]:7879", Listen("ws", "::1", 7879)),
        ("wss://[::]:7879/rsocket", Listen("wss", "::", 7879, "/rsocket")),
        ("unix:///run/broker.sock", Listen("unix", path="/run/broker.sock")),
    ],
)
def test_a_url_is_parsed_and_written_back(url: str, listen: Listen) -> None:
    assert Listen.parse(url) == listen
    assert str(listen) == url


@pytest.mark.parametrize(
    "url",
    [
        *("tcp://a:1", "tls://[::1]:1", "wss://a:1/x", "unix:///a"),
        *("dns+tcp://a:1", "dns+tls://[::1]:1", "srv+tls://_a._tcp.b"),
    ],
)
def test_the_url_of_a_peer_is_parsed_and_written_back(url: str) -> None:
    assert str(PeerUrl.parse(url)) == url


@pytest.mark.parametrize(
    "place, hint",
    [
        ("tcp://127.0.0.1:81", "ports below 1024 are for root, take another"),
        ("ws://127.0.0.1:81/path", "ports below 1024 are for root, take another"),
        ("unix:///root/x.sock", "this user may not write into /root, take another folder"),
    ],
)
def test_where_nobody_may_listen_is_told_with_what_to_take(place: str, hint: str) -> None:
    text = cannot_listen(place, PermissionError(errno.EACCES, "Permission denied")).text
    assert text == f"{place}: permission denied; {hint}"

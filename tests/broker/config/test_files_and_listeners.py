"""broker.config.load: options that exclude or need each other, and files that are not what they should be."""

from pathlib import Path

import pytest

from broker.config.urls import Listen
from tests.broker.config.sources import mistakes_of, of_file, write_pem


def test_a_tls_listener_needs_certificate_and_key(folder: Path) -> None:
    assert mistakes_of(folder, '[server]\nlisten = [\n  "tcp://a:1",\n  "wss://a:2/x",\n]\n') == [
        'broker.toml:4: tls.certificate: is required by the listener "wss://a:2/x"',
        'broker.toml:4: tls.key: is required by the listener "wss://a:2/x"',
    ]


def test_a_certificate_that_is_wrong_is_not_called_missing_as_well(folder: Path) -> None:
    text = '[tls]\ncertificate = 5\nkey = "broker.toml"\n[server]\nlisten = ["tls://a:1"]\n'
    assert mistakes_of(folder, text) == ["broker.toml:2: tls.certificate: must be the path of a file or empty, not 5"]


@pytest.mark.parametrize(("certificate", "key"), [("certificate", "key"), ("both", "both"), ("both", "key")])
def test_a_tls_listener_with_its_files_is_right(folder: Path, certificate: str, key: str) -> None:
    write_pem(folder)
    config = of_file(
        folder,
        f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\nclient_ca = "both"\n[server]\nlisten = ["tls://a:1"]',
    )
    assert config.server.listen == (Listen("tls", "a", 1),)


@pytest.mark.parametrize(
    ("certificate", "key", "sentence"),
    [
        ("junk", "key", '2: tls.certificate: "junk" holds no certificate in PEM'),
        ("empty", "key", '2: tls.certificate: "empty" holds no certificate in PEM'),
        ("key", "key", '2: tls.certificate: "key" holds no certificate in PEM'),
        ("certificate", "other", '3: tls.key: "other" is the key of another certificate'),
        ("certificate", "junk", '3: tls.key: "junk" holds no private key in PEM without a password'),
        ("certificate", "certificate", '3: tls.key: "certificate" holds no private key in PEM without a password'),
        ("certificate", "encrypted", '3: tls.key: "encrypted" holds no private key in PEM without a password'),
        ("certificate", "", "2: tls.key: is required by tls.certificate"),
    ],
)
@pytest.mark.parametrize("listen", ["tls", "tcp"])
def test_a_certificate_or_key_that_is_none_is_told(
    folder: Path, certificate: str, key: str, sentence: str, listen: str
) -> None:
    """Also where nobody listens with it: other brokers may be dialled, and nobody is asked for a password."""
    if not key and listen == "tls":
        sentence = '5: tls.key: is required by the listener "tls://127.0.0.1:1"'
    write_pem(folder)
    text = f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n[server]\nlisten = ["{listen}://127.0.0.1:1"]\n'
    assert mistakes_of(folder, text) == [f"broker.toml:{sentence}"]


@pytest.mark.parametrize(("section", "key"), [("tls", "client_ca"), ("cluster", "ca")])
@pytest.mark.parametrize("name", ["junk", "empty", "key"])
def test_roots_that_are_none_are_told(folder: Path, section: str, key: str, name: str) -> None:
    write_pem(folder)
    text = f'[{section}]\n{key} = "{name}"\n'
    assert mistakes_of(folder, text) == [f'broker.toml:2: {section}.{key}: "{name}" holds no certificate in PEM']


def test_two_listeners_cannot_have_one_address(folder: Path) -> None:
    assert mistakes_of(folder, '[server]\nlisten = [\n"tcp://a:1",\n"ws://a:1/x",\n"unix:///x", "unix:///x"]\n') == [
        'broker.toml:4: server.listen: "ws://a:1/x" has the same address as "tcp://a:1"',
        'broker.toml:5: server.listen: "unix:///x" has the same address as "unix:///x"',
    ]


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
    assert mistakes_of(folder, "", {"RSB_ADMIN__LISTEN": "127.0.0.1:7000"}) == [
        'environment: RSB_ADMIN__LISTEN: "127.0.0.1:7000" is the address of "tcp://127.0.0.1:7000" in server.listen',
    ]
    assert mistakes_of(folder, '[server]\nlisten = ["tcp://0.0.0.0:1"]\n[admin]\nlisten = "127.0.0.1:1"\n') == [
        'broker.toml:4: admin.listen: "127.0.0.1:1" is the address of "tcp://0.0.0.0:1" in server.listen',
    ]

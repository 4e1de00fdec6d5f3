"""broker.config.certificates: files that hold no certificate or key, or of another one, and who needs them."""

from pathlib import Path

import pytest

from broker.config.urls import Listen
from tests.broker.config.sources import mistakes_of, of_file, write_pem

NO_PEM = "holds no certificate in PEM; PEM has a line -----BEGIN CERTIFICATE-----"
WRITE_KEY = 'write key = "FILE" in [tls], or RSB_TLS__KEY=FILE'
SWAPPED = "holds no certificate but a key: are certificate and key swapped?"


def test_a_tls_listener_needs_certificate_and_key(folder: Path) -> None:
    assert mistakes_of(folder, '[server]\nlisten = [\n  "tcp://a:1",\n  "wss://a:2/x",\n]\n') == [
        'broker.toml:4: tls.certificate: is required by the listener "wss://a:2/x"; write certificate = "FILE" in '
        "[tls], or RSB_TLS__CERTIFICATE=FILE",
        f'broker.toml:4: tls.key: is required by the listener "wss://a:2/x"; {WRITE_KEY}',
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
        ("junk", "key", f'2: tls.certificate: "junk" {NO_PEM}'),
        ("empty", "key", f'2: tls.certificate: "empty" {NO_PEM}'),
        ("key", "certificate", f'2: tls.certificate: "key" {SWAPPED}'),
        ("key", "key", f'2: tls.certificate: "key" {NO_PEM}'),
        ("certificate", "other", '3: tls.key: "other" is the key of another certificate'),
        ("certificate", "junk", '3: tls.key: "junk" holds no private key in PEM without a password'),
        ("certificate", "certificate", '3: tls.key: "certificate" holds no private key in PEM without a password'),
        ("certificate", "encrypted", '3: tls.key: "encrypted" holds no private key in PEM without a password'),
        ("certificate", "", f"2: tls.key: is required by tls.certificate; {WRITE_KEY}"),
    ],
)
@pytest.mark.parametrize("listen", ["tls", "tcp"])
def test_a_certificate_or_key_that_is_none_is_told(
    folder: Path, certificate: str, key: str, sentence: str, listen: str
) -> None:
    """Also where nobody listens with it: other brokers may be dialled, and nobody is asked for a password."""
    if not key and listen == "tls":
        sentence = '5: tls.key: is required by the listener "tls://127.0.0.1:1"; ' + WRITE_KEY
    write_pem(folder)
    text = f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n[server]\nlisten = ["{listen}://127.0.0.1:1"]\n'
    assert mistakes_of(folder, text) == [f"broker.toml:{sentence}"]


@pytest.mark.parametrize(("section", "key"), [("tls", "client_ca"), ("cluster", "ca")])
@pytest.mark.parametrize("name", ["junk", "empty", "key"])
def test_roots_that_are_none_are_told(folder: Path, section: str, key: str, name: str) -> None:
    write_pem(folder)
    text = f'[{section}]\n{key} = "{name}"\n'
    assert mistakes_of(folder, text) == [f'broker.toml:2: {section}.{key}: "{name}" {NO_PEM}']

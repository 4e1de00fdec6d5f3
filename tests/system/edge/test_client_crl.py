"""Lists of revoked certificates, as openssl makes them: who is refused, and who ends when the file is read again."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from broker.config.load import ConfigErrors, Loaded, load_all
from broker.server import Server
from tests.system.support.certificates import BROKER_NAMES, Authority
from tests.system.support.waits import soon
from tests.system.support.wires import Closed, Wire

REFUSED = (OSError, Closed)
OLD = ("-crl_lastupdate", "20260101000000Z", "-crl_nextupdate", "20260102000000Z")


@pytest.fixture(scope="module")
def own(needs_openssl: str, tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that has signed `broker`, `one` and `two`, and whose list says nothing of others' tests."""
    made = Authority(needs_openssl, tmp_path_factory.mktemp("revoking"), "revoking")
    for name in ("broker", "one", "two"):
        made.sign(name, BROKER_NAMES)
    return made


def loaded(own: Authority, crl: Path, root: Path | None = None) -> Loaded:
    files = {"certificate": own.certificate("broker"), "key": own.key("broker"), "client_ca": root or own.root}
    flags = {f"tls.{name}": str(path) for name, path in (files | {"client_crl": crl}).items()}
    return load_all(None, {}, {"server.listen": ("tls://127.0.0.1:0",), "admin.listen": "off", **flags})


async def test_who_is_revoked_ends_and_comes_in_no_more_and_a_mistake_changes_nothing(
    own: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    crl = tmp_path / "clients.crl"
    shutil.copy(own.revoke(of="none"), crl)
    server = Server(loaded(own, crl).config)
    await server.start()
    try:
        url = server.listeners[0]
        one, two = [await Wire.caller(url, own.client_context(name)) for name in ("one", "two")]
        crl.write_text("junk")
        with caplog.at_level(logging.WARNING, "broker"):
            server.reload()
        text = f"tls.client_crl: {crl} holds no list of revoked certificates in PEM"
        assert caplog.messages == [f"broker: SIGHUP: nothing is reloaded: {text}"]
        shutil.copy(own.revoke("one"), crl)
        server.reload()
        (frame,) = await soon(one.rest())
        assert frame.text == "revoked: the certificate of this connection is revoked"
        with pytest.raises(REFUSED):
            await soon(Wire.caller(url, own.client_context("one")))
        await two.ping()
        await (await Wire.caller(url, own.client_context("two"))).ping()
    finally:
        server.wish_stop()
        server.wish_stop()
        await server.stop()


def test_lists_that_leave_no_way_in_are_warned_of(own: Authority, authority: Authority) -> None:
    good, bad = own.revoke(of="good"), own.revoke(of="bad", period=OLD)
    expired = "has a list that has expired, at 2026-01-02T00:00:00Z: certificates of its authority are refused"
    for file, root, told in (
        (good, own.root, []),
        (bad, own.root, [expired]),
        (good, authority.root, ["has no list of CN=ours: its certificates are refused"]),
    ):
        texts = [each.text for each in loaded(own, file, root).warnings if each.key == "tls.client_crl"]
        assert texts == [f'"{file}" {each}' for each in told]


def test_what_is_no_list_or_has_no_authority_is_a_mistake(own: Authority, tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    torn.write_text("-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n")
    for file, told in (
        (own.root, "holds no list of revoked certificates in PEM"),
        (torn, "has a list that cannot be read, number 1: has a length that cannot be read"),
    ):
        with pytest.raises(ConfigErrors) as raised:
            loaded(own, file)
        assert str(raised.value) == f'command line: tls.client_crl: "{file}" {told}'
    with pytest.raises(ConfigErrors) as raised:
        load_all(None, {"RSB_TLS__CLIENT_CRL": str(own.revoke(of="good"))}, {})
    assert str(raised.value) == (
        "environment: RSB_TLS__CLIENT_CRL: needs tls.client_ca: the authorities whose certificates are accepted"
    )

"""SIGHUP: what the files of certificates, keys and roots say is in force for new connections, and ends none."""

import logging
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.config.load import load
from broker.server import Server
from tests.system.support.certificates import BROKER_NAMES, Authority
from tests.system.support.waits import until
from tests.system.support.wires import StreamTransport, Wire

FILES = {"certificate": "pem", "key": "key"}
SECRET = "correct horse battery staple"
RELOADED = "broker: files reloaded: tls.certificate, tls.key, cluster.ca"


@pytest.fixture(scope="module")
def turned(authority: Authority) -> Authority:
    """It has signed `second` as well."""
    authority.sign("second", BROKER_NAMES)
    return authority


def put(authority: Authority, name: str, folder: Path, *which: str) -> None:
    """Copies files of this name to where the broker looks."""
    for each in which or FILES:
        shutil.copy(getattr(authority, each)(name), folder / f"broker.{FILES[each]}")


@pytest.fixture
async def server(turned: Authority, tmp_path: Path) -> AsyncIterator[Server]:
    """A broker of a cluster that shows the certificate `broker`."""
    put(turned, "broker", tmp_path)
    files = {f"tls.{each}": str(tmp_path / f"broker.{end}") for each, end in FILES.items()}
    flags = {"server.listen": ("tls://127.0.0.1:0",), "admin.listen": "off", **files}
    made = Server(load(None, {"RSB_CLUSTER__SECRET": SECRET, "RSB_CLUSTER__CA": str(turned.root)}, flags))
    await made.start()
    yield made
    made.wish_stop()
    made.wish_stop()
    await made.stop()


async def shown(server: Server, authority: Authority) -> str:
    """The name in the certificate that a new connection is shown."""
    wire = await Wire.caller(server.listeners[0], authority.client_context())
    assert isinstance(wire.transport, StreamTransport)
    (subject,) = wire.transport.writer.get_extra_info("peercert")["subject"]
    await wire.close()
    return str(subject[0][1])


async def test_new_connections_get_the_new_certificate_and_those_that_are_there_stay(
    server: Server, turned: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    there = await Wire.caller(server.listeners[0], turned.client_context())
    assert await shown(server, turned) == "broker"
    put(turned, "second", tmp_path)
    assert server._dialer is not None
    dialled_with = server._dialer.context
    with caplog.at_level(logging.INFO, "broker"):
        server.reload()
        assert await shown(server, turned) == "second"
        await until(lambda: RELOADED in caplog.messages)
    await there.ping()
    assert server._dialer.context is not dialled_with
    assert caplog.messages.count(RELOADED) == 1
    assert [each.message for each in caplog.records if each.levelno > logging.INFO] == []  # a connection that broke off


@pytest.mark.parametrize(
    ("which", "content", "text"),
    [
        ("key", None, "tls.key: {} is the key of another certificate"),
        ("key", "", "tls.key: {} holds no private key in PEM without a password"),
        ("certificate", "", "tls.certificate: {} holds no certificate in PEM"),
    ],
)
async def test_a_mistake_in_a_file_changes_nothing_and_is_one_line(
    server: Server,
    turned: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    which: str,
    content: str | None,
    text: str,
) -> None:
    path = tmp_path / f"broker.{FILES[which]}"
    if content is None:
        put(turned, "second", tmp_path, which)
    else:
        path.write_text(content)
    with caplog.at_level(logging.WARNING, "broker"):
        server.reload()
    assert caplog.messages == [f"broker: SIGHUP: nothing is reloaded: {text.format(path)}"]
    assert await shown(server, turned) == "broker"


async def test_a_file_that_is_gone_changes_nothing(
    server: Server, turned: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broker.pem").unlink()
    with caplog.at_level(logging.WARNING, "broker"):
        server.reload()
    (line,) = caplog.messages
    assert line.startswith("broker: SIGHUP: nothing is reloaded: tls: ")
    assert await shown(server, turned) == "broker"

"""File descriptors: the last ones are for the admin port, and their want is told."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from broker.edge.descriptors import RESERVED_N, RESERVED_PART, Descriptors
from tests.system.support.certificates import Authority
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import WAIT_S, until
from tests.system.support.wires import Wire

FEW_N = 128  # descriptors of a broker that has few


class FakeTransport(asyncio.BaseTransport):
    """A connection with this descriptor."""

    def __init__(self, number: int) -> None:
        super().__init__({"socket": self})
        self._number = number

    def fileno(self) -> int:
        return self._number


def of(limit_n: int, **look: float) -> Descriptors:
    made = Descriptors(**look)
    made.limit_n = limit_n
    return made


@pytest.mark.parametrize(
    ("limit_n", "reserved_n"), [(1 << 20, RESERVED_N), (1024, RESERVED_N), (256, 256 // RESERVED_PART), (16, 4)]
)
def test_the_last_ones_are_for_no_peer(limit_n: int, reserved_n: int, caplog: pytest.LogCaptureFixture) -> None:
    made = of(limit_n)
    first = limit_n - reserved_n
    assert [made.has_room_for(FakeTransport(number), "tcp a:1") for number in (3, first - 1)] == [True, True]
    assert (made.refused_n, caplog.messages) == (0, [])
    assert [made.has_room_for(FakeTransport(number), "tcp a:1") for number in (first, limit_n - 1)] == [False, False]
    assert made.refused_n == 2
    assert caplog.messages[0] == (
        f"peer tcp a:1: closed at once: {first} file descriptors are in use, and the last {reserved_n} of {limit_n}"
        " (ulimit -n) are kept for the admin port, files and other brokers"
    )


def test_a_shortage_is_told_when_there_is_one() -> None:
    made = of(1024)
    assert made.shortage(1024 - RESERVED_N) == ""
    assert made.shortage(50_000) == (
        "limits.max_connections is 50000, but the limit of file descriptors (ulimit -n) is 1024, 192 of them reserved:"
        " connections beyond about 832 are closed at once; raise the limit to 50192 (ulimit -n as root, LimitNOFILE= of"
        " systemd), or set limits.max_connections = 832"
    )


def test_what_the_system_allows_is_measured() -> None:
    made = Descriptors()
    made.measure()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert made.limit_n == (soft if soft != resource.RLIM_INFINITY else 1 << 31)


async def test_none_left_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    made = of(1024, look_s=0.01)
    made.start()
    first = made._timer
    await until(lambda: made._timer is not first)  # it has looked
    assert made.none_left_n == 0

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        await until(lambda: made.none_left_n)
    made.stop()
    assert caplog.messages[0] == "broker: no file descriptor is left of 1024 (ulimit -n): new connections are reset"
    assert caplog.records[0].levelno == logging.ERROR


class NarrowBroker(BrokerProcess):
    """A broker with FEW_N descriptors, which it cannot raise."""

    def __init__(self, log: Path, arguments: Sequence[str], **options: object) -> None:
        super().__init__(log, arguments, {"limits__max_connections": 50_000, **options})
        self._command = ["sh", "-c", f'ulimit -n {FEW_N}; exec "$@"', "sh", *self._command]


async def test_a_broker_that_is_full_of_peers_still_answers_operators(tmp_path: Path) -> None:
    broker = NarrowBroker(tmp_path / "b.log", ("--listen", "tcp://127.0.0.1:0", "--admin", "127.0.0.1:0"))
    broker.start()
    try:
        assert broker.admin_url
        assert f"is 50000, but the limit of file descriptors (ulimit -n) is {FEW_N}" in broker.errors
        first = await Wire.caller(broker.url("tcp"))
        wires = [await Wire.connect(broker.url("tcp")) for _ in range(FEW_N)]
        await until(lambda: "closed at once" in broker.errors)

        refused_n = 0.0
        async with asyncio.timeout(WAIT_S):
            while refused_n < FEW_N // RESERVED_PART:  # the page may be a second old
                lines = (await asyncio.to_thread(broker.ask_admin, "/metrics")).splitlines()
                refused = next(line for line in lines if line.startswith("broker_connections_unaccepted_total "))
                refused_n = float(refused.split()[1])
        await first.ping()
        for wire in (first, *wires):
            await wire.close()
    finally:
        broker.end()


async def test_tls_handshakes_that_say_nothing_leave_operators_their_descriptors(
    tmp_path: Path, authority: Authority
) -> None:
    listen = ("--listen", "tls://127.0.0.1:0", "--listen", "wss://127.0.0.1:0", "--admin", "127.0.0.1:0")
    broker = NarrowBroker(tmp_path / "b.log", listen, **authority.broker_options(), limits__setup_timeout_s=60)
    broker.start()
    try:
        assert broker.admin_url
        first = await Wire.caller(broker.url("tls"), authority.client_context())
        silent = [
            (await asyncio.open_connection("127.0.0.1", urlsplit(broker.url(scheme)).port))[1]
            for _ in range(FEW_N)
            for scheme in ("tls", "wss")
        ]
        await until(lambda: "closed at once" in broker.errors)
        # Of those that are closed at once each has one until then.
        await until(lambda: len(os.listdir(f"/proc/{broker.pid}/fd")) <= FEW_N - FEW_N // RESERVED_PART)
        assert "ready" in await asyncio.to_thread(broker.ask_admin, "/readyz")
        await first.ping()
        await first.close()
        for writer in silent:
            writer.transport.abort()
    finally:
        broker.end()


def test_who_has_measured_nothing_lets_connections_in() -> None:
    """Whoever embeds a listener and no server."""
    made = Descriptors()
    with socket.socket() as sock:

        class Transport(asyncio.BaseTransport):
            def get_extra_info(self, name: str, default: object = None) -> object:
                return sock if name == "socket" else default

        assert made.has_room_for(Transport(), "tcp 127.0.0.1:1")

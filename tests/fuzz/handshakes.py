"""The HTTP in front of a WebSocket, for `targets.py`: what a broker answers, and what a client takes for an answer."""

from __future__ import annotations

import asyncio
import re
from string import ascii_letters
from typing import Final, cast

from websockets.utils import accept_key

from broker.config.sections.limits import LimitOptions
from broker.config.urls import Listen
from broker.edge.shell import Shell
from broker.edge.websocket import AcceptedUpgrade, WebSocketListener
from rsocket_wire.upgrade import MAX_HEAD_BYTES, UpgradeClient
from tests.system.support.shells import FakeTransport

END: Final = b"\r\n\r\n"
ACCEPTED: Final = b"HTTP/1.1 101 "
CONSOLE: Final = "https://console.example"
NAME: Final = "b1.example"
# What a broker may say, whatever it was asked.
HEADERS: Final = {
    *("Allow", "Connection", "Content-Length", "Content-Type", "Date", "Server", "Upgrade"),
    *("Sec-WebSocket-Accept", "Sec-WebSocket-Protocol", "Sec-WebSocket-Version"),
}
HEADER: Final = re.compile(rb"([!-9;-~]+):[ \t]*([^\r\n]*?)[ \t]*\r\n")
KEY: Final = re.compile(rb"Sec-WebSocket-Key: (\S+)")
PLACE: Final = b"{accept}"  # in an answer: what the client's key asks for, which no fuzzer finds
MORE_BYTES: Final = 1_000  # that an answer may have beyond what it quotes


class Listening(WebSocketListener):
    """A port on which nobody listens; of each WebSocket it keeps what came behind the request."""

    def __init__(self, path: str) -> None:
        listen = Listen("ws", "127.0.0.1", 7001, path)
        super().__init__(cast(Shell, None), listen, LimitOptions(), (CONSOLE,), (NAME,))
        self.begun: list[bytes] = []

    def begin(self, transport: asyncio.Transport, rest: bytes) -> None:
        self.begun.append(rest)


class Transport(FakeTransport):
    """Can be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


def upgrade(data: bytes) -> None:
    """What somebody asks of a port for WebSockets."""
    path = "/rsocket" if data[:1] == b"\x01" else ""
    said = data[1:]
    answer, begun, is_closed = asyncio.run(_answer(path, [said]))
    head, end, _ = said.partition(END)
    if said and chr(said[0]) not in f"\r\n{ascii_letters}":  # no HTTP: it is told at once
        assert (answer.startswith(b"HTTP/1.1 400 "), begun, is_closed) == (True, [], True)
    elif not end and len(said) <= MAX_HEAD_BYTES:
        assert (answer, begun, is_closed) == (b"", [], False)
        return
    assert len(answer) <= len(said) + MORE_BYTES
    assert set(_headers(answer)) <= HEADERS, answer
    is_accepted = answer.startswith(ACCEPTED)
    assert (bool(begun), is_closed) == (is_accepted, not is_accepted)
    if is_accepted:
        asked = {name.lower(): value for name, value in _headers(head + END).items()}
        assert begun == [said[len(head) + len(END) :]]
        assert _headers(answer)["Sec-WebSocket-Accept"] == accept_key(asked["sec-websocket-key"])
        assert asked.get("origin", CONSOLE).lower() in (CONSOLE, f"http://{asked['host']}", f"https://{asked['host']}")
    if len(said) <= MAX_HEAD_BYTES:
        in_pieces, begun_in_pieces, _ = asyncio.run(_answer(path, _pieces(said)))
        assert in_pieces.partition(b"\r\n")[0] == answer.partition(b"\r\n")[0]
        assert bool(begun_in_pieces) == is_accepted


def upgrade_answer(data: bytes) -> None:
    """What somebody answers a client or a broker that asks for a WebSocket."""
    whole, in_pieces = (_taken(data, is_whole) for is_whole in (True, False))
    if len(data) <= MAX_HEAD_BYTES:
        assert whole == in_pieces
    if isinstance(whole, bytes):
        assert data.startswith(ACCEPTED)
        assert data.endswith(whole)


async def _answer(path: str, pieces: list[bytes]) -> tuple[bytes, list[bytes], bool]:
    """What is written, what is behind the request of each WebSocket, and whether the connection is closed."""
    listening, transport = Listening(path), Transport()
    protocol = AcceptedUpgrade(listening)
    protocol.connection_made(transport)
    for piece in pieces:
        if not listening.begun:
            protocol.data_received(piece)
    protocol.connection_lost(None)
    assert not listening._upgrades
    return b"".join(transport.written), listening.begun, transport.is_closed


def _taken(data: bytes, is_whole: bool) -> bytes | str | None:
    """What is behind the answer; a text: it is none; None: it is not whole."""
    client = UpgradeClient("ws://b1.example:7001/rsocket")
    key = KEY.search(client.request())
    assert key is not None
    accepted = accept_key(key[1].decode())
    said = data.replace(PLACE, accepted.encode())
    rest = said
    try:
        for piece in [said] if is_whole else _pieces(said):
            rest = rest[len(piece) :]
            found = client.feed(piece)
            if found is not None:
                return (found + rest).replace(accepted.encode(), PLACE)
    except ConnectionError as error:
        return str(error).replace(accepted, PLACE.decode())
    return None


def _pieces(data: bytes) -> list[bytes]:
    """Of 1 to 64 bytes, by what they say."""
    found, at = [], 0
    while at < len(data):
        size = 1 + data[at] % 64
        found.append(data[at : at + size])
        at += size
    return found


def _headers(raw: bytes) -> dict[str, str]:
    """The headers of a request or of an answer; nothing else may stand in its head."""
    lines = raw.partition(END)[0].partition(b"\r\n")[2] + b"\r\n"
    found = [match.groups() for match in HEADER.finditer(lines)]
    return {name.decode(): value.decode("latin-1") for name, value in found}

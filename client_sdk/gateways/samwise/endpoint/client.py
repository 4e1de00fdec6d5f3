"""A program that asks a gateway, or samd: one request, one answer. Section "GENERAL COMMUNICATION SEQUENCE".

It blocks, as programs of the protocol do, but not for ever: without an answer in time the connection is given up, since
a REQ socket would wait for that answer before it asks again.
"""

from pathlib import Path
from typing import Final

import zmq
from zmq.auth import load_certificate

from client_sdk.gateways.samwise.replies import read_reply
from client_sdk.gateways.samwise.requests import encode_request
from client_sdk.gateways.samwise.values import DEFAULT_TIMEOUT_S, Reply, Request


class NoAnswer(TimeoutError):
    """None came in time; whether the request did is not known."""


class SamwiseClient:
    """One connection; `with` it, or `close` it. Not for several threads at a time."""

    def __init__(
        self,
        endpoint: str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        server_key: Path | None = None,
        key: Path | None = None,
    ) -> None:
        """`endpoint`: ipc://PATH or tcp://HOST:PORT. `server_key`: the gateway's public key, where it has one; `key`:
        the secret key of this program, a new one if absent. OSError, ValueError: a key cannot be read; ValueError: the
        endpoint is none."""
        self.endpoint: Final = endpoint
        self._timeout_s: Final = timeout_s
        self._keys: Final = _keys(server_key, key) if server_key is not None else None
        self._context: Final = zmq.Context[zmq.Socket[bytes]]()
        self._socket: zmq.Socket[bytes] | None = None  # None: the next request opens one
        try:
            self._open()
        except ValueError:
            self._context.term()
            raise

    def __enter__(self) -> "SamwiseClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; also one that was never there."""
        self._drop()
        self._context.term()

    def ask(self, request: Request) -> Reply:
        """The answer; NoAnswer. Refused: the request cannot be written."""
        frames = encode_request(request)
        socket = self._open()
        socket.send_multipart(frames)  # REQ without a connection waits with it, which the poll ends
        if not socket.poll(int(self._timeout_s * 1000)):
            self._drop()
            raise NoAnswer(f"no answer from {self.endpoint} within {self._timeout_s:g} s")
        return read_reply(socket.recv_multipart())

    def _open(self) -> "zmq.Socket[bytes]":
        if self._socket is not None:
            return self._socket
        socket = self._context.socket(zmq.REQ)
        socket.LINGER = 0
        socket.IPV6 = int("[" in self.endpoint)
        if self._keys is not None:
            socket.CURVE_SERVERKEY, (socket.CURVE_PUBLICKEY, socket.CURVE_SECRETKEY) = self._keys
        try:
            socket.connect(self.endpoint)
        except zmq.ZMQError as error:
            socket.close()
            what = zmq.strerror(error.errno or 0).lower()
            raise ValueError(f"{self.endpoint!r}: {what}; an endpoint is ipc://PATH or tcp://HOST:PORT") from None
        self._socket = socket
        return socket

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _keys(server_key: Path, key: Path | None) -> tuple[bytes, tuple[bytes, bytes]]:
    """The gateway's public key, and the pair of this program."""
    server_public, _ = load_certificate(server_key)
    if key is None:
        return server_public, zmq.curve_keypair()
    public, secret = load_certificate(key)
    if secret is None:
        raise ValueError(f"{key} holds no secret key")
    return server_public, (public, secret)

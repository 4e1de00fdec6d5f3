"""The byte pipes under a connection: TCP, TLS and Unix sockets, and WebSockets.

    URL                          frames on the wire
    tcp://host[:7878]            24-bit length, frame
    tls://host[:7878]            the same, inside TLS
    unix:///path/to/socket       the same, on a Unix socket
    ws://host[:7879][/path]      one frame per binary message
    wss://host[:7879][/path]     the same, inside TLS

Knows nothing of frames but their length. RSocket protocol, "Framing".
"""

import asyncio
import contextlib
import ipaddress
import re
import ssl as tls
from typing import Final
from urllib.parse import urlsplit

from client_sdk.io.transport import CLOSE_S, Pipe, SocketTransport
from client_sdk.io.websocket import WebSocketTransport
from rsocket_wire.ports import ADMIN_PORT, OTHER_TLS_SCHEMES, SCHEMES, TCP_PORT, WS_PORT, without_password

READ_BYTES: Final = 256 * 1024  # at most, per read
MAX_LABEL: Final = 63  # characters of a part of a host's name. RFC 1035, section 2.3.4


AnyPipe = Pipe | SocketTransport  # one pipe, of either kind


class Target:
    """Where to connect to: a URL taken apart. ValueError for a URL that names no broker."""

    def __init__(self, url: object) -> None:
        if not isinstance(url, str):
            if isinstance(url, contextlib.ContextDecorator | contextlib.AsyncContextDecorator):
                how = "write `async with local_broker() as url:`, without async `with sync_local_broker() as url:`"
                raise TypeError(f"the URL is what `async with` takes: {how}")
            raise TypeError(f"the URL is {type(url).__name__}, it must be str, such as tcp://127.0.0.1:{TCP_PORT}")
        _check_no_password(url)
        try:
            parts = urlsplit(url)
        except ValueError:
            text = "the host is no address of IPv6; write it as in"
            raise ValueError(f"{url!r}: {text} tcp://[::1]:{TCP_PORT}") from None
        if len(urls := _several(url.strip())) > 1:
            raise ValueError(f"several URLs are a list: connect({urls})")
        if url.rstrip("\t\r\n").endswith(" "):  # other white space `urlsplit` takes away
            raise ValueError(f"{url!r}: a blank ends the URL: write {url.strip()}")
        if parts.scheme not in SCHEMES:
            text = f"the scheme must be one of {', '.join(f'{scheme}://' for scheme in SCHEMES)}"
            raise ValueError(f"{url!r}: {text}; write {_meant(url)}")
        self.url: Final = url
        self.scheme: Final = parts.scheme
        self.path: Final = parts.netloc + parts.path
        self.host: Final = parts.hostname or ""
        if self.scheme == "unix":
            _check_whole_path(url, parts.netloc, parts.path)
        else:
            _check_brackets(url, parts.scheme, parts.netloc, parts.path)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if port == 0 and self.scheme != "unix":
            text = "the port must be a number of 1..65535"
            raise ValueError(f"{url!r}: {text}; without one it is {TCP_PORT}, of a WebSocket {WS_PORT}")
        is_websocket = self.scheme in ("ws", "wss")
        self.port: Final = port or (WS_PORT if is_websocket else TCP_PORT)
        # The URL as errors show it: nobody need know which port it is without one.
        self.shown = url if port or self.scheme == "unix" else f"{url} (port {self.port}, as the URL has none)"
        if getattr(url, "_is_over", False):  # of a LocalBroker
            self.shown = f"{url} (the block of its local_broker() has ended)"
        if not (self.path if self.scheme == "unix" else self.host):
            example = "unix:///path/to/socket" if self.scheme == "unix" else f"{self.scheme}://127.0.0.1:{self.port}"
            what = "path" if self.scheme == "unix" else "host"
            raise ValueError(f"{url!r}: has no {what}; write it as in {example}")
        if not all(1 <= len(label) <= MAX_LABEL for label in (self.host.removesuffix(".") or "-").split(".")):
            text = f"the host is no name: it must have 1..{MAX_LABEL} characters between dots"
            raise ValueError(f"{url!r}: {text}")
        if self.scheme in ("tcp", "tls") and parts.path not in ("", "/"):
            text = f"{self.scheme}:// has no path, leave {parts.path} out; ws:// and wss:// have one"
            raise ValueError(f"{url!r}: {text}")
        if not is_websocket and (parts.query or parts.fragment):
            text = f"{self.scheme}:// has no options, leave what is behind the {'?' if parts.query else '#'} out"
            raise ValueError(f"{url!r}: {text}")
        query = f"?{parts.query}" if parts.query else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.websocket_url: Final = f"{self.scheme}://{host}:{self.port}{parts.path}{query}"  # of ws and wss


def _check_no_password(url: str) -> None:
    """ValueError, which does not show it, whatever the scheme is and although the password may have a slash."""
    meant = without_password(url)
    if meant != url:
        text = "a URL holds no user and no password"
        raise ValueError(f"{text}; write {meant}, and give credentials=Password(name, password)")


def _check_whole_path(url: str, netloc: str, path: str) -> None:
    """ValueError for a path that begins nowhere, as where a socket is depends on nothing else."""
    if netloc or (path and not path.startswith("/")):
        name = f"{netloc}{path}".rpartition("/")[2] or "broker.sock"
        raise ValueError(f"{url!r}: a unix URL has an absolute path: write unix:///…/{name}")


def _check_brackets(url: str, scheme: str, netloc: str, path: str) -> None:
    """ValueError for an address of IPv6 that stands in no brackets."""
    if netloc.count(":") < 2 or "[" in netloc:
        return
    head, _, port = netloc.rpartition(":")
    places = [f"[{head}]:{port}"] if _is_ipv6(head) and port.isdecimal() else []
    places += [f"[{netloc}]"] if _is_ipv6(netloc) else []
    if places:
        mend = f"write {' or '.join(f'{scheme}://{place}{path}' for place in places)}"
        raise ValueError(f"{url!r}: an address of IPv6 stands in brackets: {mend}")


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _several(text: str) -> list[str]:
    """The URLs of brokers that stand in one text, or only their hosts, behind the scheme of the first."""
    scheme, colon, rest = text.partition("://") if "://" in text else ("tcp", "://", text)
    scheme = scheme.lower()
    if re.search(f"[,; ]({'|'.join(SCHEMES)})://", text):
        return [each if "://" in each else f"{scheme}://{each}" for each in re.split(r"[,;\s]+", text)]
    hosts, path, _ = re.split("([/?#].*|$)", rest.replace(f"{scheme}://", ""), maxsplit=1, flags=re.DOTALL)
    if scheme in ("unix", "http", "https") or "=" in hosts or not re.search("[,;]", hosts):
        return [text]
    if scheme not in SCHEMES:
        scheme = "tls" if scheme in OTHER_TLS_SCHEMES else "tcp"
    found = [f"{scheme}{colon}{host}{path}" for host in re.split(r"[,;\s]+", hosts) if host]
    try:
        [Target(each) for each in found]
    except ValueError:  # nothing that is sure
        return [text]
    return found


def _meant(url: str) -> str:
    """What was probably meant by a URL that begins with no scheme of ours."""
    scheme, colon, rest = url.partition("://")
    if not colon and url.startswith("/") and not url.startswith("//"):
        return f"unix://{url}"
    if scheme == "file" and rest.startswith("/"):
        return f"unix://{rest}"
    if not colon and (url.startswith("./") or url.endswith(".sock")):
        return f"unix:///…/{url.rpartition('/')[2]}"
    if not colon:
        example = re.sub(r"^:?(?=\d+$)", "127.0.0.1:", url.removeprefix("//"))  # a port alone
        if example.endswith(f":{ADMIN_PORT}"):
            return f"tcp://{example.rpartition(':')[0]}:{TCP_PORT}; {ADMIN_PORT} is usually the port of the REST API"
        return f"tcp://{example if example and '//' not in example else '127.0.0.1'}"
    plain, web = ("tls", "wss") if scheme in OTHER_TLS_SCHEMES else ("tcp", "ws")
    if scheme not in ("http", "https"):
        return f"{plain}://{rest}"
    host, _, port = rest.partition("/")[0].rpartition(":")
    if port == str(ADMIN_PORT):
        return f"tcp://{host}:{TCP_PORT}, or ws://{host}:{WS_PORT} for a WebSocket; {scheme}:// is of the REST API"
    if port.isdecimal() and int(port) not in (TCP_PORT, WS_PORT):
        urls = f"{plain}://{host}:PORT, or {web}://{host}:PORT for a WebSocket"
        return f"{urls}, with the port of the broker (usually {TCP_PORT}, {WS_PORT}); {scheme}:// is of the REST API"
    return f"{plain}://{rest}, or {web}://{rest} for a WebSocket; the REST API listens at a port of its own"


async def dial(target: Target, ssl: tls.SSLContext | None, address: str = "") -> AnyPipe:
    """A pipe to the target. `ssl` None means the system's certificates. Raises OSError.

    `address`: one of those that the target's host has; empty: any. Only for tcp:// and tls://.
    """
    loop = asyncio.get_running_loop()
    if target.scheme == "unix":
        _, link = await loop.create_unix_connection(SocketTransport, target.path)
        return link
    context = (ssl or tls.create_default_context()) if target.scheme in ("tls", "wss") else None
    name = None if context is None else target.host  # whose certificate it must be, whatever its address is
    host = address or target.host
    if target.scheme in ("ws", "wss"):
        socket = WebSocketTransport(target.websocket_url)
        await loop.create_connection(lambda: socket, host, target.port, ssl=context, server_hostname=name)
        await socket.opened()
        return socket
    _, link = await loop.create_connection(SocketTransport, host, target.port, ssl=context, server_hostname=name)
    return link


class StreamPipe:
    """Streams of asyncio that somebody else has opened."""

    is_framed = True

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader: Final = reader
        self._writer: Final = writer

    async def receive(self) -> bytes:
        return await self._reader.read(READ_BYTES)

    async def send(self, frames: list[bytes]) -> None:
        try:
            self._writer.write(b"".join(frames))
        except RuntimeError as error:  # what uvloop says of a transport that was closed
            raise ConnectionError(str(error)) from error
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._writer.wait_closed()
        self._writer.transport.abort()

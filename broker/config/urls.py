"""Where a listener listens and where another broker is dialled, and the URLs and HOST:PORT texts that say so.

Decides which schemes there are and what an address must have. Opens no socket and asks no resolver: whether the host
exists and the port is free, the edge finds out.
"""

import difflib
import errno
import os
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from broker.config.toml import either, shown_value
from rsocket_wire.errors import BrokerError
from rsocket_wire.ports import (
    ADMIN_PORT,
    MAX_PORT,
    OTHER_TLS_SCHEMES,
    SCHEMES,
    TCP_PORT,
    WS_PORT,
    without_password,
)

DIAL_SCHEMES: Final = (*SCHEMES, "dns+tcp", "dns+tls", "srv+tcp", "srv+tls")
WILDCARDS: Final = ("0.0.0.0", "::")  # hosts that are all addresses of this machine, at which nobody can be reached
_EXAMPLE: Final = f"; write it as in tcp://127.0.0.1:{TCP_PORT}"
ROOTS_PORTS: Final = 1024  # those below are for root, by the default of Linux and macOS
MAX_UNIX_PATH_BYTES: Final = 107  # Linux: sun_path holds 108, one is the closing NUL


@dataclass(frozen=True)
class Place:
    """What both kinds of URLs say."""

    scheme: str  # one of SCHEMES; "http" for the admin listener
    host: str = ""  # name or address, without brackets; empty for unix
    port: int = 0  # 0: the system chooses a free one, or an SRV record says it
    path: str = ""  # ws, wss: the one path that is served, empty = any; unix: the socket's file, absolute

    @property
    def is_tls(self) -> bool:
        """Who is there shows a certificate."""
        return self.scheme in ("tls", "wss")

    @property
    def is_local(self) -> bool:
        """Nobody on another machine reaches it."""
        host = self.host.lower().removesuffix(".")
        if self.scheme == "unix" or host in ("localhost", "::1"):
            return True
        return host.startswith("127.") and _family(host) == 4  # a name may begin so, too


@dataclass(frozen=True)
class Listen(Place):
    """Where a listener listens: `tcp://127.0.0.1:7878`, `wss://[::]:7879/rsocket`, `unix:///run/broker.sock`."""

    @staticmethod
    def parse(text: str) -> "Listen":
        """The listener that the URL names; BrokerError "bad-config" with the URL, but for its password, first."""
        _check_no_password(text)
        parts = _split(text)
        if parts is None or parts.scheme not in SCHEMES or (parts.scheme != "unix" and "://" not in text):
            raise _bad(f"{shown_value(text)} is not a URL of {either(SCHEMES)}{_meant(text)}")
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise _bad(f"{shown_value(text)} has more than a scheme, a host, a port and a path")
        if parts.scheme == "unix":
            return _unix_listen(text, parts)
        if parts.scheme in ("tcp", "tls") and parts.path not in ("", "/"):
            raise _bad(f"{shown_value(text)} has a path, which {parts.scheme} does not support")
        path = parts.path if parts.scheme in ("ws", "wss") else ""
        return Listen(parts.scheme, *_place(text, parts), path)

    @staticmethod
    def parse_host_port(text: str) -> "Listen":
        """The admin listener at HOST:PORT; BrokerError "bad-config" whose text begins with the quoted text."""
        parts = _split(f"http://{text}")
        if parts is None or parts.netloc != text or "@" in text:
            raise _bad(f'{shown_value(text)} is neither HOST:PORT nor "off"{_meant_place(text)}')
        if text.isascii() and text.isdecimal() and int(text) <= MAX_PORT:
            raise _bad(f"{shown_value(text)} is a port without a host; write 127.0.0.1:{text}")
        return Listen("http", *_place(text, parts))

    def excludes(self, other: "Listen") -> bool:
        """One of both finds its place taken for certain: 0.0.0.0 is all addresses of IPv4, [::] all of IPv6.

        A free port is never the same twice, and of most names only a resolver knows what they are.
        """
        if "unix" in (self.scheme, other.scheme):
            return self.scheme == other.scheme and self.path == other.path
        if not self.port or self.port != other.port:
            return False
        families = {_family(self.host), _family(other.host)}
        is_any = self.host in WILDCARDS or other.host in WILDCARDS
        return self.host == other.host or (is_any and len(families) == 1)

    @property
    def address(self) -> str:
        """`127.0.0.1:7878`, `[::1]:7878` or the path of the socket."""
        if self.scheme == "unix":
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.scheme == "unix" else f"{self.scheme}://{self.address}{self.path}"


@dataclass(frozen=True)
class PeerUrl(Place):
    """Where another broker is, or how it is found: `tls://b1:7878`, `dns+tcp://brokers:7878`, `srv+tcp://_b._tcp.x`."""

    finder: str = ""  # "dns": the host has several addresses; "srv": it is a name with SRV records; empty: neither

    @staticmethod
    def parse(text: str) -> "PeerUrl":
        """What the URL names; BrokerError "bad-config" with the URL, but for its password, first."""
        _check_no_password(text)
        parts = _split(text)
        if parts is None or parts.scheme not in DIAL_SCHEMES:
            raise _bad(f"{shown_value(text)} is not a URL of {either(DIAL_SCHEMES)}{_meant(text)}")
        finder, _, scheme = parts.scheme.rpartition("+")
        has_more = bool(parts.path or parts.query or parts.fragment) or "@" in parts.netloc
        if finder == "srv":
            if has_more or not parts.hostname or parts.netloc.lower() != parts.hostname:
                raise _bad(f"{shown_value(text)} must be a scheme and a name; SRV records give hosts and ports")
            return PeerUrl(scheme, parts.hostname, finder=finder)
        if finder and has_more:
            raise _bad(f"{shown_value(text)} must be a scheme, a name and a port")
        if scheme != "unix" and ":" not in parts.netloc.rpartition("]")[2]:
            port = WS_PORT if scheme in ("ws", "wss") else TCP_PORT
            raise _bad(f"{shown_value(text)} has no port; write {text.rstrip('/')}:{port}")
        place = Listen(scheme, *_place(text, parts)) if finder else Listen.parse(text)
        if not place.port and scheme != "unix":
            raise _bad(f"{shown_value(text)} has port 0, which cannot be dialled")
        return PeerUrl(scheme, place.host, place.port, place.path, finder)

    def __str__(self) -> str:
        if self.finder == "srv":
            return f"srv+{self.scheme}://{self.host}"
        url = str(Listen(self.scheme, self.host, self.port, self.path))
        return f"{self.finder}+{url}" if self.finder else url


def meant_url(text: str) -> str:
    """`tcp://127.0.0.1:7878` for what begins with no scheme of ours; empty where it is not sure."""
    scheme, sign, rest = text.partition("://")
    if not sign and (begun := re.fullmatch(rf"({'|'.join(SCHEMES)}):/?([^/].*)", text)):
        scheme, sign, rest = begun[1], "://", begun[2]
    if not sign:
        scheme, rest = ("unix", text) if text.startswith("/") else ("tcp", text)
    if rest.isascii() and rest.isdecimal():
        rest = f"127.0.0.1:{rest}"
    if re.fullmatch(r":[0-9]+", rest):
        rest = f"127.0.0.1{rest}"
    near = difflib.get_close_matches(scheme.lower(), SCHEMES, 1)
    is_tls = scheme.lower() in OTHER_TLS_SCHEMES
    own = near[0] if near else "tls" if is_tls else "tcp"
    if own != "unix" and "/" not in rest and ":" not in rest.rpartition("]")[2] and rest:
        rest = f"{rest}:{WS_PORT if own in ('ws', 'wss') else TCP_PORT}"
    meant = f"{own}://{rest}"
    if not rest or meant == text or "+" in scheme or _split(meant) is None:  # which `parse` would bring here again
        return ""
    try:
        return str(Listen.parse(meant))
    except BrokerError:  # something else is wrong, too
        return ""


def _family(host: str) -> int:
    """4 or 6: of IP; 0: the host is a name, and only `localhost` is known to have an address of IPv4."""
    if ":" in host:
        return 6
    return 4 if host == "localhost" or host.replace(".", "").isdigit() else 0


def _check_no_password(text: str) -> None:
    """BrokerError, which does not show it."""
    meant = without_password(text)
    if meant != text:
        raise _bad(f"a URL holds no user and no password; write {shown_value(meant)}")


def _split(text: str) -> SplitResult | None:
    """The URL's parts; None when it is none, which urlsplit says of brackets only."""
    if not text.isprintable() or " " in text:  # urlsplit would drop some such characters silently
        return None
    try:
        return urlsplit(text)
    except ValueError:
        return None


def _unix_listen(text: str, parts: SplitResult) -> Listen:
    if parts.netloc or not parts.path.startswith("/") or parts.path == "/":
        raise _bad(f"{shown_value(text)} has no absolute path; write unix:///run/broker.sock")
    size = len(parts.path.encode())
    if size > MAX_UNIX_PATH_BYTES:
        raise _bad(f"{shown_value(text)} has a path of {size} bytes; a unix socket can have {MAX_UNIX_PATH_BYTES}")
    return Listen("unix", path=parts.path)


def _unreplaced(text: str) -> str:
    """What helps where a variable stands in a file, as other programs replace them; empty: none does."""
    found = re.search(r"\$(\w+|\{\w+\})", text)
    how = "is not replaced: write the number, or the whole option as a variable, as RSB_SERVER__LISTEN=URL"
    return f"; {found[0]} {how}" if found else ""


def _place(text: str, parts: SplitResult) -> tuple[str, int]:
    """Host and port of the URL; raises BrokerError."""
    try:
        port = parts.port
    except ValueError:  # no number, or beyond 65535
        raise _bad(f"{shown_value(text)} has a port that is not a number from 0 to 65535{_unreplaced(text)}") from None
    if not parts.hostname:
        where = f"{parts.scheme}://" if "://" in text else ""
        here, all = (f"{where}{host}:{port or 'PORT'}" for host in ("127.0.0.1", "0.0.0.0"))
        raise _bad(f"{shown_value(text)} has no host; write {here}, or {all} for all addresses")
    try:
        parts.hostname.encode("idna")  # as whoever looks it up does
    except UnicodeError:
        raise _bad(f"{shown_value(text)} has an invalid host") from None
    if port is None:
        raise _bad(f"{shown_value(text)} has no port; write {_with_port(text, parts)}; port 0 is any free one")
    return parts.hostname, port


def _with_port(text: str, parts: SplitResult) -> str:
    if "://" not in text:
        return f"{'127.0.0.1' if text in ('on', 'true', 'yes') else text.rstrip(':')}:PORT"
    port = WS_PORT if parts.scheme in ("ws", "wss") else TCP_PORT
    return f"{parts.scheme}://{parts.netloc.rstrip(':')}:{port}{parts.path.rstrip('/')}"


def _meant(text: str) -> str:
    """`; write tcp://127.0.0.1:7878` for what begins with no scheme of ours; an example where it is not sure."""
    meant = meant_url(text)
    place, web = meant.partition("://")[2], {"http": "ws", "https": "wss"}.get(text.partition("://")[0].lower())
    if not meant:
        return _EXAMPLE
    if web and place.endswith(f":{ADMIN_PORT}"):
        return f'; the REST API is listen = "{place}" in [admin]'
    return f"; write {meant}" + (f", or {web}://{place} for a WebSocket" if web else "")


def _meant_place(text: str) -> str:
    """`; write 127.0.0.1:7070` for a URL."""
    place = text.partition("://")[2].partition("/")[0] if "://" in text else text.partition("/")[0]
    return f"; write {place}" if re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}", place) else ""


def _bad(text: str) -> BrokerError:
    return BrokerError("bad-config", text)


def cannot_listen(place: str, error: OSError) -> BrokerError:
    """Why nobody can listen there; below 0 are errors of the resolver, which are none of the system's."""
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    hint = ""
    if error.errno == errno.EADDRINUSE:
        hint = "; end the program that listens there, or listen elsewhere"
    elif error.errno == errno.EACCES and "unix://" in place:
        hint = f"; this user may not write into {os.path.dirname(place.partition('unix://')[2])}, take another folder"
    elif error.errno == errno.EACCES and (port := re.search(r":(\d{1,5})(/|$)", place)) and int(port[1]) < ROOTS_PORTS:
        hint = f"; ports below {ROOTS_PORTS} are for root, take another"
    return BrokerError("cannot-listen", f"{place}: {reason.lower()}{hint}")

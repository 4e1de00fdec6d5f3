"""By which names a broker may be asked over HTTP, and from where web pages may open a WebSocket (D-61).

A page in a browser reaches what its machine reaches, a broker on 127.0.0.1, too. The browser says from where the page
is (`Origin`) and which name it has asked for (`Host`). Pages of other sites are told from the broker's own by comparing
the two. But a site may let its own name stand for 127.0.0.1 ("DNS rebinding"), and then they are equal: so the name
counts, too. Known are those that need no name server (an address, `localhost` and what is below it) and those that the
configuration and the machine give. A name without a dot is none of them: there are some of strangers, `ai.` is one.
"""

import ipaddress
import re
import socket
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from broker.config.options import Config
from broker.config.toml import shown_value
from rsocket_wire.errors import BrokerError

NULL: Final = "null"  # the origin of files, and of pages in a sandbox
_LOCAL: Final = "localhost"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")
_HOST: Final = re.compile(rf"({_NAME.pattern}\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?")  # RFC 9110, section 7.2
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}  # which browsers leave out


def is_known_host(host: str, names: Collection[str]) -> bool:
    """The `Host` of a request is a name of this broker. `names`: its own beside the usual ones, in small letters."""
    found = _HOST.fullmatch(host)
    if found is None:  # several, joined, are none either
        return False
    name = found[1].lower().removesuffix(".")
    if name.startswith("["):
        return _is_address(name.strip("[]"), 6)
    return name == _LOCAL or name.endswith(f".{_LOCAL}") or name in names or _is_address(name, 4)


def is_local(remote: str | None) -> bool:
    """The address of the other end is one of this machine alone; None: it is gone already."""
    try:
        address = ipaddress.ip_address(remote or "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def may_open(origin: str, host: str, origins: Collection[str]) -> bool:
    """A page of that `Origin` may open a WebSocket at that `Host`, a known one. `origins`: those that always may."""
    origin = origin.lower()
    if origin in origins:
        return True
    scheme, _, place = origin.partition("://")
    return scheme in _DEFAULT_PORTS and place == host.lower()


def own_names(config: Config) -> frozenset[str]:
    """The names that the configuration and the machine give, in small letters."""
    cluster = config.cluster
    places = [*config.server.listen, *cluster.listen, *cluster.advertise, *cluster.client_urls]
    if config.admin.listen is not None:
        places.append(config.admin.listen)
    names = [place.host for place in places] + [socket.gethostname(), *config.server.names]
    return frozenset(name.lower().removesuffix(".") for name in names if name)


def read_origin(text: str) -> str:
    """An origin as browsers say it, `https://shop.example`; BrokerError "bad-config" when it is none."""
    if text == NULL:
        return text
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # a port or an address that can be none
        parts, port = urlsplit(""), None
    is_whole = text.isascii() and "@" not in text and text.lower() == f"{parts.scheme}://{parts.netloc}".lower()
    if not (is_whole and parts.scheme and parts.hostname):
        raise BrokerError("bad-config", f'{shown_value(text)} is not an origin like "https://shop.example:8443"')
    if port is not None and port == _DEFAULT_PORTS.get(parts.scheme):
        return text.lower().rpartition(":")[0]
    return text.lower()


def read_name(text: str) -> str:
    """A name of a host as it stands in `Host`, without a port; BrokerError "bad-config" when it is none."""
    if not _NAME.fullmatch(text):
        raise BrokerError("bad-config", f"{shown_value(text)} is not a host name")
    return text.lower()


def _is_address(name: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(name).version == version
    except ValueError:
        return False

"""What a URL of a broker begins with, what it may not hold, and the ports that nothing else names, for both ends.

Not 7000 and 5000, which the AirPlay receiver of macOS listens on.
"""

import re
from typing import Final

SCHEMES: Final = ("tcp", "tls", "ws", "wss", "unix")
OTHER_TLS_SCHEMES: Final = ("https", "ssl", "tcps", "mqtts", "amqps", "mtls")  # of others, who mean TLS by them
TCP_PORT: Final = 7878  # of tcp:// and tls://
WS_PORT: Final = 7879  # of ws:// and wss://
ADMIN_PORT: Final = 7070  # of the REST API
MAX_PORT: Final = 65535
DEFAULT_URL: Final = f"tcp://127.0.0.1:{TCP_PORT}"  # of commands that are given none

# Host, port and the path of a WebSocket, which may have an @; a password may have a slash.
_HOST_AND_PATH: Final = re.compile(r"(?:\[[^]]*\]|[^/@:]*)(?::(\d{0,5}))?/")
_HOST_AND_PORT: Final = re.compile(r"[^/]+:\d{1,5}(/|$)")


def without_password(url: str) -> str:
    """The URL without the user and the password that stand in it; the same when there are none. For any scheme.

    >>> without_password("tcp://ada:12/3@host"), without_password("ws://host:7879/to@all")
    ('tcp://host', 'ws://host:7879/to@all')
    """
    scheme, colon, rest = url.partition("://") if "://" in url else ("tcp", "://", url)
    head, at, host = rest.rpartition("@")
    if not at or scheme == "unix":
        return url
    found = _HOST_AND_PATH.match(head) if scheme not in ("tcp", "tls") else None  # which have no path
    is_path = found is not None and int(found[1] or 0) <= MAX_PORT and not _HOST_AND_PORT.match(host)
    return url if is_path else f"{scheme}{colon}{host}"

"""Who is let in: not more connections than the limit, and with CURVE those whose keys are known.

ZeroMQ asks for each connection (ZAP, https://rfc.zeromq.org/spec/27/), and tells of those that came and went. Which
keys are known is the library's affair.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import zmq
from zmq.auth import CURVE_ALLOW_ANY
from zmq.auth.asyncio import AsyncioAuthenticator
from zmq.utils.monitor import parse_monitor_message

DOMAIN: Final = "samwise"  # for which ZeroMQ asks; without one it would let in everybody who shows no key
TRY_LATER: Final = b"300"  # ZAP: the connection is closed, and the caller connects again
_EVENTS: Final = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED


class Callers(AsyncioAuthenticator):
    """Connections of one ROUTER socket. Its context is used by no other."""

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", room_n: Callable[[], int], curve_clients: Path | None
    ) -> None:
        """`room_n`: how many more connections there may be. `curve_clients`: directory of the public keys that are let
        in; None: all that know the key of the gateway."""
        super().__init__(context)
        self.refused_n = 0  # connections that were one too many
        self._room_n: Final = room_n
        self._descriptors: Final[set[int]] = set()  # of open connections
        self._monitor: zmq.Socket[bytes] | None = None  # None until `watch`
        self._router: zmq.Socket[bytes] | None = None
        self.configure_curve(DOMAIN, CURVE_ALLOW_ANY if curve_clients is None else str(curve_clients))

    def watch(self, router: "zmq.Socket[bytes]") -> None:
        """Before the socket is bound; ZeroMQ has to ask from the first connection on."""
        self._router = router
        self._monitor = router.get_monitor_socket(_EVENTS)
        asyncio.get_running_loop().add_reader(self._monitor.FD, self._take_events)
        router.setsockopt_string(zmq.ZAP_DOMAIN, DOMAIN)
        self.start()

    @property
    def connected_n(self) -> int:
        """Open connections, those that are just being let in included."""
        self._take_events()
        return len(self._descriptors)

    def close(self) -> None:
        """Before the socket is closed."""
        if self._router is None or self._monitor is None:
            return
        self.stop()
        asyncio.get_running_loop().remove_reader(self._monitor.FD)
        self._router.disable_monitor()
        self._monitor.close(0)
        self._monitor = None

    def _take_events(self) -> None:
        """All that came: ZeroMQ waits for whoever lets a thousand of them lie, and tells of new ones only then."""
        monitor = self._monitor
        while monitor is not None and has_come(monitor):
            event = parse_monitor_message(monitor.recv_multipart(zmq.NOBLOCK))
            if event["event"] == zmq.EVENT_ACCEPTED:
                self._descriptors.add(event["value"])
            else:
                self._descriptors.discard(event["value"])

    async def handle_zap_message(self, msg: list[bytes]) -> None:
        """ZeroMQ tells of a connection before it asks for it, so this one is counted already."""
        if len(msg) > 1 and self._room_n() < 0:
            self.refused_n += 1
            self._send_zap_reply(msg[1], TRY_LATER, b"too many callers")
        else:
            await super().handle_zap_message(msg)


def has_come(socket: "zmq.Socket[bytes]") -> bool:
    """There is a message to read. Its descriptor only tells when that may have changed."""
    return int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN != 0

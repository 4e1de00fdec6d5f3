"""The file descriptors of this process: some are kept, so that whoever looks after a full broker still reaches it.

    0 ─────────────── peers, files ─────────────── first kept ── admin port, event files, other brokers ── ulimit -n

The system gives the smallest number that is free. So a connection whose number is among the last RESERVED_N says that
all below are taken: it is closed at once, and told in the log and in a metric. When none at all is left the system
resets connections without a word to anybody; that is looked for once a second.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
from collections.abc import Callable
from typing import Final, cast

from broker.edge.origins import address_in, peer_name
from broker.limited_log import STRANGERS

RESERVED_N: Final = 192  # descriptors that no peer gets: `admin_api.listener.MAX_CONNECTIONS`, files, dials, lookups
RESERVED_PART: Final = 4  # but one of so many at most, where there are few
ADMIN_PARTS: Final = 3  # of those that are kept one of so many is for files, dials and lookups, the others for admin
LOOK_S: Final = 1.0  # between two looks whether any is left
KIND: Final = "Descriptors"


class Descriptors:
    """How many there may be, and what happened for want of them."""

    def __init__(self, look_s: float = LOOK_S) -> None:
        self._look_s = look_s
        self.refused_n = 0  # connections closed at once, ever
        self.none_left_n = 0  # looks that found none left
        self.limit_n = 0  # `ulimit -n`; 0 until `measure`
        self._timer: asyncio.TimerHandle | None = None  # None while nobody looks

    @property
    def reserved_n(self) -> int:
        """The last so many are for no peer."""
        return min(RESERVED_N, self.limit_n // RESERVED_PART)

    @property
    def admin_n(self) -> int:
        """So many of them may be connections of the admin port; the rest is for files and other brokers."""
        return self.reserved_n - self.reserved_n // ADMIN_PARTS

    def measure(self) -> None:
        """Measures what the system allows now."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.limit_n = soft if soft != resource.RLIM_INFINITY else 1 << 31

    def shortage(self, wanted_n: int) -> str:
        """Returns why so many connections cannot be; empty when they can."""
        places_n = self.limit_n - self.reserved_n
        if wanted_n <= places_n:
            return ""
        return (
            f"limits.max_connections is {wanted_n}, but the limit of file descriptors (ulimit -n) is {self.limit_n},"
            f" {self.reserved_n} of them reserved: connections beyond about {places_n} are closed at once; raise the"
            f" limit to {wanted_n + RESERVED_N} (ulimit -n as root, LimitNOFILE= of systemd),"
            f" or set limits.max_connections = {places_n}"
        )

    def has_room_for(self, transport: asyncio.BaseTransport, name: str) -> bool:
        """Tells whether the connection, called so, may stay. As `has_room`."""
        sock = transport.get_extra_info("socket")
        return self.has_room(sock.fileno() if sock is not None else -1, name)

    def has_room(self, number: int, name: str) -> bool:
        """Tells whether the connection with that descriptor may stay; False: it is one of the last, which is told."""
        if not self.limit_n:  # who only accepts has measured nothing
            self.measure()
        if number < self.limit_n - self.reserved_n:
            return True
        self.refused_n += 1
        text = (
            f"peer {name}: closed at once: {number} file descriptors are in use, and the last {self.reserved_n} of"
            f" {self.limit_n} (ulimit -n) are kept for the admin port, files and other brokers"
        )
        STRANGERS.say(f"{KIND} (kept)", address_in(name), logging.WARNING, text)
        return False

    def start(self) -> None:
        """Looks from now on."""
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(self._look_s, self._look)

    def stop(self) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._look_s, self._look)
        try:
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self.none_left_n += 1
                text = f"broker: no file descriptor is left of {self.limit_n} (ulimit -n): new connections are reset"
                STRANGERS.say(f"{KIND} (none left)", "broker", logging.ERROR, text)


DESCRIPTORS: Final = Descriptors()  # of this process


class Entrance(asyncio.Protocol):
    """A connection until `admit` has let it in: then it has the protocol that this gave; None: it is closed at once."""

    def __init__(self, admit: Callable[[asyncio.Transport], asyncio.BaseProtocol | None]) -> None:
        self._admit = admit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but inheritance
        protocol = self._admit(transport)
        if protocol is None:
            transport.abort()
            return
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


def peers_entrance(protocol: Callable[[], asyncio.Protocol], scheme: str) -> Entrance:
    """For a peer: it is let in if there is room for it."""
    return Entrance(lambda made: protocol() if DESCRIPTORS.has_room_for(made, peer_name(scheme, made)) else None)

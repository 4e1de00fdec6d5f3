"""The ports that workers share, and that stay theirs while none of them listens.

The supervisor's sockets are bound and never listen: the system gives connections only to those that do. Nobody can take
the port meanwhile, and port 0 is known before the first worker starts.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from dataclasses import replace
from typing import Any, Final

from broker.config.urls import Listen, cannot_listen

MAX_TRIES: Final = 8  # to find a port that is free at all addresses of a host


class Ports:
    """The sockets. Blocking: for the time before anything runs."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def hold(self, listen: Listen) -> Listen:
        """Holds the port of a listener; the same with the port that the system chose. BrokerError "cannot-listen"."""
        if listen.scheme == "unix":
            return listen
        try:
            return replace(listen, port=self._hold(listen.host, listen.port))
        except OSError as error:
            raise cannot_listen(str(listen), error) from None

    def close(self) -> None:
        """Lets all go."""
        for each in self._held:
            each.close()
        self._held = []

    def _hold(self, host: str, port: int) -> int:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        places = list(dict.fromkeys((info[0], info[4]) for info in found))
        for tries_left in reversed(range(MAX_TRIES)):
            try:
                with contextlib.ExitStack() as probes:
                    # Who shares ports is let in by the system without a word: the port of another supervisor would
                    # be shared with it. So at first one that is not shared; it is refused where anybody listens.
                    chosen = port
                    for family, address in places:
                        probe = probes.enter_context(_bound(family, address, chosen, False))
                        chosen = probe.getsockname()[1]
                with contextlib.ExitStack() as taken:
                    held = [taken.enter_context(_bound(family, address, chosen, True)) for family, address in places]
                    taken.pop_all()
                self._held += held
                return chosen
            except OSError as error:
                if port or not tries_left or error.errno != errno.EADDRINUSE:
                    raise
        raise AssertionError("the last try returns or raises")


def _bound(family: int, address: tuple[Any, ...], port: int, is_shared: bool) -> socket.socket:
    """`address`: as of the family, with any port."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as listeners do: after a restart, too
        if is_shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address[0], port, *address[2:]))
    except BaseException:
        made.close()
        raise
    return made

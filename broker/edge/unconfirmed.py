"""What a socket still holds: bytes that this system has accepted, and the one at the other end has not confirmed.

A system accepts megabytes at once, and then nothing until a third of its buffer is free: at 60 KB/s, for 24 s. So what
it accepts says little about whether anybody reads. What is confirmed grows with each 64 KiB that are read at the latest
or, where the other end's buffer is full, with a sixteenth of it (tcp(7), unix(7): SIOCOUTQ).
"""

from __future__ import annotations

import asyncio
import struct
import sys
from typing import Final

if sys.platform == "linux":
    import fcntl
    import termios

_NUMBER: Final = struct.Struct("i")


def unconfirmed_bytes(transport: asyncio.Transport) -> int:
    """Of a TCP connection, with or without TLS, or a Unix socket: with TLS as they are on the wire, through a Unix
    socket with what the system spends on them. 0 where the system does not tell: any but Linux.

    A system call: not for the hot path.
    """
    if sys.platform != "linux":
        return 0
    sock = transport.get_extra_info("socket")
    if sock is None:
        return 0
    try:
        told = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_NUMBER.size))
    except (OSError, ValueError):  # it has been closed, and its link has not heard of it yet
        return 0
    number: int = _NUMBER.unpack(told)[0]
    return number

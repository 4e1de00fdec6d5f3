"""Passwords: users of a file, each with a hash by argon2 that tells nobody the password.

Decides whether a password is that of a user. An unknown user costs as much time as a known one with a wrong password,
so that nobody learns which names there are. Two are verified at a time, in threads: each takes tens of milliseconds and
MiB on purpose, and a flood of them must leave the rest of the broker its time. The file is read again when it changes,
and on SIGHUP, after which connections of those whose password has changed end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from argon2.exceptions import InvalidHashError

from broker.config.auth import read_users
from broker.config.sections.files import bad_file
from broker.edge.admission.hashes import is_password_of
from broker.edge.admission.verdicts import NotAccepted, Verified
from rsocket_wire.wire.authentication import Credentials

AT_ONCE_N: Final = 2  # verified; the others wait
MAX_WAITING: Final = 256  # at 50 ms each a third of them are done in the time that a SETUP has
NICE: Final = 10  # of the threads: the event loop goes first where CPUs are few, and other programs do not always

_log: Final = logging.getLogger(__name__)


class PasswordVerifier:
    """Verifies passwords of the users of one file."""

    at_once_n: int = AT_ONCE_N
    max_waiting: int = MAX_WAITING

    def __init__(self, path: str) -> None:
        """OSError, ValueError: the file is not what it should be."""
        self._path: Final = path
        self._threads: Final = ThreadPoolExecutor(AT_ONCE_N, "password", _stand_back)
        self._stamp = _stamp(path)
        self._users = read_users(path)
        self._changed: set[str] = set()  # names that are gone, or have another password, since the last `commit`
        self._prepared: tuple[tuple[int, int, int], dict[str, str]] | None = None  # what was read, until `commit`

    async def verify(self, credentials: Credentials) -> Verified:
        """Whose password it is; NotAccepted."""
        self._look_at_file()
        known = self._users.get(credentials.name)
        hashed = known or next(iter(self._users.values()))  # for the time that it takes
        loop = asyncio.get_running_loop()
        fits = await loop.run_in_executor(self._threads, self._fits, hashed, credentials.secret)
        if known is None or not fits:
            raise NotAccepted("no such user, or another password")
        return Verified(credentials.name)

    def prepare(self) -> None:
        stamp = _stamp(self._path)
        try:
            self._prepared = stamp, read_users(self._path)
        except (OSError, ValueError) as error:
            raise bad_file("auth.users", self._path, error) from None

    def commit(self) -> set[str]:
        if self._prepared is not None:
            self._stamp, users = self._prepared
            self._prepared = None
            self._take(users)
        changed, self._changed = self._changed, set()
        return changed

    async def close(self) -> None:
        """Gives up what is not being verified yet."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _fits(self, hashed: str, password: str) -> bool:
        try:
            return is_password_of(hashed, password)
        except InvalidHashError:
            return False

    def _take(self, users: dict[str, str]) -> None:
        self._changed |= {name for name, hashed in self._users.items() if users.get(name) != hashed}
        self._users = users

    def _look_at_file(self) -> None:
        """Reads it again if it has changed; one that is not what it should be changes nothing."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._take(read_users(self._path))
        except (OSError, ValueError) as error:
            _log.warning("auth.users: %s cannot be read, the users stay as they were: %s", self._path, error)


def _stand_back() -> None:
    """Lets the system prefer the event loop to this thread, where it can."""
    if sys.platform == "linux":  # elsewhere niceness is the process's
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _stamp(path: str) -> tuple[int, int, int]:
    """Another one when the file was changed or replaced."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)

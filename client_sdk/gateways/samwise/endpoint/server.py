"""The endpoints of a gateway: takes the places where callers find it, and gives them back.

plain      ipc://, and tcp:// of this machine      ZMTP on asyncio
curve      tcp://, where there is a key            a ROUTER socket of libzmq, imported where it is used
"""

import asyncio
import errno
import importlib
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from client_sdk.gateways.samwise.endpoint.answering import Answering, Answers
from client_sdk.gateways.samwise.endpoint.plain import PlainCallers
from client_sdk.gateways.samwise.endpoint.rates import Rates
from client_sdk.gateways.samwise.requests import Rules
from rsocket_wire.errors import BrokerError

if TYPE_CHECKING:
    from client_sdk.gateways.samwise.endpoint.curve import CurveCallers

CURVE: Final = "client_sdk.gateways.samwise.endpoint.curve"
BACKLOG: Final = 1_024  # connections that wait until they are taken
LOOK_S: Final = 0.3  # for an answer of whoever listens in a file
LOOPBACK: Final = "lo"  # ZeroMQ takes names of interfaces
_ABSTRACT: Final = "@"  # no file: a name that the system keeps


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Of one endpoint, or several that are one."""

    endpoints: tuple[str, ...]  # ipc:// and tcp://
    rules: Rules
    max_callers: int  # connections
    max_requests_per_s: int = 0  # 0: no limit
    max_requests_per_caller_per_s: int = 0
    curve_key: Path | None = None  # of tcp endpoints; None: they are not encrypted
    curve_clients: Path | None = None  # directory of public keys; None: all that know the public key of the gateway


class Server:
    """Has its endpoints from `bind`, and answers from `start`, to `close`."""

    def __init__(self, answers: Answers, settings: ServerSettings) -> None:
        self.endpoints: list[str] = []  # with ports as the system gave them
        self._settings: Final = settings
        rates = Rates(settings.max_requests_per_s, settings.max_requests_per_caller_per_s)
        self._answering: Final = Answering(answers, settings.rules, rates)
        self._curve: CurveCallers | None = None  # None: no endpoint is encrypted
        self._plain: Final = PlainCallers(self._answering, settings.rules, self._room_n)
        self._sockets: list[socket.socket] = []  # that listen, until they are those of a server
        self._paths: list[Path] = []  # of files
        self._starting: list[asyncio.Task[asyncio.Server]] = []
        self._is_closed = False

    @property
    def connected_n(self) -> int:
        """Open connections of callers."""
        return self._plain.connected_n + (0 if self._curve is None else self._curve.connected_n)

    @property
    def refused_callers_n(self) -> int:
        """Connections that were not let in, because there were too many."""
        return self._plain.refused_n + (0 if self._curve is None else self._curve.refused_n)

    @property
    def waiting_n(self) -> int:
        """Requests that have no answer yet."""
        return self._answering.waiting_n

    def bind(self) -> None:
        """Takes all endpoints: callers may connect, and wait. BrokerError "cannot-listen", and it has none."""
        try:
            for endpoint in self._settings.endpoints:
                self.endpoints.append(self._bind(endpoint))
        except BaseException:
            self._give_back()
            if self._curve is not None:
                self._curve.abandon()
            raise

    def start(self) -> None:
        """Begins to answer."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            serve = loop.create_unix_server if each.family == socket.AF_UNIX else loop.create_server
            self._starting.append(loop.create_task(serve(self._plain.make, sock=each, backlog=BACKLOG)))
        if self._curve is not None:
            self._curve.start()

    async def close(self) -> None:
        """Refuses what comes, answers what is on its way, and closes all connections when callers are quiet."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._answering.stop()
        for server in await asyncio.gather(*self._starting):
            server.close()
        self._give_back()
        await self._plain.close()
        if self._curve is not None:
            await self._curve.close()

    def _room_n(self) -> int:
        """How many more connections there may be, with and without keys; below 0: there are too many."""
        return self._settings.max_callers - self.connected_n

    def _bind(self, endpoint: str) -> str:
        scheme, _, place = endpoint.partition("://")
        settings = self._settings
        if scheme == "tcp" and settings.curve_key is not None:
            if self._curve is None:
                make: type[CurveCallers] = importlib.import_module(CURVE).CurveCallers
                self._curve = make(
                    self._answering, settings.rules, self._room_n, settings.curve_key, settings.curve_clients
                )
            return self._curve.bind(endpoint)
        try:
            if scheme == "ipc":
                self._bind_file(endpoint, place)
                return endpoint
            return self._bind_port(place)
        except OSError as error:
            raise BrokerError("cannot-listen", f"{endpoint}: {os.strerror(error.errno or errno.EIO).lower()}") from None

    def _bind_file(self, endpoint: str, path: str) -> None:
        is_file = not path.startswith(_ABSTRACT)
        if is_file:
            _check_path(endpoint, path)
            Path(path).unlink(missing_ok=True)
        made = socket.socket(socket.AF_UNIX)
        self._sockets.append(made)
        made.bind(path if is_file else "\0" + path.removeprefix(_ABSTRACT))
        if is_file:
            self._paths.append(Path(path))
        made.listen(BACKLOG)

    def _bind_port(self, place: str) -> str:
        host, _, port = place.rpartition(":")
        is_6 = host.startswith("[")
        name = "127.0.0.1" if host == LOOPBACK else host.strip("[]")
        family = socket.AF_INET6 if is_6 else socket.AF_INET
        try:
            address = socket.getaddrinfo(name, int(port), family, socket.SOCK_STREAM)[0][4]
        except socket.gaierror as error:
            raise OSError(errno.ENODEV, str(error)) from None
        made = socket.socket(family)
        self._sockets.append(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
        bound = made.getsockname()
        return f"tcp://[{bound[0]}]:{bound[1]}" if is_6 else f"tcp://{bound[0]}:{bound[1]}"

    def _give_back(self) -> None:
        for path in self._paths:
            path.unlink(missing_ok=True)
        for each in self._sockets:
            each.close()
        self._paths, self._sockets = [], []


def _check_path(endpoint: str, path: str) -> None:
    """BrokerError when somebody listens there, or what is there is no socket: the place would be taken from it."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise BrokerError("cannot-listen", f"{endpoint}: {os.strerror(errno.EEXIST).lower()}, and is no socket")
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(LOOK_S)
            caller.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return  # it is free, or the socket of a process that is gone
    raise BrokerError("cannot-listen", f"{endpoint}: {os.strerror(errno.EADDRINUSE).lower()}")

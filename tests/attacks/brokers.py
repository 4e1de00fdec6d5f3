"""Brokers in this process that are attacked: with real sockets, a REST API, and identities that have roles."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
from argon2 import PasswordHasher
from yarl import URL

from admin_api.access.gate import Gate
from admin_api.access.local_token import LocalToken
from admin_api.app import make_app, start_admin
from broker.config.load import Sources
from broker.server import Server
from rsocket_wire.wire.authentication import AUTHENTICATION_MIME, SIMPLE, Credentials
from tests.fakes import composite, setup
from tests.system.support.wires import Wire

CHEAP: Final = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
LISTEN: Final = ("tcp://127.0.0.1:0", "ws://127.0.0.1:0")


@contextlib.asynccontextmanager
async def running(
    options: Mapping[str, object], file: Path | None = None, listen: tuple[str, ...] = LISTEN
) -> AsyncIterator[Server]:
    """A broker, and nobody is waited for at its end. `file`: of more options, TOML."""
    variables = {f"RSB_{name.upper().replace('.', '__')}": str(value) for name, value in options.items()}
    flags: Mapping[str, Any] = {"server.listen": listen, "admin.listen": "off"}
    sources = Sources(str(file) if file is not None else None, variables, flags)
    server = Server(sources.load().config, sources=sources)
    await server.start()
    try:
        yield server
    finally:
        server.wish_stop()
        server.wish_stop()
        await server.stop()


class Asked:
    """The REST API of a broker."""

    def __init__(self, url: str, token: str, session: aiohttp.ClientSession) -> None:
        """`token`: that of this machine."""
        self.url: Final = url
        self.token: Final = token
        self._session: Final = session

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def ask(self, method: str, path: str, token: str = "", **options: Any) -> tuple[int, str]:
        """Status and body."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        url = URL(self.url + path, encoded=True)  # as it stands, with its dots
        async with self._session.request(method, url, headers=headers, **options) as answer:
            return answer.status, await answer.text()


@contextlib.asynccontextmanager
async def asked(server: Server, token_file: Path) -> AsyncIterator[Asked]:
    """The REST API of a running broker, with the file of its token here."""
    per_s = server.config.admin.max_requests_per_s
    gate = Gate(lambda: server.tokens, LocalToken(str(token_file)), max_requests_per_s=per_s)
    admin, port = await start_admin(make_app(server, gate=gate), "127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session:
            yield Asked(f"http://127.0.0.1:{port}", token_file.read_text().strip(), session)
    finally:
        await admin.cleanup()


def credentials_of(name: str) -> Credentials:
    """Those of a user of `write_users`."""
    return Credentials(SIMPLE, name, name)


def login(credentials: Credentials, announced: bytes = b"", token: bytes | None = None) -> bytes:
    """A SETUP. `announced`: see `announcement`; `token`: of the session that it asks for."""
    metadata = composite((AUTHENTICATION_MIME.decode(), credentials.encode())) + announced
    return setup(metadata, token=token)


async def user(url: str, name: str, announced: bytes = b"") -> Wire:
    """The connection of a user of `write_users` that is let in."""
    wire = await Wire.connect(url)
    wire.send(login(credentials_of(name), announced))
    await wire.ping()
    return wire


def write_users(path: Path, names: Sequence[str]) -> Path:
    """A file of users whose passwords are their names."""
    path.write_text("".join(f"{name}:{CHEAP.hash(name)}\n" for name in names))
    return path

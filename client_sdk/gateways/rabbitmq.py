"""A RabbitMQ broker: where it is, how one connects to it, and what its errors say. What goes over it is for others."""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import Final

from aiormq import AMQPError, Connection
from aiormq.connection import TransportFactory
from aiormq.exceptions import ProtocolSyntaxError
from yarl import URL

CONNECT_S: Final = 5.0  # socket, TLS and login; and then for a channel, or the command of an rpc
CLOSE_S: Final = 2.0  # RabbitMQ's last words

# RuntimeError: aiormq's for what was closed meanwhile. ValueError: of names that AMQP or a URL cannot say.
FAILURES: Final = (AMQPError, OSError, EOFError, TimeoutError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitBroker:
    """Where a RabbitMQ broker is, and who we are there."""

    name: str  # of the configuration
    host: str
    port: int = 5672
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    heartbeat_s: int = 3
    tls: ssl.SSLContext | None = None  # None: without TLS

    def connection(self, transport: TransportFactory | None = None) -> Connection:
        """A new one, not connected. `transport`: makes its streams; None: aiormq does. ValueError for a host that is
        none."""
        scheme = "amqp" if self.tls is None else "amqps"
        url = URL.build(scheme=scheme, host=self.host, port=self.port, user=self.user, password=self.password)
        url = url.with_query(heartbeat=str(self.heartbeat_s))
        made = Connection(url, context=self.tls, transport_factory=transport)
        made.vhost = self.vhost  # which a path could not say as it is
        return made

    async def connect(self, connection: Connection) -> None:
        """Connects it; raises what aiormq does, in words that say why."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await connection.connect()
        except ProtocolSyntaxError as error:
            if "Connection.Close" not in str(error):
                raise ConnectionError("what listens there does not speak AMQP 0-9-1") from None
            # aiormq loses what the broker said then.
            text = f"virtual host {self.vhost!r} does not exist, or is not for user {self.user!r}, or is full"
            raise ConnectionError(text) from None


async def close_connection(connection: Connection) -> None:
    """Whatever state it is in; a broker that says nothing is left alone."""
    with contextlib.suppress(*FAILURES):
        async with asyncio.timeout(CLOSE_S):
            await connection.close()


def reason_of(error: BaseException) -> str:
    """What the broker or the system said, in one line."""
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_S:g} s"
    if isinstance(error, asyncio.CancelledError):
        return "no heartbeat"  # which is how aiormq says so
    return " ".join(str(error).split()) or type(error).__name__

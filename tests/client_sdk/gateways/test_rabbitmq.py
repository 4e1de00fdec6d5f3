"""client_sdk.gateways.rabbitmq: what is said of a place where no RabbitMQ broker listens."""

import asyncio

import pytest

from client_sdk.gateways.rabbitmq import RabbitBroker, close_connection
from tests.system.support.waits import soon

HOST = "127.0.0.1"


@pytest.mark.parametrize(
    "greeting",
    [
        b"\0\0\x20\0\0\0\0\x2c\0",  # RSocket
        b"\xff" + bytes(8) + b"\x7f\x03",  # ZeroMQ
        b"AMQP\0\0\x09\x01",  # AMQP 0-9
    ],
)
async def test_who_speaks_something_else_is_said_to(greeting: bytes) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(greeting)
        writer.close()

    async with await asyncio.start_server(greet, HOST, 0) as server:
        broker = RabbitBroker(name="away", host=HOST, port=server.sockets[0].getsockname()[1])
        connection = broker.connection()
        with pytest.raises(ConnectionError, match=r"^what listens there does not speak AMQP 0-9-1$"):
            await soon(broker.connect(connection))
        await close_connection(connection)

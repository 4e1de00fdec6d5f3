"""The Python client of rsocket-broker: offer services, call them by their tags.

    from client_sdk import Service, address, connect

    orders = Service("orders", tags={"region": "eu"})

    @orders.request_response("create")
    async def create(data: bytes) -> bytes:
        return b"created " + data

    async with connect("tcp://127.0.0.1:7000", service=orders) as client:
        answer = await client.request_response(address("orders", region="eu"), b"a book", route="create")

Addresses: `address` (one route), `multicast` (all routes), `shard` (the route that owns a key). Errors: one tree under
`ClientError`, each with a stable `word`. `client_sdk.testing.local_broker` starts a broker for tests.
"""

from client_sdk.address import Address, address, multicast, shard
from client_sdk.client import Client
from client_sdk.connect import Connecting, connect
from client_sdk.errors import (
    ApplicationError,
    BadAddress,
    BadRequest,
    Canceled,
    ClientError,
    ConnectionLost,
    DeadlineExceeded,
    Draining,
    NoRoute,
    NotConnected,
    OverLimit,
    Rejected,
    RouteLost,
    SetupRejected,
)
from client_sdk.flows import Flow
from client_sdk.payload import Payload
from client_sdk.services.requests import Request
from client_sdk.services.service import Service

__all__ = [
    "Address",
    "ApplicationError",
    "BadAddress",
    "BadRequest",
    "Canceled",
    "Client",
    "ClientError",
    "ConnectionLost",
    "Connecting",
    "DeadlineExceeded",
    "Draining",
    "Flow",
    "NoRoute",
    "NotConnected",
    "OverLimit",
    "Payload",
    "Rejected",
    "Request",
    "RouteLost",
    "Service",
    "SetupRejected",
    "address",
    "connect",
    "multicast",
    "shard",
]

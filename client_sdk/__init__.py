"""The Python client of rsocket-broker: offer services, call them by their tags.

    from client_sdk import Service, address, connect

    orders = Service("orders", tags={"region": "eu"})

    @orders.request_response("create")
    async def create(data: bytes) -> bytes:
        return b"created " + data

    async with connect("tcp://127.0.0.1:7878", service=orders) as client:
        answer = await client.request_response(address("orders", region="eu"), b"a book", route="create")

A program that is only a service: `run(url, orders)`. Several connections: `offer`. Values in place of bytes: `JSON`.
Addresses: `address` (one route), `multicast` (all routes), `shard` (the route that owns a key). When something fails:
`RetryPolicy`, `Hedging`, `wait_for_reconnect`, all for `connect` or for one call. Errors: one tree under `ClientError`,
each with a stable `word`. `client_sdk.testing.local_broker` starts a broker for tests.

`import client_sdk` is cheap: each name imports what it needs when it is first used.
"""

from typing import TYPE_CHECKING

from client_sdk.lazy import lazy_getattr

__version__ = "0.1.0"

if TYPE_CHECKING:
    from client_sdk.addresses import Address, address, multicast, shard
    from client_sdk.calls.hedge import Hedging
    from client_sdk.calls.remote import gather, subscribe
    from client_sdk.calls.retry import NO_RETRY, RetryBudget, RetryPolicy
    from client_sdk.calls.scatter_gather import Gathering
    from client_sdk.client import Client
    from client_sdk.codecs import BYTES, JSON, Codec, json_codec
    from client_sdk.connecting import Connecting, connect
    from client_sdk.credentials import Password, Token
    from client_sdk.errors import (
        ApplicationError,
        AuthUnavailable,
        BadAddress,
        BadAnswer,
        BadRequest,
        Canceled,
        ClientError,
        ConnectionLost,
        DeadlineExceeded,
        Denied,
        Draining,
        Misrouted,
        NoHandler,
        NoLease,
        NoRoute,
        NotAllowed,
        NotConnected,
        OverLimit,
        Rejected,
        Revoked,
        RouteLost,
        SetupRejected,
        TooLarge,
        TooLate,
        Unauthenticated,
        Unhealthy,
    )
    from client_sdk.payload import Payload
    from client_sdk.reconnect.state import Change, Changes, State
    from client_sdk.services.caller import Caller
    from client_sdk.services.contract import fire_and_forget, idempotent
    from client_sdk.services.gather_answers import Answer
    from client_sdk.services.request import NO_REQUEST, Request
    from client_sdk.services.service import Service
    from client_sdk.serving.group import Group, Offering, offer
    from client_sdk.serving.run import run, serve
    from client_sdk.streams import Flow
    from client_sdk.tracing import Trace

__all__ = [
    "Address",
    "Answer",
    "ApplicationError",
    "AuthUnavailable",
    "BYTES",
    "BadAddress",
    "BadAnswer",
    "BadRequest",
    "Caller",
    "Canceled",
    "Change",
    "Changes",
    "Client",
    "ClientError",
    "Codec",
    "Connecting",
    "ConnectionLost",
    "DeadlineExceeded",
    "Denied",
    "Draining",
    "Flow",
    "Gathering",
    "Group",
    "Hedging",
    "JSON",
    "Misrouted",
    "NO_REQUEST",
    "NO_RETRY",
    "NoHandler",
    "NoLease",
    "NoRoute",
    "NotAllowed",
    "NotConnected",
    "Offering",
    "OverLimit",
    "Password",
    "Payload",
    "Rejected",
    "Request",
    "RetryBudget",
    "RetryPolicy",
    "Revoked",
    "RouteLost",
    "Service",
    "SetupRejected",
    "State",
    "Token",
    "TooLarge",
    "TooLate",
    "Trace",
    "Unauthenticated",
    "Unhealthy",
    "address",
    "connect",
    "fire_and_forget",
    "gather",
    "idempotent",
    "json_codec",
    "multicast",
    "offer",
    "run",
    "serve",
    "shard",
    "subscribe",
]

_NAMES_OF = {  # the module of each public name
    "addresses": "Address address multicast shard",
    "services.caller": "Caller",
    "services.gather_answers": "Answer",
    "calls.hedge": "Hedging",
    "calls.remote": "gather subscribe",
    "calls.retry": "NO_RETRY RetryBudget RetryPolicy",
    "calls.scatter_gather": "Gathering",
    "client": "Client",
    "codecs": "BYTES JSON Codec json_codec",
    "connecting": "Connecting connect",
    "services.contract": "fire_and_forget idempotent",
    "credentials": "Password Token",
    "errors": "ApplicationError AuthUnavailable BadAddress BadAnswer BadRequest Canceled ClientError ConnectionLost "
    "DeadlineExceeded Denied Draining Misrouted NoHandler NoLease NoRoute NotAllowed NotConnected OverLimit Rejected "
    "Revoked "
    "RouteLost SetupRejected TooLarge TooLate Unauthenticated Unhealthy",
    "payload": "Payload",
    "reconnect.state": "Change Changes State",
    "serving.group": "Group Offering offer",
    "services.request": "NO_REQUEST Request",
    "serving.run": "run serve",
    "services.service": "Service",
    "streams": "Flow",
    "tracing": "Trace",
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

if not TYPE_CHECKING:  # type checkers know the names from above, and report any other
    __getattr__ = lazy_getattr(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""`connect`: from a URL, a service and its tags to a client that is connected.

Decides what the SETUP says. Section "Routing Protocol Semantics" of the
specification: the ROUTE_SETUP goes into the SETUP, and each reconnect says the same Route Id.
"""

import ssl as tls
import uuid
from collections.abc import Generator, Mapping, Sequence
from typing import Final

from broker.errors import BrokerError
from broker.rsocket.frames import Setup
from broker.rsocket.metadata import COMPOSITE_MIME
from broker.rsocket.notices import MAY_BE_TOLD_ENTRY
from broker.wire.frames import MIME_TYPE
from broker.wire.ids import parse_id
from client_sdk.backoff import Backoff
from client_sdk.brokers import Brokers
from client_sdk.client import Client
from client_sdk.engine import Responder
from client_sdk.metadata import OCTET_STREAM_MIME
from client_sdk.rsocket_py.faces import HandlerSource
from client_sdk.rsocket_py.handlers import RSocketPyResponder
from client_sdk.services.offer import Offer
from client_sdk.services.responder import ServiceResponder
from client_sdk.services.service import Service
from client_sdk.transports import Target

MAX_MS: Final = 0x7FFFFFFF  # what a SETUP can say, about 24 days


class Connecting:
    """What `connect` gives: `async with` it, or `await` it and close the client yourself.

    >>> client = await connect("tcp://127.0.0.1:7000")
    >>> await client.close()
    """

    def __init__(self, client: Client, stranger: RSocketPyResponder | None = None) -> None:
        """`stranger` is told what the SETUP says before it is sent."""
        self._client: Final = client
        self._stranger: Final = stranger

    def __await__(self) -> Generator[object, None, Client]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Client:
        if self._stranger is not None:
            await self._stranger.set_up()
        await self._client.start()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()


def connect(
    urls: str | Sequence[str],
    *,
    service: str | Service | None = None,
    tags: Mapping[str, str | None] | None = None,
    route_id: str | None = None,
    handler: HandlerSource | None = None,
    keepalive_s: float = 5.0,
    lifetime_s: float = 20.0,
    mime_type: str = MIME_TYPE,
    connect_timeout_s: float = 5.0,
    ssl: tls.SSLContext | None = None,
) -> Connecting:
    """A client, connected to the first of `urls` that answers, as `async with` or with `await`.

    urls          tcp:// tls:// ws:// wss:// unix://, default ports 7000 and 7001; the others are for reconnecting
    service       a Service with handlers, or a name; None: a caller only, which nobody can call
    tags          what others may ask for; added to the Service's own
    route_id      a uuid; random when absent, and the same over all reconnects
    handler       instead of a Service, for the service that `service` names: a request handler of rsocket-py, what
                  makes one, or a RequestRouter (docs/sdk/rsocket-py.md)
    keepalive_s   between signs of life; without any for lifetime_s the connection counts as lost, on both sides
    mime_type     of broker frames; "message/x.rsocket.broker.frame.v0" for the Java broker
    connect_timeout_s  for each URL: socket, TLS, and the broker's acceptance of the SETUP
    ssl           for tls:// and wss://; None: the system's certificates

    A broker that is about to stop names others, and the client moves there in time: requests that run end on the old
    connection, new ones go to the new one (docs/lame-duck.md).

    Entering raises NotConnected when no broker can be reached and SetupRejected when it refuses. ValueError for
    arguments that make no sense, BadAddress for a name or tags that cannot be sent.

    >>> async with connect("tcp://127.0.0.1:7000", service="ledger", tags={"region": "eu"}) as client:
    ...     print(client.is_connected)
    True
    """
    targets = [Target(url) for url in ([urls] if isinstance(urls, str) else urls)]
    if not targets:
        raise ValueError("connect() needs at least one URL, for example tcp://127.0.0.1:7000")
    if not 0 < keepalive_s <= lifetime_s <= MAX_MS / 1000:
        raise ValueError(f"keepalive_s {keepalive_s} and lifetime_s {lifetime_s}: 0 < keepalive_s <= lifetime_s")
    if handler is not None and not isinstance(service, str):
        raise ValueError("handler= needs service='name': only a named service can be called")
    if service is None and tags:
        raise ValueError("tags= needs service=...: a caller without a service is no route")
    try:
        origin = uuid.uuid4().bytes if route_id is None else parse_id(route_id)
    except BrokerError as error:
        raise ValueError(error.text) from None
    stranger = None if handler is None else RSocketPyResponder(handler)
    answering = ServiceResponder(service, origin) if isinstance(service, Service) else None
    responder: Responder | None = stranger if answering is None else answering
    offer = None if service is None else Offer(service, tags, origin, mime_type, answering)
    setup = Setup(
        COMPOSITE_MIME,
        OCTET_STREAM_MIME,
        max(1, round(keepalive_s * 1000)),
        max(1, round(lifetime_s * 1000)),
        MAY_BE_TOLD_ENTRY,
    )
    if stranger is not None:
        stranger.setup = setup if offer is None else offer.setup_of(setup)
    brokers = Brokers(targets, setup, responder, connect_timeout_s, ssl, offer=offer)
    return Connecting(Client(brokers, origin, mime_type, Backoff()), stranger)

"""The backend that delivers to services of an RSocket broker: each route of a service is a destination.

    exchange        ──► the service (`exchanges`): one of its routes (direct), or all of them (fanout)
    routing key     ──► the route of the request: the handler of the service
    content_type    ──► entry `message/x.rsocket.mime-type.v0`: what the data is
    other options, headers, exchange and id ──► one entry of JSON, PROPERTIES_MIME:

        {"x-samwise-id": "4f…", "exchange": "orders", "options": {"message_id": "17"},
         "headers": {"shop": "text", "raw": {"base64": "/wA="}}}

A message is acknowledged by the response to a request/response, or by its completion without one. A fanout is a gather:
acknowledged when all routes that were there have answered, and none with a failure. Redundant messages count Route Ids;
services of this SDK tell theirs (D-57, who is there), those of strangers are not counted. To the broker it is a client.
"""

import asyncio
import base64
import contextlib
import json
import logging
import math
from collections.abc import Callable, Sequence
from typing import Final

from client_sdk.addresses import Address, address, multicast
from client_sdk.calls.scatter_gather import Gathering
from client_sdk.client import Client
from client_sdk.connecting import Connecting
from client_sdk.errors import ClientError, ConnectionLost, NotConnected, RouteLost
from client_sdk.gateways.samwise.backends.backend import ANY, DestinationState, NotDelivered
from client_sdk.gateways.samwise.backends.exchanges import FANOUT, Exchanges, Impossible
from client_sdk.gateways.samwise.layouts import MALFORMED_PUBLISH, MALFORMED_RPC
from client_sdk.gateways.samwise.values import DECLARE, ID_HEADER, Message, Publish, Refused, Rpc
from client_sdk.metadata import MAX_ROUTE_BYTES
from client_sdk.protocol.settings import MAX_PAYLOAD_BYTES
from client_sdk.reconnect.backoff import Backoff
from client_sdk.reconnect.state import State
from client_sdk.services.gather_answers import GATHER_MIME, WHO
from client_sdk.services.request import DATA_MIME
from rsocket_wire.rsocket.mimes import MAX_MIME_BYTES
from rsocket_wire.wire.keys import ROUTE_ID
from rsocket_wire.wire.tags import MAX_VALUE_BYTES

PROPERTIES_MIME: Final = "application/x-samwise-message+json"
LOOK_S: Final = 0.5  # for an answer to who is there; who is slower is not counted this time
FRESH_S: Final = 1.0  # so long it is not asked again
MAX_ROUTES: Final = 10_000  # of a service: more are not counted
MAX_SERVICES: Final = 1000  # of which is known who is there; at one more all are forgotten
# Of options and headers of a message: as JSON they can be six times as long, and one entry holds 16 MiB.
MAX_PROPERTIES_BYTES: Final = 2 * 1024 * 1024
ROOM_BYTES: Final = 1024  # of metadata beside what callers give: address, id, names
_log: Final = logging.getLogger("client_sdk")
_CONNECTED: Final = (State.CONNECTED, State.MOVING)


class ServicesBackend:
    """A `Backend`. While there is no broker nothing is up; it comes back by itself."""

    has_fixed_destinations: Final = False

    def __init__(self, connecting: Connecting, exchanges: Exchanges) -> None:
        """`connecting`: what `connect(urls, …)` gives, without a service: a caller only."""
        self._connecting: Final = connecting
        connecting.is_used = True  # by `start`, before which a gateway may fail: nobody has forgotten it
        self._exchanges: Final = exchanges
        self._on_change: Callable[[], None] = lambda: None  # until it is started
        self._task: asyncio.Task[None] | None = None  # None until it is started
        self._client: Client | None = None  # None while there is none that is connected
        self._detail = "not connected yet"
        self._present: Final[dict[str, _Present]] = {}  # by service; bounded by MAX_SERVICES
        self._looks: Final[dict[str, asyncio.Task[None]]] = {}  # by service, while somebody asks who is there
        self._waiting_n = 0

    async def start(self, on_change: Callable[[], None]) -> None:
        """Begins to connect."""
        self._on_change = on_change
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Ends the connection."""
        self._on_change = lambda: None
        tasks = [*self._looks.values(), *((self._task,) if self._task is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._client = None
        self._detail = "the gateway stops"

    def check(self, publish: Publish) -> None:
        """Refused for what no service could get, or not as it was meant."""
        if publish.immediate:
            raise Refused(f"{MALFORMED_PUBLISH}: immediate is set, which services do not know", "backend")
        exchange = self._exchanges.find(publish.exchange)
        size = len(exchange.service.encode())
        if not 1 <= size <= MAX_VALUE_BYTES:
            text = f"exchange {publish.exchange[:40]!r} has {size} bytes, a service has 1..{MAX_VALUE_BYTES}"
            raise Refused(f"{MALFORMED_PUBLISH}: {text}", "text")
        if exchange.type == FANOUT and publish.acks_n > 1:
            text = f"exchange {publish.exchange!r} is a fanout, which all routes get: redundant needs a direct one"
            raise Refused(f"{MALFORMED_PUBLISH}: {text}", "backend")
        size = len(publish.routing_key.encode())
        if size > MAX_ROUTE_BYTES:
            raise Refused(
                f"{MALFORMED_PUBLISH}: routing key has {size} bytes, a route has at most {MAX_ROUTE_BYTES}", "text"
            )
        mime = publish.options.get("content_type", "")
        if not mime.isascii() or len(mime) > MAX_MIME_BYTES:
            text = f"content_type {mime[:40]!r} must be at most {MAX_MIME_BYTES} ASCII characters"
            raise Refused(f"{MALFORMED_PUBLISH}: {text}", "text")
        size = sum(len(name) + len(value.encode()) for name, value in publish.options.items())
        size += sum(len(name.encode()) + len(value) for name, value in publish.headers)
        if size > MAX_PROPERTIES_BYTES:
            text = f"options and headers have {size} bytes, at most {MAX_PROPERTIES_BYTES} can be sent"
            raise Refused(f"{MALFORMED_PUBLISH}: {text}", "limit")
        size = 6 * size + ROOM_BYTES + len(publish.payload)
        if size > MAX_PAYLOAD_BYTES:
            text = f"message of up to {size} bytes, at most {MAX_PAYLOAD_BYTES} can be sent"
            raise Refused(f"{MALFORMED_PUBLISH}: {text}", "limit")

    async def check_mandatory(self, publish: Publish) -> None:
        """Refused when no route is there now."""
        service = self._exchanges.find(publish.exchange).service
        try:
            async with contextlib.aclosing(self._ask_who(service)) as gathering:
                async for _ in gathering:
                    break
        except ClientError as error:
            # Any other is of a service, a stranger perhaps: so there is one.
            if error.is_retry_safe or isinstance(error, ConnectionLost):
                raise Refused(f"{MALFORMED_PUBLISH}: mandatory is set: {error.word}: {error.text}", "backend") from None

    async def rpc(self, rpc: Rpc) -> None:
        """Declares or deletes an exchange here; a broker's name is refused, as there is none."""
        if rpc.broker:
            raise Refused(
                f"{MALFORMED_RPC}: there is no broker {rpc.broker[:40]!r}, messages go to services", "backend"
            )
        try:
            if rpc.action == DECLARE:
                await self._exchanges.declare(rpc.name, rpc.type)
            else:
                await self._exchanges.delete(rpc.name)
        except Impossible as error:
            raise Refused(f"{MALFORMED_RPC}: {error}", "backend") from None

    async def destinations(self, message: Message) -> Sequence[str]:
        """ANY where one acknowledgement is enough; else the Route Ids that are there, as was known a moment ago."""
        if self._client is None:
            return []
        if message.publish.acks_n == 1:
            return [ANY]
        service = self._exchanges.find(message.publish.exchange).service
        known = self._present.get(service)
        if known is None:
            await asyncio.wait([self._look(service)])  # not to be cancelled with whoever waits first
            known = self._present.get(service)
        elif asyncio.get_running_loop().time() >= known.fresh_until:
            self._look(service)  # and `on_change` if others are there
        return () if known is None else known.route_ids

    async def deliver(self, message: Message, to: str) -> str:
        """Asks a route, or all of a fanout, and waits for the answer; the Route Id, or the service that has chosen."""
        client = self._client
        if client is None:
            raise NotDelivered(self._detail, is_away=True)
        try:
            self.check(message.publish)
        except Refused as refused:  # stored for another backend, or for an exchange that is another one now
            raise NotDelivered(refused.text, is_hopeless=True) from None
        exchange = self._exchanges.find(message.publish.exchange)
        self._waiting_n += 1
        try:
            if to != ANY:
                await self._ask(client, address(exchange.service, tags={ROUTE_ID.name: to}), message)
                return to
            if exchange.type == FANOUT:
                await self._ask_all(client, multicast(exchange.service), message)
            else:
                await self._ask(client, address(exchange.service, lb="round_robin"), message)
            return exchange.service
        except ClientError as error:
            if to != ANY and error.is_retry_safe:
                self._present.pop(exchange.service, None)
            text = f"{exchange.service}: {error.word}: {error.text}"
            raise NotDelivered(text, is_away=error.is_retry_safe) from None
        finally:
            self._waiting_n -= 1

    def state(self) -> Sequence[DestinationState]:
        """Of the connection to the broker; routes come and go behind it."""
        return [DestinationState("services", self._client is not None, self._waiting_n, self._detail)]

    # the connection

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
            try:
                async with self._connecting as client:
                    backoff.reset()
                    async for change in client.changes():
                        is_up = change.state in _CONNECTED
                        self._set(
                            client if is_up else None,
                            f"connected to {change.broker}" if is_up else _reason(change.reason),
                        )
            except ClientError as error:
                self._set(None, _reason(error))
            await asyncio.sleep(backoff.next_s())

    def _set(self, client: Client | None, detail: str) -> None:
        was_up = self._client is not None
        if was_up or client is not None or detail != self._detail:  # each reason once
            _log.log(logging.WARNING if client is None else logging.INFO, "services: %s", detail)
        self._client = client
        self._detail = detail
        if was_up != (client is not None):
            self._present.clear()
            self._on_change()

    # who is there

    def _ask_who(self, service: str) -> Gathering:
        if self._client is None:
            raise NotConnected(self._detail)
        flow = self._client.request_stream(multicast(service), metadata={GATHER_MIME: WHO}, timeout_s=LOOK_S)
        return Gathering(flow, None)

    def _look(self, service: str) -> "asyncio.Task[None]":
        """Asks, unless somebody does."""
        task = self._looks.get(service)
        if task is None:
            task = self._looks[service] = asyncio.get_running_loop().create_task(self._find_present(service))
            task.add_done_callback(lambda _: self._looks.pop(service, None))
        return task

    async def _find_present(self, service: str) -> None:
        found: set[str] = set()
        try:
            async with contextlib.aclosing(self._ask_who(service)) as gathering:
                async for answer in gathering:
                    if answer.is_ok and answer.route_id:
                        found.add(answer.route_id)
                    if len(found) >= MAX_ROUTES:
                        break
        except ClientError:
            pass  # nobody is there, or a stranger said ERROR, which ends it for all: who came before is there
        route_ids = tuple(sorted(found))
        before = self._present.get(service)
        if before is None and len(self._present) >= MAX_SERVICES:
            self._present.clear()
        self._present[service] = _Present(route_ids, asyncio.get_running_loop().time() + FRESH_S)
        if before is not None and before.route_ids != route_ids:
            self._on_change()

    # requests

    async def _ask(self, client: Client, where: Address, message: Message) -> None:
        publish = message.publish
        await client.request_response(
            where,
            publish.payload,
            route=publish.routing_key or None,
            metadata=_entries(message),
            timeout_s=math.inf,  # whoever delivers cancels this
        )

    async def _ask_all(self, client: Client, where: Address, message: Message) -> None:
        publish = message.publish
        gathering = client.gather(
            where,
            publish.payload,
            route=publish.routing_key or None,
            metadata=_entries(message),
            timeout_s=math.inf,
        )
        answers_n = failures_n = 0
        failure: ClientError | None = None
        async with contextlib.aclosing(gathering):
            async for answer in gathering:
                answers_n += 1
                failures_n += not answer.is_ok
                failure = failure or answer.error
        if not answers_n:
            raise RouteLost("all routes left before they had answered")
        if failure is not None:
            text = f"{failures_n} of {answers_n} routes failed, the first with {failure.word}: {failure.text}"
            raise ClientError(text, word="fanout")


class _Present:
    """The routes of a service."""

    __slots__ = ("fresh_until", "route_ids")

    def __init__(self, route_ids: tuple[str, ...], fresh_until: float) -> None:
        self.route_ids: Final = route_ids
        self.fresh_until: Final = fresh_until  # loop time


def _reason(error: ClientError | None) -> str:
    return "not connected" if error is None else f"{error.word}: {error.text}"


def _entries(message: Message) -> dict[str, bytes]:
    """What goes along with the payload."""
    mime = message.publish.options.get("content_type", "")
    data_mime = {DATA_MIME: bytes([len(mime) - 1]) + mime.encode()} if mime else {}
    return {**data_mime, PROPERTIES_MIME: _properties(message.uid, message.publish)}


def _properties(uid: str, publish: Publish) -> bytes:
    options = {name: value for name, value in publish.options.items() if name != "content_type"}
    headers = {name: _header(value) for name, value in publish.headers}
    said = {ID_HEADER: uid, "exchange": publish.exchange, "options": options, "headers": headers}
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


def _header(value: bytes) -> str | dict[str, str]:
    """Text where it is text, as nearly all are."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}

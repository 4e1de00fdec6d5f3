"""`connect`: from a URL, a service and its tags to a client that is connected.

Decides what the SETUP says. Section "Routing Protocol Semantics" of the
specification: the ROUTE_SETUP goes into the SETUP, and each reconnect says the same Route Id.
"""

import asyncio
import inspect
import logging
import os
import random
import ssl as tls
import uuid
import warnings
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from typing import Final, NoReturn

from client_sdk import rsocket_py
from client_sdk.calls.call import Calls, Defaults, check_policies
from client_sdk.calls.hedge import Hedging
from client_sdk.calls.metadata_cache import MetadataCache
from client_sdk.calls.retry import NO_RETRY, RetryPolicy
from client_sdk.calls.values import Values
from client_sdk.client import Client
from client_sdk.clock import Clock
from client_sdk.codecs import BYTES, Codec, check_codec
from client_sdk.credentials import CredentialsSource, Password, Token, may_carry_credentials
from client_sdk.errors import ConnectionLost, NotConnected, SetupRejected
from client_sdk.io.dial import Target
from client_sdk.io.dispatch import Responder
from client_sdk.metadata import OCTET_STREAM_MIME
from client_sdk.mistakes.arguments import advised, takes
from client_sdk.mistakes.kinds import BOOL, NUMBER, WHOLE, check_kind, kind_of
from client_sdk.protocol.settings import Settings
from client_sdk.reconnect.backoff import Backoff
from client_sdk.reconnect.brokers import Brokers
from client_sdk.reconnect.instance import instance_route_id
from client_sdk.reconnect.manager import ConnectionManager
from client_sdk.reconnect.outage import Outage
from client_sdk.reconnect.renewal import Renewal
from client_sdk.rsocket_py.typing import HandlerSource
from client_sdk.services.advertisement import Advertisement
from client_sdk.services.responder import ServiceResponder
from client_sdk.services.service import HOW_SERVICE, Service
from client_sdk.spans import find_spans
from client_sdk.tracing import use_spans
from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.frames import Setup
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.rsocket.notices import CLIENT_ID_BYTES, client_entry
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0
from rsocket_wire.wire.ids import parse_id

_HOW: Final = "write `async with connect(...) as client:`, or `client = await connect(...)`"
MAX_MS: Final = 0x7FFFFFFF  # what a SETUP can say, about 24 days
_ENCRYPTED: Final = ("tls", "wss")
_log: Final = logging.getLogger("client_sdk")
_CREDENTIALS: Final = "Token('...'), Password('name', '...') or an async function that gives one"


class Connecting:
    """What `connect` gives: `async with` it, `await` it and close the client yourself, or `async for` it.

    >>> client = await connect("tcp://127.0.0.1:7878")
    >>> await client.close()

    A client comes back by itself when its connection is lost; the loop is for programs that want to outlive everything
    else, too: a broker that is not there yet when they start, and another client that took the Route Id. Each turn has
    a new client, connected:

    >>> async for client in connect("tcp://127.0.0.1:7878"):
    ...     try:
    ...         print((await client.request_response(address("orders"), b"42")).data)
    ...         break  # or work on, until the client is of no use any more
    ...     except ConnectionLost:
    ...         continue
    b'order 42'

    - Before a turn it tries to connect, with growing delays, until that succeeds. A SetupRejected that no time mends
      (`is_transient` is False) is raised.
    - A turn that ends, whether its end is reached or by `continue`, closes its client. `break` and exceptions that
      leave the loop close it, too, in the next turns of the event loop. (Python does not tell the iterator of an
      exception in the body: so the `except` above.)
    - A client that was replaced by another one with the `route_id` or `instance` that you gave it ends the loop: the
      next turn raises the ConnectionLost that says so, or the two would replace each other for ever. Without them each
      turn has a Route Id of its own.
    """

    def __init__(
        self,
        make: Callable[[], Client],
        stranger: "rsocket_py.RSocketPyResponder | None",
        has_route_id: bool,
        backoff: Backoff,
    ) -> None:
        """`stranger` is told of the SETUP and of the connection. `make` has been tried: it does not raise."""
        self._make: Final = make
        self._stranger: Final = stranger
        self._has_route_id: Final = has_route_id
        self._backoff: Final = backoff
        self._client: Client | None = None  # of `async with`; None before
        self.is_used = False  # somebody has entered it, or has looked only whether the arguments are right

    def __del__(self) -> None:
        if not self.is_used:
            warnings.warn(f"connect(...) was never awaited: {_HOW}", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<Connecting, no client yet: {_HOW}>"

    def __getattr__(self, name: str) -> NoReturn:
        """AttributeError: what is wanted is a client's."""
        if not name.startswith("_") and hasattr(Client, name):
            self.is_used = True  # wrongly, as is said now
            raise AttributeError(f"connect() gives no client yet, so it has no {name}: {_HOW}")
        raise AttributeError(f"'Connecting' object has no attribute {name!r}")

    def __enter__(self) -> NoReturn:
        self.is_used = True
        raise TypeError(f"not `with connect(...)`: {_HOW}; without async use client_sdk.sync.connect")

    def __exit__(self, *_: object) -> None:
        """Python looks for it before `__enter__` says what is wrong."""

    def __await__(self) -> Generator[object, None, Client]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._start()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._close(self._client)

    async def __aiter__(self) -> AsyncGenerator[Client, None]:
        outage: Outage | None = None  # None while there is a broker
        while True:
            try:
                client = await self._start()
            except (NotConnected, SetupRejected) as error:
                if isinstance(error, SetupRejected) and not error.is_transient:
                    raise
                outage = outage or Outage("cannot connect", Clock())
                outage.failed(error)
                await asyncio.sleep(self._backoff.next_s())
                continue
            self._backoff.reset()
            if outage is not None:
                outage.ended(f"connected to {client.broker}")
                outage = None
            try:
                yield client
            finally:
                reason = client.reason
                await self._close(client)
            if self._has_route_id and reason is not None and reason.word == "replaced":
                raise ConnectionLost(reason.text, word=reason.word, code=reason.code)

    async def _start(self) -> Client:
        self.is_used = True
        client = self._make()
        if self._stranger is None:
            await client.start()
        else:
            await self._stranger.set_up()
            await self._stranger.start(client)
        return client

    async def _close(self, client: Client) -> None:
        await client.close()
        if self._stranger is not None:
            await self._stranger.ended()


@advised("connect(url, service=...)")
def connect(
    urls: str | Sequence[str],
    *,
    service: str | Service | None = None,
    tags: Mapping[str, str | None] | None = None,
    route_id: str | None = None,
    instance: str | None = None,
    handler: HandlerSource | None = None,
    keepalive_s: float = 5.0,
    lifetime_s: float = 20.0,
    mime_type: str = MIME_TYPE,
    connect_timeout_s: float = 5.0,
    ssl: tls.SSLContext | None = None,
    credentials: CredentialsSource | None = None,
    timeout_s: float | None = None,
    says_deadlines: bool | None = None,
    wait_for_reconnect: bool | float = False,
    retry: RetryPolicy = NO_RETRY,
    hedging: Hedging | None = None,
    codec: Codec = BYTES,
    tracing: bool = True,
    fragment_bytes: int = 0,
    resume: bool = False,
    lease: tuple[int, float] | None = None,
) -> Connecting:
    """A client, connected to the first of `urls` that answers: `async with`, `await`, or `async for` (`Connecting`).

    urls          tcp:// tls:// ws:// wss:// unix://, default ports 7878 and 7879; the others are for reconnecting
    service       a Service with handlers, or its name beside `handler`; None: a caller only, which nobody can call
    tags          what others may ask for; added to the Service's own
    route_id      a uuid; random when absent, and the same over all reconnects
    instance      a name, "orders-1", in place of `route_id`: the Route Id is made of it and the service's name, so it
                  is the same in the next deployment of this instance; no two that run at a time may have the same
    handler       instead of a Service, for the service that `service` names: a request handler of rsocket-py, what
                  makes one, or a RequestRouter (docs/sdk/rsocket-py.md)
    keepalive_s   between signs of life; without any for lifetime_s the connection counts as lost, on both sides
    mime_type     of broker frames; "message/x.rsocket.broker.frame.v0" for the Java broker
    connect_timeout_s  for each URL: socket, TLS, and the broker's acceptance of the SETUP
    ssl           for tls:// and wss://; None: the system's certificates
    credentials   a Token or a Password, or an async function that gives one, which is asked at each attempt to connect,
                  and again before it expires, while the connection goes on; sent over TLS or within this machine only.
                  None: the broker wants none, or a certificate in `ssl`

    What calls do unless they say otherwise:

    timeout_s     the deadline of request/responses, gathers, fire-and-forgets and pushes; None: no deadline
    says_deadlines  the broker, and through it the service, is told how long the caller waits; None: unless `mime_type`
                  is the Java broker's, which does not read it
    wait_for_reconnect  a call that is made while there is no connection: False: fails at once with NotConnected; True:
                  waits up to 10 s for the next one; a number: so many seconds. Never longer than its deadline
    retry         RetryPolicy(): tries again where that is safe
    hedging       Hedging(): asks once more where an idempotent request/response is late
    codec         what makes bytes of values, and values of bytes (JSON); bytes go and come as they are
    tracing       spans of calls where OpenTelemetry is set up; what a handler's request says of its trace goes out
                  with the handler's own calls in any case (docs/sdk/tracing.md)

    How a connection is used:

    fragment_bytes  the longest frame of a payload, 64 at least; 0: only what no frame can hold (16 MiB) goes in pieces
    resume        a broken socket ends no call and no stream: the session goes on over the next one, if the broker
                  offers that and is still there; until then calls wait
    lease         (requests, seconds): the service is sent so many requests in each such time, and refuses more

    A broker that is about to stop names others, and the client moves there in time: requests that run end on the old
    connection, new ones go to the new one (docs/lame-duck.md).

    Entering raises NotConnected when no broker can be reached, SetupRejected when it refuses (Unauthenticated for its
    credentials), and what the function of `credentials` raises. ValueError for
    arguments that make no sense, BadAddress for a name or tags that cannot be sent.

    >>> async with connect("tcp://127.0.0.1:7878", service=Service("ledger"), tags={"region": "eu"}) as client:
    ...     print(client.is_connected)
    True
    """
    _check_types(service, tags, ssl, credentials, lease, route_id, instance, mime_type)
    check_codec(codec)
    _check_times(keepalive_s, lifetime_s, connect_timeout_s)
    _check_rest(retry, resume, tracing, says_deadlines, fragment_bytes)
    check_policies(retry, hedging)
    targets = targets_of(urls)
    if mime_type.startswith(("application/", "text/")):
        text = f"mime_type={mime_type!r} is a type of data, and it is that of broker frames"
        raise ValueError(f"{text}: leave it out; codec=JSON is for JSON")
    if ssl is not None:
        _check_encryption(ssl, targets)
    open_target = next((target for target in targets if not may_carry_credentials(target)), None)
    if credentials is not None and open_target is not None:
        raise ValueError(f"credentials= over {open_target.url}: everybody on the way could read them; use tls or wss")
    if inspect.isfunction(handler) and (inspect.iscoroutinefunction(handler) or not takes(handler, 0)):
        text = "handler= takes a class of rsocket-py, or a function without parameters that makes an object of one"
        raise TypeError(f"{text}; a function of your own is for a Service: {HOW_SERVICE}")
    if handler is not None and not isinstance(service, str):
        raise ValueError("handler= needs service='name': only a named service can be called")
    if service is None and tags:
        raise ValueError("tags= needs service=...: a caller without a service has no route")
    if instance is not None and (service is None or route_id is not None):
        raise ValueError("instance= needs service=... and no route_id=: it makes a Route Id of both names")
    try:
        given = None if route_id is None else parse_id(route_id)
    except BrokerError as error:
        is_name = service is not None and not set(route_id or "") <= set("0123456789abcdefABCDEF-{}")
        name = f"; a name is instance={route_id!r}, and without both it is random"
        raise ValueError(f"route_id= {error.text}{name if is_name else '; leave it out for a random one'}") from None
    if instance is not None and service is not None:
        given = instance_route_id(service if isinstance(service, str) else service.name, instance).bytes
    bare_name = service if isinstance(service, str) and handler is None else ""
    if bare_name:
        own = repr(bare_name)
        text = f"service={own} offers {own} without handlers, so its calls fail: give a Service({own}) with handlers"
        _log.warning("%s; to call it, leave service= out and write address(%s)", text, own)
    settings = Settings(fragment_bytes, wants_resume=resume, lease=lease, bare_name=bare_name)
    defaults = Defaults(timeout_s, wait_for_reconnect, retry, hedging)
    values = Values(codec)
    stranger = None if handler is None else rsocket_py.RSocketPyResponder(handler)
    setup = Setup(
        COMPOSITE_MIME,
        OCTET_STREAM_MIME,
        max(1, round(keepalive_s * 1000)),
        max(1, round(lifetime_s * 1000)),
        client_entry(os.urandom(CLIENT_ID_BYTES)),
    )

    def make() -> Client:
        origin = uuid.uuid4().bytes if given is None else given
        answering = ServiceResponder(service, origin) if isinstance(service, Service) else None
        responder: Responder | None = stranger if answering is None else answering
        advertisement = None if service is None else Advertisement(service, tags, origin, mime_type, answering)
        if stranger is not None:
            stranger.setup = setup if advertisement is None else advertisement.setup_of(setup)
        brokers = Brokers(
            targets,
            setup,
            responder,
            connect_timeout_s,
            ssl,
            advertisement=advertisement,
            settings=settings,
            credentials=credentials,
            renewal=None if credentials is None else Renewal(credentials, Clock(), random.random),
        )
        name = None if advertisement is None else advertisement.name
        manager = ConnectionManager(brokers, origin, name, Backoff(), Clock())
        cache = MetadataCache(
            mime_type, origin, mime_type != MIME_TYPE_V0 if says_deadlines is None else says_deadlines
        )
        spans = find_spans() if tracing else None
        if spans is not None:
            use_spans(spans)
        calls = Calls(manager, cache, spans, Clock(), random.random)
        return Client(manager, cache, calls, defaults, values, advertisement)

    make()  # raises now what is wrong with the name and the tags, and not in the middle
    return Connecting(make, stranger, given is not None, Backoff())


def targets_of(urls: str | Sequence[str]) -> list[Target]:
    """Each URL taken apart; ValueError for one that names no broker, and when there is none."""
    given: Sequence[object] = urls if isinstance(urls, Sequence) and not isinstance(urls, str | bytes) else [urls]
    if len(given) == 2 and isinstance(given[0], str) and str(given[1]).isdecimal():
        raise TypeError(f"the URL is a host and a port, it must be str: write {f'tcp://{given[0]}:{given[1]}'!r}")
    targets = [Target(url) for url in given]
    if not targets:
        raise ValueError("connect() needs at least one URL, for example tcp://127.0.0.1:7878")
    return targets


def _check_encryption(ssl: tls.SSLContext, targets: Sequence[Target]) -> None:
    """ValueError where what is meant to be encrypted would go in the clear, or cannot be encrypted with this."""
    if ssl.protocol == tls.PROTOCOL_TLS_SERVER:
        raise ValueError("ssl= is a context for servers: write ssl.create_default_context(cafile=FILE)")
    is_encrypted = any(target.scheme in _ENCRYPTED for target in targets)
    for target in targets:
        other = {"tcp": "tls", "ws": "wss"}.get(target.scheme)
        # Beside an encrypted one, a Unix socket or a listener of this machine may be meant.
        if other is not None and not (is_encrypted and may_carry_credentials(target)):
            url = target.url.replace(target.scheme, other, 1)
            or_else = "" if is_encrypted else ", or leave ssl= out where the broker speaks no TLS"
            raise ValueError(f"ssl= needs tls:// or wss://, and {target.url} is not encrypted: write {url}{or_else}")
    if not is_encrypted:
        raise ValueError("ssl= needs tls:// or wss://; a Unix socket needs no encryption: leave ssl= out")


def _check_times(keepalive_s: float, lifetime_s: float, connect_timeout_s: float) -> None:
    for name, given in (
        ("keepalive_s", keepalive_s),
        ("lifetime_s", lifetime_s),
        ("connect_timeout_s", connect_timeout_s),
    ):
        check_kind(name, given, NUMBER)
        if not given > 0:
            raise ValueError(f"{name} is {given}, it must be a number of seconds above 0")
    for name, given, usual in (("keepalive_s", keepalive_s, "5"), ("lifetime_s", lifetime_s, "20")):
        if not given <= MAX_MS / 1000:
            raise ValueError(f"{name} is {given}, it must be at most {MAX_MS // 1000}; leave it out for {usual} s")
    if not keepalive_s <= lifetime_s:
        text = f"keepalive_s is {keepalive_s} and lifetime_s is {lifetime_s}, it must be keepalive_s <= lifetime_s"
        other = (
            f"keepalive_s={keepalive_s / 1000:g} for milliseconds" if keepalive_s >= 1000 else "a shorter keepalive_s="
        )
        raise ValueError(f"{text}; write lifetime_s={4 * keepalive_s:g}, or {other}")


def _check_rest(retry: object, resume: object, tracing: object, says_deadlines: object, fragment_bytes: object) -> None:
    """TypeError for other options of a wrong kind."""
    if retry is None:
        raise TypeError("retry= is None: leave it out, or write retry=NO_RETRY")
    check_kind("resume", resume, BOOL)
    check_kind("tracing", tracing, BOOL)
    if says_deadlines is not None:
        check_kind("says_deadlines", says_deadlines, BOOL)
    check_kind("fragment_bytes", fragment_bytes, WHOLE)


def _check_types(
    service: object,
    tags: object,
    ssl: object,
    credentials: object,
    lease: object,
    route_id: object,
    instance: object,
    mime_type: object,
) -> None:
    """TypeError for what no type checker has seen, before it fails where nobody knows the argument's name."""
    for name, given, is_right, wanted in (
        (
            "service",
            service,
            service is None or isinstance(service, str | Service),
            "one of them: connect(url, service=...) for each"
            if isinstance(service, list | tuple)
            else f"a name or a Service: {HOW_SERVICE}",
        ),
        ("tags", tags, tags is None or isinstance(tags, Mapping), "a dict, such as {'region': 'eu'}"),
        (
            "ssl",
            ssl,
            ssl is None or isinstance(ssl, tls.SSLContext),
            "left out: tcp:// and ws:// are not encrypted"
            if ssl is False
            else "ssl.create_default_context(cafile=FILE)",
        ),
        (
            "credentials",
            credentials,
            credentials is None
            or isinstance(credentials, Token | Password)
            or (callable(credentials) and not isinstance(credentials, type)),
            _credentials_meant(credentials),
        ),
        ("lease", lease, lease is None or _is_lease(lease), "(requests, seconds), such as (100, 1.0)"),
        (
            "route_id",
            route_id,
            route_id is None or isinstance(route_id, str),
            "text: str(...) of it" if isinstance(route_id, uuid.UUID) else "a UUID as text; a name is instance=",
        ),
        (
            "instance",
            instance,
            instance is None or isinstance(instance, str),
            "a name, such as 'orders-1'",
        ),
        (
            "mime_type",
            mime_type,
            isinstance(mime_type, str),
            f"left out, or {MIME_TYPE_V0!r} for the Java broker",
        ),
    ):
        if not is_right:
            if inspect.iscoroutine(given):
                given.close()  # or Python warns of it, too
            what = repr(given) if isinstance(given, tuple) and name == "lease" else kind_of(given)
            raise TypeError(f"{name}= is {what}, it must be {wanted}")


def _credentials_meant(given: object) -> str:
    if inspect.iscoroutine(given):
        return "the async function itself, without ()"
    if isinstance(given, list | tuple) and len(given) == 2 and str(given[0]).lower() != "bearer":
        return "Password(name, password) of the two"
    return _CREDENTIALS


def _is_lease(given: object) -> bool:
    if not isinstance(given, tuple) or len(given) != 2 or any(isinstance(each, bool) for each in given):
        return False
    return isinstance(given[0], int) and isinstance(given[1], int | float)

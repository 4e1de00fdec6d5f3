"""A service: a name, tags, and handlers for the five interaction models, by route name.

Decides which handler a request gets: the one of its route (the first name of the routing entry in its metadata), else
the one without a name. Knows nothing of connections. RSocket extension "Routing".
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from broker.errors import INVALID, InvalidFrame
from broker.wire.frames import MIME_TYPES, decode_frame
from broker.wire.frames import Address as AddressFrame
from client_sdk.address import Address, route_tags
from client_sdk.errors import Refused
from client_sdk.metadata import OCTET_STREAM_MIME, ROUTING_MIME, read_entries, route_of
from client_sdk.payload import Payload, as_parts

MODELS: Final = ("request_response", "fire_and_forget", "request_stream", "request_channel", "metadata_push")
_STREAMING: Final = ("request_stream", "request_channel")

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Request:
    """One request as a handler sees it.

    >>> Request("request_response", b"hello", None).data
    b'hello'
    """

    __slots__ = ("_entries", "data", "metadata", "model")

    def __init__(self, model: str, data: bytes, metadata: bytes | None) -> None:
        self.model: Final = model  # one of MODELS
        self.data: Final = data  # what the caller gave; for metadata_push the bytes that were pushed
        self.metadata: Final = metadata  # composite, as it came: all entries; None when absent
        self._entries: list[tuple[str, bytes]] | None = None  # None until somebody asks for one

    @property
    def entries(self) -> list[tuple[str, bytes]]:
        """(mime type, content) of each entry of the metadata, in its order."""
        if self._entries is None:
            found = read_entries(self.metadata or b"")
            if found is None:
                raise Refused("bad-metadata", "the metadata of the request is no composite metadata", INVALID)
            self._entries = found
        return self._entries

    def entry(self, mime_type: str) -> bytes | None:
        """The content of the first entry with this mime type; None when there is none."""
        return next((content for name, content in self.entries if name == mime_type), None)

    @property
    def route(self) -> str:
        """The handler's name that the caller gave; empty when it gave none."""
        return route_of(self.entry(ROUTING_MIME) or b"")

    @property
    def address(self) -> Address | None:
        """The address that brought the request here, with the caller's Route Id; None when the broker took it off."""
        for mime_type, content in self.entries:
            if mime_type in MIME_TYPES:
                try:
                    frame = decode_frame(content)
                except InvalidFrame:
                    return None
                return Address(frame) if isinstance(frame, AddressFrame) else None
        return None

    def __repr__(self) -> str:
        return f"<{self.model} {len(self.data)} bytes>"


class _Entry:
    """A handler, and how it wants to be called."""

    __slots__ = ("call", "takes_bytes", "takes_two")

    def __init__(self, handler: Callable[..., Any], takes_bytes: bool, takes_two: bool) -> None:
        self.call: Final = handler
        self.takes_bytes: Final = takes_bytes  # the first parameter is annotated `bytes`
        self.takes_two: Final = takes_two  # a channel's handler wants the request, too


class Service:
    """What a program offers to others: give it to `connect(url, service=...)`.

    A handler takes the `Request`, or only its data when its parameter is annotated `bytes`. It is an async function
    that returns bytes or a Payload; for streams and channels an async generator that yields them. A channel's handler
    takes an async iterator of payloads, the first of which came with the request, or (request, payloads).
    An ApplicationError that it raises reaches the caller; of any other exception only a number does, for the log.
    A handler is cancelled when its caller cancels or is lost.

    >>> orders = Service("orders", tags={"region": "eu"})
    >>> @orders.request_response("create")
    ... async def create(data: bytes) -> bytes:
    ...     return b"created " + data
    """

    def __init__(self, name: str, *, tags: Mapping[str, str | None] | None = None) -> None:
        """BadAddress for tags that cannot be sent; ValueError for a name that is not 1..255 bytes."""
        if not 1 <= len(name.encode()) <= 255:
            raise ValueError(f"service name {name[:40]!r}: has {len(name.encode())} bytes, 1..255 are allowed")
        route_tags(tags)
        self.name: Final = name
        self.tags: Final[dict[str, str | None]] = dict(tags or {})
        self._handlers: Final[dict[str, dict[str, _Entry]]] = {model: {} for model in MODELS}

    def request_response(self, route: str | None = None) -> Callable[[Handler], Handler]:
        """Answers with one payload.

        >>> @Service("echo").request_response()
        ... async def echo(data: bytes) -> bytes:
        ...     return data
        """
        return self._decorator("request_response", route)

    def fire_and_forget(self, route: str | None = None) -> Callable[[Handler], Handler]:
        """Takes a request that has no answer.

        >>> @Service("log").fire_and_forget("line")
        ... async def line(data: bytes) -> None:
        ...     print(data)
        """
        return self._decorator("fire_and_forget", route)

    def request_stream(self, route: str | None = None) -> Callable[[Handler], Handler]:
        """Answers with items; the generator is only asked for as many as the caller takes, and one more.

        >>> @Service("clock").request_stream("ticks")
        ... async def ticks(request: Request):
        ...     for number in range(10):
        ...         yield b"%d" % number
        """
        return self._decorator("request_stream", route)

    def request_channel(self, route: str | None = None) -> Callable[[Handler], Handler]:
        """Takes items and answers with items.

        >>> @Service("echo").request_channel()
        ... async def echo(payloads):
        ...     async for payload in payloads:
        ...         yield payload
        """
        return self._decorator("request_channel", route)

    def metadata_push(self, route: str | None = None) -> Callable[[Handler], Handler]:
        """Takes metadata that belongs to no request.

        >>> @Service("cache").metadata_push("flush")
        ... async def flush(data: bytes) -> None:
        ...     print("flush", data)
        """
        return self._decorator("metadata_push", route)

    def _decorator(self, model: str, route: str | None) -> Callable[[Handler], Handler]:
        if route is not None and not isinstance(route, str):
            raise TypeError(f"write @….{model}() or @….{model}('name'), with parentheses")

        def add(handler: Handler) -> Handler:
            handlers = self._handlers[model]
            if (route or "") in handlers:
                raise ValueError(f"service {self.name!r} has a {model} handler for route {route or ''!r} already")
            handlers[route or ""] = _entry_of(model, handler)
            return handler

        return add

    def _find(self, model: str, request: Request) -> _Entry:
        handlers = self._handlers[model]
        default = handlers.get("")
        if len(handlers) == (0 if default is None else 1) and default is not None:
            return default  # no names: the metadata need not be read
        route = request.route
        entry = handlers.get(route, default)
        if entry is None:
            raise Refused("no-handler", f"service {self.name!r} has no {model} handler for route {route!r}", INVALID)
        return entry


class ServiceResponder:
    """Answers the requests of one connection with the handlers of a service (the engine's `Responder`)."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service

    async def request_response(self, metadata: bytes | None, data: bytes) -> Payload:
        answer = await self._call("request_response", Request("request_response", data, metadata))
        return Payload(*as_parts(answer, "what the request_response handler returned"))

    async def fire_and_forget(self, metadata: bytes | None, data: bytes) -> None:
        await self._call("fire_and_forget", Request("fire_and_forget", data, metadata))

    async def metadata_push(self, metadata: bytes) -> None:
        outer = Request("metadata_push", b"", metadata)
        await self._call("metadata_push", Request("metadata_push", outer.entry(OCTET_STREAM_MIME) or b"", metadata))

    def request_stream(self, metadata: bytes | None, data: bytes) -> AsyncIterator[object]:
        request = Request("request_stream", data, metadata)
        entry = self._service._find("request_stream", request)
        return aiter(entry.call(request.data if entry.takes_bytes else request))

    def request_channel(
        self, metadata: bytes | None, data: bytes, payloads: AsyncIterator[Payload]
    ) -> AsyncIterator[object]:
        request = Request("request_channel", data, metadata)
        entry = self._service._find("request_channel", request)
        return aiter(entry.call(request, payloads) if entry.takes_two else entry.call(payloads))

    def _call(self, model: str, request: Request) -> Awaitable[Any]:
        entry = self._service._find(model, request)
        answer: Awaitable[Any] = entry.call(request.data if entry.takes_bytes else request)
        return answer


def _entry_of(model: str, handler: Callable[..., Any]) -> _Entry:
    """TypeError for a handler that could never work, at the moment when it is written."""
    if model in _STREAMING:
        if inspect.iscoroutinefunction(handler):
            raise TypeError(f"a {model} handler yields its items: an async function with yield, not with return")
    elif not inspect.iscoroutinefunction(handler):
        raise TypeError(f"a {model} handler is an async function: write async def, without yield")
    parameters = list(inspect.signature(handler).parameters.values())
    most_n = 2 if model == "request_channel" else 1
    if not 1 <= len(parameters) <= most_n:
        raise TypeError(f"a {model} handler takes {'1 or 2 parameters' if most_n == 2 else '1 parameter'}")
    return _Entry(handler, parameters[0].annotation in (bytes, "bytes"), len(parameters) == 2)

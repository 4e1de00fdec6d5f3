"""Attributes that a class has not: an AttributeError that says what there is.

Type checkers do not know of it: these report each attribute that is missing.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Never, TypeVar

from client_sdk.mistakes.likeness import near
from client_sdk.mistakes.options import CALLBACKS, NO_CALLBACK

C = TypeVar("C", bound=type)
LIKE: Final = 0.8  # how alike two names are, of 1, before one is proposed for the other
MAKERS: Final = ("connect", "create", "from_url", "open")  # by which other clients are made
_CALLS: Final = "request_response, fire_and_forget, request_stream, request_channel, metadata_push, gather"
_ROUTE: Final = "a route is called by client.request_response(address(SERVICE), b'...', route=ROUTE)"
CLIENT_HAS: Final = (
    f"it has {_CALLS}, subscribe and of; {_ROUTE}, or as a method of client.of(Contract, address(SERVICE))"
)
_ANSWER: Final = "client.request_response(address('orders'), b'...', route='create')"
_TELL: Final = "client.fire_and_forget(address('orders'), b'...', route='create')"
_OF_CLIENTS: Final = {
    **{
        name: f"write {code}"
        for names, code in (
            ("request call ask query invoke rpc execute get post put fetch send_request send_and_receive", _ANSWER),
            ("unary_unary send_task apply_async", _ANSWER),
            ("publish emit send tell cast notify produce enqueue", f"{_TELL}, to all of them with multicast('orders')"),
            ("stream watch listen consume unary_stream", "client.request_stream(address('clock'), b'', route='ticks')"),
            (
                "channel open_channel websocket duplex stream_stream",
                "client.request_channel(address('sums'), items(), route='add')",
            ),
            ("broadcast", f"{_TELL.replace('address', 'multicast')}, or for their answers client.gather(...)"),
        )
        for name in names.split()
    },
    **dict.fromkeys(("connect", "reconnect", "start", "open"), "it is connected, and comes back after a loss"),
    **dict.fromkeys(("ping", "is_open", "is_closed"), "write client.is_connected; keepalives go by themselves"),
    **dict.fromkeys(("connected", "is_running", "is_alive", "is_ready", "ready"), "write client.is_connected"),
    **dict.fromkeys(("url", "uri", "host", "server", "endpoint", "connected_url"), "write client.broker"),
    **dict.fromkeys(("id", "client_id", "uuid"), "write client.route_id"),
    **dict.fromkeys(("error", "last_error"), "write client.reason; what a call meets is raised by the call"),
    **dict.fromkeys(("timeout", "timeout_s"), "write connect(url, timeout_s=...)"),
    "flush": "what is sent leaves by itself: leave it out",
    **dict.fromkeys(CALLBACKS, NO_CALLBACK),
    **dict.fromkeys(
        ("on", "on_message", "on_request", "on_event", "add_handler", "handle", "offer", "serve", "add_service"),
        "handlers are of a Service: connect(url, service=service), with @service.request_response('create')",
    ),
}
CLIENT_HAS_NOT: Final = {
    **_OF_CLIENTS,
    **dict.fromkeys(
        ("stub", "create_stub", "proxy", "get_proxy", "service", "get_service", "bind"),
        "write client.of(Contract, address('orders')), whose methods are calls",
    ),
    **dict.fromkeys(
        ("disconnect", "stop", "quit", "aclose", "shutdown"),
        "write await client.close(), or end its block",
    ),
    **dict.fromkeys(("wait", "join", "wait_closed", "run_forever"), "write await client.closed()"),
    "set_health": "a Service has it: await service.set_health(False)",
}
SYNC_CLIENT_HAS: Final = f"it has {_CALLS} and subscribe; {_ROUTE}"
SYNC_CLIENT_HAS_NOT: Final = {
    **_OF_CLIENTS,
    **dict.fromkeys(("disconnect", "stop", "quit", "shutdown"), "write client.close(), or end the block of with"),
    **dict.fromkeys(("wait", "join", "wait_closed", "run_forever"), "write client.closed()"),
    "of": "write functions that call this client, as docs/sdk/sync.md#contracts shows",
    "as_rsocket": "only the client of an event loop has it: client_sdk.connect",
    "set_health": "a Service has it: asyncio.run(service.set_health(False))",
}
_OF_STREAMS: Final = {
    **dict.fromkeys(("limit_rate", "request", "request_n"), "give the call initial_n="),
    **dict.fromkeys(("take", "limit"), "leave the loop by break"),
    **dict.fromkeys(("send", "put", "write", "publish"), "a channel's items are given: request_channel(to, items())"),
}
FLOW_HAS: Final = "write `async for item in stream:`, or `await anext(stream)` for one item"
FLOW_HAS_NOT: Final = {
    **_OF_STREAMS,
    **dict.fromkeys(("to_list", "collect", "all", "list"), "write [item async for item in stream]"),
    **dict.fromkeys(("cancel", "close", "stop", "unsubscribe", "dispose"), "write `await stream.aclose()`"),
}
ITEMS_HAVE: Final = "write `for item in stream:`, or next(stream) for one item"
ITEMS_HAVE_NOT: Final = {
    **_OF_STREAMS,
    **dict.fromkeys(("to_list", "collect", "all", "list"), "write list(stream)"),
    **dict.fromkeys(("cancel", "aclose", "stop", "unsubscribe", "dispose"), "write stream.close()"),
}
ANSWER_HAS: Final = "an Answer has is_ok, value, data, error, service, route_id and tags"
ANSWER_HAS_NOT: Final = {
    **dict.fromkeys(("ok", "success", "is_error", "failed"), "write answer.is_ok"),
    **dict.fromkeys(("instance", "id", "route", "source", "sender"), "write answer.route_id, or answer.tags"),
    **dict.fromkeys(("result", "payload", "body", "content", "response"), "write answer.value"),
    **dict.fromkeys(("exception", "exc", "message"), "write answer.error"),
    **dict.fromkeys(
        ("raise_for_status", "unwrap", "get"), "write answer.value, which raises answer.error if it has one"
    ),
    **dict.fromkeys(("text", "decode"), "write answer.data.decode()"),
    "json": "write json.loads(answer.data), or give gather returns=",
}
ERROR_HAS_NOT: Final = {
    **dict.fromkeys(("message", "msg", "detail", "details", "reason", "description"), "write error.text"),
    **dict.fromkeys(("status", "status_code", "error_code", "name", "type", "kind"), "write error.word"),
    **dict.fromkeys(("retry", "retryable", "can_retry"), "write error.is_retry_safe"),
}
SERVICE_HAS_NOT: Final = {
    **dict.fromkeys(("run", "start", "listen"), "write run(url, service), in an event loop await serve(url, service)"),
    "serve": "write await serve(url, service), without an event loop run(url, service)",
    **dict.fromkeys(("connect", "register"), "write connect(url, service=service)"),
    **dict.fromkeys(
        ("call", "publish", "emit", "is_connected", "gather"),
        "that is of a client: write `async with connect(url, service=service) as client:`",
    ),
    **dict.fromkeys(("add_tag", "set_tag", "update_tags"), "write await service.set_tags({'region': 'us'})"),
    **dict.fromkeys(("stop", "close", "shutdown"), "write await service.drain()"),
    **dict.fromkeys(
        ("exception_handler", "errorhandler", "error_handler", "abort"),
        "a handler raises ApplicationError('no order 42', word='not-found') for its caller",
    ),
    **dict.fromkeys(
        ("on_startup", "on_shutdown", "on_event", "before_serving", "after_serving", "lifespan"),
        "write it before and behind `await serve(url, service)`",
    ),
    **dict.fromkeys(
        ("include_router", "register_blueprint", "mount", "include"),
        "handlers of other modules are decorated with the same Service, or are service.implement(Contract)(object)",
    ),
}
GROUP_HAS_NOT: Final = {
    **dict.fromkeys(_CALLS.split(", "), "its clients have it: group.clients[0]"),
    "set_tags": "the service has it: await service.set_tags({'region': 'us'})",
    "set_health": "the service has it: await service.set_health(False)",
}


class Made(type):
    """Of a class whose objects a function makes: `Client(url)` and `Client.connect(url)` say which code does."""

    if not TYPE_CHECKING:

        def __call__(cls, *given: object, **named: object) -> object:
            if not given or isinstance(given[0], str | list):
                raise TypeError(f"a {cls.__name__} is made by `{cls._made_by}`")
            return super().__call__(*given, **named)

        def __getattr__(cls, name: str) -> Never:
            how = f"; a {cls.__name__} is made by `{cls._made_by}`" if name in MAKERS else ""
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{how}", name=name, obj=None)


def missing_told(what: str, advice: Mapping[str, str] | None = None) -> Callable[[C], C]:
    """For a class: `what` it has; `advice` by the names that it has not and people try.

    Names that begin with an underscore, which `copy` and `pickle` ask for, are only said to be missing.
    """

    def decorated(kind: C) -> C:
        public = [each for each in dir(kind) if not each.startswith("_")]

        def missing(self: object, name: str) -> Never:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name.startswith("_"):
                raise AttributeError(text, name=name, obj=self)
            said = near(name, public, LIKE) or what
            # Without the object, or Python adds a proposal of its own.
            raise AttributeError(f"{text}; {(advice or {}).get(name, said)}", name=name, obj=None)

        kind.__getattr__ = missing  # type: ignore[attr-defined]
        return kind

    return decorated


def names_told(what: str, code: Mapping[str, str]) -> Callable[[C], C]:
    """For a class whose objects are made and read often: a `__getattr__` would double the time of each read.

    `what`: how errors name it, those of Python, too. `code`: what to write in place of the names that people try.
    """

    def decorated(kind: C) -> C:
        kind.__name__ = kind.__qualname__ = what
        for name in code:
            setattr(kind, name, _Missing(f"{what!r} object has no attribute {name!r}; write {code[name]}", name))
        return kind

    return decorated


class _Missing:
    """No property, of which documents would tell."""

    def __init__(self, text: str, name: str) -> None:
        self._told: Final = (text, name)

    def __get__(self, thing: object, kind: type) -> "_Missing":
        if thing is None:
            return self
        text, name = self._told
        raise AttributeError(text, name=name, obj=None)

    def __set__(self, thing: object, value: object) -> Never:
        self.__get__(thing, type(thing))
        raise AssertionError

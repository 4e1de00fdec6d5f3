"""How a handler is called: what it takes, in which codec, how many at a time, in a thread or not.

All that can be known of a function is looked up when it is written (`handler_of`): per request nothing is inspected.
Does not know which handler a request gets, that is `routes`'.
"""

import asyncio
import contextlib
import functools
import inspect
import types
import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from client_sdk.codecs import BYTES, Codec, JsonCodec
from client_sdk.errors import ApplicationError, Refused
from client_sdk.mistakes.handlers import (
    CONTEXTS,
    RETURNED,
    check_injected,
    reading_advice,
    took_request,
    unbound_advice,
    warn_class,
    warn_context,
    warn_dropped,
)
from client_sdk.mistakes.kinds import kind_of
from client_sdk.mistakes.operators import one_by_one
from client_sdk.payload import Payload, Received
from client_sdk.services.limits import MAX_WAITING, Limit
from client_sdk.services.request import Request
from client_sdk.services.threads import MAX_THREADS, Threads
from rsocket_wire.errors import INVALID
from rsocket_wire.models import FIRE_AND_FORGET, METADATA_PUSH, REQUEST_CHANNEL, STREAMS

# What the body of a handler is: of a channel each item, else the only data.
AS_REQUEST: Final = 0  # not for items; what is not annotated, or with `Any` where there is no codec
AS_DATA: Final = 1
AS_PAYLOAD: Final = 2
AS_VALUE: Final = 3  # what the codec makes of the bytes

# Which parameters there are.
BODY: Final = 0
BODY_REQUEST: Final = 1
REQUEST_BODY: Final = 2
NO_PARAMETER: Final = 3

_ITERATORS: Final = (AsyncIterator, AsyncIterable, AsyncGenerator)
_UNKNOWN: Final = inspect.Parameter.empty
# Names in annotations that a module may import for type checkers only.
_KNOWN: Final = {each.__name__: each for each in (*_ITERATORS, Payload, Request)}


class Handler:
    """A function of the program, and how it wants to be called."""

    def __init__(
        self,
        model: str,
        name: str,
        function: Callable[..., Any],
        shape: "Shape",
        codecs: Sequence[Codec],
        limit: Limit | None,
        threads: Threads | None,
    ) -> None:
        self.model: Final = model
        self.name: Final = name  # for people
        self.returned: Final = f"{RETURNED}{name} returned"
        self.function: Final = function
        self.body: Final = shape.body
        self.type: Final = shape.type
        self.order: Final = shape.order
        self.codecs: Final = tuple(codecs)  # the first one is the usual one; never empty
        self.limit: Final = limit  # None: as many as come
        self.threads: Final = threads  # None: it runs in the event loop
        # An async function of bytes or the request that gives bytes: no more to it than to call it.
        self.is_plain: Final = (
            limit is None
            and threads is None
            and shape.order == BODY
            and shape.body in (AS_REQUEST, AS_DATA)
            and self.codecs == (BYTES,)
        )

    @property
    def has_values(self) -> bool:
        """What it gives goes through a codec."""
        return self.codecs != (BYTES,)

    def codec_of(self, request: Request) -> Codec:
        """The one for the data of this request; INVALID `bad-payload:` when there is none for what the caller says."""
        codecs = self.codecs
        if len(codecs) == 1:
            return codecs[0]
        mime_type = request.data_mime
        # What a connection says when it says nothing: no caller means it.
        if mime_type in ("", BYTES.mime_type):
            return next((codec for codec in codecs if codec.mime_type == mime_type), codecs[0])
        for codec in codecs:
            if codec.mime_type == mime_type:
                return codec
        known = ", ".join(codec.mime_type for codec in codecs)
        text = f"{self.name}: data of {mime_type[:128]} is not supported; send {known}"
        raise Refused("bad-payload", text, INVALID)

    def arguments(self, request: Request, items: AsyncIterator[Payload] | None, codec: Codec) -> tuple[Any, ...]:
        """For the function; `items` of a channel, else None. INVALID `bad-payload:` for data that does not fit."""
        body: Any
        if items is not None:
            body = items if self.body == AS_PAYLOAD else Items(items, codec, self.type, self.name)
        elif self.body == AS_REQUEST:
            body = request
        elif self.body == AS_DATA:
            body = request.data
        elif self.body == AS_PAYLOAD:
            body = Received(request.data, request.metadata)
        else:
            body = decoded(codec, request.data, self.type, self.name)
        if self.order == BODY:
            return (body,)
        if self.order == NO_PARAMETER:
            return ()
        return (body, request) if self.order == BODY_REQUEST else (request, body)

    def note(self, error: BaseException) -> None:
        """The function has failed: the log says behind the traceback which one, and what a request that it took for
        bytes has.
        """
        has_no_word = isinstance(error, ApplicationError) and error.word == ApplicationError.default_word
        is_answered = self.model not in (FIRE_AND_FORGET, METADATA_PUSH)
        if has_no_word and is_answered and type(error) is not ApplicationError:
            warn_class(type(error).__name__)
        if not isinstance(error, Exception) or isinstance(error, Refused | ApplicationError):
            return  # which no log has
        text = ""
        if isinstance(error, TypeError | AttributeError) and self.body == AS_REQUEST and self.order == BODY:
            first = next(iter(inspect.signature(self.function).parameters))
            text = took_request(first, error) if "Request" in str(error) else ""
        for each in filter(None, (self.name, text)):
            if each not in getattr(error, "__notes__", ()):
                error.add_note(each)

    async def call(self, request: Request) -> Any:
        """What it gives for this request, when it is its turn; for the models with at most one answer."""
        limit = self.limit
        if limit is not None and not limit.try_enter():
            await limit.wait_for_turn()
        lent: Lent | None = None  # set when the turn is a thread's, until that has returned
        try:
            codec = self.codec_of(request)
            arguments = self.arguments(request, None, codec)
            if self.threads is None:
                value = await self.function(*arguments)
            else:
                assert limit is not None  # `handler_of`: there are no threads without
                lending = Lent(limit)
                result = self.threads.start(functools.partial(self.function, *arguments), lending.ended)
                lending.result = result
                lent = lending
                value = await result
                if inspect.isawaitable(value):  # a function that is async and does not look so
                    value = await value
        except Exception as error:
            self.note(error)
            raise
        finally:
            if limit is not None and (lent is None or lent.is_back):
                limit.leave()
        return encoded(codec, value)


class Lent:
    """A turn that a thread has. It comes back when what the thread gave has yet to be awaited, else it ends there."""

    __slots__ = ("_limit", "is_back", "result")

    def __init__(self, limit: Limit) -> None:
        self._limit: Final = limit
        self.result: asyncio.Future[Any] | None = None  # None until the thread has begun
        self.is_back = False  # who has waited for the thread owes the `leave`

    def ended(self) -> None:
        """The thread has returned."""
        result = self.result
        is_given = result is not None and result.done() and not result.cancelled() and result.exception() is None
        if result is not None and is_given and inspect.isawaitable(result.result()):
            self.is_back = True
        else:
            self._limit.leave()


class Items:
    """The items of a caller's channel as bytes or values, made of them one by one as they are taken."""

    __slots__ = ("_codec", "_name", "_payloads", "_type")

    def __init__(self, payloads: AsyncIterator[Payload], codec: Codec, type: Any, name: str) -> None:
        """`name`: of the handler, for people."""
        self._payloads: Final = payloads
        self._codec: Final = codec
        self._type: Final = type
        self._name: Final = name

    def __aiter__(self) -> "Items":
        return self

    if not TYPE_CHECKING:
        __iter__ = __next__ = __getitem__ = __await__ = one_by_one

    async def __anext__(self) -> Any:
        """Raises INVALID `bad-payload:` for an item that does not fit, and then the caller gets that."""
        payload = await anext(self._payloads)
        return decoded(self._codec, payload.data or b"", self._type, self._name)


class Shape(NamedTuple):
    """What a function takes, as its signature says."""

    body: int
    type: Any  # of the values; bytes when there are none
    order: int


def decoded(codec: Codec, data: bytes, type: Any, name: str) -> Any:
    """A value; INVALID `bad-payload:` with the handler's name and the codec's sentence when the data does not fit."""
    if codec is BYTES:
        return data
    try:
        return codec.decode(data, type)
    except ValueError as error:
        text = f"{name}: {error}{reading_advice(codec.mime_type, str(error), data, type)}"
        raise Refused("bad-payload", text, INVALID) from None
    except Exception as error:
        error.add_note(f"{codec.__class__.__name__}.decode() raised it: for data that it cannot read, it is ValueError")
        raise


def encoded(codec: Codec, value: Any) -> Any:
    """What goes out: bytes and Payload are what they are, anything else goes through the codec."""
    if isinstance(value, (bytes, Payload)) or codec is BYTES:
        return value
    return codec.encode(value)


def handler_of(
    model: str,
    name: str,
    function: Callable[..., Any],
    codecs: Sequence[Codec],
    max_concurrency: int | None,
    max_waiting: int,
    shape: Shape | None = None,
) -> Handler:
    """TypeError for a function that could never work, at the moment when it is written; `name` is for callers.

    `shape`: what it takes, where a contract says that; None: its signature does.
    """
    if not callable(function) or isinstance(function, type):
        what = kind_of(function)
        raise TypeError(f"a handler is a function, not {what}: write @….{model}('name') before `async def`")
    threads = None
    is_sync = not is_of(inspect.iscoroutinefunction, function)
    if model in STREAMS:
        if not is_sync:
            raise TypeError(f"a {model} handler yields its items: an async function with yield, not with return")
        is_sync = is_of(inspect.isgeneratorfunction, function)
        if is_sync and model == REQUEST_CHANNEL:
            raise TypeError(f"a {model} handler is an async function: write async def, with yield")
    elif is_of(inspect.isasyncgenfunction, function) or is_of(inspect.isgeneratorfunction, function):
        is_silent = model in (FIRE_AND_FORGET, METADATA_PUSH)
        gives = "no answer: leave yield out" if is_silent else "one answer: write return in place of yield"
        raise TypeError(f"a {model} handler gives {gives}, or make it a request_stream handler")
    if is_sync:
        threads = Threads(name)
        max_concurrency = MAX_THREADS if max_concurrency is None else max_concurrency
    if max_concurrency is None and max_waiting != MAX_WAITING:
        raise ValueError("max_waiting= needs max_concurrency=, without which none waits: write max_concurrency=8, too")
    limit = None if max_concurrency is None else Limit(max_concurrency, max_waiting, name)
    check_injected(model, function, hints_of(function))
    is_of_contract = shape is not None
    shape = shape or _shape_of(model, function)
    if shape.type in (Any, object) and tuple(codecs) == (BYTES,):
        shape = Shape(AS_PAYLOAD if model == REQUEST_CHANNEL else AS_REQUEST, bytes, shape.order)
    if shape.body == AS_VALUE:
        check_type(shape.type, codecs)
    if model in (FIRE_AND_FORGET, METADATA_PUSH) and not is_of_contract:
        warn_dropped(model, name, hints_of(function).get("return"))
    if model in (FIRE_AND_FORGET, METADATA_PUSH) and shape.body != AS_VALUE:
        codecs = (BYTES,)  # nothing to write, nothing to read
    return Handler(model, name, function, shape, codecs, limit, threads)


def _shape_of(model: str, function: Callable[..., Any]) -> Shape:
    hints = hints_of(function)
    # Those that have to be given: others are the program's own.
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is _UNKNOWN and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if parameters and parameters[0].name in ("self", "cls"):
        raise TypeError(f"a {model} handler takes no {parameters[0].name}: {unbound_advice(model, function)}")
    if not 1 <= len(parameters) <= 2 or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters):
        raise TypeError(
            f"a {model} handler takes 1 or 2 parameters, not {len(parameters)}: write (data: bytes), "
            "(request: Request) or both"
        )
    types = [hints.get(parameter.name, parameter.annotation) for parameter in parameters]
    places = [place for place, type in enumerate(types) if type is Request or type == "Request"]
    if len(parameters) == 1:
        if model == REQUEST_CHANNEL:
            return _shape_of_items(types[0], BODY)
        return Shape(AS_REQUEST, bytes, BODY) if places or types[0] is _UNKNOWN else _shape_of_body(types[0], BODY)
    if model == REQUEST_CHANNEL and not places:
        places = [0]  # (request, payloads)
    if len(places) != 1:
        how = "one value, beside it the request: put several into one dataclass, or write `request: Request` for one"
        if parameters[1].name in CONTEXTS:
            how = f"no {parameters[1].name}: leave it out, or put several values into one dataclass; "
            how += "`request: Request` has data, metadata and caller"
        raise TypeError(f"a {model} handler with 2 parameters takes {how}")
    order = REQUEST_BODY if places == [0] else BODY_REQUEST
    body = types[1 - places[0]]
    if order == REQUEST_BODY and body is _UNKNOWN and parameters[1].name in CONTEXTS:
        warn_context(model, parameters[1].name)
    return _shape_of_items(body, order) if model == REQUEST_CHANNEL else _shape_of_body(body, order)


def _shape_of_body(type: Any, order: int) -> Shape:
    if type is Payload or type == "Payload":
        return Shape(AS_PAYLOAD, bytes, order)
    if type is bytes or type == "bytes" or type is _UNKNOWN:
        return Shape(AS_DATA, bytes, order)
    return Shape(AS_VALUE, type, order)


def _shape_of_items(type: Any, order: int) -> Shape:
    if isinstance(type, str):
        check_type(type, ())
    _check_items(type)
    if typing.get_origin(type) in _ITERATORS:
        of = tuple(map(_bare, typing.get_args(type)))
        if of and of[0] is bytes:
            return Shape(AS_DATA, bytes, order)
        if of and of[0] is not Payload:
            return Shape(AS_VALUE, of[0], order)
    return Shape(AS_PAYLOAD, bytes, order)


def _check_items(annotation: Any) -> None:
    """TypeError for a class whose objects have no items."""
    kind = typing.get_origin(annotation) or annotation
    if kind in (_UNKNOWN, Any, object, types.UnionType) or not isinstance(kind, type) or hasattr(kind, "__aiter__"):
        return
    of = "bytes" if kind is Request else kind.__name__
    raise TypeError(f"a request_channel handler takes its items: write (items: AsyncIterator[{of}])")


def check_type(type: Any, codecs: Sequence[Codec]) -> None:
    if isinstance(type, str):
        raise TypeError(
            f"the type {type!r} cannot be resolved where the handler is defined; define it at the top of the module"
        )
    for codec in codecs:
        if codec is BYTES and len(codecs) == 1:
            name = getattr(type, "__name__", None) or repr(type)
            raise TypeError(
                f"bytes cannot be decoded as {name}; give the handler or its service a codec, for example JSON"
            )
        if isinstance(codec, JsonCodec):
            codec.check(type)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations as types; those that cannot be found stay what they are, text.

    One by one: what only type checkers import (often that which a handler returns) does not hide the others.
    """
    while isinstance(function, functools.partial):
        function = function.func
    of = function if inspect.isroutine(function) else type(function).__call__
    names = {**_KNOWN, **getattr(inspect.unwrap(of), "__globals__", {})}
    hints: dict[str, Any] = {}
    for name, annotation in getattr(of, "__annotations__", {}).items():
        one = SimpleNamespace(__annotations__={name: annotation})
        with contextlib.suppress(NameError, TypeError, AttributeError, SyntaxError):
            hints[name] = _bare(typing.get_type_hints(one, names, include_extras=True)[name])
    return hints


def _bare(type: Any) -> Any:
    """Remarks (`Annotated`) are for codecs: of what needs none they mean nothing."""
    if typing.get_origin(type) is typing.Annotated and typing.get_args(type)[0] in (bytes, Payload, Request):
        return typing.get_args(type)[0]
    return type


def is_of(test: Callable[[Any], bool], function: Callable[..., Any]) -> bool:
    """Of a function, or an object that is called like one."""
    while isinstance(function, functools.partial):
        function = function.func
    return test(function) or test(type(function).__call__)

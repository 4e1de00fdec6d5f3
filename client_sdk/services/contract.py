"""A contract: a Protocol class, whose methods say what a service does for its callers.

    class Orders(Protocol):
        async def create(self, order: Order) -> Receipt: ...                         request/response
        @idempotent
        async def find(self, number: int) -> Order: ...                              the same, which may run twice
        @fire_and_forget
        async def note(self, line: str) -> None: ...                                 fire-and-forget
        def watch(self, order: Order) -> AsyncIterator[str]: ...                     stream
        def price(self, items: AsyncIterator[str]) -> AsyncIterator[int]: ...        channel

The name of a method is its route. Decides which classes are contracts; does not know codecs, nor who implements one.
"""

import functools
import inspect
import typing
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
from typing import Any, Final, NamedTuple, TypeVar

from client_sdk.mistakes.arguments import advised
from client_sdk.mistakes.handlers import CONTEXTS
from client_sdk.payload import Payload
from client_sdk.services.handlers import hints_of
from rsocket_wire.models import FIRE_AND_FORGET, REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM

MAX_KEPT: Final = 256  # contracts that were read; more of them are read each time
NOTHING: Final = type(None)  # what a method gives that gives no value
_ITERATORS: Final = (AsyncIterator, AsyncIterable)
_MARK: Final = "_rsocket_model"
_TWICE: Final = "_rsocket_idempotent"
_ABSENT: Final = inspect.Parameter.empty

Asked = TypeVar("Asked", bound=Callable[..., Any])
Told = TypeVar("Told", bound=Callable[..., Coroutine[Any, Any, None]])


class Parameter(NamedTuple):
    """What a method takes."""

    name: str
    type: Any  # of the value; of a channel, of each item
    default: Any  # `inspect.Parameter.empty` when it has to be given


class Method(NamedTuple):
    """One method of a contract."""

    name: str  # its route, too
    model: str
    parameter: Parameter | None  # None: it takes nothing
    gives: Any  # the type of the answer, or of each item; NOTHING without
    is_idempotent: bool = False  # it may run twice


class Contract(NamedTuple):
    """A class that was read, its methods by name."""

    name: str
    methods: dict[str, Method]


@advised("@fire_and_forget")
def fire_and_forget(method: Told) -> Told:
    """Marks a method of a contract whose callers wait for no answer, and get no error.

    >>> from typing import Protocol
    >>> class Log(Protocol):
    ...     @fire_and_forget
    ...     async def line(self, text: str) -> None: ...
    """
    _check_marked(method, "fire_and_forget")
    setattr(method, _MARK, FIRE_AND_FORGET)
    return method


@advised("@idempotent")
def idempotent(method: Asked) -> Asked:
    """Marks a method of a contract that may run twice: it is also tried again when nobody knows how it ended (`retry`),
    and asked a second time when the answer is late (`hedging`). For answers and streams.

    >>> from typing import Protocol
    >>> class Stock(Protocol):
    ...     @idempotent
    ...     async def count(self, item: str) -> int: ...
    """
    _check_marked(method, "idempotent")
    setattr(method, _TWICE, True)
    return method


def _check_marked(method: object, mark: str) -> None:
    if not inspect.isfunction(method):
        how = f"write @{mark} before a method of a contract, without parentheses"
        handler = "; a handler is decorated with @service.fire_and_forget('name')" if mark == "fire_and_forget" else ""
        raise TypeError(f"@{mark} is for functions, not for {method!r}: {how}{handler}")


@functools.lru_cache(maxsize=MAX_KEPT)
def read_contract(contract: Any) -> Contract:
    """TypeError for a class that is none, with the name of the method that stands in the way."""
    if not isinstance(contract, type):
        what = type(contract).__name__
        raise TypeError(f"an object of {what} is no contract: it must be a class, such as class Orders(Protocol)")
    name = contract.__name__
    if not getattr(contract, "_is_protocol", False):
        bases = [base.__name__ for base in contract.__mro__ if getattr(base, "_is_protocol", False)]
        own = [base for base in bases if base != "Protocol"][:1]
        one = own[0] if own else "the one that it implements"
        how = f"class {name}({', '.join([*own, 'Protocol'])})"
        raise TypeError(f"{name} is no contract: give {one}, or, if it is to be one itself, write {how}")
    members: dict[str, Any] = {}
    for base in reversed(contract.__mro__):
        if base not in (object, typing.Protocol, typing.Generic):
            members |= dict.fromkeys(inspect.get_annotations(base)) | dict(vars(base))
    members = {each: member for each, member in members.items() if not each.startswith("_")}
    if not members:
        raise TypeError(f"{name} is no contract: it has no methods, such as async def add(self, n: int) -> int")
    return Contract(name, {each: _method_of(f"{name}.{each}", each, member) for each, member in members.items()})


def _method_of(shown: str, name: str, function: Any) -> Method:
    if not inspect.isfunction(function):
        raise TypeError(f"{shown} is no method, and a contract has nothing but methods: take it out of the class")
    hints, signature = hints_of(function), inspect.signature(function)
    parameter = _parameter_of(shown, signature, hints)
    gives, gives_items = _type_of(shown, "what it returns", hints.get("return", signature.return_annotation))
    taken, takes_items = (None, False)
    if parameter is not None:
        taken, takes_items = _type_of(shown, f"what {parameter.name} is", parameter.type)
        parameter = parameter._replace(type=taken)
    is_told = getattr(function, _MARK, None) == FIRE_AND_FORGET
    is_twice = getattr(function, _TWICE, False)
    is_async = inspect.iscoroutinefunction(function)
    if is_told and (gives is not NOTHING or takes_items or not is_async):
        raise TypeError(f"{shown} is @fire_and_forget: it must be async def, take one value and return None")
    if is_twice and (is_told or takes_items):
        raise TypeError(f"{shown} is @idempotent: it must give an answer or a stream, nothing else is tried again")
    if is_told:
        return Method(name, FIRE_AND_FORGET, parameter, NOTHING)
    if gives_items:
        if is_async:
            raise TypeError(f"{shown} returns an AsyncIterator: write def without async, nothing is awaited before it")
        return Method(name, REQUEST_CHANNEL if takes_items else REQUEST_STREAM, parameter, gives, is_twice)
    if takes_items:
        raise TypeError(f"{shown} takes an AsyncIterator, so it must return one, too")
    if not is_async:
        raise TypeError(f"{shown} must be async def for one answer, or return an AsyncIterator for a stream")
    return Method(name, REQUEST_RESPONSE, parameter, gives, is_twice)


def _parameter_of(shown: str, signature: inspect.Signature, hints: dict[str, Any]) -> Parameter | None:
    """What it takes besides `self`."""
    parameters = list(signature.parameters.values())
    if not parameters or (parameters[0].name != "self" and parameters[0].annotation is not _ABSENT):
        takes = ", ".join(["self", *map(str, parameters)])
        raise TypeError(f"{shown} has no self, and a contract has nothing but methods: write ({takes})")
    if not parameters[1:]:
        return None
    first = parameters[1]
    if len(parameters) > 2 or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        names = ", ".join(str(each).partition(":")[0] for each in parameters[1:])
        how = "put several into one dataclass"
        if parameters[-1].name in CONTEXTS:
            how = f"leave {parameters[-1].name} out, or {how}"
        raise TypeError(f"{shown} takes {names}: it must be one value; {how}")
    return Parameter(first.name, hints.get(first.name, first.annotation), first.default)


def _type_of(shown: str, what: str, hint: Any) -> tuple[Any, bool]:
    """The type of a value, or of the items of an AsyncIterator, and whether there are items."""
    items = typing.get_origin(hint) in _ITERATORS
    if items:
        hint = typing.get_args(hint)[0]
    if hint is _ABSENT or hint in _ITERATORS:
        raise TypeError(f"{shown} does not say {what}: annotate it with the type, such as int")
    if isinstance(hint, str):
        raise TypeError(f"{shown}: the type {hint!r} cannot be found; define it at the top of the module")
    if hint is Payload:
        raise TypeError(f"{shown}: a Payload is no value; use bytes, or a type that the codec has")
    return hint, items

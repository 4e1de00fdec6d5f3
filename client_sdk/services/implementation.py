"""An object that does what a contract says: looked at once, when its service is made.

Decides whether an object fits a contract, and how its methods are called. Which requests they get is `routes`'s.
"""

import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from client_sdk.codecs import BYTES, Codec
from client_sdk.services.contract import NOTHING, Contract, Method
from client_sdk.services.handlers import (
    AS_DATA,
    AS_REQUEST,
    AS_VALUE,
    BODY,
    BODY_REQUEST,
    NO_PARAMETER,
    Shape,
    check_type,
    hints_of,
    is_of,
)
from client_sdk.services.request import Request
from rsocket_wire.models import REQUEST_RESPONSE, STREAMS


class Part(NamedTuple):
    """A method of the object, as a handler."""

    model: str
    route: str
    function: Callable[..., Any]
    shape: Shape


def parts_of(contract: Contract, implementation: object, codecs: Sequence[Codec]) -> Iterator[Part]:
    """All of its methods; TypeError with one sentence for an object, or a codec, that does not fit."""
    owner = type(implementation).__name__
    if isinstance(implementation, type):
        name = implementation.__name__
        raise TypeError(f"{name} is a class: implement({contract.name}) takes an object, such as {name}()")
    missing = [name for name in contract.methods if not _has_method(implementation, name)]
    if missing:
        raise TypeError(f"{owner} has no method {', '.join(missing)}, which {contract.name} has: add it to {owner}")
    for name, method in contract.methods.items():
        parameter = method.parameter
        try:
            for each in (parameter.type if parameter else NOTHING, method.gives):
                if each is not bytes and each is not NOTHING:
                    check_type(each, codecs)
        except TypeError as error:
            raise TypeError(f"{contract.name}.{name}: {error}") from None
        function = getattr(implementation, name)
        shape = _shape_of(f"{owner}.{name}", f"{contract.name}.{name}", method, function)
        if method.model == REQUEST_RESPONSE and method.gives is NOTHING and tuple(codecs) == (BYTES,):
            function = _Done(function)
        yield Part(method.model, name, function, shape)


def _has_method(implementation: object, name: str) -> bool:
    """A body of `...`, which its class has from a Protocol, is none."""
    method = getattr(implementation, name, None)
    function = getattr(method, "__func__", None)
    code = getattr(function, "__code__", None)
    protocols = [vars(each) for each in type(implementation).__mro__ if getattr(each, "_is_protocol", False)]
    if code is None or not any(each.get(name) is function for each in protocols):
        return callable(method)
    gives_value = not {None, ..., function.__doc__}.issuperset(code.co_consts)
    return gives_value or code.co_code[::2] not in [each.__code__.co_code[::2] for each in (_stub, _async_stub)]


def _stub() -> None: ...


async def _async_stub() -> None: ...


class _Done:
    """A function that gives nothing, as a handler of bytes: its answer is empty."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function: Final = function

    async def __call__(self, *arguments: Any) -> bytes:
        await self._function(*arguments)
        return b""


def _shape_of(shown: str, wanted: str, method: Method, function: Callable[..., Any]) -> Shape:
    """What the function takes; TypeError for one that could not be called as the contract says."""
    if method.model in STREAMS:
        if is_of(inspect.iscoroutinefunction, function) or is_of(inspect.isgeneratorfunction, function):
            raise TypeError(f"{shown} must give an AsyncIterator, as {wanted} does: async def with yield")
    elif not is_of(inspect.iscoroutinefunction, function):
        raise TypeError(f"{shown} must be async def, as {wanted} is")
    hints = hints_of(function)
    parameter = method.parameter
    given_n = 0 if parameter is None else 1
    takes = "no argument: write (self)" if parameter is None else f"one argument: write (self, {parameter.name})"
    try:
        signature = inspect.signature(function)
    except ValueError:  # a method without `self`
        raise TypeError(f"{shown}() does not fit {wanted}, which gives it {takes}") from None
    own = list(signature.parameters.values())
    wants_request = len(own) > given_n and _is_request(hints.get(own[given_n].name))
    try:
        signature.bind(*[None] * (given_n + wants_request))
    except TypeError:
        raise TypeError(f"{shown}{signature} does not fit {wanted}, which gives it {takes}") from None
    _check_fit(shown, wanted, _item_of(hints.get("return")), method.gives, is_taken=False)
    if parameter is None:
        return Shape(AS_REQUEST, bytes, BODY) if wants_request else Shape(AS_DATA, bytes, NO_PARAMETER)
    _check_fit(shown, wanted, _item_of(hints.get(own[0].name)), parameter.type, is_taken=True)
    return Shape(
        AS_DATA if parameter.type is bytes else AS_VALUE,
        parameter.type,
        BODY_REQUEST if wants_request else BODY,
    )


def _check_fit(shown: str, wanted: str, own: Any, of_contract: Any, *, is_taken: bool) -> None:
    """TypeError for classes that cannot be the same; what type checkers know better is left to them."""
    if not isinstance(own, type) or not isinstance(of_contract, type) or object in (own, of_contract):
        return
    if typing.get_origin(own) or typing.get_origin(of_contract):
        return
    narrow, wide = (of_contract, own) if is_taken else (own, of_contract)
    if not issubclass(narrow, wide) and not typing.is_typeddict(wide) and not typing.is_typeddict(narrow):
        verb = "takes" if is_taken else "gives"
        text = f"{shown} {verb} {own.__name__}, and {wanted} {verb} {of_contract.__name__}"
        raise TypeError(f"{text}: both must have the same type")


def _item_of(hint: Any) -> Any:
    """Of an iterator its items, else the type itself."""
    arguments = typing.get_args(hint)
    is_items = getattr(typing.get_origin(hint), "__name__", "") in ("AsyncIterator", "AsyncIterable", "AsyncGenerator")
    return arguments[0] if is_items and arguments else hint


def _is_request(hint: Any) -> bool:
    return hint is Request or Request in typing.get_args(hint)

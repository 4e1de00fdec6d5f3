"""Arguments that do not fit a function.

Decides what is said. What a value must be is checked where it is used.
"""

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypedDict, TypeVar, cast, is_typeddict

from client_sdk.mistakes.kinds import check_kinds, kinds_of
from client_sdk.mistakes.options import FUNCTIONS, MAX_OPTIONS, unknown_option

F = TypeVar("F", bound=Callable[..., Any])
SERVE_SEVERAL: Final = "several are served by `await asyncio.gather(serve(url, a), serve(url, b))` in an async function"

# What a text behind the name of a service may mean, by the function.
SECOND_TEXT: Final = {
    "address": "; a route is route= of the call, and another service has an address of its own",
    "multicast": "; a route is route= of the call, and several services have a tag in common, multicast(kind='store')",
    "shard": "; key= names the tag by whose value the route is chosen",
}


class NoOptions(TypedDict):
    """What a function takes as `**options` that knows all of its options by name: type checkers report any other."""


def advised(example: str, options: Any = None, *, is_hot: bool = True) -> Callable[[F], F]:
    """`example`: the function as it should be called. `options`: the TypedDict of its `**options`, if it has them.

    `is_hot`: it is called for each request, so the kinds of its arguments are not checked here.
    """

    def decorated(function: F) -> F:
        code = function.__code__
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        is_open = bool(code.co_flags & inspect.CO_VARKEYWORDS) and options is None  # any name is right
        known = frozenset(own) | frozenset(options.__annotations__ if is_typeddict(options) else ())
        name = function.__qualname__.removesuffix(".__init__")
        FUNCTIONS.setdefault(name, known)
        kinds = {} if is_hot else kinds_of(function)

        def look(given: tuple[object, ...], named: Mapping[str, object]) -> None:
            if not is_open and not known.issuperset(named):
                unknown = next(each for each in named if each not in known)
                is_addressed = own[1:2] != ("address",) or len(given) > 1 or "address" in named
                raise unknown_option(
                    f"{name}()", unknown, known, example, is_addressed=is_addressed, named=named
                ) from None
            if kinds:
                check_kinds(
                    kinds,
                    {**dict(zip(own, given, strict=False)), **named},
                    example if len(known) <= MAX_OPTIONS else "",
                )

        def explain(given: tuple[object, ...], named: Mapping[str, object]) -> None:
            """After a TypeError that the function itself may have raised, too."""
            try:
                inspect.signature(function).bind(*given, **named)
            except TypeError as error:
                if is_open and "positional only" in str(error):  # `bind` takes a tag of this name for the parameter
                    return
                text = str(error).replace(" keyword-only", "")  # as of Python 3.14
                code = _with_port(example, *given[:2]) if own[0] == "urls" and len(given) > 1 else example
                if len(given) > 1 and isinstance(given[1], str):
                    text += SECOND_TEXT.get(name, "")
                if [type(each).__name__ for each in given[1:3]] == ["Service", "Service"]:
                    raise TypeError(f"{name}() takes one Service: {SERVE_SEVERAL}") from None
                raise TypeError(f"{name}(): {text}; write `{code}`") from None

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call(*given: object, **named: object) -> Any:
                look(given, named)
                try:
                    return await function(*given, **named)
                except TypeError:
                    explain(given, named)
                    raise
        else:

            @functools.wraps(function)
            def call(*given: object, **named: object) -> Any:
                look(given, named)
                try:
                    return function(*given, **named)
                except TypeError:
                    explain(given, named)
                    raise

        return cast("F", call)

    return decorated


def looks_itself(method: F) -> F:
    """For a method that calls `wrong_call` in place of `advised`, which would cost each call: Python would look first
    whether there is an address.
    """
    function = cast("Any", method)
    function.__signature__ = inspect.signature(function)  # as it is written, for whoever asks
    function.__defaults__ = (None, *function.__defaults__)
    return method


def wrong_call(
    function: Callable[..., Any], address: object, data: object, given: tuple[object, ...], named: Iterable[str]
) -> TypeError:
    """For a call that takes an address and `data`, and all else by name; it was `given` more, or another name."""
    code, name = function.__code__, function.__qualname__
    for each in named:
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        example = f"client.{function.__name__}(address('orders'), b'...', route='create')"
        return unknown_option(f"{name}()", each, known, example, is_addressed=address is not None, named=named)
    text = f"{name}() takes the address and the data, then names only"
    return TypeError(f"{text}; write {function.__name__}(to, {_by_name(data, given[0])})")


def takes(function: Callable[..., object], arguments_n: int) -> bool:
    """It can be called with so many arguments, as far as it says."""
    try:
        signature = inspect.signature(function)
    except Exception:  # one of C says nothing, and Python 3.14 looks for the types that are named
        return True
    try:
        signature.bind(*range(arguments_n))
    except TypeError:
        return False
    return True


def _with_port(example: str, host: object, port: object) -> str:
    """The example; with the URL of a host and a port that were given as two arguments."""
    if not isinstance(host, str) or not str(port).isdecimal():
        return example
    url = repr(f"{host}:{port}" if "://" in host else f"tcp://{host}:{port}")
    return example.replace("url", url, 1).replace(", service=...", "")


def _by_name(data: object, given: object) -> str:
    """How `data` and what was `given` behind it should stand."""
    if isinstance(data, str) and not isinstance(given, str):  # the route came first
        return f"{reprlib.repr(given)}, route={reprlib.repr(data)}"
    if isinstance(given, type):
        return f"data, returns={given.__name__}"
    if isinstance(given, int | float) and not isinstance(given, bool) and isinstance(data, bytes):
        return f"data, timeout_s={given}"
    if not isinstance(given, str | bytes) and not isinstance(data, bytes):
        return "data) with one value as data, such as a dataclass of several, and names behind it (route='...'"
    if isinstance(given, str) and not isinstance(data, str):
        return f"data, route={reprlib.repr(given)}"
    return "data, route='...'"

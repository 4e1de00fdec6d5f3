"""Arguments that do not fit a function.

Decides what is said. What a value must be is checked where it is used.
"""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypedDict, TypeVar, cast, is_typeddict

F = TypeVar("F", bound=Callable[..., Any])

LIKE: Final = 0.65  # how alike two names are, of 1, before one is proposed for the other


class NoOptions(TypedDict):
    """What a function takes as `**options` that knows all of its options by name: type checkers report any other."""


def advised(example: str, options: Any = None) -> Callable[[F], F]:
    """`example`: the function as it should be called. `options`: the TypedDict of its `**options`, if it has them."""

    def decorated(function: F) -> F:
        code = function.__code__
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        is_open = bool(code.co_flags & inspect.CO_VARKEYWORDS) and options is None  # any name is right
        known = frozenset(own) | frozenset(options.__annotations__ if is_typeddict(options) else ())
        name = function.__qualname__.removesuffix(".__init__")

        def look(named: Mapping[str, object]) -> None:
            if not is_open and not known.issuperset(named):
                raise unknown_option(f"{name}()", next(each for each in named if each not in known), known) from None

        def explain(given: tuple[object, ...], named: Mapping[str, object]) -> None:
            """After a TypeError that the function itself may have raised, too."""
            try:
                inspect.signature(function).bind(*given, **named)
            except TypeError as error:
                text = str(error).replace(" keyword-only", "")  # as of Python 3.14
                raise TypeError(f"{name}(): {text}; write `{example}`") from None

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call(*given: object, **named: object) -> Any:
                look(named)
                try:
                    return await function(*given, **named)
                except TypeError:
                    explain(given, named)
                    raise
        else:

            @functools.wraps(function)
            def call(*given: object, **named: object) -> Any:
                look(named)
                try:
                    return function(*given, **named)
                except TypeError:
                    explain(given, named)
                    raise

        return cast("F", call)

    return decorated


def unknown_option(function: str, given: str, known: Iterable[str]) -> TypeError:
    """For a keyword argument that `function` has not; what it has, or what is meant."""
    mend = meant(f"{given}=", (f"{each}=" for each in known if each != "self"))
    return TypeError(f"{function} has no argument {given}=; {mend}")


def wrong_call(function: Callable[..., Any], given: tuple[object, ...], named: Iterable[str]) -> TypeError:
    """For a call that takes an address and data, and all else by name; it got more, or another name."""
    code, name = function.__code__, function.__qualname__
    for each in named:
        if each == "codec":
            return TypeError(f"{name}() has no argument codec=, which is for connect(url, codec=JSON)")
        return unknown_option(f"{name}()", each, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    text = f"{name}() takes the address and the data, then names only"
    return TypeError(f"{text}; write {function.__name__}(to, data, route={given[0]!r})")


def check_seconds(name: str, given: object) -> None:
    """TypeError for what is no number of seconds."""
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise TypeError(f"{name} is {type(given).__name__}, it must be a number of seconds")


def check_whole(name: str, given: object) -> None:
    """TypeError for what is no whole number."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{name} is {type(given).__name__}, it must be a whole number")


def meant(given: str, known: Iterable[str], there_are: str = "it has") -> str:
    """The name that is probably meant, as a question; all that there are, where none is near."""
    names = sorted(known)
    return near(given, names) or f"{there_are} {', '.join(names)}"


def near(given: str, known: Iterable[str], like: float = LIKE) -> str:
    """The name that is probably meant, as a question; nothing where none is so alike. Capitals hardly count."""
    alike = [each for each in known if _likeness(given.lower(), each.lower()) >= like]
    if not alike:
        return ""
    best = max(alike, key=lambda each: (_likeness(given.lower(), each.lower()), _likeness(given, each)))
    return f"did you mean {best}?"


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, one).ratio()

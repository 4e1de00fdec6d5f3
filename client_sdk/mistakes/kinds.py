"""Arguments of the wrong kind, by the annotations of the function: of those that are numbers, text, bytes or True.

An annotation that has anything else in it is for the function to check.
"""

import functools
import inspect
import re
from collections.abc import AsyncIterable, Callable, Mapping
from datetime import timedelta
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

# What it must be, by the kinds of an annotation, in this order.
SAID: Final[dict[type, str]] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "str",
    bytes: "bytes",
    NoneType: "None",
}
NUMBER: Final[frozenset[type]] = frozenset({float})
WHOLE: Final[frozenset[type]] = frozenset({int})
BOOL: Final[frozenset[type]] = frozenset({bool})
_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|sec|seconds)?\s*")
_NAMES_ONLY: Final = re.compile(r"\(\w+=")
FROM_TEXT: Final = ", or {}(...) around it"
Kinds = Mapping[str, frozenset[type]]  # by parameter


def kinds_of(function: Callable[..., Any]) -> Kinds:
    """Those parameters whose annotations can be checked."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = parameter.annotation
        kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        kinds = tuple(NoneType if kind is None else kind for kind in kinds)
        if parameter.kind is not parameter.VAR_KEYWORD and all(kind in SAID for kind in kinds):
            found[name] = frozenset(kinds)
    return found


def check_kinds(kinds: Kinds, given: Mapping[str, object], example: str = "") -> None:
    """TypeError for the first of the arguments `given`, by name, that is of no kind that its parameter has."""
    for name, value in given.items():
        if name in kinds:
            check_kind(name, value, kinds[name], example)


def check_kind(name: str, given: object, kinds: frozenset[type], example: str = "") -> None:
    """TypeError unless the argument of this name is of one of the kinds; it says the value that is meant.

    If nobody can know that, it says the `example` of a call, unless that shows other arguments only.
    """
    if not _is_one_of(given, kinds):
        is_shown = f"{name}=" in example or not _NAMES_ONLY.search(example)
        how = _meant(name, given, kinds) or (f": write `{example}`" if example and is_shown else "")
        raise TypeError(f"{name} is {kind_of(given)}, it must be {_said(name, kinds)}{how}")


def kind_of(given: object) -> str:
    """What it is, for a person: `int`, or `the class Service`."""
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def seconds_in(given: object) -> str:
    """The number of seconds that is meant by a text or a length of time, `; write 3`; empty where nobody can know."""
    if isinstance(given, timedelta):
        return f"; write {given.total_seconds():g}"
    found = _NUMBER.fullmatch(given) if isinstance(given, str) else None
    return "" if found is None else f"; write {found[1]}{'' if found[2] else FROM_TEXT.format('float')}"


def no_value(given: object) -> str:
    """What to write in place of what is no value, so that no codec makes bytes of it; empty for anything else."""
    if isinstance(given, type):
        return f"write {given.__name__}(...) for an object of it"
    is_other = callable(given)  # such as a client, which is all of this to refuse it
    if inspect.isawaitable(given) and not is_other:
        if inspect.iscoroutine(given):
            given.close()  # or Python warns of it, too
        return "an await is missing before it"
    if isinstance(given, AsyncIterable) and not is_other:
        return "take its items with `async for`"
    if inspect.isgenerator(given):
        return "write list(...) for all that it yields"
    if is_function(given):
        name = getattr(given, "__name__", "")
        return f"{f'write {name}()' if name.isidentifier() else 'call it'} for what it gives"
    return ""


def is_function(given: object) -> bool:
    return inspect.isroutine(given) or isinstance(given, functools.partial)


def _meant(name: str, given: object, kinds: frozenset[type]) -> str:
    if float in kinds and _is_time(name):
        return seconds_in(given)
    if isinstance(given, float) and given.is_integer() and int in kinds:
        return f"; write {given:.0f}"
    found = _NUMBER.fullmatch(given) if isinstance(given, str) else None
    is_right = found is not None and not found[2] and (float in kinds or (int in kinds and "." not in found[1]))
    kind = "float" if float in kinds else "int"
    return f"; write {found[1]}{FROM_TEXT.format(kind)}" if found and is_right else ""


def _is_one_of(value: object, kinds: frozenset[type]) -> bool:
    if isinstance(value, bool):  # which is an int for Python
        return bool in kinds
    return isinstance(value, (*kinds, int) if float in kinds else tuple(kinds))


def _said(name: str, kinds: frozenset[type]) -> str:
    said = [text for kind, text in SAID.items() if kind in kinds]
    text = f"{', '.join(said[:-1])}, or {said[-1]}" if len(said) > 1 else said[0]
    return text.replace("a number", "a number of seconds") if _is_time(name) else text


def _is_time(name: str) -> bool:
    return name.endswith("_s") and not name.endswith("_per_s")

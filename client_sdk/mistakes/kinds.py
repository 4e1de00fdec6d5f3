"""Arguments of the wrong kind, by the annotations of the function: of those that are numbers, text, bytes or True.

An annotation that has anything else in it is for the function to check.
"""

import inspect
from collections.abc import Callable, Mapping
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
        if name in kinds and not _is_one_of(value, kinds[name]):
            how = f": write `{example}`" if example else ""
            raise TypeError(f"{name} is {type(value).__name__}, it must be {_said(name, kinds[name])}{how}")


def _is_one_of(value: object, kinds: frozenset[type]) -> bool:
    if isinstance(value, bool):  # which is an int for Python
        return bool in kinds
    return isinstance(value, (*kinds, int) if float in kinds else tuple(kinds))


def _said(name: str, kinds: frozenset[type]) -> str:
    said = [text for kind, text in SAID.items() if kind in kinds]
    text = f"{', '.join(said[:-1])}, or {said[-1]}" if len(said) > 1 else said[0]
    return text.replace("a number", "a number of seconds") if name.endswith("_s") else text

"""Merges what several workers of one machine answer into one value: the rules, and the function that applies them.

A view says beside each of its fields what becomes of it (`Annotated[int, SUM]`):

    SUM                numbers of what each worker has for itself
    MAX, MIN           what all workers know alike, and what cannot be added up, as percentiles
    ANY                true if it is at one of them
    FIRST              what all say alike
    KEY                the same; and items of lists are the same item if all their fields with KEY are equal
    LEAST              the whole value is that of the worker with the least number here; None is more than any number
    BY_NAME({…})       of a mapping: for each of its keys a rule
    weighted_by(…)     a mean of means
    outside(…)         those of all that no worker has

Without a rule a view in a field is merged by its own rules, and everything else that is no number is the first
worker's. A number must have a rule. Knows neither the views nor who answered.

A request that passes two workers is counted by both where the frames, the bytes and the requests of a service are; in
the traffic and at its route it is counted once.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

Values: TypeAlias = Sequence[Any]  # of one field, by worker; at least one
View = TypeVar("View", bound=msgspec.Struct)


class Rule:
    """What becomes of one field."""

    def __init__(self, merge_field: Callable[[Sequence[msgspec.Struct], str], Any]) -> None:
        """`merge_field`: from the views of all workers, one at least, and the name of the field to its value."""
        self.merge_field: Final = merge_field


def of_values(merge_values: Callable[[Values], Any]) -> Rule:
    """A rule that looks at nothing but the field."""
    return Rule(lambda group, name: merge_values([getattr(view, name) for view in group]))


def _merge_optional(values: Values) -> Any:
    """Of views that some workers may not have; None when none has."""
    present = [value for value in values if value is not None]
    return merge(present) if present else None


SUM: Final = of_values(sum)
MAX: Final = of_values(max)
MIN: Final = of_values(min)
ANY: Final = of_values(any)
FIRST: Final = of_values(lambda values: values[0])
FIRST_SET: Final = of_values(lambda values: next((value for value in values if value), values[0]))  # that is not empty
KEY: Final = of_values(lambda values: values[0])
LEAST: Final = of_values(lambda values: values[0])
VIEW: Final = of_values(_merge_optional)
VIEWS: Final = of_values(lambda values: merge_items(item for items in values for item in items))


def BY_NAME(rules: Mapping[str, Rule]) -> Rule:
    """Of a mapping whose keys all workers have."""

    def merge_field(values: Values) -> dict[str, Any]:
        return {key: rules[key].merge_field([_Entry(each[key]) for each in values], "value") for key in values[0]}

    return of_values(merge_field)


def weighted_by(weight: str) -> Rule:
    """The mean of means, in whole numbers; 0 if nothing was measured. `weight`: the field that counts the measured."""

    def merge_field(group: Sequence[msgspec.Struct], name: str) -> int:
        total = sum(getattr(view, weight) for view in group)
        return int(sum(getattr(view, name) * getattr(view, weight) for view in group) // total) if total else 0

    return Rule(merge_field)


def outside(whole: str) -> Rule:
    """Of what all know those that no worker has. `whole`: the field that counts all of them."""
    return Rule(lambda group, name: count_outside([(getattr(view, whole), getattr(view, name)) for view in group]))


def count_outside(counts: Sequence[tuple[int, int]]) -> int:
    """The same. `counts`: by worker how many it knows, and how many of them others have."""
    local = sum(known - remote for known, remote in counts)
    return max(0, max(known for known, _ in counts) - local)


def merge(group: Sequence[View]) -> View:
    """One view of those of several workers, at least one. TypeError if a number in it has no rule."""
    kind = type(group[0])
    rules = rules_of(kind)
    for name, rule in rules.items():
        if rule is LEAST:
            return min(group, key=lambda view: _rank(getattr(view, name)))
    return kind(**{name: rule.merge_field(group, name) for name, rule in rules.items()})


def merge_items(items: Iterable[View]) -> list[View]:
    """One list of the items of all workers: those that are the same item are merged, and stand where the first was."""
    groups: dict[Hashable, list[View]] = {}
    for number, item in enumerate(items):
        key = _key(item)
        groups.setdefault(key if key else number, []).append(item)
    return [merge(group) for group in groups.values()]


@cache
def rules_of(kind: type[msgspec.Struct]) -> dict[str, Rule]:
    """By field, in their order. TypeError if a number has none."""
    hints = get_type_hints(kind, include_extras=True)
    rules = {name: _rule(hints[name]) for name in kind.__struct_fields__}
    if LEAST in rules.values():  # no other field is asked
        return {name: rule or FIRST for name, rule in rules.items()}
    complete = {name: rule for name, rule in rules.items() if rule is not None}
    if len(complete) < len(rules):
        raise TypeError(f"numbers of {kind.__name__} without a rule: {', '.join(rules.keys() - complete.keys())}")
    return complete


class _Entry(msgspec.Struct):
    """A value of a mapping, as a field."""

    value: Any


def _rule(hint: Any) -> Rule | None:
    """Of a field with this type; None for a number without one."""
    for each in getattr(hint, "__metadata__", ()):
        if isinstance(each, Rule):
            return each
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if int in choices or float in choices:
        return None
    if any(_is_view(each) for each in choices):
        return VIEW
    if get_origin(hint) is list and _is_view(get_args(hint)[0]):
        return VIEWS
    return FIRST


def _is_view(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _key(item: msgspec.Struct) -> Hashable:
    """Empty if each item is one of its own."""
    values = [getattr(item, name) for name, rule in rules_of(type(item)).items() if rule is KEY]
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def _rank(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0

"""Numbers that options of commands have; one with a unit is told with the number to write."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, Final

import click

from rsocket_wire.quantities import meant_number

_UNITS: Final = {"_s": "seconds", "seconds": "seconds", "S": "seconds", "_bytes": "bytes"}  # ends of names, metavars


class Count(click.IntRange):
    """A whole number."""

    name = "number"  # click says "integer range", in help and of what is none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """As click does."""
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter as error:
            raise _advised(error, self, value, param, super().convert) from None


class Number(click.FloatRange):
    """A number; none that is not finite, which a range does not hold."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As click does."""
        try:
            found = float(super().convert(value, param, ctx))
        except click.BadParameter as error:
            raise _advised(error, self, value, param, super().convert) from None
        if not math.isfinite(found):
            self.fail(f"{value} is not finite.", param, ctx)
        return found


def _advised(
    error: click.BadParameter,
    own: Count | Number,
    value: Any,
    param: click.Parameter | None,
    convert: Callable[[Any, click.Parameter | None, click.Context | None], object],
) -> click.BadParameter:
    """The error with the number that was meant, if that is sure, else with what it must be. `convert`: BadParameter for
    what is out of range."""
    unit, is_whole = _unit_of(param), isinstance(own, Count)
    found = meant_number(str(value), unit, is_whole) if unit or is_whole else None
    said = error.message.rstrip(".")
    if found is not None and isinstance(param, click.Option):
        with contextlib.suppress(click.BadParameter):
            convert(f"{found:.15g}", param, error.ctx)
            option = next((each for each in param.opts if each.startswith("--")), param.opts[0])
            text = f"{said}; write {option} {found:.15g}{f' ({unit})' if unit else ''}"
            return click.BadParameter(text, error.ctx, param)
    text = f"{said}; write a {'whole ' if is_whole else ''}number{_range_of(own)}{f', in {unit}' if unit else ''}"
    return click.BadParameter(text, error.ctx, param)


def _range_of(own: Count | Number) -> str:
    """` from 1 to 1000`."""
    low = "" if own.min is None else f" above {own.min:g}" if own.min_open else f" from {own.min:.15g}"
    if own.max is None:
        return f"{low} on" if low.startswith(" from") else low
    return f"{low} to {own.max:.15g}" if low.startswith(" from") else f"{low}, {own.max:.15g} at most"


def _unit_of(param: click.Parameter | None) -> str:
    if param is None:
        return ""
    if (param.name or "").endswith("_per_s"):
        return ""
    return next((unit for end, unit in _UNITS.items() if (param.name or "").endswith(end) or param.metavar == end), "")

"""Numbers that options of commands have."""

import math
from typing import Any

import click


class Count(click.IntRange):
    """A whole number."""

    name = "number"  # click says "integer range", in help and of what is none


class Number(click.FloatRange):
    """A number; none that is not finite, which a range does not hold."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is not finite.", param, ctx)
        return found

"""Objects that Python is asked to await, to loop over or to enter, and that cannot be: methods that say what to write.

Only for methods that type checkers shall not see: they know that there are none.
"""

from collections.abc import Callable
from typing import Any, Never


def refused(text: str) -> Callable[..., Any]:
    """A method, such as `__await__`, that raises a TypeError with this text."""

    def refuse(*_: object) -> Never:
        raise TypeError(text)

    return refuse

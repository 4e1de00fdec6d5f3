"""Time travel: the routing table of any broker at any time, from its events (docs/spark/time-travel.md)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_sink.time_travel.rebuild import table_at
    from spark_sink.time_travel.values import Change, Check, Difference, Gap, SeenRoute, TableAt, diff

__all__ = ["Change", "Check", "Difference", "Gap", "SeenRoute", "TableAt", "diff", "table_at"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The public names, imported when they are asked for: the help of `table` waits for no pyarrow."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{'rebuild' if name == 'table_at' else 'values'}"), name)

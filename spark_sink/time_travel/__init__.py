"""Time travel: the routing table of any broker at any time, from its events (docs/spark/time-travel.md)."""

from spark_sink.time_travel.rebuild import table_at
from spark_sink.time_travel.values import Change, Check, Difference, Gap, SeenRoute, TableAt, diff

__all__ = ["Change", "Check", "Difference", "Gap", "SeenRoute", "TableAt", "diff", "table_at"]

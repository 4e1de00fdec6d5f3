"""How long tables are kept: by their grain, or by name, in whole days."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from spark_sink.pipeline.compaction import publishing
from spark_sink.pipeline.filesystems import FileSystem
from spark_sink.pipeline.formats.choice import format_of
from spark_sink.tables import COLUMNS, GRAINS, PARTIALS, ROLL_UPS

FOREVER: Final = "forever"
_GRAIN_OF: Final = {partial.name: partial.grain for partial in (*PARTIALS, *ROLL_UPS)}
_NAMES: Final = (*GRAINS, *(table for table in COLUMNS if table not in _GRAIN_OF))
_DAYS: Final = re.compile(r"([1-9]\d{0,5})d")

Keeping = dict[str, int]  # a grain, or a table that has none -> days; what is not there is kept for ever


def keeping_of(text: str) -> Keeping:
    """Of "minute=7d, hour=90d, day=forever, requests=30d". ValueError: says what is wrong with it."""
    found: Keeping = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        days = _DAYS.fullmatch(value)
        if name not in _NAMES:
            raise ValueError(f"{name!r} is nothing that is kept; these are: {', '.join(_NAMES)}")
        if days is None and value != FOREVER:
            raise ValueError(f"{value!r} is no time to keep {name} for; write 7d or {FOREVER}")
        if days is not None:
            found[name] = int(days[1])
    return found


def remove_old(tables: FileSystem, keeping: Keeping, now: datetime) -> list[str]:
    """Remove the folders of days that are not to be kept any more; gives their names. OSError: not all are gone.

    A day is kept until all of it is older than that. `now`: with its zone."""
    if not keeping:
        return []
    place, removed = format_of(tables), []
    for folder in place.folders():
        table, _, day = folder.partition("/date=")
        days = keeping.get(_GRAIN_OF.get(table, table))
        if days is not None and day < f"{now.astimezone(UTC) - timedelta(days=days):%Y-%m-%d}":
            removed.append(folder)
    if removed:
        with publishing(tables):
            place.remove_days(removed)
    return removed

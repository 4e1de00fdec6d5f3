"""The sequence numbers of all that a broker has told, in the sealed files of its folder."""

from pathlib import Path
from typing import Any

from spark_sink.event_files.folder import SOURCES
from tests.spark_sink.records import sealed


def rows(folder: Path, source: str) -> list[dict[str, Any]]:
    """All rows of a source, in the order of epochs and numbers, whatever brokers wrote them."""
    return sorted(sealed(folder, source), key=lambda row: (row["epoch"], row["seq"]))


def numbers(folder: Path) -> dict[tuple[str, int], list[int]]:
    """Those of each broker and epoch, ascending."""
    found: dict[tuple[str, int], list[int]] = {}
    for source in SOURCES:
        for row in rows(folder, source):
            found.setdefault((row["broker_id"], row["epoch"]), []).append(row["seq"])
    return {key: sorted(each) for key, each in found.items()}


def has_no_gap(folder: Path) -> bool:
    """They begin with 1, and each stands in one file, once."""
    return all(each == list(range(1, len(each) + 1)) for each in numbers(folder).values())

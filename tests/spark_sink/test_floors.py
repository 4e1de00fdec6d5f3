"""Imports within spark_sink go down only, so that no two of its rooms need each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_floors import imports_of, modules, name_of

# Rooms and modules of the package, lowest floor first; none knows another one of its floor.
FLOORS = [
    ["errors", "columns"],
    ["schema", "histograms", "timestamps", "pages", "java"],
    ["event_files", "terminal", "session"],
    ["history", "writer", "tables"],
    ["publishing", "data_source", "time_travel", "what_if", "report"],
    ["pipeline"],
    ["cli"],
    ["submit"],
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


@pytest.mark.parametrize("path", [path for path in modules("spark_sink") if "." in name_of(path)], ids=name_of)
def test_imports_in_spark_sink_go_down_only(path: Path) -> None:
    mine = name_of(path).split(".")[1]
    for name, line in imports_of(path):
        parts = name.split(".")
        if parts[0] == "spark_sink" and len(parts) > 1 and parts[1] != mine:
            assert FLOOR_OF[parts[1]] < FLOOR_OF[mine], f"{path}:{line}: {mine} imports {name}"

"""Imports within spark_sink go down only, so that no two of its rooms need each other."""

from tests.test_floors import imports_of, modules

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


def test_imports_in_spark_sink_go_down_only() -> None:
    for module in modules("spark_sink"):
        if "." not in module:
            continue
        mine = module.split(".")[1]
        for name, line in imports_of(module):
            parts = name.split(".")
            if parts[0] == "spark_sink" and len(parts) > 1 and parts[1] != mine:
                assert FLOOR_OF[parts[1]] < FLOOR_OF[mine], f"{module}:{line}: {mine} imports {name}"

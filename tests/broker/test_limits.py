"""Limits: the list of all of them, and what happens at the bounds that no other test knows: floods, origins, memory."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from broker.build_hook import compiled_modules
from broker.config.options import OPTIONS, TABLES
from broker.core import CoreSettings
from broker.forwarding.traffic.flows import MAX_FLOWS, MAX_REFUSED_TOTALS, MAX_TOTALS
from broker.routing.choosers.sticky import MAX_CHOICES
from broker.routing.policies import Policy
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.frames import SHARD, Address
from rsocket_wire.wire.keys import SHARD_KEY, STICKY_ROUTE_KEY
from tests.fakes import Wire, World, address, asked, orders, route_id, tags_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/limits.md").read_text()
GATEWAY = "client_sdk/gateways/samwise"
A_LIMIT = re.compile(r"(MAX_|MIN_).*|.*_(BYTES|S|N|MS|BITS)")
MANY = 20_000  # of what a flood has a million of: enough to pass every bound that is not a matter of time


# The list


def modules() -> list[str]:
    """`connections.closed`, `client_sdk.protocol.output`: the compiled ones, the edge, most of the client. The Samwise
    gateway has a table of its own."""
    paths = [path for path in compiled_modules(ROOT) if not path.startswith(GATEWAY)]
    paths += [str(path.relative_to(ROOT)) for path in (ROOT / "broker/edge").rglob("*.py")]
    paths += [
        "client_sdk/io/connection.py",
        "client_sdk/io/transport.py",
        "client_sdk/io/websocket.py",
        "client_sdk/io/failures.py",
        "client_sdk/io/dispatch.py",
        "client_sdk/io/stream_pump.py",
        "client_sdk/codecs.py",
        "client_sdk/mistakes/methods.py",
        "admin_api/access/gate.py",
        "admin_api/event_files.py",
        "admin_api/bodies.py",
        "admin_api/listener.py",
        "admin_api/answers/shared.py",
        "broker/config/certificates.py",
        "broker/config/sections/admin_checks.py",
        "broker/limited_log.py",
        "rsocket_wire/upgrade.py",
    ]
    paths += [f"client_sdk/{name}.py" for name in ("connecting", "metadata", "spans", "tracing")]
    for room in ("calls", "reconnect", "services", "serving", "rsocket_py"):
        paths += [str(path.relative_to(ROOT)) for path in (ROOT / "client_sdk" / room).glob("*.py")]
    return [path.removeprefix("broker/").removesuffix(".py").replace("/", ".") for path in paths]


def full_name(module: str) -> str:
    """`broker.connections.closed` of `connections.closed`; those of other packages are whole."""
    return module if module.startswith(("client_sdk.", "admin_api.", "rsocket_wire.")) else f"broker.{module}"


def constants() -> set[str]:
    """What looks like a limit among the public constants of these modules: `connections.closed.MAX_CLOSED`."""
    found: set[str] = set()
    for module in modules():
        for node in ast.parse((ROOT / (full_name(module).replace(".", "/") + ".py")).read_text()).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and A_LIMIT.fullmatch(target.id) and not target.id.startswith("_"):
                found.add(f"{module}.{target.id}")
    return found


# What a role bounds, with its default.
QUOTAS = {f"role.NAME.{key}": doc.default for key, doc in TABLES["role"].keys.items() if isinstance(doc.default, int)}


def settings() -> set[str]:
    """Limits of the core that are no options: `settings.max_waiting_bytes`."""
    options = {doc.key for doc in OPTIONS.values()}
    return {f"settings.{name}" for name in dir(CoreSettings) if A_LIMIT.fullmatch(name.upper())} - {
        f"settings.{key}" for key in options
    }


def options() -> set[str]:
    return {name for name in OPTIONS if name.startswith("limits.")} | set(QUOTAS)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of the document."""
    text = DOCUMENT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in cells] for cells in lines]


def number(text: str) -> float:
    """`64 KiB` is 65536."""
    digits, _, unit = text.replace(",", "").partition(" ")
    value = float(digits) if "." in digits else int(digits)
    return value * {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


def value_of(name: str) -> object:
    if name in QUOTAS:
        return QUOTAS[name]
    if name in OPTIONS:
        return OPTIONS[name].default
    module, _, constant = name.rpartition(".")
    if module == "settings":
        return getattr(CoreSettings(), constant)
    return getattr(importlib.import_module(full_name(module)), constant)


def test_every_limit_has_a_row_and_every_row_a_limit() -> None:
    bounds = [name.strip("`") for name, *_ in rows("Bounds")]
    others = [name.strip("`") for cell, _ in rows("What is no bound") for name in cell.split(", ")]
    listed = bounds + others
    assert len(listed) == len(set(listed)), "a limit is there twice"
    assert constants() | settings() | options() <= set(listed)
    assert set(listed) <= constants() | settings() | set(OPTIONS) | set(QUOTAS)


def test_the_list_says_the_defaults_as_they_are() -> None:
    said = {name.strip("`"): number(default) for name, default, *_ in rows("Bounds")}
    assert said == {name: value_of(name) for name in said}


@pytest.mark.parametrize(
    "heading, rooms",
    [
        ("Bounds of what-if", ["what_if"]),
        ("Bounds of readers of event files", ["event_files", "data_source", "history", "time_travel"]),
        ("Bounds of the writer of event files", ["writer"]),
    ],
)
def test_every_bound_of_a_room_of_spark_sink_has_a_row_with_its_number(heading: str, rooms: list[str]) -> None:
    pytest.importorskip("pyarrow")
    found = {}
    for path in (path for room in rooms for path in (ROOT / "spark_sink" / room).glob("*.py")):
        module = f"{path.parent.name}.{path.stem}"
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "MAX_" in node.target.id:
                bounds = importlib.import_module(f"spark_sink.{module}")
                found[f"{module}.{node.target.id}"] = getattr(bounds, node.target.id)
    listed = rows(heading)
    said = {name.strip("`").removeprefix("spark_sink."): number(default) for name, default, *_ in listed}
    assert said == found
    assert all(unit and at_the_bound for _, _, unit, at_the_bound, *_ in listed)


def test_every_limit_of_the_samwise_gateway_has_a_row_with_its_number() -> None:
    found = {name for name in OPTIONS if name.startswith("samwise.max_")}
    shared = (ROOT / GATEWAY).parent.glob("*.py")  # with the feed
    for path in (*(ROOT / GATEWAY).rglob("*.py"), *shared, ROOT / "broker/config/sections/samwise.py"):
        base = ROOT if path.parent == (ROOT / GATEWAY).parent else ROOT / "broker"
        if path.is_relative_to(ROOT / GATEWAY):
            base = ROOT / GATEWAY
        module = ".".join(path.relative_to(base).with_suffix("").parts)
        names = [getattr(getattr(node, "target", None), "id", "_") for node in ast.parse(path.read_text()).body]
        found |= {f"{module}.{name}" for name in names if A_LIMIT.fullmatch(name) and not name.startswith("_")}
    listed = rows("Bounds of the Samwise gateway")  # and, with two cells, what is no bound
    bounds = [row for row in listed if len(row) > 2]
    said = {name.strip("`"): number(default) for name, default, *_ in bounds}
    others = {name.strip("`") for cell, *more in listed if len(more) == 1 for name in cell.split(", ")}
    assert len(listed) == len({name for name, *_ in listed}), "a limit is there twice"
    assert not others & set(said)
    assert others <= found <= set(said) | others
    assert said == {name: gateway_value_of(name) for name in said}
    assert all(unit and at_the_limit for _, _, unit, at_the_limit, *_ in bounds)


def gateway_value_of(name: str) -> object:
    """Of an option, or of a constant below the gateway or, where it begins with `config`, the broker."""
    if name in OPTIONS:
        return OPTIONS[name].default
    module, _, constant = name.rpartition(".")
    room = "broker" if name.startswith("config.") else GATEWAY.replace("/", ".")
    if name.startswith("client_sdk."):
        return getattr(importlib.import_module(module), constant)
    return getattr(importlib.import_module(f"{room}.{module}"), constant)


def test_every_bound_has_a_unit_and_says_what_happens() -> None:
    for name, _, unit, at_the_bound, *_ in rows("Bounds"):
        assert unit, name
        assert at_the_bound, name


# Credit


@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_credit_passes_unicast_as_it_is_however_it_adds_up(kind: int) -> None:
    _, service, caller = orders()
    caller.request(kind, 1, address(service="orders"), n=frames.MAX_N)
    first = service.one()
    caller.ask(1, frames.MAX_N)
    caller.ask(1, frames.MAX_N)
    caller.send(frames.encode_request_n(1, 0))  # "Value MUST be > 0": ignored
    reserved = bytearray(frames.encode_request_n(1, 5))
    reserved[6] |= 0x80  # the reserved bit is the sender's; who reads credit does not look at it
    caller.send(bytes(reserved))
    *asks, last = service.received()
    assert first.n == frames.MAX_N
    assert asks == [asked(first.stream_id, frames.MAX_N)] * 2
    assert (last.name, last.n & frames.MAX_N) == ("REQUEST_N", 5)


# A million different tags


def sizes(world: World, *wires: Wire) -> dict[str, int]:
    """How large every table is that names of peers can fill."""
    core = world.core
    flows = core.engine.flows
    return {
        "routes": core.table.size(),
        "tags": core.table.index.size(),
        "services": len(core.table.loads.services),
        "addresses": core.query.remembered(),
        "choices": core.query.sticky.size(),
        "totals": len(flows.totals),
        "streams": sum(len(wire.peer.streams) for wire in wires),
        "flows of peers": sum(len(wire.peer.flows) for wire in wires),
    }


def test_a_route_that_changes_its_tags_and_name_again_and_again_leaves_no_trace() -> None:
    world = World(CoreSettings(max_route_setups_per_s=0))
    service = world.service("orders", 1)
    for number in range(MANY // 10):
        tags: dict[str, str | None] = {f"key-{number}-{each}": f"value-{number}" for each in range(10)}
        service.announce(number, f"name-{number}", **tags)
        world.core.take_events()
    found = sizes(world, service)
    assert (found["routes"], found["tags"], found["services"], found["addresses"]) == (1, 12, 1, 0)


def requests(number: int) -> list[tuple[int, bytes]]:
    """Requests with names that nobody has used before: a kind and an ADDRESS each."""
    name = f"{number:x}"
    return [
        (REQUEST_RESPONSE, address(service=f"nobody-{name}")),
        (REQUEST_FNF, Address(route_id(2), tags_of({"service": "orders", f"key-{name}": name})).encode()),
        (REQUEST_FNF, address(SHARD, [(SHARD_KEY, "user")], service="orders", user=name)),
        (REQUEST_FNF, address(hints=[(STICKY_ROUTE_KEY, "user")], service="orders", user=name)),
    ]


def test_addresses_with_new_tags_again_and_again_fill_no_table() -> None:
    world = World(CoreSettings(max_lookup_cache=1000, policy=Policy(sticky_ttl_s=300.0)))
    services = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    asked_n = MANY // 4
    for number in range(asked_n):
        for place, (kind, raw) in enumerate(requests(number)):
            caller.request(kind, 2 * (4 * number + place) + 1, raw, b"")
        if number % 500 == 499:  # the flows of an interval are those of ever new addresses
            flows = world.core.engine.flows
            assert flows.opened <= MAX_FLOWS
            world.flows()
            assert (flows.opened, len(flows.active), len(caller.peer.flows)) == (0, 0, 0)
    found = sizes(world, caller, *services)
    assert found["addresses"] <= 1000
    assert found["choices"] == min(asked_n, MAX_CHOICES)
    assert found["totals"] <= MAX_TOTALS + MAX_REFUSED_TOTALS + 10
    assert (found["routes"], found["tags"], found["services"], found["streams"]) == (2, 3, 1, 0)
    totals = world.core.engine.flows.totals
    assert sum(total.requests for total in totals.values()) == 4 * asked_n
    assert sum(1 for key in totals if key[4]) <= MAX_REFUSED_TOTALS + 5  # and one for the others, by model

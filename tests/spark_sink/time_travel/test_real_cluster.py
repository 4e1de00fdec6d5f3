"""What two real brokers write of their tables, on a fake wire: each rebuilt table is the one that its broker had."""

import random
from pathlib import Path
from typing import Any

import pytest

from broker.core import CoreSettings
from broker.events import ROUTE_ADDED, ROUTE_REMOVED, FlowRecord, LifecycleEvent
from rsocket_wire.rsocket.frames import encode_metadata_push
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from spark_sink.event_files.frames import Header
from spark_sink.history.records import DIED, RUNNING
from spark_sink.time_travel import TableAt, diff, table_at
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.values import EQUAL
from spark_sink.timestamps import moment_at
from tests.fakes import Wire, composite, route_id, tags_of
from tests.spark_sink.time_travel.histories import History, write_segments
from tests.topology import LINKED_S, Net, line

Routes = dict[str, str]  # Route Id -> the name of the broker that has it


class Run:
    """One life of a broker, and what its table was after each moment at which all was told."""

    def __init__(self, net: Net, name: str) -> None:
        self.world = net.worlds[name]
        self.epoch = self.world.at_ms
        self.rows: list[LifecycleEvent | FlowRecord] = []
        self.truth: dict[int, tuple[str, Routes]] = {}  # number of the last record by then -> digest and routes
        self.name = name

    def take(self, net: Net) -> None:
        self.rows += self.world.core.take_events()
        if self.rows and net.worlds.get(self.name) is self.world:
            last = max(row.seq for row in self.rows)
            self.truth[last] = (self.world.core.table.digest.text, net.table(self.name))

    def write(self, events: Path) -> None:
        history = History()
        history.header = Header(self.world.core.id_text, self.name, self.epoch)
        write_segments(events, history, self.rows, roll_ms=3000)

    def kinds(self) -> set[int]:
        return {row.kind for row in self.rows if isinstance(row, LifecycleEvent)}


def tags(rng: random.Random) -> dict[str, Any]:
    """In odd writing."""
    keys, values = ("region", "zone", "version", "größe", "🦀"), ("a", "b", "", "日本", "x,y", "\u202e", "e\u0301")
    return {rng.choice(keys): rng.choice(values) for _ in range(rng.randint(0, 4))}


def settings(name: str) -> CoreSettings:
    return CoreSettings(broker_name=name, snapshot_s=5.0)


def cluster() -> Net:
    net = line(2)
    net.make = settings
    for name in net.names:
        net.start(name)
    return net


def shown(table: TableAt) -> Routes:
    """Who has which route, as the table says it."""
    return {
        route.route_id: table.names[route.broker_id] if route.broker_id else table.broker_name for route in table.routes
    }


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Run]]:
    """Services come, change, move and go at two brokers. Each is killed once and starts again; once they are parted."""
    net, rng = cluster(), random.Random(3)
    lives = {name: Run(net, name) for name in net.names}
    runs = list(lives.values())
    wires: dict[int, tuple[str, Wire]] = {}
    net.advance(LINKED_S)
    for step in range(240):
        number, action = rng.randrange(20), rng.random()
        if step in (80, 160):
            dead = net.names[step // 80 - 1]
            net.kill(dead)
            wires = {each: at for each, at in wires.items() if at[0] != dead}
        elif step in (100, 180):
            back = next(name for name in net.names if name not in net.worlds)
            net.start(back)
            lives[back] = Run(net, back)
            runs.append(lives[back])
        elif step == 40:
            net.part(["b1"], ["b2"])
        elif step == 55:
            net.heal()
        elif action < 0.5:
            name = rng.choice(sorted(net.worlds))
            wires[number] = (name, net.worlds[name].service(rng.choice(("orders", "stock")), number, **tags(rng)))
        elif number in wires and action < 0.7:
            setup = RouteSetup(route_id(number), rng.choice(("orders", "lager")), tags_of(tags(rng)))
            wires[number][1].send(encode_metadata_push(composite((MIME_TYPE, setup.encode()))))
        elif number in wires:
            wires.pop(number)[1].lose()
        net.pump()
        net.advance(rng.choice((0.05, 0.2, 0.5)))
        for each in [each for each, (_, wire) in wires.items() if wire.is_closed]:
            wires.pop(each)[1].lose()
        net.pump()
        for run in lives.values():
            run.take(net)
    events = tmp_path_factory.mktemp("events")
    for run in runs:
        run.write(events)
    return events, runs


def test_tables_of_two_brokers_are_rebuilt_with_the_routes_of_each_other(day: tuple[Path, list[Run]]) -> None:
    events, runs = day
    reader = SegmentReader(events)
    assert len(runs) == 4
    remote = 0
    for run in runs:
        assert {ROUTE_ADDED, ROUTE_REMOVED} <= run.kinds()
        known = 0
        for at_ms in sorted({row.at_ms for row in run.rows}):
            table = table_at(reader, moment_at(at_ms * 1000), run.name, run.epoch)
            assert (table.gaps, table.problems, table.verdict) == ((), (), EQUAL), at_ms
            if table.last_seq in run.truth:
                known += 1
                assert (table.digest, shown(table)) == run.truth[table.last_seq]
                remote += sum(route.broker_id != "" for route in table.routes)
        assert known > 20
    assert remote > 100


def test_routes_of_a_broker_that_was_lost_are_gone_and_come_with_its_next_life(day: tuple[Path, list[Run]]) -> None:
    events, runs = day
    first = next(run for run in runs if run.name == "b1")
    other = next(run for run in runs if run.name == "b2")
    died_ms = first.rows[-1].at_ms
    again = [run for run in runs if run.name == "b1"][1]
    before, lost = (table_at(events, moment_at(ms * 1000), "b2", other.epoch) for ms in (died_ms - 1, again.epoch - 1))
    had = {route.route_id for route in before.routes if route.broker_id}
    assert had
    assert {route.route_id for route in diff(before, lost).left} >= had - {route.route_id for route in lost.routes}
    assert not any(route.broker_id for route in lost.routes)
    back = table_at(events, moment_at(other.rows[-1].at_ms * 1000), "b2", other.epoch)
    assert any(route.broker_id == first.world.core.id_text for route in back.routes)
    dead = table_at(events, moment_at((again.epoch - 1) * 1000), "b1")
    assert (dead.epoch, dead.life) == (first.epoch, DIED)
    anew = table_at(events, moment_at((again.epoch + 2000) * 1000), "b1")
    assert (anew.epoch, anew.life) == (again.epoch, RUNNING)

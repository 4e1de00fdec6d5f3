"""What a real broker writes of its table, on a fake wire: the rebuilt table is the one that it had."""

import random
from pathlib import Path
from typing import Any

from broker.core import CoreSettings
from broker.events import FlowRecord, LifecycleEvent
from rsocket_wire.rsocket.frames import encode_metadata_push
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from spark_sink.event_files.frames import Header
from spark_sink.time_travel import table_at
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.values import EQUAL
from spark_sink.timestamps import moment_at
from tests.fakes import START_MS, Wire, World, composite, route_id, tags_of
from tests.spark_sink.time_travel.histories import History, write_segments

KEYS = ("region", "zone", "version", "größe", "🦀")
VALUES = ("a", "b", "", "日本", "x,y", "\u202e", "e\u0301")


def tags(dice: random.Random) -> dict[str, Any]:
    return {dice.choice(KEYS): dice.choice(VALUES) for _ in range(dice.randint(0, 4))}


def test_at_300_random_instants_the_table_of_a_real_broker_is_rebuilt(tmp_path: Path) -> None:
    dice = random.Random(4)
    world = World(CoreSettings(snapshot_s=20.0))
    wires: dict[int, Wire] = {}
    rows: list[LifecycleEvent | FlowRecord] = []
    truth: dict[int, tuple[str, set[tuple[str, str]]]] = {}  # number of the last record by then -> the table
    for _ in range(500):
        world.advance(dice.choice((0.001, 0.2, 1.0, 2.5)))
        number = dice.randrange(30)
        wire = wires.get(number)
        action = dice.random()
        if wire is None or action < 0.3:
            wires[number] = world.service(dice.choice(("orders", "stock")), number, **tags(dice))
        elif action < 0.6:
            setup = RouteSetup(route_id(number), dice.choice(("orders", "lager")), tags_of(tags(dice)))
            wire.send(encode_metadata_push(composite((MIME_TYPE, setup.encode()))))
        else:
            wire.lose()
            del wires[number]
        for each in [each for each, other in wires.items() if other.is_closed]:
            wires.pop(each).lose()
        rows += world.core.take_events()
        routes = {(route.id_text, route.service) for route in world.core.table.routes()}
        truth[max(row.seq for row in rows)] = (world.core.table.digest.text, routes)
    history = History()
    history.header = Header(history.header.broker_id, "real", 1)
    write_segments(tmp_path, history, rows, roll_ms=3000)
    reader = SegmentReader(tmp_path)
    known = 0
    while known < 300:
        at_ms = dice.randint(START_MS + 1, rows[-1].at_ms)
        table = table_at(reader, moment_at(at_ms * 1000))
        assert table.last_seq == max(row.seq for row in rows if row.at_ms <= at_ms)
        assert (table.gaps, table.problems, table.verdict) == ((), (), EQUAL)
        if table.last_seq in truth:  # else it is within what one frame has changed
            known += 1
            assert (table.digest, {(route.route_id, route.service) for route in table.routes}) == truth[table.last_seq]

"""What a what-if replay costs: CPU for each recorded request, on one core, without Spark around it.

    python -m benchmarks.simulate                       200,000 requests, by round robin, power of two and shard keys
    python -m benchmarks.simulate --requests 1000000

A recording is made by routing alone: services of twelve routes, which come and go, requests that overlap, a third of
them by shard key. It is then replayed as `simulate` does: with the real settings, and with another chooser and without
a zone. Counted is the CPU of this process from the first row to the last result; reading the files is told apart.
"""

import argparse
import base64
import heapq
import random
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from benchmarks.machine import describe_machine
from broker.core import COMPILED
from broker.events import BROKER_STARTED, ROUTE_JOINED, ROUTE_LEFT
from broker.routing.health.loads import GOOD
from broker.routing.table import Route
from rsocket_wire.wire.frames import SHARD, UNICAST, Address
from rsocket_wire.wire.keys import SERVICE_NAME, SHARD_KEY, ZONE
from rsocket_wire.wire.tags import Tag
from spark_sink.event_files.batches import parquet_bytes
from spark_sink.event_files.footer import segment_metadata
from spark_sink.event_files.frames import Header
from spark_sink.event_files.layout import segment_name
from spark_sink.history.epochs import WHOLE
from spark_sink.history.records import Record
from spark_sink.schema import ARROW_SCHEMAS, LIFECYCLES, REQUESTS
from spark_sink.what_if.local import LocalEngine
from spark_sink.what_if.question import Question
from spark_sink.what_if.routing_model import RoutingModel
from spark_sink.what_if.settings import RunSettings
from spark_sink.what_if.simulation import simulate

SERVICES: Final = 8
ROUTES: Final = 12
KEYS: Final = 5_000
BROKER: Final = "b0000000-0000-4000-8000-000000000001"
HEADER: Final = Header(BROKER, "bench", 1)
ORIGIN: Final = {"broker_id": BROKER, "broker_name": "bench", "epoch": 1}
QUESTIONS: Final = {
    "nothing changed": Question(),
    "p2c": Question(chooser="p2c"),
    "p2c, maglev, without zone=b": Question(chooser="p2c", shard="maglev", without=(("zone", "b"),)),
}


class Recorder:
    """Routing without a broker around it, and the rows that a broker would have written."""

    def __init__(self, chooser: str) -> None:
        self._rng: Final = random.Random(7)
        self._settings: Final = {"seed": "7", "lb_method": chooser}
        self._world: Final = RoutingModel(RunSettings(self._settings), Question(), WHOLE)
        self._us = 1_700_000_000_000_000
        self._seq = 0
        self._choices = 0
        self._open: list[tuple[int, int, dict[str, Any], Route]] = []  # by their end
        self._frames: dict[tuple[int, int], tuple[bytes, str]] = {}
        self.lifecycle: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []

    def record(self, requests: int) -> None:
        """So many requests, 30 µs apart on average, each 1 ms long on average."""
        rng = self._rng
        self._tell(BROKER_STARTED, tags=self._settings)
        for number in range(SERVICES * ROUTES):
            self._join(number)
        for _ in range(requests):
            self._us += rng.randrange(1, 60)
            self._end(self._us)
            if rng.random() < 0.0001:
                number = rng.randrange(SERVICES * ROUTES)
                if self._world.find(route_name(number)) is None:
                    self._join(number)
                else:
                    self._tell(ROUTE_LEFT, route_name(number), service_name(number % SERVICES))
            self._ask(rng.randrange(SERVICES), rng.randrange(KEYS) if rng.random() < 1 / 3 else -1)
        self._end(1 << 62)

    def write(self, folder: Path) -> None:
        """Segments."""
        for source, rows in ((LIFECYCLES, self.lifecycle), (REQUESTS, self.requests)):
            (folder / source).mkdir()
            arrays = []
            for field in ARROW_SCHEMAS[source]:
                kind = pa.int64() if pa.types.is_timestamp(field.type) else field.type
                arrays.append(pa.array([row.get(field.name) for row in rows], kind).cast(field.type))
            table = pa.table(arrays, schema=ARROW_SCHEMAS[source])
            data = parquet_bytes(table, segment_metadata(HEADER, source, 0))
            (folder / source / segment_name(BROKER, HEADER.epoch, 1)).write_bytes(data)

    def _join(self, number: int) -> None:
        service = service_name(number % SERVICES)
        tags = {SERVICE_NAME.name: service, ZONE.name: "ab"[number // SERVICES % 2]}
        self._tell(ROUTE_JOINED, route_name(number), service, tags)

    def _tell(self, kind: int, route_id: str = "", service: str = "", tags: dict[str, str] | None = None) -> None:
        self._seq += 1
        record = Record(self._seq, self._us, kind, route_id, service, tags or {}, route_id, "", "", 0, 0, self._choices)
        self._world.apply(record)
        row = ORIGIN | {
            "seq": self._seq,
            "event_time": self._us,
            "kind": kind,
            "choices": self._choices,
            "route_id": route_id,
        }
        texts = {"event": "", "service": service, "peer": route_id, "reason": "", "detail": ""}
        self.lifecycle.append(row | texts | {"tags": list((tags or {}).items())})

    def _ask(self, service: int, key: int) -> None:
        raw, text = self._frame(service, key)
        target = self._world.resolve(raw)
        route = self._world.choose(target, "", self._us)
        self._choices += 1
        assert route is not None  # twelve routes do not all leave at once
        route.load.began(True)
        duration_us = int(self._rng.expovariate(1 / 1000)) + 20
        row = ORIGIN | {
            "started_at": self._us,
            "event_time": self._us + duration_us,
            "duration_us": duration_us,
            "route_id": route.id_text,
            "service": route.service,
            "address": f"service={route.service}",
            "model": "request_response",
            "routing": target.routing_name,
            "outcome": "completed",
            "choice": self._choices,
            "key_hash": target.key_hash,
            "branches": 1,
            "address_frame": text,
            "weight": 1,
        }
        heapq.heappush(self._open, (self._us + duration_us, self._choices, row, route))

    def _end(self, until_us: int) -> None:
        while self._open and self._open[0][0] <= until_us:
            ended_us, _, row, route = heapq.heappop(self._open)
            self._seq += 1
            self.requests.append(row | {"seq": self._seq, "ended": self._choices})
            self._world.ended(route, True, GOOD, row["duration_us"], ended_us)

    def _frame(self, service: int, key: int) -> tuple[bytes, str]:
        found = self._frames.get((service, key))
        if found is None:
            tags = [Tag.of(SERVICE_NAME, service_name(service))]
            if key < 0:
                raw = Address(bytes(16), tags, None, b"", UNICAST).encode()
            else:
                tags.append(Tag.of("user", str(key)))
                raw = Address(bytes(16), tags, [Tag.of(SHARD_KEY, "user")], b"", SHARD).encode()
            found = self._frames[(service, key)] = (raw, base64.b64encode(raw).decode())
        return found


def service_name(number: int) -> str:
    return f"service-{number}"


def route_name(number: int) -> str:
    return str(uuid.UUID(int=number + 1))


def measure(folder: Path, question: Question) -> tuple[float, int, str]:
    """CPU seconds of the replay, rows that were replayed, and how many choices came out as they were."""
    engine = LocalEngine(events=folder, tables=None, question=question)
    engine.records()
    begin = time.process_time()
    simulation = simulate(engine, question)
    spent_s = time.process_time() - begin
    checked = simulation.checked.compared.values()
    rows = simulation.result.rows if question == Question() else simulation.result.rows + simulation.checked.rows
    return spent_s, rows, f"{sum(each.same for each in checked):,} of {sum(each.choices for each in checked):,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200_000)
    arguments = parser.parse_args()
    print(describe_machine())
    print(f"core: {'compiled' if COMPILED else 'interpreted'}, {arguments.requests:,} requests")
    print("| ran | asked | µs CPU a row | rows/s a core | reproduced |")
    print("| --- | --- | ---: | ---: | ---: |")
    for chooser in ("round_robin", "power_of_two"):
        with tempfile.TemporaryDirectory() as text:
            recorder = Recorder(chooser)
            recorder.record(arguments.requests)
            recorder.write(Path(text))
            for name, question in QUESTIONS.items():
                spent_s, rows, same = measure(Path(text), question)
                print(f"| {chooser} | {name} | {spent_s / rows * 1e6:.1f} | {rows / spent_s:,.0f} | {same} |")


if __name__ == "__main__":
    main()

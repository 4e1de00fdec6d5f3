"""Lifecycle rows and requests that a test writes by hand, and what a replay makes of them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from broker.events import BROKER_STARTED, ROUTE_JOINED, ROUTE_LEFT
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import ROUTE_ID, SERVICE_NAME, parse_key
from spark_sink.event_files.frames import Header
from spark_sink.schema import ARROW_SCHEMAS, FLOWS, LIFECYCLES, REQUESTS
from spark_sink.what_if.local import LocalEngine
from spark_sink.what_if.question import Question
from spark_sink.what_if.simulation import Simulation, simulate
from tests.fakes import address, route_id
from tests.spark_sink.records import put_segments

BROKER = "b0000000-0000-4000-8000-000000000001"
START_US = 1_700_000_000_000_000
SETTINGS = {"seed": "7", "lb_method": "round_robin", "shard_method": "rendezvous"}


def name_of(number: int) -> str:
    """The Route Id of a number, as text."""
    return id_text(route_id(number))


class History:
    """Rows of one epoch, numbered as they come."""

    def __init__(self, epoch: int = 1, broker: str = BROKER) -> None:
        self._broker, self._epoch = broker, epoch
        self._origin = {"broker_id": broker, "broker_name": "one", "epoch": epoch}
        self.seq = 0
        self.choices = 0
        self.lifecycle: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.flows: list[dict[str, Any]] = []

    def start(self, **settings: str) -> History:
        return self.tell(BROKER_STARTED, tags=SETTINGS | settings)

    def join(self, number: int, service: str, **tags: str) -> History:
        return self.tell(ROUTE_JOINED, number, service, tags_of(number, service, **tags))

    def leave(self, number: int, service: str) -> History:
        return self.tell(ROUTE_LEFT, number, service)

    def tell(
        self, kind: int, number: int = 0, service: str = "", tags: dict[str, str] | None = None, **more: Any
    ) -> History:
        self.seq += 1
        row = self._origin | {
            "seq": self.seq,
            "event_time": START_US + self.seq * 1000,
            "kind": kind,
            "event": "",
            "route_id": name_of(number) if number else "",
            "service": service,
            "tags": list((tags or {}).items()),
            "peer": f"tcp {number}",
            "reason": "",
            "detail": "",
            "uptime_ms": 0,
            "requests": 0,
            "choices": self.choices,
        }
        self.lifecycle.append(row | more)
        return self

    def ask(self, number: int, service: str, raw: bytes | None = None, **more: Any) -> History:
        """A request that this route had and that ended at once; 0: it found none."""
        self.seq += 1
        if number:
            self.choices += 1
        row = self._origin | self._request(number, service, raw)
        row |= {
            "seq": self.seq,
            "event_time": START_US + self.seq * 1000 + 500,
            "started_at": START_US + self.seq * 1000,
            "duration_us": 500,
            "choice": self.choices if number else 0,
            "ended": self.choices,
            "key_hash": -1,
            "weight": 1,
        }
        self.requests.append(row | more)
        return self

    def flow(self, number: int, service: str, requests: int, raw: bytes | None = None, **more: Any) -> History:
        """A flow record of so many requests in one second."""
        self.seq += 1
        row = self._origin | self._request(number, service, raw)
        row |= {
            "seq": self.seq,
            "event_time": START_US + 2_000_000,
            "started_at": START_US + 1_000_000,
            "interval_ms": 1000,
            "requests": requests,
            "branches": requests if number else 0,
            "latency_sum_us": 700 * requests,
            "latency_max_us": 700,
            "latency_buckets": [],
            "latency_counts": [],
        }
        self.flows.append(row | more)
        return self

    def _request(self, number: int, service: str, raw: bytes | None) -> dict[str, Any]:
        frame = raw if raw is not None else address(service=service)
        return {
            "caller_route": "",
            "caller_service": "",
            "route_id": name_of(number) if number else "",
            "service": service,
            "address": f"service={service}",
            "model": "request_response",
            "routing": "unicast",
            "outcome": "completed" if number else "rejected",
            "word": "" if number else "no-route",
            "emptied_by": "",
            "branches": 1 if number else 0,
            "items_in": 1,
            "items_out": 1,
            "bytes_in": 100,
            "bytes_out": 100,
            "address_frame": base64.b64encode(frame).decode(),
        }

    def tables(self) -> dict[str, pa.Table]:
        """Source -> Arrow table."""
        rows = {LIFECYCLES: self.lifecycle, REQUESTS: self.requests, FLOWS: self.flows}
        return {source: arrow_table(source, found) for source, found in rows.items() if found}

    def write(self, folder: Path) -> Path:
        """Segments."""
        put_segments(folder, Header(self._broker, "one", self._epoch), self.tables())
        return folder


def tags_of(number: int, service: str, **tags: str) -> dict[str, str]:
    """The tags of a route as events tell them."""
    told = {parse_key(name).name: value for name, value in tags.items()}
    return {SERVICE_NAME.name: service, ROUTE_ID.name: name_of(number)} | told


def arrow_table(source: str, rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows with the columns of a source; what a row does not say is null."""
    schema = ARROW_SCHEMAS[source]
    arrays = []
    for field in schema:
        kind = pa.int64() if pa.types.is_timestamp(field.type) else field.type
        arrays.append(pa.array([row.get(field.name) for row in rows], kind).cast(field.type))
    return pa.table(arrays, schema=schema)


def asked(folder: Path, question: Question | None = None) -> Simulation:
    """The answer, without Spark."""
    question = question or Question()
    return simulate(LocalEngine(events=folder, tables=None, question=question), question)


def loads(simulation: Simulation) -> dict[str, tuple[int, int]]:
    """Route Id -> requests as it was and as asked, of routes with any."""
    return {
        route: (load.real.requests, load.asked.requests)
        for route, load in simulation.result.routes.items()
        if load.real.requests or load.asked.requests
    }

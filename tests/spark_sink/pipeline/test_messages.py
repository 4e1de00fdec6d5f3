"""What became of the messages of a Samwise gateway: the table equals what was published and who got it."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.config.sections.events import EventOptions
from broker.events import BROKER_STARTED, DEAD, DELIVERED, SAMWISE_ID, LifecycleEvent
from client_sdk import Request, Service, connect
from client_sdk.gateways.samwise.assignment import Assignment
from client_sdk.gateways.samwise.endpoint.client import SamwiseClient
from client_sdk.testing import local_broker
from spark_sink.pipeline import DELTA, PARQUET
from spark_sink.report.facts import read_facts
from spark_sink.tables import GAPS, LIFECYCLE, MESSAGES, read_table
from spark_sink.time_travel.rebuild import runs_of
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.table_reader import TableReader
from tests.client_sdk.gateways.samwise.messages import publish_to
from tests.client_sdk.gateways.samwise.whole import Serving, assigned, gateway
from tests.spark_sink.pipeline.folders import run_once, seal
from tests.spark_sink.records import HEADER, NOON_MS
from tests.system.support.event_numbers import has_no_gap, rows
from tests.system.support.waits import until

MESSAGE = "application/x-samwise-message+json"
TRIES_N = 2  # before a message is dead
REASON = "broken: handler-failed: "  # what each dead letter's begins with

Told = tuple[str, str, str, str, str, int]  # message, exchange, routing key, destination, outcome, tries


@dataclass
class Truth:
    """What the services of the test saw."""

    ids: dict[bytes, str] = field(default_factory=dict)  # of the message with this payload
    took: list[tuple[bytes, str]] = field(default_factory=list)  # payload, and the route that acknowledged it
    tries: dict[bytes, int] = field(default_factory=dict)  # how often it came, whoever got it
    told: list[Told] = field(default_factory=list)  # what follows from it

    def service(self, name: str, fails_n: int = 0) -> "Taker":
        """One that fails each message so often."""
        return Taker(self, name, fails_n)


class Taker:
    def __init__(self, truth: Truth, name: str, fails_n: int) -> None:
        self.service = Service(name)
        self.route_id = ""  # until it is connected

        @self.service.request_response("new")
        async def take(request: Request) -> bytes:
            payload = bytes(request.data)
            truth.ids[payload] = json.loads(request.entry(MESSAGE) or b"")["x-samwise-id"]
            truth.tries[payload] = truth.tries.get(payload, 0) + 1
            if truth.tries[payload] <= fails_n:
                raise ValueError("not now")
            truth.took.append((payload, self.route_id))
            return b""


def with_events(assignment: Assignment, events: Path) -> Assignment:
    options = replace(assignment.options, retry=replace(assignment.options.retry, tries=TRIES_N))
    return replace(assignment, options=options, events=EventOptions(dir=str(events), roll_s=0.1))


async def hand_over(serving: Serving, exchange: str, *payloads: bytes, acks_n: int = 1) -> None:
    def ask() -> None:
        with SamwiseClient(serving.endpoints[0]) as client:
            for payload in payloads:
                assert client.ask(publish_to(exchange, "new", payload, acks_n=acks_n)).is_ok

    await asyncio.to_thread(ask)


async def live(folder: Path) -> Truth:
    """Two runs of a gateway: with services that take, fail once and always fail, and with one that comes late."""
    truth = Truth()
    plain, twice, once, never = ([b"%s-%d" % (name, n) for n in range(5)] for name in (b"p", b"r", b"o", b"n"))
    async with local_broker() as url, AsyncExitStack() as services:

        async def come(taker: Taker) -> None:
            client = await services.enter_async_context(connect(url, service=taker.service))
            taker.route_id = client.route_id

        for taker in (
            truth.service("orders"),
            truth.service("orders"),
            truth.service("flaky", 1),
            truth.service("broken", 99),
        ):
            await come(taker)
        assignment = with_events(assigned(folder, url), folder / "events")
        async with gateway(assignment) as serving:
            await hand_over(serving, "orders", *plain)
            await hand_over(serving, "orders", *twice, acks_n=2)
            await hand_over(serving, "flaky", *once)
            await hand_over(serving, "broken", *never)
            await hand_over(serving, "late", b"late")
            await until(lambda: len(rows(folder / "events", "messages")) == 25)
        await come(truth.service("late"))
        async with gateway(assignment):
            await until(lambda: len(rows(folder / "events", "messages")) == 26)
    for payload, route_id in truth.took:
        exchange = {b"p": "orders", b"r": "orders", b"o": "flaky", b"l": "late"}[payload[:1]]
        to = route_id if payload in twice else exchange
        truth.told.append((truth.ids[payload], exchange, "new", to, DELIVERED, 1 + (exchange == "flaky")))
    truth.told += [(truth.ids[payload], "broken", "new", "", DEAD, TRIES_N) for payload in never]
    truth.told.sort()
    return truth


@pytest.fixture(scope="module")
def lived() -> Iterator[tuple[Path, Truth, datetime]]:
    """The folder of events, what is true of them, and when it began."""
    with tempfile.TemporaryDirectory(prefix="rsb-") as folder:  # short enough for a socket
        began_at = datetime.now(UTC)
        yield Path(folder) / "events", asyncio.run(live(Path(folder))), began_at


@pytest.mark.parametrize(
    "engine, table_format",
    [("local", PARQUET), ("local", DELTA), pytest.param("spark", PARQUET, marks=pytest.mark.spark)],
)
def test_the_table_tells_each_message_and_whom_it_reached(
    lived: tuple[Path, Truth, datetime],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    engine: str,
    table_format: str,
) -> None:
    sealed, truth, began_at = lived
    assert has_no_gap(sealed)
    events, tables = tmp_path / "events", tmp_path / "tables"
    shutil.copytree(sealed, events)
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    run_once(spark, events, tables, table_format=table_format)
    messages: list[dict[str, Any]] = read_table(tables, MESSAGES).to_pylist()
    keys = ("message_id", "exchange", "routing_key", "destination", "outcome", "tries")
    assert sorted(tuple(row[key] for key in keys) for row in messages) == truth.told
    for row in messages:
        assert row["event_time"] - row["accepted_at"] == timedelta(milliseconds=row["after_ms"])
        assert began_at - timedelta(milliseconds=1) <= row["accepted_at"] <= row["event_time"] <= datetime.now(UTC)
        assert row["reason"].startswith(REASON) == (row["outcome"] == DEAD)
        assert row["broker_id"].startswith(SAMWISE_ID)
    runs = read_table(tables, LIFECYCLE).to_pylist()
    assert {(row["broker_id"], row["broker_name"]) for row in messages} == {
        (row["broker_id"], row["broker_name"]) for row in runs
    }
    assert [row["event"] for row in sorted(runs, key=lambda row: (row["epoch"], row["seq"]))] == [
        "BrokerStarted",
        "BrokerStopped",
    ] * 2
    assert read_table(tables, GAPS).num_rows == 0


@pytest.mark.parametrize("table_format", [PARQUET, DELTA])
def test_a_folder_of_before_gets_its_messages_with_the_next_batch(
    lived: tuple[Path, Truth, datetime], tmp_path: Path, table_format: str
) -> None:
    """Events and tables that were made before there were messages."""
    sealed, truth, _ = lived
    events, tables = tmp_path / "events", tmp_path / "tables"
    shutil.copytree(sealed / "lifecycle", events / "lifecycle")
    run_once(None, events, tables, table_format=table_format)
    shutil.rmtree(tables / MESSAGES)
    shutil.rmtree(events / MESSAGES)
    assert read_table(tables, MESSAGES).num_rows == 0
    shutil.copytree(sealed / MESSAGES, events / MESSAGES)
    run_once(None, events, tables)
    assert read_table(tables, MESSAGES).num_rows == len(truth.told)


def test_a_gateway_is_no_broker_to_time_travel_and_reports(lived: tuple[Path, Truth, datetime], tmp_path: Path) -> None:
    """Whoever has one broker and a gateway need not say which broker is meant."""
    events, tables = tmp_path / "events", tmp_path / "tables"
    shutil.copytree(lived[0], events)
    seal(events, [LifecycleEvent(BROKER_STARTED, 1, NOON_MS)])
    assert {run.broker_id for run in runs_of(SegmentReader(events), None)} == {HEADER.broker_id}
    run_once(None, events, tables)
    assert {run.broker_id for run in runs_of(TableReader(tables), None)} == {HEADER.broker_id}
    assert [broker.broker_id for broker in read_facts(tables).cluster.brokers] == [HEADER.broker_id]

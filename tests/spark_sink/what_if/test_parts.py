"""Which parts a simulation has, and that it does not matter how rows come in batches."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from broker.events import REDIRECT_SET
from rsocket_wire.wire.keys import SERVICE_NAME
from spark_sink.errors import SinkError
from spark_sink.history import epochs
from spark_sink.history.epochs import Epoch, epochs_of
from spark_sink.what_if import local
from spark_sink.what_if.local import LocalEngine
from spark_sink.what_if.parts import Plan, replay_batches
from spark_sink.what_if.question import Question
from spark_sink.what_if.records import ROW_ORDER, rows_of
from spark_sink.what_if.results import UnitResult
from spark_sink.what_if.totals import Summary, summaries_of
from tests.spark_sink.what_if.histories import BROKER, START_US, History


def three_services() -> History:
    made = History().start()
    for service, name in enumerate(("orders", "stock", "users")):
        for number in range(3):
            made.join(1 + 10 * service + number, name)
    return made


def engine(folder: Path, question: Question) -> LocalEngine:
    return LocalEngine(events=folder, tables=None, question=question)


def plan_of(here: LocalEngine, question: Question) -> Plan:
    return Plan(epochs_of(here.lifecycle()), summaries_of(here.totals()), question)


def test_with_the_real_settings_an_epoch_is_one_part(tmp_path: Path) -> None:
    folder = three_services().ask(1, "orders").write(tmp_path)
    plan = plan_of(engine(folder, Question()), Question())
    assert [(part.unit, part.is_asked, part.compares) for part in plan.parts] == [(epochs.WHOLE, True, True)]


def test_another_chooser_splits_it_by_service_and_checks_it_whole(tmp_path: Path) -> None:
    question = Question(chooser="random")
    folder = three_services().ask(1, "orders").write(tmp_path)
    parts = plan_of(engine(folder, question), question).parts
    assert [part.unit for part in parts if part.is_asked] == ["orders", "stock", "users", epochs.NOBODY]
    assert [part.unit for part in parts if part.compares] == [epochs.WHOLE]


def test_services_that_share_routes_are_one_unit(tmp_path: Path) -> None:
    made = three_services().join(31, "both", **{SERVICE_NAME.name: "orders,stock"})
    made.tell(REDIRECT_SET, service="old", detail="requests go to users")
    epoch = epochs_of(engine(made.write(tmp_path), Question()).lifecycle())[0]
    units = epoch.split()
    assert units["both"] == units["orders"] == units["stock"] != units["users"]
    assert units["old"] == units["users"]
    assert {change.service for change in epoch.changes_of(units["users"])} == {"users", "old"}
    assert epoch.changes_of(epochs.WHOLE) == epoch.changes


def test_flows_are_not_compared(tmp_path: Path) -> None:
    folder = three_services().flow(1, "orders", 5).write(tmp_path)
    assert [part.compares for part in plan_of(engine(folder, Question()), Question()).parts] == [False]


@pytest.mark.parametrize("rows_n", [1, 2, 7, 1000])
def test_rows_may_come_in_any_batches(rows_n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "BATCH", rows_n)
    question = Question(chooser="least_busy")
    made = three_services()
    for number in range(60):
        made.ask((1, 11, 21)[number % 3], ("orders", "stock", "users")[number % 3])
    here = engine(made.write(tmp_path), question)
    plan = plan_of(here, question)
    rows = pa.concat_tables(rows_of([here.records], plan.places)).sort_by([(name, "ascending") for name in ROW_ORDER])
    batches = [rows.slice(at, rows_n).combine_chunks().to_batches()[0] for at in range(0, len(rows), rows_n)]
    results = pa.Table.from_batches(list(replay_batches(iter(batches), plan)))
    assert results.equals(here.replay(plan))
    found = {
        plan.parts[part].unit: msgspec.json.decode(data, type=UnitResult).rows
        for part, data in zip(*results.to_pydict().values(), strict=True)
    }
    assert found == {"orders": 20, "stock": 20, "users": 20, epochs.WHOLE: 60}


def test_only_records_that_are_read_are_kept(tmp_path: Path) -> None:
    """Not what is behind the end, nor flows of an epoch that has requests."""
    made = three_services().ask(1, "orders").ask(2, "orders")
    made.flow(1, "orders", 5, started_at=START_US).write(tmp_path)
    History(2).start().join(1, "orders").flow(1, "orders", 5, started_at=START_US).write(tmp_path)
    here = engine(tmp_path, Question(until_us=made.requests[1]["started_at"]))
    assert len(here.records) == 4
    assert sum(each.rows for each in summaries_of(here.totals())) == 2
    assert here.records.select(["epoch", "seq"]).to_pydict() == {"epoch": [1, 2], "seq": [11, 3]}


def test_no_rows_are_no_results() -> None:
    assert list(replay_batches(iter([]), Plan([], [], Question()))) == []


def test_too_many_changes_are_too_many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(epochs, "MAX_CHANGES", 9)
    folder = three_services().write(tmp_path)
    with pytest.raises(SinkError, match="the routing tables changed more than 9 times"):
        epochs_of(engine(folder, Question()).lifecycle())


def test_an_event_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    rows = engine(three_services().write(tmp_path), Question()).lifecycle()
    (epoch,) = epochs_of(pa.concat_tables([rows, rows[:4]]))
    assert isinstance(epoch, Epoch)
    assert len(epoch.changes) == 9


def test_an_epoch_without_records_has_no_part(tmp_path: Path) -> None:
    rows = engine(three_services().write(tmp_path), Question()).lifecycle()
    summary = Summary(BROKER, 2, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0)
    assert Plan(epochs_of(rows), [summary], Question()).parts == []

"""client_sdk.gateways.event_files: what a gateway tells arrives in files, or it is told that it does not."""

import sys
from pathlib import Path

import pytest

from broker.config.options import Config
from broker.config.sections.events import EventOptions
from broker.edge.event_backlog import EventBacklog
from broker.edge.event_pipe import EventPipe
from broker.events import DELIVERED, SAMWISE_ID, MessageRecord
from client_sdk.gateways.event_files import ID_NAME, EventFiles
from rsocket_wire.errors import BrokerError
from tests.system.support.event_numbers import rows

LOG = Config().log


def record(number: int) -> MessageRecord:
    return MessageRecord(0, 2000, f"{number:032x}", "orders", "new", "a", DELIVERED, "", 1000, 1000, 1)


async def run(folder: Path, *records: MessageRecord, pipe: EventPipe | None = None) -> int:
    """One run of a gateway; how many records were lost."""
    events = EventOptions(dir=str(folder / "events"))
    files = EventFiles("shop-samwise", SAMWISE_ID, pipe)
    for each in records:
        files.append(each)
    await files.start(folder, events, LOG)
    await files.stop(60)  # a busy machine takes seconds to start the writer
    return files.dropped_n


async def test_runs_of_one_gateway_have_one_id_and_number_their_records(tmp_path: Path) -> None:
    for _ in range(2):
        assert await run(tmp_path, record(1), record(2)) == 0
    told = rows(tmp_path / "events", "messages")
    assert [(row["message_id"][-1], row["seq"]) for row in told] == [("1", 2), ("2", 3)] * 2
    assert {row["broker_name"] for row in told} == {"shop-samwise"}
    assert {row["broker_id"] for row in told} == {SAMWISE_ID + (tmp_path / ID_NAME).read_text()}
    assert len({row["epoch"] for row in told}) == 2
    lifecycle = rows(tmp_path / "events", "lifecycle")
    assert [(row["event"], row["seq"]) for row in lifecycle] == [("BrokerStarted", 1), ("BrokerStopped", 4)] * 2


async def test_an_id_that_was_not_written_whole_is_another_one(tmp_path: Path) -> None:
    (tmp_path / ID_NAME).write_text("a2c")
    await run(tmp_path, record(1))
    assert rows(tmp_path / "events", "messages")[0]["broker_id"] == SAMWISE_ID + (tmp_path / ID_NAME).read_text()


async def test_records_beyond_the_bound_are_counted_and_told_as_a_gap(tmp_path: Path) -> None:
    backlog = EventBacklog(max_bytes=300)
    pipe = EventPipe([sys.executable, "-m", "spark_sink.writer"], backlog)
    assert await run(tmp_path, *(record(number) for number in range(5)), pipe=pipe) == 6  # and that it started
    (gap, stopped) = rows(tmp_path / "events", "lifecycle")
    assert (gap["event"], gap["reason"], dict(gap["tags"])["records"]) == ("EventsDropped", "backlog-full", "6")
    assert stopped["event"] == "BrokerStopped"
    assert rows(tmp_path / "events", "messages") == []


@pytest.mark.parametrize("name", ["events", ID_NAME])
async def test_a_folder_that_cannot_be_used_is_told_at_the_start(tmp_path: Path, name: str) -> None:
    blocked = tmp_path / name
    if name == ID_NAME:
        blocked.mkdir()
    else:
        blocked.write_text("")
    with pytest.raises(BrokerError, match=rf"{name}: (is a directory|file exists)") as told:
        await EventFiles("g", SAMWISE_ID).start(tmp_path, EventOptions(dir=str(tmp_path / "events")), LOG)
    assert told.value.word == "bad-config"

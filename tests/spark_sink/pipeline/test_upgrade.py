"""Tables that an older version has made become tables of this one."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from spark_sink.cli import pipeline
from spark_sink.errors import BadFolder
from spark_sink.event_files.layout import ARCHIVE
from spark_sink.pipeline.folders import check_folders
from spark_sink.schema import FLOWS
from spark_sink.tables import LIFECYCLE, OLD_NAMES, PARTIALS, REQUESTS, ROLL_UPS, read_table
from tests.spark_sink.pipeline.batches import seal_requests
from tests.spark_sink.pipeline.folders import BEFORE_MIDNIGHT_MS, EventSource, assert_tables_tell, request_seqs, seal
from tests.spark_sink.records import Event, events, header_with

NEW_NAMES = {new: old for old, new in OLD_NAMES.items()}


def older(tmp_path: Path) -> tuple[EventSource, list[Event]]:
    """Tables of two days with the columns, names and checkpoint that schema version 3 had."""
    source, records = EventSource(tmp_path / "events", tmp_path / "tables"), events(4, 60, BEFORE_MIDNIGHT_MS)
    for batch, some in enumerate((records[:30], records[30:])):
        seal(source.events, some, header=header_with(first_number=100 * batch + 1))
        seal_requests(source.events, range(1000 + 50 * batch, 1050 + 50 * batch), BEFORE_MIDNIGHT_MS + 50_000)
        source.run()
    for roll_up in ROLL_UPS:
        shutil.rmtree(source.tables / roll_up.name)
    for path in list(source.tables.glob("*/date=*/*.parquet")):
        rows = pq.read_table(path)
        path.unlink()  # it is a link to its segment
        name = path.name.replace("batch-000000000", "000001-000000000").replace("-0.parquet", ".parquet")
        pq.write_table(
            rows.rename_columns([NEW_NAMES.get(column, column) for column in rows.schema.names]), path.with_name(name)
        )
    (source.tables / "_checkpoints" / "batch.json").unlink()
    for kind in ("offsets", "commits"):
        (source.tables / "_checkpoints" / "000001" / kind).mkdir(parents=True)
        for number in ("0", "1"):
            (source.tables / "_checkpoints" / "000001" / kind / number).write_text("v1")
    return source, records


def upgraded(source: EventSource, *options: str) -> Result:
    return CliRunner().invoke(pipeline, ["upgrade", "--tables", str(source.tables), *options])


@pytest.mark.parametrize("times", [1, 2])
def test_tables_of_an_older_version_are_upgraded_and_go_on(tmp_path: Path, times: int) -> None:
    source, records = older(tmp_path)
    with pytest.raises(BadFolder, match=r"older version: rsocket-broker pipeline upgrade --tables .* makes"):
        check_folders(*source.places, is_once=False)
    before = shutil.copytree(source.tables / "_checkpoints", tmp_path / "checkpoints")
    for _time in range(times):  # killed before its last step
        shutil.copytree(before, source.tables / "_checkpoints", dirs_exist_ok=True)
        result = upgraded(source)
        assert (result.exit_code, result.stdout.count("days have roll-ups, and 0 segments")) == (0, 1), result.output
    records += events(7, 20, BEFORE_MIDNIGHT_MS, first_seq=len(records) + 1)
    seal(source.events, records[60:], header=header_with(first_number=500))
    check_folders(*source.places, is_once=False)
    source.run()
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(1000, 1100))
    for partial in PARTIALS:
        requests = sum(read_table(source.tables, partial.name)["requests"].to_pylist())
        for grain in ("hour", "day"):
            name = partial.rolled_up(grain).name
            assert sum(read_table(source.tables, name)["requests"].to_pylist()) == requests
    again = upgraded(source)
    assert (again.exit_code, again.stderr) == (2, f"{source.tables} holds no tables of an older version\n")


def test_segments_that_were_read_and_not_moved_yet_are_moved_and_not_read_again(tmp_path: Path) -> None:
    source, records = older(tmp_path)
    for path in (source.events / ARCHIVE).rglob("*.parquet"):
        path.rename(source.events / path.parent.name / path.name)
    done = json.loads(upgraded(source, "--json").stdout)
    assert (done["renamed_files"] > 0, done["days"] > 0, done["archived_segments"]) == (True, True, 6), done
    assert not list((source.events / FLOWS).iterdir())
    source.run()
    assert_tables_tell(source.tables, records)


def test_pipeline_that_was_killed_in_a_batch_is_to_be_ended_first(tmp_path: Path) -> None:
    source, _ = older(tmp_path)
    (source.tables / "_checkpoints" / "000001" / "offsets" / "2").touch()
    before = [path.read_bytes() for path in sorted(source.tables.glob(f"{LIFECYCLE}/*/*"))]
    result = upgraded(source)
    assert result.exit_code == 2
    assert "was killed in a batch: run the older version once more" in result.stderr
    assert [path.read_bytes() for path in sorted(source.tables.glob(f"{LIFECYCLE}/*/*"))] == before
    assert list(source.tables.glob(f"{REQUESTS}/*/*"))

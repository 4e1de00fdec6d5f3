"""The life of the query without Spark: what ends it, what begins it again, and which folders are refused."""

import errno
import os
import signal
import subprocess
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_sink.errors import BadFolder, MissingPart, SinkError
from spark_sink.pipeline import pipeline as pipeline_module
from spark_sink.pipeline.filesystems import LocalFileSystem, file_of, filesystem_of, local_path, scheme_of, spark_text
from spark_sink.pipeline.folders import check_folders, locked, remove_leftovers
from spark_sink.pipeline.local import LocalEngine
from spark_sink.pipeline.pipeline import Pipeline, is_every
from spark_sink.pipeline.spark import ROLL_WORD
from spark_sink.schema import FLOWS
from spark_sink.tables import TRAFFIC
from spark_sink.writer.retention import READERS
from tests.spark_sink.pipeline.folders import seal
from tests.spark_sink.records import events


class Query:
    """It does `work` and ends."""

    is_busy = False

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self.is_stopped = False

    def wait(self, _seconds: float) -> bool:
        self._work()
        return True

    def stop(self) -> None:
        self.is_stopped = True


class Engine(LocalEngine):
    """Its queries do these works, one after another."""

    def __init__(self, works: list[Callable[[], None]]) -> None:
        self._works = works
        self.queries: list[Query] = []

    def start(self, *_: Any) -> Any:
        self.queries.append(Query(self._works[len(self.queries)]))
        return self.queries[-1]


def failing(text: str) -> Callable[[], None]:
    def fail() -> None:
        raise RuntimeError(text)

    return fail


def full_once(step: Any) -> Any:
    """It finds the disk full, and works from then on."""
    calls = list[int]()

    def tried(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return step(*arguments)

    return tried


def with_queries(
    monkeypatch: pytest.MonkeyPatch, folder: Path, works: list[Callable[[], None]], every: str | None
) -> tuple[Pipeline, Engine]:
    seal(folder / "events", events(1, 10))
    monkeypatch.setattr(pipeline_module, "HEAL_S", 0.0)
    return Pipeline(str(folder / "events"), str(folder / "tables"), None, every), Engine(works)


def test_full_disk_is_told_and_the_query_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = failing("java.io.IOException: x\nCaused by: java.io.IOException: No space left on device")
    works = [full, full]
    pipeline, engine = with_queries(monkeypatch, tmp_path, works, "5 seconds")
    works.append(lambda: pipeline._stop(15, None))
    pipeline.run_queries(engine)
    assert [query.is_stopped for query in engine.queries] == [True] * 3
    [line] = [line for line in capsys.readouterr().err.splitlines() if "the disk is full" in line]  # not every time
    assert "No space left on device; trying again" in line


def test_disk_that_is_full_between_two_queries_is_told_and_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    works: list[Callable[[], None]] = [failing(ROLL_WORD)]
    pipeline, engine = with_queries(monkeypatch, tmp_path, works, "5 seconds")
    works.append(lambda: pipeline._stop(15, None))
    for name in ("never_read", "remove_leftovers", "finish_if_alone"):
        monkeypatch.setattr(pipeline_module, name, full_once(getattr(pipeline_module, name)))
    write, full = LocalFileSystem.write, full_once(LocalFileSystem.write)
    monkeypatch.setattr(LocalFileSystem, "write", lambda *told: full(*told) if told[1] == READERS else write(*told))
    works.insert(1, failing(ROLL_WORD))
    pipeline.run_queries(engine)
    assert [query.is_stopped for query in engine.queries] == [True] * 3
    said = capsys.readouterr().err
    assert "the progress of this reader cannot be reported to the event writer: [Errno 28] No space left" in said


def test_signal_that_reaches_java_first_is_a_stop_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works: list[Callable[[], None]] = []
    pipeline, engine = with_queries(monkeypatch, tmp_path, works, "5 seconds")

    def stopped() -> None:
        pipeline._stop(15, None)
        raise RuntimeError("Answer from Java side is empty")

    works.append(stopped)
    pipeline.run_queries(engine)


@pytest.mark.parametrize(
    "numbers, error",
    [
        ([signal.SIGTERM], None),
        ([signal.SIGINT], None),
        ([signal.SIGHUP], None),
        ([signal.SIGTERM] * 2, None),
        ([], KeyboardInterrupt),  # Spark's own
        ([signal.SIGTERM], SinkError),  # its Java had the same signal
    ],
)
@pytest.mark.parametrize("every", [None, "5 seconds"])
def test_signal_while_spark_starts_ends_it_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    numbers: list[int],
    error: type[BaseException] | None,
    every: str | None,
) -> None:
    stopped = list[int]()
    session = types.SimpleNamespace(stop=lambda: stopped.append(1))

    def starting(*_: Any, **__: Any) -> Any:
        for number in numbers:
            os.kill(os.getpid(), number)
        if error is not None:
            raise error
        return session

    monkeypatch.setattr(pipeline_module, "open_session", starting)
    seal(tmp_path / "events", events(1, 10))
    pipeline = Pipeline(str(tmp_path / "events"), str(tmp_path / "tables"), None, every)
    before = signal.getsignal(signal.SIGTERM)
    if every is None:
        with pytest.raises(SinkError, match="stopped before everything was read"):
            pipeline.run()
    else:
        pipeline.run()
    assert "stopped while Spark started; nothing was begun" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
    assert len(stopped) == (len(numbers) == 1 and error is None)


def test_second_signal_while_spark_starts_kills_its_java_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = [subprocess.Popen(["sleep", "60"])]

    def starting(*_: Any, **__: Any) -> None:
        started.append(subprocess.Popen(["sleep", "60"]))
        for _time in (1, 2):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(pipeline_module, "open_session", starting)
    seal(tmp_path / "events", events(1, 10))
    Pipeline(str(tmp_path / "events"), str(tmp_path / "tables"), None, "5 seconds").run()
    other, java = started
    try:
        assert java.wait(10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    "text, every", [("Caused by: a.B: the disk is gone", "5 seconds"), ("No space left on device", None)]
)
def test_other_failures_and_a_full_disk_with_once_end_it_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, every: str | None
) -> None:
    pipeline, engine = with_queries(monkeypatch, tmp_path, [failing(text)], every)
    with pytest.raises(SinkError) as raised:
        pipeline.run_queries(engine)
    assert str(raised.value) == f"the pipeline ended: {text.removeprefix('Caused by: a.B: ')}"


def check(events_folder: Path, tables: Path, *, is_once: bool) -> None:
    check_folders(LocalFileSystem(events_folder), LocalFileSystem(tables), is_once=is_once)


def test_folder_without_segments_is_refused_once_and_awaited_otherwise(tmp_path: Path) -> None:
    (tmp_path / "events" / FLOWS).mkdir(parents=True)
    (tmp_path / "events" / FLOWS / ".half.parquet").touch()
    with pytest.raises(BadFolder, match="holds no segments yet"):
        check(tmp_path / "events", tmp_path / "tables", is_once=True)
    check(tmp_path / "events", tmp_path / "tables", is_once=False)
    assert (tmp_path / "events" / "requests").is_dir()


def test_tables_without_their_checkpoint_are_refused(tmp_path: Path) -> None:
    seal(tmp_path / "events", events(9, 10))
    day = tmp_path / "tables" / TRAFFIC / "date=2026-11-20"
    day.mkdir(parents=True)
    (day / "000001-0000000000.parquet").touch()
    with pytest.raises(BadFolder, match="without their checkpoint"):
        check(tmp_path / "events", tmp_path / "tables", is_once=True)


def test_tables_of_another_events_folder_are_refused(tmp_path: Path) -> None:
    for name in ("events", "others"):
        seal(tmp_path / name, events(9, 10))
    check(tmp_path / "events", tmp_path / "tables", is_once=True)
    check(tmp_path / "events", tmp_path / "tables", is_once=True)
    with pytest.raises(BadFolder, match=r"is made of .*events and not of .*others"):
        check(tmp_path / "others", tmp_path / "tables", is_once=True)


def test_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadFolder, match="cannot be written"), locked(tmp_path, tmp_path / "file"):
        pass


def test_events_that_cannot_be_read_are_not_told_as_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))

    monkeypatch.setattr(Path, "is_dir", refused)
    said = rf"the events folder {tmp_path} cannot be read: permission denied"
    with pytest.raises(BadFolder, match=said), locked(tmp_path, None):
        pass


def test_second_pipeline_of_the_same_folders_is_refused(tmp_path: Path) -> None:
    events_folder, tables = tmp_path / "events", tmp_path / "tables"
    events_folder.mkdir()
    with locked(events_folder, tables):
        with pytest.raises(BadFolder, match=r"another pipeline writes the tables in .*tables"), locked(None, tables):
            pass
        with (
            pytest.raises(BadFolder, match=r"another pipeline reads the events in .*events"),
            locked(events_folder, tmp_path / "others"),
        ):
            pass
    with locked(events_folder, tables):
        pass


def test_events_that_go_into_other_tables_are_refused_and_tables_may_move(tmp_path: Path) -> None:
    seal(tmp_path / "events", events(9, 10))
    check(tmp_path / "events", tmp_path / "tables", is_once=True)
    with pytest.raises(BadFolder, match=r"events in .*events go into tables in .*/tables, and not into .*/others: "):
        check(tmp_path / "events", tmp_path / "others", is_once=True)
    (tmp_path / "tables").rename(tmp_path / "moved")
    check(tmp_path / "events", tmp_path / "moved", is_once=True)
    with pytest.raises(BadFolder, match=r"go into tables in .*/moved, and not into .*/tables: "):
        check(tmp_path / "events", tmp_path / "tables", is_once=True)  # made anew, without what is in the archive
    (tmp_path / "events" / "_pipeline.json").write_text("{}")
    with pytest.raises(BadFolder, match=r"_pipeline.json does not say which tables"):
        check(tmp_path / "events", tmp_path / "moved", is_once=True)


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("error", [MissingPart("Spark needs Java 17 or newer"), SinkError("Spark did not start")])
def test_start_without_spark_leaves_the_events_to_whatever_tables_come_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: SinkError
) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(pipeline_module, "open_session", missing)
    seal(tmp_path / "events", events(9, 10))
    before = contents(tmp_path / "events")
    with pytest.raises(type(error)):
        Pipeline(str(tmp_path / "events"), str(tmp_path / "tables"), None, None).run()
    assert contents(tmp_path / "events") == before
    assert contents(tmp_path / "tables") == ["_lock"]
    check(tmp_path / "events", tmp_path / "others", is_once=True)


def test_folders_that_cannot_be_are_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_module, "open_session", lambda *_, **__: pytest.fail("Spark starts"))
    seal(tmp_path / "events", events(9, 10))
    check(tmp_path / "events", tmp_path / "tables", is_once=True)
    with pytest.raises(BadFolder, match=r"go into tables in .*/tables, and not into .*/others: "):
        Pipeline(str(tmp_path / "events"), str(tmp_path / "others"), None, "5 seconds").run()


def test_one_folder_for_events_and_tables_is_refused(tmp_path: Path) -> None:
    seal(tmp_path, events(9, 10))
    with pytest.raises(BadFolder, match="cannot hold events and tables"):
        check(tmp_path, tmp_path, is_once=True)


def test_leftovers_of_a_killed_pipeline_are_removed(tmp_path: Path) -> None:
    day = tmp_path / TRAFFIC / "date=2026-11-20"
    day.mkdir(parents=True)
    for name in (".000001-0000000001.parquet", "000001-0000000000.parquet"):
        (day / name).touch()
    remove_leftovers(LocalFileSystem(tmp_path))
    assert [path.name for path in day.iterdir()] == ["000001-0000000000.parquet"]


@pytest.mark.parametrize(
    "text, is_good",
    [("5 seconds", True), ("1 minute", True), ("0 seconds", True), ("5s", False), ("0 minutes", False), ("", False)],
)
def test_interval_is_what_spark_takes(text: str, is_good: bool) -> None:
    assert is_every(text) == is_good


def test_folders_are_paths_or_uris(tmp_path: Path) -> None:
    assert local_path(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert local_path("a%20b") == Path("a%20b").absolute()
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    assert local_path(f"{tmp_path}/link/../events") == tmp_path / "real" / "events"
    assert local_path(f"{tmp_path}/link/events") == tmp_path / "link" / "events"
    assert (local_path("hdfs://host/x"), scheme_of("s3a://b/x"), scheme_of("C:x")) == (None, "s3a", "file")
    assert file_of("file:/a b/100%") == "/a b/100%"
    assert file_of("hdfs://host/a b") == "hdfs://host/a b"
    assert spark_text("/a[1]{b}*") == r"file:///a\[1\]\{b\}\*"
    with pytest.raises(MissingPart, match="over Spark Connect the folders must be paths that the server sees"):
        filesystem_of("hdfs://host/x", None)

import os
from pathlib import Path

import pytest

from broker.events import WriterState
from spark_sink.event_files.layout import ARCHIVE, Disk, segment_name
from spark_sink.writer.machine import LOOK_S
from spark_sink.writer.retention import READERS, Reading, Retention, declare
from spark_sink.writer.settings import Settings
from tests.spark_sink.records import WALL_S, writer_of

SIZE = 100
STREAM = "b-7"


class Folder:
    """An events folder whose segments are 100 bytes each; number n was sealed n seconds before now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: list[str] = []
        self.state = WriterState()

    def add(self, source: str, *numbers: int, archived: bool = False) -> None:
        folder = self.path / ARCHIVE / "of" / "spark" / source if archived else self.path / source
        folder.mkdir(parents=True, exist_ok=True)
        for number in numbers:
            path = folder / segment_name("b", 7, number)
            path.write_bytes(b"x" * SIZE)
            os.utime(path, (WALL_S - number, WALL_S - number))

    def heard(self, name: str, seconds_ago: float) -> None:
        os.utime(self.path / READERS / f"{name}.json", (WALL_S - seconds_ago, WALL_S - seconds_ago))

    def retention(self, keep: Settings) -> Retention:
        return Retention(self.path, keep, Disk(), self.said.append, self.said.append)

    def look(self, keep: Settings) -> list[str]:
        """What is there after a look: `flows/3`, archived ones with an `a`."""
        self.retention(keep).look(WALL_S, self.state)
        return self.left()

    def left(self) -> list[str]:
        paths = [path for path in self.path.rglob("*.parquet") if not path.name.startswith(".")]
        return sorted(
            f"{path.parent.name}/{int(path.stem.split('-')[-1])}{'a' if ARCHIVE in path.parts else ''}"
            for path in paths
        )


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_without_bounds_everything_is_kept(folder: Folder) -> None:
    folder.add("flows", 1, 10**9)
    assert not Settings().is_bounded
    assert folder.look(Settings()) == ["flows/1", "flows/1000000000"]


def test_what_is_too_old_is_removed_in_all_folders(folder: Folder) -> None:
    folder.add("flows", 1, 100, 101)
    folder.add("requests", 101, 200, archived=True)
    assert folder.look(Settings(keep_s=100.0)) == ["flows/1", "flows/100"]
    assert folder.state.removed == 3


def test_the_oldest_are_removed_until_all_are_small_enough(folder: Folder) -> None:
    folder.add("flows", 1, 3, 5)
    folder.add("lifecycle", 2, 4, archived=True)
    assert folder.look(Settings(keep_bytes=3 * SIZE)) == ["flows/1", "flows/3", "lifecycle/2a"]
    assert folder.look(Settings(keep_bytes=3 * SIZE)) == ["flows/1", "flows/3", "lifecycle/2a"]


def test_what_a_reader_has_not_read_is_kept_and_counted(folder: Folder) -> None:
    folder.add("flows", 1, 2, 3, 4)
    folder.add("lifecycle", 3)
    declare(folder.path, "one", Reading(read={f"flows/{STREAM}": 3}))
    assert folder.look(Settings(keep_s=0.5)) == ["flows/4", "lifecycle/3"]
    assert (folder.state.removed, folder.state.unread_bytes) == (3, 2 * SIZE)
    declare(folder.path, "one", Reading(read={f"flows/{STREAM}": 4, f"lifecycle/{STREAM}": 3}))
    assert folder.look(Settings(keep_s=0.5)) == []
    assert folder.state.unread_bytes == 0


def test_unread_segments_count_for_the_size_and_younger_ones_go(folder: Folder) -> None:
    folder.add("flows", 1, 2)
    folder.add("lifecycle", 3)
    declare(folder.path, "one", Reading(read={f"flows/{STREAM}": 99}))
    assert folder.look(Settings(keep_bytes=2 * SIZE)) == ["flows/1", "lifecycle/3"]


def test_all_readers_must_have_read_it(folder: Folder) -> None:
    folder.add("flows", 1, 2)
    declare(folder.path, "one", Reading(read={f"flows/{STREAM}": 2}))
    declare(folder.path, "two", Reading(read={f"flows/{STREAM}": 1}))
    assert folder.look(Settings(keep_s=0.5)) == ["flows/2"]


def test_for_a_reader_that_archives_only_the_archive_is_read(folder: Folder) -> None:
    folder.add("flows", 1, 2)
    folder.add("flows", 3, 4, archived=True)
    declare(folder.path, "spark", Reading(archives=True))
    assert folder.look(Settings(keep_s=0.5)) == ["flows/1", "flows/2"]


def test_what_another_reader_has_archived_is_kept_for_who_has_not_read_it(folder: Folder) -> None:
    folder.add("flows", 1, 2, archived=True)
    declare(folder.path, "spark", Reading(archives=True))
    declare(folder.path, "mirror", Reading(read={f"flows/{STREAM}": 1}))
    assert folder.look(Settings(keep_s=0.5)) == ["flows/2a"]
    declare(folder.path, "mirror", Reading(read={f"flows/{STREAM}": 2}))
    assert folder.look(Settings(keep_s=0.5)) == []


def test_nothing_is_kept_of_sources_that_a_reader_does_not_read(folder: Folder) -> None:
    folder.add("flows", 1, 2)
    folder.add("lifecycle", 1, 2)
    folder.add("requests", 1, archived=True)
    declare(folder.path, "one", Reading(read={f"flows/{STREAM}": 1}, sources=("flows",)))
    assert folder.look(Settings(keep_s=0.5)) == ["flows/2"]


def test_silent_reader_is_told_once_and_respected(folder: Folder) -> None:
    folder.add("flows", 1)
    declare(folder.path, "one", Reading())
    folder.heard("one", 61.0)
    retention = folder.retention(Settings(keep_s=0.5, reader_timeout_s=60.0))
    for _ in range(3):
        retention.look(WALL_S, folder.state)
    assert folder.said == ["the reader one has reported nothing for 60 s; its unread files are kept"]
    assert (folder.left(), folder.state.silent_readers) == (["flows/1"], 1)
    folder.heard("one", 0.0)
    retention.look(WALL_S, folder.state)
    assert (folder.said[1:], folder.state.silent_readers) == (["the reader one reports again, or was removed"], 0)


def test_silent_reader_keeps_nothing_where_it_is_to_be_ignored(folder: Folder) -> None:
    folder.add("flows", 1)
    declare(folder.path, "one", Reading())
    folder.heard("one", 61.0)
    assert folder.look(Settings(keep_s=0.5, reader_timeout_s=60.0, ignore_silent_readers=True)) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"reads": {}}', '{"read": {"flows/b-7": "all"}}', "\xff"])
def test_reader_that_says_nonsense_has_read_nothing_and_is_told_once(folder: Folder, text: str) -> None:
    folder.add("flows", 1)
    declare(folder.path, "one", Reading())
    (folder.path / READERS / "one.json").write_text(text, encoding="latin-1")
    retention = folder.retention(Settings(keep_s=0.5))
    retention.look(WALL_S, folder.state)
    retention.look(WALL_S, folder.state)
    assert folder.left() == ["flows/1"]
    assert [sentence.split(": ")[0] for sentence in folder.said if "reader report" in sentence] == [
        f"{folder.path / READERS / 'one.json'} is no valid reader report; all files are kept for it"
    ]


def test_only_segments_are_removed(folder: Folder) -> None:
    for name in ("flows/notes.txt", "flows/.b-7-0000000009.parquet", "flows/other.parquet", "_tmp/b-7-0000000001.wal"):
        (folder.path / name).parent.mkdir(exist_ok=True)
        (folder.path / name).write_bytes(b"x")
        os.utime(folder.path / name, (1, 1))
    folder.retention(Settings(keep_s=0.5, keep_bytes=1)).look(WALL_S, folder.state)
    assert (folder.state.removed, len([path for path in folder.path.glob("*/*") if path.is_file()])) == (0, 4)


def test_segment_that_cannot_be_removed_is_told_once_and_the_others_go(folder: Folder) -> None:
    class Stubborn(Disk):
        def remove(self, path: Path) -> None:
            if path.parent.name == "flows":
                raise PermissionError(1, "Operation not permitted")
            super().remove(path)

    folder.add("flows", 5)
    folder.add("lifecycle", 3)
    retention = Retention(folder.path, Settings(keep_s=0.5), Stubborn(), folder.said.append, folder.said.append)
    retention.look(WALL_S, folder.state)
    retention.look(WALL_S, folder.state)
    assert (folder.left(), len(folder.said), folder.state.removed) == (["flows/5"], 1, 1)


def test_writer_looks_at_its_start_and_every_30_seconds(folder: Folder) -> None:
    writer = writer_of(folder.path, say=folder.said.append, settings=Settings(keep_s=10.0))
    writer.begin(100.0, WALL_S)
    folder.add("flows", 11)
    writer.tick(100.0, WALL_S)
    assert (folder.left(), writer.next_deadline()) == ([], 100.0 + LOOK_S)
    folder.add("flows", 12)
    writer.tick(100.0 + LOOK_S - 1, WALL_S)
    assert folder.left() == ["flows/12"]
    writer.tick(100.0 + LOOK_S, WALL_S)
    assert (folder.left(), writer.state.removed) == ([], 2)

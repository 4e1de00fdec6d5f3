"""Looks at real folders: what is found there, what is not, and how often."""

import os
from pathlib import Path

import pytest

from spark_sink.feed.posts import DIRECTORY, LINK
from spark_sink.feed.producer import folders
from spark_sink.feed.producer.folders import CPU_SHARE, Folder, Pace, SegmentsFolder
from spark_sink.feed.producer.scanning import FILE, Look

STREAM = "11223344-5566-7788-99aa-bbccddeeff00-1700000000000"


def kinds(look: Look) -> dict[str, str]:
    return {path: entry.kind for path, entry in look.entries.items()}


def test_files_links_and_folders_are_found_and_nothing_that_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "d/.h").mkdir(parents=True)
    (tmp_path / "d/.h/x").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "d/ü #?%.txt").write_text("abc")
    (tmp_path / "l").symlink_to("d/nowhere")
    (tmp_path / "folder").symlink_to("d")
    os.mkfifo(tmp_path / "fifo")
    look = Folder(tmp_path).look({})
    assert kinds(look) == {"d": DIRECTORY, "d/ü #?%.txt": FILE, "l": LINK, "folder": LINK}
    assert look.entries["d/ü #?%.txt"].size == 3
    assert look.entries["l"].target == "d/nowhere"


def test_what_is_as_it_is_known_is_given_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    known = dict(Folder(tmp_path).look({}).entries)
    assert Folder(tmp_path).look(known).entries["a"] is known["a"]
    (tmp_path / "a").write_text("x")
    assert Folder(tmp_path).look(known).entries["a"] is not known["a"]


def test_only_accepted_paths_are_found_in_all_folders(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for name in ("a.txt", "d/b.txt", "d/c.tmp"):
        (tmp_path / name).touch()
    assert sorted(Folder(tmp_path, accepts=lambda path: path.endswith(".txt")).look({}).entries) == ["a.txt", "d/b.txt"]


def test_names_that_are_no_text_are_told_and_not_found(tmp_path: Path) -> None:
    (tmp_path / "good").touch()
    os.close(os.open(os.fsencode(tmp_path) + b"/bad\xff", os.O_CREAT | os.O_WRONLY))
    os.symlink(b"\xff", os.fsencode(tmp_path / "link"))
    look = Folder(tmp_path).look({})
    assert (list(look.entries), look.problems) == (["good"], ("'bad\\udcff' is not posted: its name is not UTF-8",))


def test_a_root_that_is_gone_is_unread(tmp_path: Path) -> None:
    look = Folder(tmp_path / "x").look({})
    assert (look.entries, look.unread, len(look.problems)) == ({}, ("",), 1)


def test_more_files_than_the_bound_are_not_found_and_nothing_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MAX_FILES", 3)
    for name in "abcde":
        (tmp_path / name).touch()
    look = Folder(tmp_path).look({})
    assert (len(look.entries), look.unread) == (3, ("",))
    assert "holds more than 3 files" in look.problems[0]


def test_folders_deeper_than_the_bound_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_DEPTH", 2)
    (tmp_path / "a/b/c/d").mkdir(parents=True)
    look = Folder(tmp_path).look({})
    assert sorted(look.entries) == ["a", "a/b", "a/b/c"]
    assert "2 folders deep" in look.problems[0]


def test_looking_takes_a_tenth_of_a_core_at_most() -> None:
    pace = Pace(1.0)
    assert pace.after(0.001) == 1.0
    for cpu_s in (0.5, 3.0):
        assert cpu_s / (cpu_s + pace.after(cpu_s)) == pytest.approx(CPU_SHARE)


def segment(events: Path, number: int, folder: str = "flows") -> str:
    name = f"{STREAM}-{number:010d}.parquet"
    (events / folder).mkdir(parents=True, exist_ok=True)
    (events / folder / name).write_bytes(b"PAR1")
    return f"{folder}/{name}"


def log(events: Path, number: int) -> Path:
    (events / "_tmp").mkdir(parents=True, exist_ok=True)
    path = events / "_tmp" / f"{STREAM}-{number:010d}.wal"
    path.touch()
    return path


def test_segments_have_one_path_wherever_they_lie(tmp_path: Path) -> None:
    first = segment(tmp_path, 1)
    second = segment(tmp_path, 2, "lifecycle")
    moved = segment(tmp_path, 3, "_archive/2026.11/flows")
    (tmp_path / "flows/.hidden.parquet").touch()
    (tmp_path / "flows/foreign").touch()
    watched = SegmentsFolder(tmp_path)
    look = watched.look({})
    path = f"flows/{Path(moved).name}"
    assert sorted(look.entries) == sorted([first, second, path])
    assert (look.entries[path].place, look.entries[first].place) == (moved, "")


def test_a_segment_that_moves_into_the_archive_is_as_it_was(tmp_path: Path) -> None:
    path = segment(tmp_path, 1)
    watched = SegmentsFolder(tmp_path)
    known = dict(watched.whole({}).entries)
    (tmp_path / "_archive/flows").mkdir(parents=True)
    (tmp_path / path).rename(tmp_path / "_archive" / path)
    assert watched.whole(known).entries == known


def test_no_events_folder_is_a_problem_and_nothing_is_gone(tmp_path: Path) -> None:
    look = SegmentsFolder(tmp_path / "x").whole({})
    assert (look.entries, look.unread) == ({}, ("",))


def test_a_glance_finds_what_the_logs_become(tmp_path: Path) -> None:
    watched = SegmentsFolder(tmp_path)
    first = log(tmp_path, 7)
    assert watched.glance({}) == {}
    sealed = segment(tmp_path, 7)  # and its log is still there
    assert list(watched.glance({})) == [sealed]
    log(tmp_path, 9)
    others = [segment(tmp_path, 7, "requests"), segment(tmp_path, 8)]
    first.unlink()
    assert sorted(watched.glance({sealed: watched.whole({}).entries[sealed]})) == sorted(others)
    assert watched.glance({}) == {}  # the logs of these are gone: they are not looked for any more
    (tmp_path / "_tmp" / f"{STREAM}-{9:010d}.wal").unlink()
    last = segment(tmp_path, 9)
    assert list(watched.glance({})) == [last]
    assert watched.glance({}) == {}


def test_between_whole_looks_only_new_segments_are_looked_for(tmp_path: Path) -> None:
    segment(tmp_path, 1)
    watched = SegmentsFolder(tmp_path, interval_s=3600)
    assert [watched.look({}).is_whole for _ in range(3)] == [True, False, False]

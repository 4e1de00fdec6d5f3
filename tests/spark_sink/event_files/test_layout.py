import os
from pathlib import Path

import pytest

from spark_sink.event_files.layout import STALE_S, Disk, recover, seal, segment_name
from tests.spark_sink.disks import StoppingDisk, killed

NAME = segment_name("b", 7, 1)


def visible(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("moment", range(1, 6))
def test_crash_at_any_moment_leaves_nothing_or_the_whole_file(tmp_path: Path, moment: int) -> None:
    assert killed(moment, lambda disk: seal(tmp_path, NAME, b"content", disk)) == (moment < 5)
    assert visible(tmp_path) == ({} if moment < 4 else {NAME: b"content"})
    recover(tmp_path, "b-", 0.0, Disk())
    seal(tmp_path, NAME, b"content", Disk())
    assert (os.listdir(tmp_path), visible(tmp_path)) == ([NAME], {NAME: b"content"})


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_failed_write_gives_its_space_back(tmp_path: Path, moment: int) -> None:
    def full() -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        seal(tmp_path, NAME, b"content", StoppingDisk(moment, full))
    assert os.listdir(tmp_path) == []


def test_recover_removes_own_leftovers_and_only_old_ones_of_others(tmp_path: Path) -> None:
    for name in (".b-7-1.parquet", ".c-7-1.parquet", "b-7-1.parquet", ".other"):
        (tmp_path / name).touch()
    now_s = (tmp_path / ".other").stat().st_mtime
    assert recover(tmp_path, "b-", now_s, Disk()) == [".b-7-1.parquet"]
    assert recover(tmp_path, "b-", now_s + STALE_S + 1, Disk()) == [".c-7-1.parquet"]
    assert sorted(os.listdir(tmp_path)) == [".other", "b-7-1.parquet"]


def test_recover_of_a_missing_folder_finds_nothing(tmp_path: Path) -> None:
    assert recover(tmp_path / "nothing", "b-", 0.0, Disk()) == []

"""Which files are event files, and in which order one must look."""

from pathlib import Path

import pytest

from spark_sink.errors import BadFolder
from spark_sink.event_files import folder, wal
from spark_sink.event_files.folder import LOG, EventFile, file_of, gathered, list_folder
from spark_sink.event_files.layout import log_parts_of, origin_of, segment_name
from spark_sink.schema import COLUMNS

ONE = "7f3a-1700000000000"
SEGMENT, WAL = segment_name("7f3a", 1_700_000_000_000, 7), wal.wal_name("7f3a", 1_700_000_000_000, 7)


def test_names_are_those_of_the_writer() -> None:
    assert set(folder.SOURCES) == set(COLUMNS)
    assert (log_parts_of(WAL), origin_of(ONE)) == ((ONE, 7), ("7f3a", 1_700_000_000_000))


@pytest.mark.parametrize(
    "place, source",
    [
        (f"flows/{SEGMENT}", "flows"),
        (f"_archive/var/events/requests/{SEGMENT}", "requests"),
        (f"_tmp/{WAL}", LOG),
        (f"flows/.{SEGMENT}", ""),
        (f"flows/{WAL}", ""),
        (f"_tmp/{SEGMENT}", ""),
        (f"other/{SEGMENT}", ""),
        (f"other/flows/{SEGMENT}", ""),
        (f"_archive/{SEGMENT}", ""),
        ("flows/notes.txt", ""),
        (SEGMENT, ""),
    ],
)
def test_a_place_is_one_of_ours_or_not(place: str, source: str) -> None:
    file = file_of(place)
    assert file == (EventFile(ONE, 7, source, place, place.startswith("_archive")) if source else None)


def test_of_one_name_the_first_place_counts_and_foreign_ones_are_named() -> None:
    places = [f"_tmp/{WAL}", f"flows/{SEGMENT}", "flows/a.txt", "flows/.b", f"_archive/x/flows/{SEGMENT}"]
    listing = gathered(iter(places))
    assert [file.place for file in listing.files] == places[:2]
    assert listing.foreign == ["flows/a.txt"]
    assert len(gathered(f"flows/{n}" for n in range(100)).foreign) == folder.MAX_FOREIGN


def test_logs_come_first_and_the_archive_last(tmp_path: Path) -> None:
    for place in (f"_archive/x/flows/{SEGMENT}", f"flows/{SEGMENT}", f"_tmp/{WAL}", f"lifecycle/{SEGMENT}"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    rests: list[None] = []
    listing = list_folder(tmp_path, ("flows",), rest=lambda: rests.append(None))
    assert [file.source for file in listing.files] == [LOG, "flows"]
    (tmp_path / "flows" / SEGMENT).unlink()
    assert [file.is_archived for file in list_folder(tmp_path, ("flows",)).files] == [False, True]
    assert [file.is_archived for file in list_folder(tmp_path, ("flows",), has_archive=False).files] == [False]
    assert rests


def test_links_and_folders_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "flows" / "sub").mkdir(parents=True)
    (tmp_path / "flows" / SEGMENT).symlink_to("/etc/passwd")
    assert list_folder(tmp_path) == ([], [])


def test_a_folder_without_any_of_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFolder, match=r"holds none of flows, lifecycle, requests, _tmp"):
        list_folder(tmp_path)

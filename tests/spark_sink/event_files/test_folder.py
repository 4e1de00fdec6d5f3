"""Which files are event files, and in which order one must look."""

import random
from pathlib import Path

import pytest

from spark_sink.errors import BadFolder
from spark_sink.event_files import folder
from spark_sink.event_files.folder import LOG, SOURCES, EventFile, Listing, list_folder
from spark_sink.event_files.layout import LOG_SUFFIX, origin_of, parts_of, segment_name, wal_name
from spark_sink.schema import COLUMNS

ONE = "7f3a-1700000000000"
SEGMENT, WAL = segment_name("7f3a", 1_700_000_000_000, 7), wal_name("7f3a", 1_700_000_000_000, 7)


def test_names_are_those_of_the_writer() -> None:
    assert set(folder.SOURCES) == set(COLUMNS)
    assert (parts_of(WAL, LOG_SUFFIX), origin_of(ONE)) == ((ONE, 7), ("7f3a", 1_700_000_000_000))


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
        (f"flows/{ONE}-000000000007.parquet", ""),
        (f"flows/{ONE}-{10**20}.parquet", ""),
        ("flows/notes.txt", ""),
        (SEGMENT, ""),
    ],
)
def test_a_place_is_one_of_ours_or_not(place: str, source: str) -> None:
    listing = Listing()
    listing.add_place(place)
    files = list(listing.places(*SOURCES, LOG))
    folder = place.rpartition("/")[0]
    assert files == ([EventFile(ONE, 7, source, folder, place.startswith("_archive"))] if source else [])
    assert all(file.place == place for file in files)


def test_of_one_name_the_first_place_counts_and_foreign_ones_are_named() -> None:
    places = [f"_tmp/{WAL}", f"flows/{SEGMENT}", "flows/a.txt", "flows/.b", f"_archive/x/flows/{SEGMENT}"]
    listing = Listing()
    for place in places:
        listing.add_place(place)
    assert [file.place for file in listing.files(LOG, "flows")] == places[:2]
    assert listing.foreign == ["flows/a.txt"]
    for number in range(100):
        listing.add_place(f"flows/{number}")
    assert (len(listing.foreign), listing.foreign_n) == (folder.MAX_FOREIGN, 101)


def test_numbers_ascend_and_are_there_once_whichever_folder_has_them() -> None:
    listing, rng = Listing(), random.Random(1)
    numbers = [*range(1, 3000, 2), 10**17]
    for archived in (False, True):
        rng.shuffle(numbers)
        for number in numbers:
            listing.add(EventFile(ONE, number + archived, "flows", f"f{archived}", archived))
    listing.add(EventFile("other-1", 3, LOG, "_tmp"))
    assert list(listing.numbers(ONE, "flows", LOG)) == [*range(1, 3001), 10**17, 10**17 + 1]
    assert [file.folder for n in (1, 2) if (file := listing.find(ONE, "flows", n))] == ["fFalse", "fTrue"]
    assert (listing.find(ONE, "flows", 5000), listing.find(ONE, "requests", 1)) == (None, None)
    assert (listing.streams(), listing.streams("flows"), listing.folders("flows")) == (
        [ONE, "other-1"],
        [ONE],
        ["fFalse", "fTrue"],
    )
    newer = Listing()
    newer.add(EventFile(ONE, 7000, "flows", "fFalse"))
    newer.add_archive(listing)
    assert list(newer.numbers(ONE, "flows")) == [*range(2, 3001, 2), 7000, 10**17 + 1]


def test_logs_come_first_and_the_archive_last(tmp_path: Path) -> None:
    for place in (f"_archive/x/flows/{SEGMENT}", f"flows/{SEGMENT}", f"_tmp/{WAL}", f"lifecycle/{SEGMENT}"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    rests: list[None] = []
    listing = list_folder(tmp_path, ("flows",), rest=lambda: rests.append(None))
    assert [file.source for file in listing.files(LOG, "flows", "lifecycle")] == [LOG, "flows"]
    (tmp_path / "flows" / SEGMENT).unlink()
    assert [file.is_archived for file in list_folder(tmp_path).files(LOG, "flows")] == [False, True]
    assert list_folder(tmp_path, has_archive=False).streams("flows") == []
    assert rests


def test_links_and_folders_are_foreign(tmp_path: Path) -> None:
    (tmp_path / "flows" / "sub").mkdir(parents=True)
    (tmp_path / "flows" / SEGMENT).symlink_to("/etc/passwd")
    listing = list_folder(tmp_path)
    assert (listing.streams(), sorted(listing.foreign)) == ([], [f"flows/{SEGMENT}", "flows/sub"])


def test_a_folder_without_any_of_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFolder, match=r"holds none of flows, lifecycle, requests, messages, files, _tmp"):
        list_folder(tmp_path)

"""A segment is served by the name of its post wherever it lies, and nothing else is."""

import os
from pathlib import Path

import pytest

from spark_sink.event_files.layout import ARCHIVE
from spark_sink.feed import segments
from spark_sink.feed.segments import SegmentsPlace

NAME = b"11223344-5566-7788-99aa-bbccddeeff00-1700000000000-0000000001.parquet"


def put(folder: Path, name: bytes = NAME) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / os.fsdecode(name)
    path.write_bytes(b"rows")
    return path


def read(place: SegmentsPlace, *names: bytes) -> bytes:
    opened, _ = place.open(names)
    with os.fdopen(opened, "rb") as file:
        return file.read()


def test_a_segment_is_found_before_and_after_it_was_archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LOOK_S", 0.0)
    path, place = put(tmp_path / "flows"), SegmentsPlace(tmp_path)
    assert read(place, b"flows", NAME) == b"rows"
    archived = tmp_path / ARCHIVE / "srv" / "events" / "flows"
    archived.mkdir(parents=True)
    path.rename(archived / path.name)
    assert read(place, b"flows", NAME) == b"rows"


@pytest.mark.parametrize(
    "names",
    [
        (b"_readers", b"one.json"),
        (b"flows", b"other.txt"),
        (b"flows", b"." + NAME),
        (b"lifecycle", NAME),
        (b"flows",),
        (b"_archive", b"srv", b"flows", NAME),
    ],
)
def test_nothing_else_of_the_folder_is_served(tmp_path: Path, names: tuple[bytes, ...]) -> None:
    put(tmp_path / "flows")
    put(tmp_path / "flows", b"other.txt")
    put(tmp_path / "_readers", b"one.json")
    with pytest.raises(FileNotFoundError):
        SegmentsPlace(tmp_path).open(names)


def test_a_link_in_the_place_of_a_segment_is_not_followed(tmp_path: Path) -> None:
    secret = put(tmp_path / "elsewhere")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / secret.name).symlink_to(secret)
    with pytest.raises(FileNotFoundError):
        SegmentsPlace(tmp_path).open((b"flows", NAME))


def test_who_asks_for_nothing_causes_one_look_in_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Path] = []

    def look(events: Path) -> dict[str, list[tuple[str, ...]]]:
        looks.append(events)
        return {}

    monkeypatch.setattr(segments, "_folders", look)
    place = SegmentsPlace(tmp_path)
    for _ in range(5):
        with pytest.raises(FileNotFoundError):
            place.open((b"flows", NAME))
    assert looks == [tmp_path]

"""spark_sink.feed.consumer.places: nothing is written outside of the root, and nothing is there by half."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_sink.feed.consumer.places import MAX_DEPTH, MAX_NAME_BYTES, MAX_PATH_BYTES, BadPlace, Places, names_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    return tmp_path / "root"


@pytest.mark.parametrize("path", ["a/b c/ä#?%.txt", "/a/b", "x" * MAX_NAME_BYTES, "/".join(["d"] * MAX_DEPTH)])
def test_a_path_of_names_is_taken(path: str) -> None:
    assert "/".join(names_of(path)) == path.removeprefix("/")


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "//a", "a//b", "a/", ".", "..", "../a", "a/../b", "a/./b", "/../a", "a\0b", "a/.feed-x", "\ud800"),
        *("x" * (MAX_NAME_BYTES + 1), "/".join(["d"] * (MAX_DEPTH + 1)), "a/" * MAX_PATH_BYTES),
    ],
)
def test_any_other_is_refused(path: str) -> None:
    with pytest.raises(BadPlace):
        names_of(path)


def test_a_file_is_put_with_its_folders_time_and_permissions(root: Path) -> None:
    Places(root).put(["a", "b", "f"], b"data", 1_700_000_000_123_456_789, 0o640)
    file = root / "a/b/f"
    assert file.read_bytes() == b"data"
    assert file.stat().st_mtime_ns == 1_700_000_000_123_456_789
    assert file.stat().st_mode & 0o777 == 0o640
    Places(root).put(["a", "b", "f"], b"", None, None)
    assert file.read_bytes() == b""
    assert os.listdir(root / "a/b") == ["f"]


def test_special_permissions_are_not_taken_from_others(root: Path) -> None:
    Places(root).put(["f"], b"", None, 0o4777)
    assert (root / "f").stat().st_mode & 0o7777 == 0o777


@pytest.mark.parametrize("link", ["out", "in"])
def test_no_link_is_followed(root: Path, link: str) -> None:
    (root / "inside").mkdir()
    (root / "link").symlink_to("../outside" if link == "out" else "inside")
    places = Places(root)
    writes: list[Callable[[], None]] = [
        lambda: places.put(["link", "f"], b"x", None, None),
        lambda: places.make_folder(["link", "d"]),
        lambda: places.symlink(["link", "l"], "f"),
        lambda: places.rename(["link", "secret"], ["f"]),
        lambda: places.hardlink(["h"], ["link", "secret"]),
        lambda: os.close(places.open_part(["link", "f"], "p")),
    ]
    for write in writes:
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            write()
    places.remove(["link", "secret"])
    assert sorted(os.listdir(root.parent / "outside")) == ["secret"]
    assert os.listdir(root / "inside") == []


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_written_through(root: Path) -> None:
    (root / "f").symlink_to("../outside/secret")
    Places(root).put(["f"], b"mine", None, None)
    assert (root.parent / "outside/secret").read_text() == "secret"
    assert not (root / "f").is_symlink()


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "../outside", "a/../../..", "../../x", "a/.."])
def test_links_that_lead_out_are_refused(root: Path, target: str) -> None:
    with pytest.raises(BadPlace, match="outside of the folder"):
        Places(root).symlink(["l"], target)
    assert os.listdir(root) == []


def test_links_renames_and_removals_within_the_root_are_made(root: Path) -> None:
    places = Places(root)
    places.put(["a", "f"], b"x", None, None)
    places.symlink(["b", "l"], "../a/f")
    places.hardlink(["c", "h"], ["a", "f"])
    assert (root / "b/l").read_bytes() == (root / "c/h").read_bytes() == b"x"
    places.rename(["a", "f"], ["d", "g"])
    assert not (root / "a/f").exists()
    assert (root / "d/g").read_bytes() == b"x"
    places.remove(["a"], is_folder=True)
    places.remove(["d", "g"])
    places.remove(["d", "g"])
    places.remove(["nowhere", "f"])
    places.make_folder(["e"])
    places.remove(["e"])  # it is not said that it is a folder
    places.remove(["c", "h"], is_folder=True)  # it is none
    places.make_folder(["d", "e"])
    with pytest.raises(OSError, match="not empty"):
        places.remove(["d"])
    places.remove(["d", "e"])
    assert sorted(os.listdir(root)) == ["b", "c", "d"]
    with pytest.raises(FileNotFoundError):
        places.rename(["d", "g"], ["e"])


def test_a_part_is_collected_under_a_hidden_name_and_put_when_it_is_whole(root: Path) -> None:
    places = Places(root)
    file = places.open_part(["a", "f"], "0123")
    os.pwrite(file, b"half", 0)
    assert os.listdir(root / "a") == [".feed-0123.part"]
    os.close(file)
    again = places.open_part(["a", "f"], "0123")
    assert os.pread(again, 9, 0) == b"half"
    places.put_part(["a", "f"], "0123", again, None, None)
    os.close(again)
    assert os.listdir(root / "a") == ["f"]
    os.close(places.open_part(["a", "g"], "4567"))
    places.drop_part(["a", "g"], "4567")
    assert os.listdir(root / "a") == ["f"]


def test_a_link_behind_which_another_link_leads_out_is_refused(root: Path) -> None:
    places = Places(root)
    places.symlink(["a", "b", "up"], "../..")  # the root itself
    with pytest.raises(BadPlace, match="outside of the folder"):
        places.symlink(["a", "b", "out"], "up/../outside")


@pytest.mark.parametrize("before", [["a", "b"], ["a", "b", "l"]])
def test_a_rename_after_which_a_link_would_lead_out_is_refused(root: Path, before: list[str]) -> None:
    places = Places(root)
    places.symlink(["a", "b", "l"], "../../f")
    with pytest.raises(BadPlace, match="outside of the folder"):
        places.rename(before, ["new"])
    places.rename(before, ["c", *before[1:]])
    assert sorted(os.listdir(root)) == ["a", "c"]

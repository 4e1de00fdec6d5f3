"""The digest of a file is that of its post, as long as the file is as it was posted."""

import os
from pathlib import Path

import pytest

from spark_sink.feed.identity import Identity
from spark_sink.feed.posts import make_post
from spark_sink.feed.producer.digests import PostedDigests
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.producer.post_tables import Posting
from spark_sink.feed.producer.scanning import FILE, Entry


async def test_a_file_that_was_posted_has_its_digest_until_it_changes(tmp_path: Path) -> None:
    file, path = tmp_path / "a", tmp_path / "log.posts"
    file.write_text("one")
    digests, stat = PostedDigests(path), file.stat()
    assert digests.find("a", stat) is None  # there is no log yet
    log = PostLog(path, is_synced=False)
    await log.open()
    entry = Entry(FILE, stat.st_size, stat.st_mtime_ns, stat.st_dev, stat.st_ino)
    await log.append([Posting("a", [make_post("http://a/", "a", 1_000)], entry, Identity("md5", "abc="))], 1)
    assert [digests.find("a", stat), digests.find("b", stat)] == ["md5:abc=", None]
    os.utime(file, ns=(1, 1))
    assert digests.find("a", file.stat()) is None
    digests.close()
    await log.close()


@pytest.mark.parametrize("method, value", [("random", "7"), ("cod", "md5"), ("arbitrary", "x")])
async def test_what_is_no_digest_is_none(tmp_path: Path, method: str, value: str) -> None:
    (tmp_path / "a").write_text("one")
    stat, log = (tmp_path / "a").stat(), PostLog(tmp_path / "log.posts", is_synced=False)
    await log.open()
    entry = Entry(FILE, stat.st_size, stat.st_mtime_ns, stat.st_dev, stat.st_ino)
    await log.append([Posting("a", [make_post("http://a/", "a", 1_000)], entry, Identity(method, value))], 1)
    digests = PostedDigests(log.path)
    assert digests.find("a", stat) is None
    digests.close()
    await log.close()


def test_a_file_that_is_no_log_gives_no_digests(tmp_path: Path) -> None:
    (tmp_path / "log.posts").write_text("no database")
    assert PostedDigests(tmp_path / "log.posts").find("a", tmp_path.stat()) is None

"""A declared reader says of its consumer what that has reported, and no more."""

from pathlib import Path

import msgspec

from spark_sink.feed.posts import Post, make_post
from spark_sink.feed.producer.folders import SegmentsFolder, accept_all
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.producer.post_tables import Heard, Posting
from spark_sink.feed.producer.readers import ReportedReaders, Required, reader_of
from spark_sink.feed.producer.scanning import FILE, Entry
from spark_sink.feed.reports import Report
from spark_sink.writer.retention import Reading, declare

STREAM = "11223344-5566-7788-99aa-bbccddeeff00-1700000000000"


def path_of(number: int, source: str = "flows") -> str:
    return f"{source}/{STREAM}-{number:010d}.parquet"


def post_of(path: str) -> Post:
    return make_post("http://a/", path, 1_000_000_000)


def declared(events: Path, consumer: str) -> dict[str, int]:
    return msgspec.json.decode((events / f"_readers/feed-{consumer}.json").read_bytes(), type=Reading).read


async def test_a_consumer_has_read_up_to_the_first_segment_that_it_has_not_got(tmp_path: Path) -> None:
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    paths = [path_of(1), path_of(2), path_of(5), path_of(2, "lifecycle")]
    await log.append([Posting(path, [post_of(path)], Entry(FILE, 1, 1, 1, 1)) for path in paths], 1)
    readers = ReportedReaders(tmp_path, log, [Required(name, accept_all) for name in ("u@h", "other@h")])
    await readers.start()
    assert [declared(tmp_path, name) for name in ("u@h", "other@h")] == [{}, {}]
    report = Report(201, "", "h", "u", "")
    await log.report([Heard(post_of(path), report, 1) for path in paths if path != path_of(5)])
    await readers.declare(paths, [])
    assert declared(tmp_path, "u@h") == {f"flows/{STREAM}": 4, f"lifecycle/{STREAM}": 2}
    assert declared(tmp_path, "other@h") == {f"lifecycle/{STREAM}": 1}  # there is no segment 1
    await log.report([Heard(post_of(path_of(5)), report, 1)])
    await readers.declare(paths, [path_of(4)])  # 4 was found late, and is not posted yet
    assert declared(tmp_path, "u@h") == {f"flows/{STREAM}": 3, f"lifecycle/{STREAM}": 2}
    await log.close()


async def test_readers_that_are_not_required_any_more_are_gone_and_others_stay(tmp_path: Path) -> None:
    for name in ("feed-u@h", "feed-old@h", "spark"):
        declare(tmp_path, name, Reading(read={"flows/x-1": 7}))
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    await ReportedReaders(tmp_path, log, [Required("u@h", accept_all)]).start()
    assert sorted(path.name for path in (tmp_path / "_readers").iterdir()) == ["feed-u@h.json", "spark.json"]
    assert declared(tmp_path, "u@h") == {"flows/x-1": 7}
    await log.close()


def test_no_two_consumers_have_the_same_reader() -> None:
    assert [reader_of(name) for name in ("u+1@h", "u_1@h", "../u@h")] == ["feed-u%2B1@h", "feed-u_1@h", "feed-..%2Fu@h"]


async def test_what_a_consumer_does_not_want_and_what_is_not_posted_does_not_wait_for_it(tmp_path: Path) -> None:
    for source in ("flows", "lifecycle", "requests"):
        (tmp_path / source).mkdir()
        for number in (1, 2, 3):
            (tmp_path / path_of(number, source)).touch()
    folder = SegmentsFolder(tmp_path, accepts=lambda path: not path.startswith("requests/") and path != path_of(3))
    paths = list(folder.look({}).entries)
    assert len(paths) == 5
    log = PostLog(tmp_path / "posts.db")
    await log.open()
    await log.append([Posting(path, [post_of(path)], Entry(FILE, 1, 1, 1, 1)) for path in paths], 1)
    only_flows = Required("u@h", lambda path: path.startswith("flows/"))
    readers = ReportedReaders(tmp_path, log, [only_flows], lambda: folder.left_out)
    await readers.declare(paths, [path_of(1, "lifecycle")])
    assert declared(tmp_path, "u@h") == {f"lifecycle/{STREAM}": 3, f"requests/{STREAM}": 3}
    await log.report([Heard(post_of(path_of(number)), Report(201, "", "h", "u", ""), 1) for number in (1, 2)])
    await readers.declare(paths, [])
    assert declared(tmp_path, "u@h") == {f"{source}/{STREAM}": 3 for source in ("flows", "lifecycle", "requests")}
    await log.close()

from broker.events import MIRRORED, POSTED, REPEATED, FileRecord
from spark_sink.feed.posts import FileOp, make_post
from spark_sink.feed.records import MAX_PATH_CHARACTERS, FileRecords
from spark_sink.schema import FILES

SEGMENT = "7f3a-1795199237748-0000000001.parquet"


def test_of_segments_that_hold_records_of_files_nothing_is_told() -> None:
    told: list[FileRecord] = []
    records = FileRecords("p", told.append)
    for path in (f"{FILES}/{SEGMENT}", f"/mirror/{FILES}/{SEGMENT}", f"flows/{SEGMENT}", f"{FILES}/a.parquet"):
        records.add(POSTED, make_post("http://a/", path, 0))
        records.count(REPEATED, make_post("http://a/", path, 0))
    records.tell_counts()
    assert [(each.path, each.files) for each in told] == [(f"flows/{SEGMENT}", 1), (f"{FILES}/a.parquet", 1), ("", 2)]
    records.tell_counts()
    assert len(told) == 3


def test_a_record_has_what_its_post_says_and_no_more_of_a_text_than_the_bound() -> None:
    told: list[FileRecord] = []
    operation = FileOp("link", "elsewhere")
    post = make_post("http://a/", "d/" + "f" * MAX_PATH_CHARACTERS, -5_000_000_000, file_op=operation)
    FileRecords("m", told.append).add(MIRRORED, post, code=201, reason="r" * 1000, size=7, tries=2)
    [one] = told
    assert (len(one.path), len(one.reason), one.operation) == (MAX_PATH_CHARACTERS, 255, "link")
    assert (one.feed, one.base_url, one.code, one.bytes, one.tries) == ("m", "http://a/", 201, 7, 2)
    assert one.posted_at_ms == 0
    assert abs(one.at_ms + 5_000 - one.after_ms) <= 1


def test_nobody_need_be_told() -> None:
    records = FileRecords()
    records.add(POSTED, make_post("http://a/", "a", 0))
    records.count(REPEATED, make_post("http://a/", "a", 0))
    records.tell_counts()

"""spark_sink.feed.reports: a report is the post without its content, and says what became of it."""

import json

import pytest

from spark_sink.feed.errors import BadPost
from spark_sink.feed.posts import read_post, read_remains
from spark_sink.feed.reports import CODES, DOWNLOADED, NOT_MODIFIED, Report, find_report, report_post
from tests.spark_sink.feed.samples import PUB_TIME, post_of
from tests.spark_sink.feed.vectors import SENT

REPORT = Report(DOWNLOADED, PUB_TIME, "host-1", "feed", "downloaded ok")


def test_a_report_has_the_four_fields_its_message_and_never_content() -> None:
    post = post_of(content={"encoding": "utf-8", "value": "x"}, PRINTER="p")
    headers = json.loads(report_post(post, REPORT).encode())
    assert "content" not in headers
    assert headers["PRINTER"] == "p"
    assert headers["message"] == "downloaded ok"
    fields = {"elapsedTime": PUB_TIME, "resultCode": "201", "host": "host-1", "user": "feed"}
    assert fields.items() <= headers["report"].items()


def test_the_report_of_what_is_no_post_says_which_one_it_is() -> None:
    remains = read_remains(b'{"pubTime": "20260102T030405", "baseUrl": "http://a/", "relPath": "f", "mode": "rwx"}')
    report = read_post(report_post(remains, REPORT).encode())
    assert (report.pub_time, report.base_url, report.rel_path) == ("20260102T030405", "http://a/", "f")
    assert (find_report(report), "mode" in report.headers) == (REPORT, False)
    with pytest.raises(BadPost):
        report_post(read_remains(b'{"pubTime": "today", "baseUrl": "http://a/", "relPath": "f"}'), REPORT)


def test_what_is_written_is_read_again() -> None:
    assert find_report(report_post(post_of(), REPORT)) == REPORT
    assert find_report(post_of()) is None


def test_the_code_is_text_of_three_digits_as_the_document_has_it() -> None:
    for code in CODES:
        written = json.loads(report_post(post_of(), Report(code, PUB_TIME, "h", "u", "m")).encode())
        assert written["report"]["resultCode"] == str(code)


def test_reports_of_sr3_are_read() -> None:
    reports = [find_report(read_post(body)) for name, body in sorted(SENT.items()) if name.startswith("reports_by_sr3")]
    assert [report and report.code for report in reports] == [DOWNLOADED, NOT_MODIFIED]
    assert all(report and report.elapsed and report.message for report in reports)


@pytest.mark.parametrize("report", ["x", {}, {"resultCode": "20"}, {"resultCode": True}, {"code": 1000}])
def test_a_report_without_a_code_is_bad(report: object) -> None:
    with pytest.raises(BadPost, match=r"^report"):
        find_report(post_of(report=report))

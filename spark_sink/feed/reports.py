"""Reports: what became of a post, told to those it came from.

Section "Report Messages": a post with the topic v03.report, the headers `report` and `message`, and never `content`.
Written are the four fields of the document, the code "encoded as text", and besides `code`, `timeCompleted` and
`message`, without which sr3 cannot read a report (D-88). Both forms are read.
"""

from typing import Final

import msgspec

from spark_sink.feed.errors import BadPost, shown
from spark_sink.feed.posts import Post

REPORT_PREFIX: Final = "v03.report"

DOWNLOADED: Final = 201
TRANSFORMED: Final = 203
RESET: Final = 205
NOT_MODIFIED: Final = 304
DEFERRED: Final = 307
BAD_MESSAGE: Final = 417
SEND_FAILED: Final = 496
NOT_COPIED: Final = 499
UNAVAILABLE: Final = 503

# Section "Report_Code". 205 and 503 are there with several meanings: which one it is, the message says (D-87).
CODES: Final = {
    DOWNLOADED: "Download successful",
    TRANSFORMED: "Non-Authoritative Information: transformed during download",
    RESET: "Reset Content: truncated, or checksum recalculated on receipt",
    NOT_MODIFIED: "Not modified",
    DEFERRED: "Insertion deferred",
    BAD_MESSAGE: "Expectation Failed: invalid message",
    SEND_FAILED: "Failure: during send",
    497: "Failure: during send",
    NOT_COPIED: "Failure: Not Copied",
    UNAVAILABLE: "Unable to process: Service unavailable",
}


_NAMING: Final = frozenset(("pubTime", "baseUrl", "relPath"))


class Report(msgspec.Struct, frozen=True):
    """What became of a post at one consumer."""

    code: int  # of three digits: CODES, or of another program
    elapsed: str  # "time the report was generated", in the form of pubTime
    host: str  # "hostname from which the retrieval was initiated"
    user: str  # "broker username from which the retrieval was initiated"
    message: str  # for a person


def report_post(post: Post, report: Report) -> Post:
    """The post as a report: all headers but the content. "Report messages should never include the content header". Of
    one that has a header which nobody could read: those that say which post it is. BadPost: these are not there."""
    values = {"content": None, **report_values(report)}
    try:
        return post.changed(**values)
    except BadPost:
        return post.changed(**dict.fromkeys(post.headers.keys() - _NAMING), **values)


def report_values(report: Report) -> dict[str, object]:
    """Its two headers."""
    fields = {
        "elapsedTime": report.elapsed,
        "resultCode": f"{report.code:03d}",
        "host": report.host,
        "user": report.user,
        "code": report.code,
        "timeCompleted": report.elapsed,
        "message": report.message,
    }
    return {"report": fields, "message": report.message}


def find_report(post: Post) -> Report | None:
    """None: the post is none. BadPost: it is one, and cannot be read."""
    raw = post.headers.get("report")
    if raw is None:
        return None
    try:
        fields = msgspec.json.decode(raw)
        outer = msgspec.json.decode(post.headers.get("message", msgspec.Raw(b'""')))
    except (msgspec.DecodeError, ValueError) as error:
        raise BadPost("report", f"its value cannot be read: {error}") from None
    if not isinstance(fields, dict):
        raise BadPost("report", f"{shown(fields)} is no object")
    code = fields.get("resultCode", fields.get("code"))
    message = outer or fields.get("message", "")
    return Report(
        code=_read_code(code),
        elapsed=_text_of(fields.get("elapsedTime", fields.get("timeCompleted", ""))),
        host=_text_of(fields.get("host", "")),
        user=_text_of(fields.get("user", "")),
        message=_text_of(message),
    )


def _read_code(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) == 3:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 100 <= value <= 999:
        raise BadPost("report.resultCode", f"{shown(value)} is no code of three digits")
    return value


def _text_of(value: object) -> str:
    """What is no text says nothing: a report is for statistics, and its code counts."""
    return value if isinstance(value, str) else ""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from spark_sink.errors import BadMoment
from spark_sink.timestamps import micros_of, moment_at, moment_of, moment_text, span_text

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", datetime(2026, 11, 22, 11, tzinfo=UTC)),
        ("10 minutes ago", datetime(2026, 11, 22, 10, 50, tzinfo=UTC)),
        (" 1.5  Hours ago", datetime(2026, 11, 22, 9, 30, tzinfo=UTC)),
        ("30s ago", datetime(2026, 11, 22, 10, 59, 30, tzinfo=UTC)),
        ("90seconds", datetime(2026, 11, 22, 10, 58, 30, tzinfo=UTC)),
        (" 3 Days ", datetime(2026, 11, 19, 11, tzinfo=UTC)),
        ("2 weeks ago", datetime(2026, 11, 8, 11, tzinfo=UTC)),
        ("2026-11-22T12:00:00Z", datetime(2026, 11, 22, 12, tzinfo=UTC)),
        ("2026-11-22T12:00:00.250+02:00", datetime(2026, 11, 22, 10, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-11-22 12:00", datetime(2026, 11, 22, 12, tzinfo=UTC)),
        ("2026-11-22", datetime(2026, 11, 22, tzinfo=UTC)),
    ],
)
def test_moments_as_people_write_them(text: str, moment: datetime) -> None:
    assert moment_of(text, NOW) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "noon",
        "ago",
        "2",
        "-2 hours",
        "2 lightyears",
        "10 ago",
        "-3 s ago",
        "99999999999 days ago",
        "2026-13-01",
        "1969-12-31",
        "١ s ago",
    ],
)
def test_what_is_no_moment_is_told_with_how_to_write_one(text: str) -> None:
    with pytest.raises(BadMoment, match="10 minutes ago"):
        moment_of(text, NOW)


def test_moments_keep_their_microseconds() -> None:
    moment = datetime(2026, 11, 22, 12, 0, 0, 123_456, tzinfo=UTC)
    assert moment_at(micros_of(moment)) == moment
    assert micros_of(datetime(1970, 1, 1, 0, 0, 1)) == 1_000_000


@pytest.mark.parametrize(("micros", "text"), [(0, ":00"), (250_000, ":00.250"), (1, ":00.000001")])
def test_moments_are_shown_as_exact_as_they_are(micros: int, text: str) -> None:
    assert moment_text(datetime(2026, 11, 22, 12, 0, 0, micros, tzinfo=UTC)) == f"2026-11-22 12:00{text}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (12, "12 s"),
        (59.9, "59 s"),
        (200, "3 min 20 s"),
        (18_125, "5 h 2 min"),
        (349_200, "4 d 1 h"),
    ],
)
def test_spans_are_short(seconds: float, text: str) -> None:
    assert span_text(round(seconds * 1_000_000)) == text

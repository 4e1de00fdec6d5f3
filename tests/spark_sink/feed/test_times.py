import pytest

from spark_sink.feed.errors import BadPost
from spark_sink.feed.times import MAX_TIME_CHARACTERS, read_time, time_text
from tests.spark_sink.feed.vectors import VECTORS


@pytest.mark.parametrize("vector", VECTORS["pubTime_by_sr3"], ids=lambda each: each["pubTime"])
def test_d_81_what_sr3_takes_for_a_time_is_one_and_nothing_else(vector: dict[str, str | float | None]) -> None:
    text, epoch = vector["pubTime"], vector["epoch"]
    assert isinstance(text, str)
    if epoch is None:
        with pytest.raises(BadPost, match="is no time of the form YYYYMMDDTHHMMSS"):
            read_time("pubTime", text)
    else:
        assert isinstance(epoch, float)
        assert read_time("pubTime", text) == round(epoch * 1000) * 1_000_000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("19700101T000000", 0),
        ("19691231T235959.999999999", -1),
        ("20261120T145522.919339657", 1_795_186_522_919_339_657),
        ("20261120T145522.9193396579", 1_795_186_522_919_339_657),  # digits beyond nanoseconds
        ("20240229T235959.5", 1_709_251_199_500_000_000),
        ("00010101T000000.00", -62_135_596_800_000_000_000),
        ("99991231T235959.999999999", 253_402_300_799_999_999_999),
    ],
)
def test_times_are_utc_to_the_nanosecond(text: str, ns: int) -> None:
    assert read_time("mtime", text) == ns
    assert read_time("mtime", time_text(ns)) == ns


def test_six_decimals_are_written_and_nine_where_there_are_so_many() -> None:
    assert time_text(1_795_186_522_919_339_000) == "20261120T145522.919339"
    assert time_text(1_795_186_522_919_339_657) == "20261120T145522.919339657"
    assert time_text(0) == "19700101T000000.000000"


@pytest.mark.parametrize("ns", [-62_135_596_800_000_000_001, 253_402_300_800_000_000_000, 1 << 100])
def test_a_moment_that_no_calendar_has_cannot_be_written(ns: int) -> None:
    with pytest.raises(BadPost, match=f"mtime: {ns} ns from 1970 are in none of the years"):
        time_text(ns, "mtime")


@pytest.mark.parametrize(
    "text",
    [
        "20230229T000000", "20231301T000000", "20230100T000000", "00000101T000000",  # no such day
        "20230101T240000", "20230101T006000", "20230101T000060",  # no such second
        "20230101T000000.", "20230101 000000", "20230101t000000", " 20230101T000000", "20230101T000000\n",
        "20230101T000000+01", "２０２３0101T000000", "20230101", "2023-01-01", "-0230101T000000", "20230101T000000,5",
        "20230101T000000." + "0" * MAX_TIME_CHARACTERS,
    ],
)  # fmt: skip
def test_everything_else_is_no_time(text: str) -> None:
    with pytest.raises(BadPost) as told:
        read_time("atime", text)
    assert told.value.field == "atime"
    assert len(str(told.value)) < 150

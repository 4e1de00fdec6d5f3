"""Old days of tables are removed as `--keep` says, and nothing else is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.keeping import keeping_of, remove_old
from spark_sink.tables import COLUMNS
from tests.spark_sink.pipeline.folders import run_command, seal
from tests.spark_sink.records import events

NOW = datetime(2026, 11, 20, 13, 30, tzinfo=UTC)


def days(tables: Path, table: str) -> list[int]:
    """How many days ago those were that are there."""
    return sorted(
        (NOW.date() - datetime.fromisoformat(path.name[5:]).date()).days for path in (tables / table).iterdir()
    )


def test_days_that_are_wholly_older_are_removed_by_grain_and_by_table(tmp_path: Path) -> None:
    for table in COLUMNS:
        for ago in range(10):
            (tmp_path / table / f"date={NOW - timedelta(days=ago):%Y-%m-%d}").mkdir(parents=True)
    keeping = keeping_of("minute=2d, hour = 5d, day=forever,requests=3d,gaps=1d")
    removed = remove_old(LocalFileSystem(tmp_path), keeping, NOW)
    left = {table: max(days(tmp_path, table)) for table in COLUMNS}
    assert left == dict.fromkeys(COLUMNS, 9) | {
        **dict.fromkeys(("traffic", "callers", "rejections"), 2),
        **dict.fromkeys(("traffic_by_hour", "callers_by_hour", "rejections_by_hour"), 5),
        "requests": 3,
        "gaps": 1,
    }
    assert len(removed) == sum(9 - least for least in left.values())
    assert remove_old(LocalFileSystem(tmp_path), keeping, NOW) == []
    assert remove_old(LocalFileSystem(tmp_path), {}, NOW + timedelta(days=999)) == []


@pytest.mark.parametrize(
    "text, why",
    [
        ("minute", "'' is no time to keep minute for; write 7d or forever"),
        ("minute=0d", "'0d' is no time to keep minute for"),
        ("hour=7h", "'7h' is no time to keep hour for"),
        ("traffic=7d", "'traffic' is nothing that is kept; these are: minute, hour, day, requests, lifecycle"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        keeping_of(text)
    result = run_command(Path("x"), "--keep", text)
    assert (result.exit_code, why.split("; write")[0] in " ".join(result.stderr.replace("│", "").split())) == (2, True)


def test_pipeline_removes_them_at_its_end(tmp_path: Path) -> None:
    seal(tmp_path / "events", events(1, 30))
    result = run_command(tmp_path, "--once", "--engine", "local", "--keep", "minute=7d")
    assert result.exit_code == 0
    assert "days of tables were removed, as --keep says: callers/date=2023-11-15" in result.stderr
    assert not list((tmp_path / "tables").glob("traffic/*/*"))
    assert list((tmp_path / "tables").glob("traffic_by_hour/*/*"))

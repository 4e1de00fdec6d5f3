"""The demo keeps to its own folder and its own broker; that it runs to its end is for CI to see."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.commands.demo import MARKER, broker_process, clear, demo
from rsocket_wire.errors import BrokerError

BAD_FOLDER = 2


def fill(folder: Path) -> Path:
    """Event files and tables of somebody."""
    for name in ("events/flows/1.parquet", "tables/traffic/1.parquet"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("records")
    return folder


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_folder_of_somebody_else_is_refused_in_one_sentence_and_stays_as_it_is(tmp_path: Path) -> None:
    result = CliRunner().invoke(demo, ["--dir", str(fill(tmp_path))])
    text = "holds files that no demo wrote; --dir takes a new or empty folder, or one of an earlier demo"
    assert (result.exit_code, result.output) == (BAD_FOLDER, f"rsocket-broker demo: {tmp_path} {text}\n")
    assert files(tmp_path) == ["events/flows/1.parquet", "tables/traffic/1.parquet"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(demo, ["--dir", str(tmp_path / "file")])
    text = f"rsocket-broker demo: {tmp_path / 'file'} cannot be the folder of a demo: not a directory\n"
    assert (result.exit_code, result.output) == (BAD_FOLDER, text)


@pytest.mark.parametrize("name", ["new/below", "."])
def test_a_new_or_empty_folder_becomes_the_demos_own(tmp_path: Path, name: str) -> None:
    clear(tmp_path / name)
    assert files(tmp_path / name) == [MARKER]


def test_what_an_earlier_demo_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    clear(tmp_path)
    fill(tmp_path)
    for name in ("notes", "report.md", "report.html"):
        (tmp_path / name).touch()
    clear(tmp_path)
    assert files(tmp_path) == [MARKER, "notes"]


def test_a_link_in_the_folder_leads_to_no_removal_elsewhere(tmp_path: Path) -> None:
    mine = fill(tmp_path / "mine")
    clear(tmp_path / "demo")
    (tmp_path / "demo" / "events").symlink_to(mine / "events")
    with pytest.raises(BrokerError, match="bad-folder"):
        clear(tmp_path / "demo")
    assert files(mine) == ["events/flows/1.parquet", "tables/traffic/1.parquet"]


async def test_the_demos_broker_does_not_listen_to_variables_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RSB_SERVER__NO_SUCH_OPTION", "1")  # a broker that sees it does not start
    async with broker_process(tmp_path / "events") as urls:
        assert sorted(urls) == ["http", "tcp", "ws"]

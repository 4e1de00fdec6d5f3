from pathlib import Path

import pytest

from client_sdk.gateways.samwise.backends import exchanges as module
from client_sdk.gateways.samwise.backends.exchanges import DIRECT, FANOUT, Exchange, Exchanges, Impossible


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "exchanges.json"


def test_an_exchange_of_which_nobody_said_anything_is_the_service_of_its_name(path: Path) -> None:
    assert Exchanges({}, path).find("orders") == Exchange("orders", DIRECT)


def test_the_configuration_names_another_service(path: Path) -> None:
    exchanges = Exchanges({"all-orders": Exchange("orders", FANOUT)}, path)
    assert exchanges.find("all-orders") == Exchange("orders", FANOUT)
    assert exchanges.find("orders") == Exchange("orders", DIRECT)


async def test_what_is_declared_is_there_after_a_restart_and_what_is_deleted_is_not(path: Path) -> None:
    exchanges = Exchanges({}, path)
    await exchanges.declare("news", FANOUT)
    await exchanges.declare("orders", DIRECT)
    await exchanges.declare("news", FANOUT)  # as it is
    assert exchanges.find("news") == Exchange("news", FANOUT)
    assert Exchanges({}, path).find("news") == Exchange("news", FANOUT)
    await exchanges.delete("news")
    await exchanges.delete("news")  # it is not there
    assert exchanges.find("news") == Exchange("news", DIRECT)
    assert Exchanges({}, path).find("news") == Exchange("news", DIRECT)
    assert [each.name for each in path.parent.iterdir()] == ["exchanges.json"]


@pytest.mark.parametrize(
    ("name", "type", "fault"),
    [
        ("news", "topic", "exchange type 'topic' is not one of services, which have: direct, fanout"),
        ("news", "", "exchange type '' is not one of services, which have: direct, fanout"),
        ("", DIRECT, "exchange '' has 0 bytes, the name of a service has 1..127"),
        ("ü" * 64, DIRECT, f"exchange '{'ü' * 40}' has 128 bytes, the name of a service has 1..127"),
        ("made", DIRECT, "exchange 'made' is fanout, it cannot be declared as direct"),
        ("declared", FANOUT, "exchange 'declared' is direct, it cannot be declared as fanout"),
    ],
)
async def test_what_cannot_be_declared(path: Path, name: str, type: str, fault: str) -> None:
    exchanges = Exchanges({"made": Exchange("orders", FANOUT)}, path)
    await exchanges.declare("declared", DIRECT)
    await exchanges.declare("made", FANOUT)  # as it is, and not kept
    before = path.read_text()
    with pytest.raises(Impossible) as impossible:
        await exchanges.declare(name, type)
    assert str(impossible.value) == fault
    assert path.read_text() == before


async def test_what_the_configuration_makes_is_not_deleted(path: Path) -> None:
    exchanges = Exchanges({"made": Exchange("orders", FANOUT)}, path)
    with pytest.raises(Impossible, match="exchange 'made' is made by the configuration"):
        await exchanges.delete("made")
    assert exchanges.find("made") == Exchange("orders", FANOUT)


async def test_only_so_many_are_declared(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DECLARED", 2)
    exchanges = Exchanges({}, path)
    await exchanges.declare("a", DIRECT)
    await exchanges.declare("b", DIRECT)
    with pytest.raises(Impossible, match="2 exchanges are declared, delete one first"):
        await exchanges.declare("c", DIRECT)
    await exchanges.delete("a")
    await exchanges.declare("c", FANOUT)
    assert exchanges.find("c").type == FANOUT


async def test_what_cannot_be_kept_is_not_declared(tmp_path: Path) -> None:
    exchanges = Exchanges({}, tmp_path / "no folder" / "exchanges.json")
    with pytest.raises(Impossible, match="it cannot be kept: No such file or directory"):
        await exchanges.declare("news", FANOUT)
    assert exchanges.find("news").type == DIRECT


@pytest.mark.parametrize("text", ["", "[]", '{"news": "topic"}', '{"news": 1}'])
def test_a_broken_file_is_told_with_its_name(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ValueError, match=r"exchanges\.json: "):
        Exchanges({}, path)

"""What users install is known, and what is known of it: reports of pip-audit, and the bill of materials."""

import json
from typing import Any

import pytest

from tests.supply_chain import audit
from tests.supply_chain.audit import Hole, Unreachable, holes_in
from tests.supply_chain.installed import installed
from tests.supply_chain.sbom import narrowed

CLEAN = {"name": "click", "version": "8.5.1", "vulns": []}
SKIPPED = {"name": "click", "skip_reason": "Dependency not found on PyPI and could not be audited: click (8.5.1)"}


def report(*packages: dict[str, Any]) -> str:
    """As pip-audit writes it."""
    return json.dumps({"dependencies": packages, "fixes": []})


def holed(*fix_versions: str) -> dict[str, Any]:
    hole = {"id": "PYSEC-2024-1", "fix_versions": fix_versions, "aliases": ["CVE-2024-1"], "description": "…"}
    return {"name": "aiohttp", "version": "3.9.0", "vulns": [hole]}


def test_users_install_what_the_base_and_their_extras_need_and_nothing_of_ours() -> None:
    packages = installed()
    assert {"aiohttp", "pyjwt", "cryptography", "argon2-cffi-bindings", "pyarrow"} <= set(packages)
    assert not {"rsocket-broker", "mypy", "pytest", "hypothesis", "joserfc", "mkdocs"} & set(packages)


@pytest.mark.parametrize(
    ("packages", "accepted", "hole", "status"),
    [
        ([CLEAN, SKIPPED], {}, None, 0),
        ([holed("3.9.1", "4.0"), CLEAN], {}, "raise it to 3.9.1 or 4.0", 1),
        ([holed()], {}, "there is no newer version", 0),
        ([holed("3.9.1")], {"CVE-2024-1": "only its server has it"}, "only its server has it", 0),
        ([holed("3.9.1")], {"PYSEC-2024-1": "only its server has it"}, "only its server has it", 0),
    ],
)
def test_a_known_hole_that_a_newer_version_mends_fails(
    packages: list[dict[str, Any]],
    accepted: dict[str, str],
    hole: str | None,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = holes_in(report(*packages), accepted)
    assert [str(each) for each in found] == ([f"aiohttp 3.9.0: PYSEC-2024-1: {hole}"] if hole else [])
    monkeypatch.setattr(audit, "_ask", lambda requirements: "")
    monkeypatch.setattr(audit, "holes_in", lambda report: found)
    assert audit.main() == status
    assert f"packages, {len(found)} known holes, {status} to be mended" in capsys.readouterr().out


@pytest.mark.parametrize("said", ["", "Traceback", "{}", report(SKIPPED, SKIPPED)])
def test_where_no_advisory_can_be_read_one_line_says_so_and_nothing_fails(
    said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Unreachable):
        holes_in(said)
    monkeypatch.setattr(audit, "_ask", lambda requirements: said)
    assert audit.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("audit: not done: ")


def test_a_hole_is_told_with_what_to_do() -> None:
    assert str(Hole("a", "1", "X-1", "2", "")) == "a 1: X-1: raise it to 2"


def test_the_bill_holds_what_users_install() -> None:
    names = ("us", "PyJWT", "pytest")
    bill = {
        "metadata": {"component": {"bom-ref": "us"}},
        "components": [{"name": name, "bom-ref": f"{name}==1"} for name in names[1:]],
        "dependencies": [{"ref": "us", "dependsOn": ["PyJWT==1", "pytest==1"]}, {"ref": "pytest==1"}],
    }
    assert narrowed(bill, {"pyjwt"}) == {
        "metadata": {"component": {"bom-ref": "us"}},
        "components": [{"name": "PyJWT", "bom-ref": "PyJWT==1"}],
        "dependencies": [{"ref": "us", "dependsOn": ["PyJWT==1"]}],
    }

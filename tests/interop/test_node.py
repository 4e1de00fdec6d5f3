"""Where Node or the network is missing, one line says how to get it."""

import shutil
from pathlib import Path

import pytest

from tests import conftest
from tests.interop import node
from tests.system.support.processes import ROOT


def test_without_node_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(node.NodeMissing) as caught:
        node.install()
    assert str(caught.value) == "Node and npm are not installed: apt install nodejs npm (Node 18 or newer)"


def test_a_failing_npm_is_one_line_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shell = shutil.which("sh")
    for name in ("node", "npm"):
        program = tmp_path / name
        program.write_text(f"#!{shell}\necho 'npm error network is down' >&2\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = ROOT / "build" / "node-test"
    try:
        with pytest.raises(node.NodeMissing) as caught:
            node.install(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert str(caught.value) == (
        "npm packages are missing, npm install failed (npm error network is down); "
        "with the network there, run: npm install --no-package-lock --prefix build/node-test"
    )


def test_what_is_missing_skips_and_in_ci_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt install thing"):
        conftest.missing("thing is missing: apt install thing")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt install thing"):
        conftest.missing("thing is missing: apt install thing")


def test_no_lock_file_is_in_the_tree() -> None:
    """It would hold the addresses of whatever registry some machine used."""
    here = Path(node.__file__).parent
    assert not list(here.rglob("package-lock.json"))
    assert not list(here.rglob("node_modules"))

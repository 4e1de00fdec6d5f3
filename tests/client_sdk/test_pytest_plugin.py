"""The pytest plugin, and the tests that its document shows."""

import os
import re
import tomllib
from pathlib import Path

import pytest

from tests.system.support.processes import ROOT, RUN_S, import_path, run_python

pytest_plugins = ["pytester"]
ENTRY_POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
PLUGIN = "client_sdk.pytest_plugin"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/sdk/testing.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def run(pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder in which pytest runs as for a user who has installed the wheel, and so what the wheel says of itself."""
    about = tmp_path / "installed/rsocket_broker-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rsocket-broker\nVersion: 0\n")
    lines = [f"{name} = {module}" for name, module in ENTRY_POINTS.items()]
    (about / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]))
    monkeypatch.setenv("PYTHONPATH", f"{about.parent}{os.pathsep}{import_path()}")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-W error::ResourceWarning")
    return pytester


def outcomes(run: pytest.Pytester, text: str) -> dict[str, int]:
    run.makepyfile(test_users=text)
    return run.runpytest_subprocess("--strict-markers", timeout=RUN_S).parseoutcomes()


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_tests_in_the_document_pass(run: pytest.Pytester, number: int) -> None:
    text = BLOCKS[number]
    assert outcomes(run, text) == {"passed": len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE))}


def test_blocking_client_in_an_async_test_fails_at_once_with_advice(run: pytest.Pytester) -> None:
    run.makepyfile("import pytest\n@pytest.mark.asyncio\nasync def test_it(rsocket_client):\n    pass\n")
    result = run.runpytest_subprocess(timeout=RUN_S)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*async with connect(rsocket_broker) as client*"])


def test_a_fixture_of_a_wider_scope_is_told_to_have_a_broker_of_its_own(run: pytest.Pytester) -> None:
    run.makepyfile(
        "import pytest\n@pytest.fixture(scope='module')\ndef wide(rsocket_broker): ...\ndef test_it(wide): ...\n"
    )
    result = run.runpytest_subprocess(timeout=RUN_S)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["it is of one test; *`with client_sdk.testing.sync_local_broker() as broker: yield broker`"]
    )


def test_each_test_has_a_broker_of_its_own(run: pytest.Pytester) -> None:
    text = "import pytest\nurls = []\n@pytest.mark.parametrize('n', [1, 2])\ndef test_it(rsocket_broker, n):\n"
    text += "    urls.append(str(rsocket_broker))\n    assert len(set(urls)) == n and rsocket_broker.connections == 0\n"
    assert outcomes(run, text) == {"passed": 2}


def test_a_run_without_its_fixtures_imports_nothing_of_client_and_broker() -> None:
    text = f"import sys, pytest\nold = set(sys.modules)\nimport {PLUGIN}\nprint(sorted(set(sys.modules) - old))"
    assert run_python("-c", text).stdout == "['client_sdk', 'client_sdk.lazy', 'client_sdk.pytest_plugin']\n"

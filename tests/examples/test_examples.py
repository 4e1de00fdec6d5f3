"""Every example runs by itself, does what it says, and is short."""

import importlib.util
import logging
import runpy
import sys
from pathlib import Path

import pytest

from client_sdk.testing import sync_local_broker
from tests.conftest import missing
from tests.system.support.processes import ROOT, run_python

ALL = sorted((ROOT / "examples").glob("*.py"))
WITH_OTHERS = ROOT / "examples/fastapi_shop.py"  # needs packages that the other examples do not
EXAMPLES = [path for path in ALL if not path.stem.startswith("spark_")]  # those run in tests/spark_sink/data_source
EXAMPLES.remove(WITH_OTHERS)
MAX_LINES_N = 60
SEVERAL_BROKERS = {"two_brokers", "resilient_caller"}  # they always start their own


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_with_a_broker_of_its_own(path: Path) -> None:
    done = run_python(str(path))
    assert (done.returncode, "Traceback" in done.stdout + done.stderr) == (0, False), done
    assert (done.stdout + done.stderr).strip()


def test_examples_run_against_a_broker_that_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: how each starts in one of its own is tested above."""
    monkeypatch.setattr(logging, "disable", lambda: None)  # one of them says nothing more, which is for its process
    with sync_local_broker() as url:
        for path in (each for each in EXAMPLES if each.stem not in SEVERAL_BROKERS):
            monkeypatch.setattr(sys, "argv", [path.name, url])
            runpy.run_path(str(path), run_name="__main__")
            assert capsys.readouterr().out.strip(), path


@pytest.mark.interop
def test_the_example_with_fastapi_runs_with_a_broker_of_its_own_and_with_one_that_is_there() -> None:
    if importlib.util.find_spec("uvicorn") is None:
        missing("uvicorn is not installed: pip install 'uvicorn>=0.30,<1'")
    with sync_local_broker() as url:
        for arguments in ([], [url]):
            done = run_python(str(WITH_OTHERS), *arguments)
            assert (done.returncode, done.stderr, done.stdout.splitlines()) == (
                0,
                "",
                ['/orders/book 200 "book taken"', '/mars/book 503 {"detail":"no route has service=mars"}'],
            )


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < MAX_LINES_N


def test_there_are_examples() -> None:
    assert {path.stem for path in ALL} >= {
        "channel",
        "fastapi_shop",
        "gather",
        "http_gateway",
        "multicast",
        "ping_pong",
        "resilient_caller",
        "rolling_deploy",
        "sharded_cache",
        "spark_alert",
        "spark_questions",
        "streaming_backpressure",
        "sync_script",
        "two_brokers",
        "typed_json",
    }

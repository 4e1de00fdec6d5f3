"""Every example runs by itself, does what it says, and is short."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from client_sdk.testing import local_broker

ROOT = Path(__file__).parents[2]
ALL = sorted((ROOT / "examples").glob("*.py"))
EXAMPLES = [path for path in ALL if not path.stem.startswith("spark_")]  # those run in tests/spark_sink/data_source
RUN_S = 60.0  # they take about two seconds; a machine that is busy with other tests takes longer
MAX_LINES_N = 60
SEVERAL_BROKERS = {"two_brokers", "resilient_caller"}  # they always start their own


async def run_example(path: Path, *arguments: str) -> tuple[int | None, str]:
    """(exit status, output)"""
    # In this order, so that they find what the tests found: the compiled core, where they run on that.
    import_path = os.pathsep.join([*(each or os.getcwd() for each in sys.path), str(ROOT)])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(path),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": import_path},
        cwd=ROOT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), RUN_S)
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, output.decode()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_example_runs_with_a_broker_of_its_own(path: Path) -> None:
    status, output = await run_example(path)
    assert (status, "Traceback" in output) == (0, False), output
    assert output.strip()


@pytest.mark.slow
async def test_examples_run_against_a_broker_that_is_there() -> None:
    async with local_broker() as url:
        for path in (each for each in EXAMPLES if each.stem not in SEVERAL_BROKERS):
            status, output = await run_example(path, url)
            assert status == 0, output


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < MAX_LINES_N


def test_there_are_examples() -> None:
    assert {path.stem for path in ALL} >= {
        "channel",
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

"""The guide says what happens: its programs are run in their order, as a reader does, with one broker for them all."""

import asyncio
import doctest
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from client_sdk import RetryBudget, RetryPolicy, address, connect
from tests.system.support.processes import BrokerProcess, Python

ROOT = Path(__file__).resolve().parents[1]
GUIDE = (ROOT / "docs/sdk/guide.md").read_text()
WRITTEN_URL = "tcp://127.0.0.1:7878"
RUN_S = 60.0  # a program takes a second; a machine that is busy with other tests takes longer

_PROGRAM = re.compile(
    r"^[^\n]*`(?P<name>\w+)\.py`[^\n]*:\n\n```python\n(?P<text>.*?)^```\n(?:\n(?:[^\n]+\n\n)?```text\n(?P<says>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Program:
    """One block of Python in the guide."""

    name: str
    text: str
    says: str | None  # None for one that says nothing


PROGRAMS = [Program(found["name"], found["text"], found["says"]) for found in _PROGRAM.finditer(GUIDE)]
STAYING = [program for program in PROGRAMS if "\nrun(" in program.text]
ENDING = [program for program in PROGRAMS if program not in STAYING]


@pytest.fixture(scope="module")
def folder(shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A reader's folder: every program is in it, those that stay are running."""
    path: Path = tmp_path_factory.mktemp("guide")
    for program in PROGRAMS:
        (path / f"{program.name}.py").write_text(program.text.replace(WRITTEN_URL, shared_broker.urls[0]))
    running = [Python(path / f"{program.name}.log", program.name, [], {}) for program in STAYING]
    try:
        for each in running:
            each.launch()
        asyncio.run(wait_until_served(shared_broker.urls[0]))
        yield path
        assert [each.process.poll() for each in running] == [None] * len(running)
    finally:
        for each in running:
            each.end()


async def wait_until_served(url: str) -> None:
    """Until the guide's service is there."""
    policy = RetryPolicy(attempts=1000, max_delay_s=0.05, budget=RetryBudget(min_per_s=1000))
    async with connect(url, retry=policy) as client:
        await client.request_response(address("orders"), b"anybody?", route="create", timeout_s=RUN_S)


async def start_program(path: Path) -> asyncio.subprocess.Process:
    """Runs a file in its folder, with this process's import path; what it logs comes apart from what it prints."""
    import_path = os.pathsep.join([*(each or os.getcwd() for each in sys.path), str(ROOT)])
    return await asyncio.create_subprocess_exec(
        sys.executable,
        path.name,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": import_path},
        cwd=path.parent,
    )


@pytest.mark.parametrize("program", ENDING, ids=lambda program: program.name)
async def test_a_program_of_the_guide_says_what_the_guide_says(program: Program, folder: Path) -> None:
    process = await start_program(folder / f"{program.name}.py")
    try:
        async with asyncio.timeout(RUN_S):
            output, log = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    said = output.decode()
    assert process.returncode == 0, said + log.decode()
    if not doctest.OutputChecker().check_output(program.says or "", said, doctest.ELLIPSIS):
        assert said == program.says


def test_every_block_of_the_guide_is_a_program_with_a_name() -> None:
    assert len(PROGRAMS) == GUIDE.count("```python\n")
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert [program.name for program in STAYING] == ["service"]

"""What type checkers know of the SDK, installed as users have it: every public name, strictly; mistakes are told."""

import ast
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import client_sdk
from broker.build_hook import PACKAGES
from tests.client_sdk.public import user_program
from tests.interop.node import Node
from tests.test_docs import programs
from tests.test_guide import PROGRAMS

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAM = HERE / "user_program.py"
OF_CONTRACTS = sorted(HERE.glob("programs/[a-z]*.py"))
MISTAKES = """\
from typing import Protocol
from client_sdk import Service, address, connect, fire_and_forget
orders = Service("orders", tags={"region": 1})

class Shops(Protocol):
    async def create(self, order: str) -> int: ...
    @fire_and_forget
    async def note(self, line: str) -> int: ...

class Shop:
    async def create(self, order: int) -> int:
        return order

orders.implement(Shops)(Shop())


async def main() -> None:
    async with connect("tcp://127.0.0.1:7878", keepalive="5") as client:
        await client.request_response("orders", b"42")
        (await client.request_response(address("orders"))).text
        (await client.request_response(address("orders"), returns=int)).data
        await client.of(Shops, address("orders")).create(42)
        next(client.request_stream(address("orders")))
"""
MISTAKEN_LINES = [3, 7, 14, 18, 19, 20, 21, 22, 23]


@pytest.fixture(scope="module")
def user_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the packages as a wheel brings them, and what they need."""
    folder: Path = tmp_path_factory.mktemp("user")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for name in PACKAGES:
        for source in (ROOT / name).rglob("*"):
            if source.suffix == ".py" or source.name == "py.typed":
                target = packages / source.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run_mypy(user_python: Path, *programs: Path) -> list[str]:
    """What it says, line by line."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", "", "--show-traceback"]
    command += ["--cache-dir", str(user_python.parents[1] / "mypy"), "--python-executable", str(user_python)]
    command += [str(program) for program in programs]
    done = subprocess.run(command, capture_output=True, text=True, cwd=programs[0].parent, check=False)
    return (done.stdout + done.stderr).splitlines()


@pytest.mark.long
def test_mypy_knows_every_public_name_and_programs_of_contracts(user_python: Path, tmp_path: Path) -> None:
    for program in (PROGRAM, *OF_CONTRACTS):  # where they stand mypy would take the packages of this checkout
        (tmp_path / program.name).write_text(program.read_text())
    assert run_mypy(user_python, *tmp_path.glob("*.py")) == []


@pytest.mark.long
def test_mypy_tells_mistakes(user_python: Path, tmp_path: Path) -> None:
    program = tmp_path / "mistakes.py"
    program.write_text(MISTAKES)
    said = run_mypy(user_python, program)
    assert sorted({int(line.split(":")[1]) for line in said if ": error:" in line}) == MISTAKEN_LINES, said


@pytest.mark.long
def test_mypy_finds_nothing_in_the_programs_of_the_documents(user_python: Path, tmp_path: Path) -> None:
    for document in ("contracts", "sync"):
        for at, text in enumerate(programs(ROOT / f"docs/sdk/{document}.md")):
            (tmp_path / f"{document}_{at}.py").write_text(text)
    for program in PROGRAMS:
        if "from rsocket." in program.text:
            continue  # rsocket-py has no types: its decorators make everything Any
        (tmp_path / f"{program.name}.py").write_text(program.text)
    assert run_mypy(user_python, *tmp_path.glob("*.py")) == []


@pytest.mark.long
@pytest.mark.interop
def test_pyright_knows_every_public_name_and_tells_mistakes(
    user_python: Path, tmp_path: Path, needs_node: Node
) -> None:
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    (tmp_path / "program.py").write_text(PROGRAM.read_text())
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    for program in OF_CONTRACTS:
        (tmp_path / program.name).write_text(program.read_text())
    said = needs_node.run(
        "pyright/index.js", "--pythonpath", str(user_python), "--level", "error", "--project", str(tmp_path)
    ).stdout.splitlines()
    errors = [line.strip() for line in said if " - error: " in line]
    assert [line for line in errors if "mistakes.py" not in line] == []
    lines = {int(line.partition("mistakes.py:")[2].split(":")[0]) for line in errors}
    assert sorted(lines) == MISTAKEN_LINES, said


@pytest.mark.parametrize("program", OF_CONTRACTS, ids=lambda program: program.stem)
def test_a_program_of_contracts_needs_nothing_that_hides_a_type(program: Path) -> None:
    """Checked by mypy and pyright above; what each does, test_programs says."""
    names = {getattr(node, "id", getattr(node, "name", "")) for node in ast.walk(ast.parse(program.read_text()))}
    assert names.isdisjoint({"Any", "cast", "returns"})
    assert "ignore" not in program.read_text()


async def test_the_program_runs() -> None:
    await user_program.main()


def test_the_program_uses_every_public_name() -> None:
    tree = ast.parse(PROGRAM.read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "client_sdk"
        for alias in node.names
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert set(client_sdk.__all__) - (imported & used) == set()

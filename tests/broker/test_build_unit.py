"""What is compiled together. That the whole becomes a unit is tested wherever the compiled core is."""

import ast
import re
import sys
import tomllib
from pathlib import Path

from broker.build_hook import PACKAGES, compiled_modules
from broker.build_unit import PARTS, parts_of

ROOT = Path(__file__).resolve().parents[2]  # of the sources, whichever core is tested


def written(folder: Path, **lengths: int) -> list[str]:
    """C of modules, as mypyc names it."""
    for name, length in lengths.items():
        (folder / f"__native_{name}.c").write_bytes(b"x" * length)
    return [str(path) for path in sorted(folder.iterdir())]


def test_what_a_request_passes_is_compiled_together_and_the_rest_in_parts_of_one_length(tmp_path: Path) -> None:
    passed = {"d2dd": 9, "broker___core": 100, "rsocket_wire___wire___tags": 50, "broker___forwarding___unicast": 70}
    rest = {f"broker___cluster___m{number}": 10 * number for number in range(1, 8)}
    sources = written(tmp_path, **passed, **rest, broker___forwarding___multicast___merge=20)
    parts = [{Path(each).stem.removeprefix("__native_") for each in part} for part in parts_of(sources)]
    assert len(parts) == PARTS + 1
    assert set(passed) in parts
    assert {name for part in parts for name in part} == {*passed, *rest, "broker___forwarding___multicast___merge"}
    assert all(90 <= sum(rest.get(name, 20) for name in part) <= 110 for part in parts if part != set(passed))


def test_few_modules_are_in_few_parts(tmp_path: Path) -> None:
    sources = written(tmp_path, broker___core=10)
    assert parts_of(sources) == [sources]


def test_the_build_of_a_wheel_has_all_that_compiled_modules_import() -> None:
    """A class of the unit with an unknown base is compiled to what cannot be imported."""
    imported: set[str] = set()
    for module in compiled_modules(ROOT):
        for node in ast.walk(ast.parse((ROOT / module).read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    there = {re.split(r"\W", requirement)[0] for requirement in requires}
    of_mypy = {"librt", "mypy_extensions"}
    assert imported - sys.stdlib_module_names - {*PACKAGES} <= there | of_mypy

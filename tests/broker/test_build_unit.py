"""What is compiled together. That the whole becomes a unit is tested wherever the compiled core is."""

import ast
import re
import sys
import tomllib
from pathlib import Path

from broker.build_hook import PACKAGES, compiled_modules
from broker.build_unit import BESIDE, NOT_PASSED, PARTS, PASSED, Part, parts_of

ROOT = Path(__file__).resolve().parents[2]  # of the sources, whichever core is tested


def written(folder: Path, **lengths: int) -> list[str]:
    """C of modules, as mypyc names it."""
    for name, length in lengths.items():
        (folder / f"__native_{name}.c").write_bytes(b"x" * length)
    return [str(path) for path in sorted(folder.iterdir())]


def names(part: Part) -> set[str]:
    return {Path(each).stem.removeprefix("__native_") for each in part.sources}


def test_what_a_request_passes_is_compiled_together_and_the_rest_in_parts_of_one_length(tmp_path: Path) -> None:
    passed = {"d2dd": 9, "broker___core": 300, "rsocket_wire___wire___tags": 50, "broker___forwarding___unicast": 70}
    seldom = {f"broker___forwarding___multicast___m{number}": 10 * number for number in range(1, 8)}
    never = {f"broker___cluster___m{number}": 11 * number for number in range(1, 7)} | {"broker___routing___table": 21}
    parts = parts_of(written(tmp_path, **passed, **seldom, **never))
    assert [part.length for part in parts] == sorted((part.length for part in parts), reverse=True)
    assert names(parts[0]) == set(passed)
    of_seldom, of_never = ([part for part in parts[1:] if part.is_passed is is_passed] for is_passed in (True, False))
    for rest, lengths in ((of_seldom, seldom), (of_never, never)):
        assert len(rest) == PARTS
        assert {name for part in rest for name in names(part)} == set(lengths)
        assert all(part.length == sum(lengths[name] for name in names(part)) for part in rest)
        assert max(part.length for part in rest) - min(part.length for part in rest) <= 22


def test_few_modules_are_in_few_parts(tmp_path: Path) -> None:
    sources = written(tmp_path, broker___core=10)
    assert [part.sources for part in parts_of(sources)] == [sources]


def test_each_module_that_is_named_for_a_part_is_compiled() -> None:
    there = [module.removesuffix(".py").replace("/", "___") for module in compiled_modules(ROOT)]
    assert [each for each in (*PASSED, *BESIDE, *NOT_PASSED) if not any(name.startswith(each) for name in there)] == []


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

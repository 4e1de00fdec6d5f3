"""The bounds of the writer that the document lists are those of the code."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import spark_sink
from tests.broker.test_limits import number, rows

PACKAGE = Path(spark_sink.__file__).parent
WRITER = ("writer/*.py",)


def bounds() -> dict[str, float]:
    """`writer.state.MAX_HELD_BYTES` and its like."""
    found: dict[str, float] = {}
    for path in [path for pattern in WRITER for path in PACKAGE.glob(pattern)]:
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                if name.startswith("MAX_"):
                    found[f"{module}.{name}"] = getattr(importlib.import_module(f"spark_sink.{module}"), name)
    return found


def test_every_bound_of_the_writer_has_a_row_with_its_number() -> None:
    listed = {name.strip("`"): number(value) for name, value, *_ in rows("Bounds of the writer of event files")}
    assert listed == bounds()

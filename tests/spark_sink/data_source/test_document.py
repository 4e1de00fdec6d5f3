"""docs/spark/spark-source.md says what the code does."""

import importlib
import re
from pathlib import Path

from spark_sink.data_source.options import NAMES

TEXT = (Path(__file__).parents[3] / "docs/spark/spark-source.md").read_text()
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    text = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]


def test_all_options_are_in_the_list() -> None:
    assert [cells[0].strip("`") for cells in rows("Options")] == list(NAMES)


def test_the_limits_are_those_of_the_code() -> None:
    found = rows("Limits")
    assert found
    for cells in found:
        names = re.findall(r"`([\w.]+)`", cells[0])
        module = importlib.import_module(f"spark_sink.data_source.{names[0].partition('.')[0]}")
        values = re.findall(r"(\d[\d,]*)(?: (KiB|MiB|GiB))?", cells[1])
        numbers = [int(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in values]
        said = [getattr(module, name.rpartition(".")[2]) for name in names]
        assert set(said) == set(numbers), names

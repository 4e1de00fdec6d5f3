"""What a broker that counts is compared with: a copy whose counting methods are there, and have lost their bodies."""

import shutil
from pathlib import Path

import pytest

from benchmarks.machine import ROOT
from benchmarks.metrics_cost import COUNTING, empty


@pytest.mark.parametrize(("file", "owner", "method"), COUNTING)
def test_each_method_that_counts_is_there_to_be_emptied(tmp_path: Path, file: str, owner: str, method: str) -> None:
    copy = Path(shutil.copy(ROOT / file, tmp_path))
    empty(copy, owner, method)
    assert len(copy.read_text()) < len((ROOT / file).read_text())

"""The folder that the configuration of a test is read from."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that is the current one, so that files have short names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path

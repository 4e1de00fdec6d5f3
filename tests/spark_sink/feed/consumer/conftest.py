"""A site with files, and a mirror that runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.spark_sink.feed.consumer.mirrors import Running, Site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    (tmp_path / "site").mkdir()
    async with Site(tmp_path / "site").serving() as serving:
        yield serving


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with Running(tmp_path) as mirror:
        yield mirror

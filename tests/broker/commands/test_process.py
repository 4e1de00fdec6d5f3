"""A process that ends with who has started it."""

import asyncio
import os
from pathlib import Path

import pytest

from broker.commands import process


@pytest.mark.parametrize("path", ["/dev/null", __file__])
async def test_an_input_that_nobody_holds_open_has_ended(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Systems tell nobody when there is more of a file, so that it cannot be waited for."""
    file = os.open(Path(path), os.O_RDONLY)
    try:
        monkeypatch.setattr(process, "STDIN", file)
        stopped = asyncio.Event()
        process.stop_at_eof(stopped.set)
        async with asyncio.timeout(10.0):
            await stopped.wait()
    finally:
        os.close(file)

"""benchmarks.samwise: what the Samwise gateway takes, and how much memory a message takes that it has read."""

import gc
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.samwise import main
from client_sdk.gateways.samwise.requests import RequestReader, Rules
from client_sdk.gateways.samwise.values import Request
from tests.client_sdk.gateways.samwise.odd_requests import Frames, of_1_0, of_1_1
from tests.client_sdk.gateways.samwise.rabbitmq import RabbitNode
from tests.conftest import missing

READ_N = 1_000


def blocks_of(requests: list[Frames], reader: RequestReader) -> float:
    """Heap allocations that are held for each of these requests when all are read, its frames apart."""
    read: list[Request | None] = [None] * len(requests)
    gc.collect()  # what others have left
    before = sys.getallocatedblocks()
    for at, frames in enumerate(requests):
        read[at] = reader.read(frames)
    return (sys.getallocatedblocks() - before) / len(read)


@pytest.mark.parametrize("form", [of_1_0, of_1_1])
def test_a_message_of_the_same_frames_costs_one_allocation_whatever_their_count(
    form: Callable[..., Frames],
) -> None:
    reader = RequestReader(Rules())
    reader.read(form(payload=b"first"))
    # What threads free meanwhile is counted too, up to a few dozen blocks.
    assert 0.9 < blocks_of([form(payload=b"p%d" % n) for n in range(READ_N)], reader) < 1.5


@pytest.mark.interop
@pytest.mark.long
def test_it_measures_both_kinds_of_durability(rabbit: RabbitNode, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/usr/include/zmq.h").exists() or not (shutil.which("cc") or shutil.which("gcc")):
        missing("the callers are a program in C: apt install libzmq3-dev gcc")
    monkeypatch.delenv("SAMD", raising=False)
    arguments = ["--callers", "2", "--seconds", "0.1", "--rounds", "1", "--interpreted", "--port", str(rabbit.port)]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│ gate" in line]
    assert [row[:2] for row in rows] == [[f"gateway, {kind}", "2"] for kind in ("os", "fsync")]
    assert all(int(row[2].replace(",", "")) > 0 for row in rows)

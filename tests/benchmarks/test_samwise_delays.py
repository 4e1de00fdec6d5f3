"""benchmarks.samwise_delays: how long others wait for the Samwise gateway, measured on a small scale."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.samwise_delays import fill, main, part_of
from client_sdk.gateways.samwise.tables import Tables
from tests.client_sdk.gateways.samwise.rabbitmq import RabbitNode
from tests.conftest import missing


def test_a_filled_store_has_so_many_messages(tmp_path: Path) -> None:
    fill(tmp_path / "store", 1500)
    tables = Tables(tmp_path / "store" / "messages.db", is_synced=False, max_messages=1, max_bytes=1)
    assert (tables.totals.waiting_n, tables.totals.next_id) == (1500, 1501)
    tables.close()


def test_a_part_of_the_values_is_not_above_its_value() -> None:
    values = list(range(1, 101))
    assert [part_of(values, part) for part in (0.5, 0.99, 1)] == [51, 100, 100]
    assert part_of([7], 0.5) == 7


@pytest.mark.interop
@pytest.mark.long
def test_it_measures_a_start_confirms_and_a_broker_beside(rabbit: RabbitNode) -> None:
    if not Path("/usr/include/zmq.h").exists() or not (shutil.which("cc") or shutil.which("gcc")):
        missing("the callers are a program in C: apt install libzmq3-dev gcc")
    small = ["--messages", "20", "--durability", "os", "--seconds", "0.2", "--rounds", "1", "--interpreted"]
    result = CliRunner().invoke(main, [*small, "--port", str(rabbit.port)], catch_exceptions=False)
    assert result.exit_code == 0
    for title in ("A start with stored messages", "From acceptance to RabbitMQ's confirm", "Through a broker"):
        assert title in result.stdout
    started = next(line for line in result.stdout.splitlines() if line.startswith("│ 20 "))
    assert started.split()[-2] == "20"  # all of them were delivered

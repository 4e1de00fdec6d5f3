"""The programs of examples/samwise/: a service, and two without RSocket that hand it messages, as users run them."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_sdk import address, sync
from tests.conftest import StartBroker, missing
from tests.system.support.processes import ROOT, BrokerProcess, Python, import_path
from tests.system.support.waits import until_now

FOLDER = ROOT / "examples/samwise"
MOST_LINES_N = {"send.c": 40, "send.sh": 20, "orders.py": 60}
RUN_S = 60.0


class Shop:
    """A broker with a gateway, and the service behind them."""

    def __init__(self, folder: Path, broker: BrokerProcess) -> None:
        self.folder = folder
        self.broker = broker
        self.url = broker.url("tcp")
        self.endpoint = f"ipc://{folder}/samwise"
        self.database = folder / "orders.db"
        self.service = Python(folder / "log", "examples.samwise.orders", [self.url, str(self.database)], {})

    def orders(self) -> list[tuple[str, str]]:
        """Shop and item of each order that is written down."""
        if not self.database.exists():
            return []
        with sqlite3.connect(self.database) as database:
            if not database.execute("SELECT 1 FROM sqlite_master").fetchall():
                return []  # the service begins
            return database.execute("SELECT shop, item FROM orders ORDER BY rowid").fetchall()

    def run(self, *command: str, given: str = "", **environment: str) -> tuple[int, str]:
        """Exit status and errors of a program."""
        environment = {**os.environ, "SAMWISE_ENDPOINT": self.endpoint, "PYTHONPATH": import_path(), **environment}
        done = subprocess.run(
            command, input=given, env=environment, capture_output=True, text=True, timeout=RUN_S, check=False
        )
        assert done.stdout == ""
        return done.returncode, done.stderr


@pytest.fixture
def shop(start_broker: StartBroker, socket_folder: Path) -> Iterator[Shop]:
    pytest.importorskip("zmq")
    stored = socket_folder / "stored"
    broker = start_broker(samwise__endpoints=f"ipc://{socket_folder}/samwise", samwise__dir=str(stored))
    shop = Shop(socket_folder, broker)
    shop.service.launch()
    yield shop
    shop.service.end()


def test_a_program_in_c_hands_an_order_over(shop: Shop) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        missing("there is no C compiler: apt install gcc")
    program = str(shop.folder / "send")
    built = subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Werror", str(FOLDER / "send.c"), "-o", program, "-lzmq"],
        capture_output=True,
        text=True,
        check=False,
    )
    if "zmq.h" in built.stderr:
        missing("zmq.h is not there: apt install libzmq3-dev")
    assert (built.returncode, built.stderr) == (0, "")
    assert shop.run(program, shop.endpoint, "orders", "create", "a book") == (0, "")
    until_now(lambda: shop.orders() == [("", "a book")])
    refusal = "send: refused: malformed publishing request: frame 3, exchange, is empty and has no default\n"
    assert shop.run(program, shop.endpoint, "", "create", "a book") == (1, refusal)
    assert shop.run(program, "nowhere", "orders", "create", "a book") == (2, "send: nowhere: Invalid argument\n")
    assert shop.run(program)[0] == 2


def test_a_script_hands_over_an_order_a_line_and_ends_at_one_that_is_refused(shop: Shop) -> None:
    command = shop.folder / "rsocket-broker"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m broker.commands.main "$@"\n')
    command.chmod(0o755)
    path = f"{shop.folder}{os.pathsep}{os.environ['PATH']}"
    send = ("sh", str(FOLDER / "send.sh"))
    assert shop.run(*send, given='a lamp\nthe "best" chair\n', PATH=path, SHOP="paris") == (0, "")
    until_now(lambda: shop.orders() == [("paris", "a lamp"), ("paris", 'the "best" chair')])
    command.write_text("#!/bin/sh\nexit 4\n")
    assert shop.run(*send, given="a lamp\n", PATH=path)[0] == 4


def test_the_service_writes_an_order_down_once_though_it_comes_twice(shop: Shop) -> None:
    until_now(lambda: "(orders): joined" in shop.broker.errors)
    message = json.dumps({"x-samwise-id": "1", "exchange": "orders", "options": {}, "headers": {"shop": "rome"}})
    with sync.connect(shop.url) as client:
        for _ in range(2):
            answer = client.request_response(
                address("orders"),
                b"a lamp",
                route="create",
                metadata={"application/x-samwise-message+json": message.encode()},
                timeout_s=30,
            )
            assert answer.data == b""
    assert shop.orders() == [("rome", "a lamp")]
    shop.service.read_lines(2)
    assert shop.service.lines == ["new: a lamp", "again: a lamp"]


@pytest.mark.parametrize("name", MOST_LINES_N)
def test_it_is_short(name: str) -> None:
    assert len((FOLDER / name).read_text().splitlines()) <= MOST_LINES_N[name]


def test_there_are_no_others() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_file()} == set(MOST_LINES_N)

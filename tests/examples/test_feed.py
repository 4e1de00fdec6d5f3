"""examples/feed/: a machine that makes files, and one that mirrors them, as users run them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client_sdk.gateways.samwise.rabbitmq import HOST, free_port
from tests.system.support.processes import ROOT, import_path
from tests.system.support.waits import WAIT_S, until_now

FOLDER = ROOT / "examples/feed"
MAIN = "from broker.commands.script import main; main()"
STARTS = {"source.toml": ["serve"], "mirror.toml": ["feed", "watch"]}


def test_what_lies_at_the_source_is_in_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", import_path())
    ports = {"127.0.0.1:7878": f"{HOST}:{free_port()}", "127.0.0.1:7070": f"{HOST}:{free_port()}"}
    for name in STARTS:
        text = (FOLDER / name).read_text()
        for given, free in ports.items():
            text = text.replace(given, free)
        (tmp_path / name).write_text(text)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("data")
    started = []
    try:
        for name, words in STARTS.items():
            command = [sys.executable, "-c", MAIN, *words, "--config", name]
            with (tmp_path / f"{name}.log").open("wb") as log:
                started.append(subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log))
        mirrored = tmp_path / "mirror" / "file"
        until_now(lambda: mirrored.exists() and mirrored.read_text() == "data")
        for process in reversed(started):
            process.terminate()
        assert [process.wait(WAIT_S) for process in started] == [0, 0]
    finally:
        for process in started:
            process.kill()
            process.wait()
        for log_of in STARTS:
            print((tmp_path / f"{log_of}.log").read_text())

"""Completion in real shells: what stands on the line after the tabulator key."""

from __future__ import annotations

import http.server
import json
import os
import re
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing

ROOT = Path(__file__).resolve().parents[3]
PROMPT = "READY> "
START_OF_LINE, END_OF_LINE = "\x01", "\x05"
SILENCE_S = 60.0  # of a shell that has died; they take a second
# The file that a shell reads at its start: a prompt to wait for, and what docs/commands.md says to write there.
STARTS = {
    "bash": (".bashrc", f'PS1="{PROMPT}"\neval "$(rsocket-broker completion bash)"\n'),
    "zsh": (
        ".zshrc",
        f'PS1="{PROMPT}"\nautoload -Uz compinit\ncompinit -u -D\neval "$(rsocket-broker completion zsh)"\n',
    ),
    "fish": (
        "fish/config.fish",
        f'set fish_greeting\nfunction fish_prompt; echo -n "{PROMPT}"; end\nrsocket-broker completion fish | source\n',
    ),
}


class Services(http.server.BaseHTTPRequestHandler):
    """The one list of a REST API that completion asks for."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"items": [{"service": "orders"}, {"service": "billing"}]}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def admin() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Services) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def completed(shell: str, keys: list[str], home: Path, admin: str) -> list[str]:
    """The lines that these keys become, each ended by the tabulator."""
    program = shutil.which(shell)
    if program is None:
        missing(f"{shell} is not installed: apt install {shell}")
    folder = home / "bin"
    folder.mkdir()
    command = folder / "rsocket-broker"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m broker.commands.main "$@"\n')
    command.chmod(0o755)
    (home / "broker.toml").touch()
    file, text = STARTS[shell]
    (home / file).parent.mkdir(exist_ok=True)
    (home / file).write_text(text)
    environment = {
        "PATH": os.pathsep.join([str(folder), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([*(each or os.getcwd() for each in sys.path), str(ROOT)]),
        "RSB_ADMIN": admin,
        "TERM": "xterm",
        **dict.fromkeys(("HOME", "ZDOTDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), str(home)),
    }
    with subprocess.Popen(
        [sys.executable, "-c", f"import pty; pty.spawn([{program!r}, '-i'])"],  # at a terminal of its own
        cwd=home,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            _type(process, b"", until=PROMPT)
            for each in keys:  # the shell writes its own line into a file in place of running it
                line = f"{each}\t{START_OF_LINE}echo '{END_OF_LINE}' >>lines && echo DO''NE\r"
                _type(process, line.encode(), until=f"DONE.*{PROMPT}")
            _type(process, b"exit\r", until=None)
        finally:
            process.kill()
    return [line.strip() for line in (home / "lines").read_text().splitlines()]  # a space is behind a whole word


def _type(process: subprocess.Popen[bytes], keys: bytes, until: str | None) -> None:
    """Types, and reads until the terminal has shown that or, None, until the shell has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(keys)
    process.stdin.flush()
    shown = b""
    while until is None or not re.search(until.encode(), shown, re.DOTALL):
        ready, _, _ = select.select([process.stdout], [], [], SILENCE_S)
        assert ready, shown
        read = os.read(process.stdout.fileno(), 1 << 16)
        if not read:
            assert until is None, shown
            return
        shown += read


@pytest.mark.parametrize("shell", STARTS)
def test_the_tabulator_completes_commands_options_services_and_files(shell: str, tmp_path: Path, admin: str) -> None:
    lines = {
        "shard-p": "shard-plan",
        "call --servi": "call --service",
        "call tcp://127.0.0.1:1 --service ord": "call tcp://127.0.0.1:1 --service orders",
        "call --tag region=eu --service=ord": "call --tag region=eu --service=orders",
        f"ctl service --admin {admin} ord": f"ctl service --admin {admin} orders",
        "serve --config bro": "serve --config broker.toml",
        "check bro": "check broker.toml",
    }
    found = completed(shell, [f"rsocket-broker {each}" for each in lines], tmp_path, admin)
    assert found == [f"rsocket-broker {each}" for each in lines.values()]

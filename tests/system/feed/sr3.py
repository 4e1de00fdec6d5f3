"""metpx-sr3, the program that v03 posts come from: in an environment of its own, with configurations of its own.

    python -m tests.system.feed.sr3      # installs it into build/sr3, as the first test would

It is installed from PyPI and is imported by none of our processes (GPL v2).
"""

import os
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.system.support.processes import ROOT
from tests.system.support.waits import WAIT_S, until_now

FOLDER: Final = ROOT / "build" / "sr3"
# flufl.lock: without it blocks of files are not put together.
REQUIREMENTS: Final = ("metpx-sr3[amqp,mqtt]==3.3.1", "flufl.lock==10.0.0")
INSTALL_S: Final = 300.0
PROGRAM_S: Final = 60.0


class Sr3Missing(Exception):
    """It is not there; the text says how to get it."""


class Sr3:
    """The installed program, with a home folder that holds its configurations, logs and state."""

    def __init__(self, python: Path, home: Path) -> None:
        self._python: Final = python
        self._configs: Final = home / ".config" / "sr3"
        self._home: Final = home
        self._environment: Final = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "XDG_", "SR_"))},
            "HOME": str(home),
            "USER": "guest",  # stands in names of queues
        }
        self._started: Final[list[Flow]] = []

    def start(self, component: str, name: str, broker: str, lines: Iterable[str]) -> "Flow":
        """A flow of this component and configuration. `broker`: a URL, without a user."""
        self._configure(component, name, broker, lines)
        module = [str(self._python), "-m", "sarracenia.instance", "--no", "1", "foreground", f"{component}/{name}"]
        self._started.append(Flow(module, self._environment, self._home / f"{component}-{name}.log"))
        return self._started[-1]

    def post(self, broker: str, lines: Iterable[str], paths: Iterable[Path]) -> str:
        """Runs sr3_post until its end. What it said."""
        self._configure("post", "one", broker, lines)
        command = [str(self._python.with_name("sr3_post")), "-c", "one", "-p", *map(str, paths)]
        done = subprocess.run(
            command,
            env=self._environment,
            cwd=self._home,
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def end(self) -> None:
        """All flows."""
        for flow in self._started:
            flow.end()

    def _configure(self, component: str, name: str, broker: str, lines: Iterable[str]) -> None:
        scheme, _, rest = broker.partition("://")
        for folder in (self._configs / component, self._home / ".cache" / "sr3" / component / name):
            folder.mkdir(parents=True, exist_ok=True)
        (self._configs / "credentials.conf").write_text(f"{scheme}://guest:guest@{rest}\n")
        which = "post_broker" if component in ("post", "watch") else "broker"
        own = [f"{which} {scheme}://guest@{rest}", *lines]
        (self._configs / component / f"{name}.conf").write_text("\n".join(own) + "\n")


class Flow:
    """One that runs."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._log: Final = log
        with log.open("wb") as output:
            self._process: Final = subprocess.Popen(
                command,
                env=environment,
                cwd=environment["HOME"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it said."""
        return self._log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def wait_for(self, text: str) -> None:
        """Until it has said so."""

        def has_said() -> bool:
            assert self._process.poll() is None, f"it ended:\n{self.output}"
            return text in self.output

        try:
            until_now(has_said)
        except AssertionError:
            raise AssertionError(f"it has not said {text!r}:\n{self.output}") from None

    def end(self) -> None:
        """It, and what it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(WAIT_S)


def install(folder: Path = FOLDER) -> Path:
    """Its interpreter; fetched at the first use. Sr3Missing where that cannot be."""
    python, stamp, wanted = folder / "bin" / "python", folder / "installed", "\n".join(REQUIREMENTS)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *REQUIREMENTS]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        reason = "" if not done.returncode else (done.stderr.strip().splitlines() or ["no reason told"])[-1]
    except subprocess.TimeoutExpired:
        reason = f"pip gave up after {INSTALL_S:.0f} s"
    if reason:
        raise Sr3Missing(
            f"metpx-sr3 is missing ({reason}); with the network there, run: python -m tests.system.feed.sr3"
        )
    stamp.write_text(wanted)
    return python


if __name__ == "__main__":
    try:
        print(install())
    except Sr3Missing as error:
        sys.exit(str(error))

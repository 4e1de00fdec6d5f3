"""A real Mosquitto for tests: on a free port, with its files in a folder of its own, gone at the end."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.client_sdk.gateways.samwise.rabbitmq import CERTIFICATE, HOST, free_port, is_open
from tests.conftest import missing
from tests.system.support.waits import WAIT_S, until_now


class Mosquitto:
    """One broker; after `kill` it starts again with what it had stored."""

    def __init__(self, folder: Path) -> None:
        """Skips the test where Mosquitto is not installed."""
        program = shutil.which("mosquitto", path=os.pathsep.join(("/usr/sbin", os.environ.get("PATH", ""))))
        if program is None:
            missing("mosquitto is not installed: apt install mosquitto")
        self._program = program
        self.port = free_port()
        self.tls_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None  # None while it is not there
        self._file = folder / "mosquitto.conf"
        self._file.write_text(
            f"listener {self.port} {HOST}\nallow_anonymous true\npersistence true\n"
            f"persistence_location {folder}/\nautosave_interval 1\nautosave_on_changes true\nuser root\n"
            f"listener {self.tls_port} {HOST}\ncertfile {CERTIFICATE}\nkeyfile {CERTIFICATE}\n"
        )

    def start(self) -> None:
        """It listens when this returns."""
        command = [self._program, "-c", str(self._file)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_now(lambda: is_open(self.port))

    def stop(self) -> None:
        """It ends in order, and keeps what it has."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(WAIT_S)

"""`rsocket-broker samwise serve` as a process of its own; its folder outlives it."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.client_sdk.gateways.samwise.rabbitmq import HOST, USER, RabbitNode
from tests.system.support.processes import Python

NOBODY: Final = "tcp://127.0.0.1:1"  # where no broker is


class GatewayProgram:
    """One gateway, as often as it is started."""

    def __init__(self, folder: Path, *lines: str, broker: str = NOBODY) -> None:
        """`folder`: its path is short enough for a socket. `lines`: of the configuration, behind those of [samwise]."""
        self.folder: Final = folder
        self.stored: Final = folder / "stored"
        self.endpoint: Final = f"ipc://{folder}/s"
        self.config: Final = folder / "gateway.toml"
        text = ["[server]", f'listen = ["{broker}"]', "[samwise]", f'endpoints = ["{self.endpoint}"]']
        self.config.write_text("\n".join([*text, f'dir = "{self.stored}"', *lines]))
        self.process = self._new()

    def start(self) -> None:
        """Returns when it listens; AssertionError with what it said if it does not."""
        self.process.launch()
        self.process.read_lines(1)
        assert self.process.lines == [f"listening {self.endpoint}"], self.process.output

    def start_again(self) -> None:
        """After its end."""
        self.process.end()
        self.process = self._new()
        self.start()

    def kill(self) -> None:
        """kill -9."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """For certain."""
        self.process.end()

    def _new(self) -> Python:
        arguments = ["samwise", "serve", "--config", str(self.config)]
        return Python(self.folder / "log", "broker.commands.main", arguments, {})


def lines_of(nodes: Iterable[RabbitNode]) -> list[str]:
    """The configuration of a gateway that delivers to these."""
    lines = ['backend = "rabbitmq"']
    for node in nodes:
        lines += [f"[samwise.rabbitmq.{node.name}]", f'host = "{HOST}"', f"port = {node.port}", f'user = "{USER}"']
        lines += [f'password = "{USER}"']
    return lines

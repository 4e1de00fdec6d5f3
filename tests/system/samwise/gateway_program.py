"""`rsocket-broker samwise serve` as a process of its own; its folder outlives it."""

import asyncio
import os
import resource
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.client_sdk.gateways.samwise.callers import calling
from tests.client_sdk.gateways.samwise.rabbitmq import HOST, USER, RabbitNode
from tests.system.samwise import small_disk
from tests.system.support.processes import Python

NOBODY: Final = "tcp://127.0.0.1:1"  # where no broker is
STATUS: Final = [b"120", b"status"]


class GatewayProgram:
    """One gateway, as often as it is started."""

    def __init__(self, folder: Path, *lines: str, broker: str = NOBODY, disk_bytes: int | None = None) -> None:
        """`folder`: its path is short enough for a socket. `lines`: of the configuration, behind those of [samwise].
        `disk_bytes`: of `small_disk`; None: the disk is that of the machine."""
        self.folder: Final = folder
        self.stored: Final = folder / "stored"
        self.endpoint: Final = f"ipc://{folder}/s"
        self.config: Final = folder / "gateway.toml"
        self._disk_bytes: Final = disk_bytes
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

    def free_disk(self) -> None:
        """Nothing fills the small disk of the process that runs any more."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    async def status(self) -> list[str]:
        """The lines of what it says."""
        async with calling(self.endpoint) as call:
            state, text = await call().ask(STATUS)
        assert state == b"0"
        return text.decode().splitlines()

    async def nothing_waits(self) -> None:
        """Until all that is stored is delivered; no message died."""
        while "waiting: 0 messages, 0 bytes" not in (lines := await self.status()):
            await asyncio.sleep(0.05)
        assert "dead letters: 0 messages, 0 bytes" in lines

    def _new(self) -> Python:
        arguments = ["samwise", "serve", "--config", str(self.config)]
        module = "broker.commands.main"
        if self._disk_bytes is not None:
            module, arguments = small_disk.__name__, [str(self._disk_bytes), *arguments]
        return Python(self.folder / "log", module, arguments, {})


def lines_of(nodes: Iterable[RabbitNode]) -> list[str]:
    """The configuration of a gateway that delivers to these."""
    lines = ['backend = "rabbitmq"']
    for node in nodes:
        lines += [f"[samwise.rabbitmq.{node.name}]", f'host = "{HOST}"', f"port = {node.port}", f'user = "{USER}"']
        lines += [f'password = "{USER}"']
    return lines

"""A broker in a process of its own: `rsocket-broker serve`, until it says where it listens, and its end.

Decides how long that may take. RSB_ variables of this process are not for it: they say how somebody's own broker is to
be, and this one has what it is told here.
"""

import asyncio
import contextlib
import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

START_S: Final = 20.0  # a cold start of Python with all imports, on a busy machine
STOP_S: Final = 5.0
KEPT_LINES_N: Final = 50  # of what the broker says, for the error when it does not start
_LISTENING: Final = "listening "
_VARIABLE_PREFIX: Final = "RSB_"


class BrokerProcess:
    """One process; `start` it, then `stop` it. `urls` are in the order in which it says them."""

    def __init__(
        self,
        listen: Sequence[str],
        options: Mapping[str, object],
        arguments: Sequence[str] = (),
        admin: str = "off",
        stop_s: float = STOP_S,
    ) -> None:
        """`options` by their names ("limits.max_connections"), `arguments` as on the command line. `admin`: HOST:PORT
        of the admin API, whose URL is the last one. `stop_s`: for it to end when it is told to."""
        self._given: Final = (options, arguments, admin, stop_s)
        flags = [word for url in listen for word in ("--listen", url)]
        # It ends when this process is gone, however that went: its standard input ends then.
        flags += ["--stop-at-eof", "--admin", admin]
        self._command: Final = (sys.executable, "-m", "broker", *flags, *arguments)
        self._listen_n: Final = len(listen) + arguments.count("--listen") + (admin != "off")
        self._stop_s: Final = stop_s
        own = {name: value for name, value in os.environ.items() if not name.startswith(_VARIABLE_PREFIX)}
        self._environment: Final = {**own, **{_variable(name): _text(value) for name, value in options.items()}}
        self._said: Final[deque[str]] = deque(maxlen=KEPT_LINES_N)
        self._process: asyncio.subprocess.Process | None = None  # None until it was started
        self._reader: asyncio.Task[None] | None = None  # None until it listens
        self.urls: list[str] = []

    def anew(self, listen: Sequence[str]) -> "BrokerProcess":
        """Another one like it, not started."""
        options, arguments, admin, stop_s = self._given
        return BrokerProcess([] if "--listen" in arguments else listen, options, arguments, admin, stop_s)

    async def start(self) -> None:
        """RuntimeError, with what it said, unless it listens within START_S."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,  # Ctrl-C is for this process, which ends its connections first and then the broker
        )
        assert self._process.stdout is not None  # asked for with PIPE
        await self._wait_for_urls(self._process.stdout)
        self._reader = asyncio.create_task(self._read_on(self._process.stdout))

    async def stop(self) -> bool:
        """SIGTERM, and SIGKILL for one that does not heed it: False."""
        process = self._process
        if process is None:
            return True
        is_heeded = False
        for signal in (process.terminate, process.kill):
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError, TimeoutError):
                    signal()
                    async with asyncio.timeout(self._stop_s):
                        await process.wait()
                        is_heeded = signal == process.terminate
        if self._reader is not None:
            await self._reader
        return is_heeded

    async def _wait_for_urls(self, output: asyncio.StreamReader) -> None:
        try:
            async with asyncio.timeout(START_S):
                while line := (await output.readline()).decode(errors="replace").strip():
                    self._said.append(line)
                    if line.startswith(_LISTENING):
                        self.urls.append(line.removeprefix(_LISTENING))
                    if len(self.urls) == self._listen_n:
                        return
        except TimeoutError:
            self._said.append(f"(it did not listen everywhere within {START_S:g} s)")
        raise RuntimeError("the broker did not start; it said: " + (" | ".join(self._said) or "nothing"))

    async def _read_on(self, output: asyncio.StreamReader) -> None:
        """Keeps the pipe empty, or the broker would stop at a full one."""
        while line := await output.readline():
            self._said.append(line.decode(errors="replace").strip())


def _variable(option: str) -> str:
    return _VARIABLE_PREFIX + option.upper().replace(".", "__")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)

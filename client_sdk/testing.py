"""A broker for tests and examples: a process of its own, on a free port, gone at the end of the block."""

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

START_S: Final = 20.0  # a cold start of Python with all imports, on a busy machine
STOP_S: Final = 5.0
KEPT_LINES_N: Final = 50  # of what the broker says, for the error when it does not start
_LISTENING: Final = "listening "


@contextlib.asynccontextmanager
async def local_broker(*arguments: str) -> AsyncIterator[str]:
    """Starts a broker and gives its URL, tcp://127.0.0.1:PORT. RuntimeError, with what it said, if it does not start.

    `arguments` are further ones of `rsocket-broker serve`.

    >>> async with local_broker() as url, connect(url) as client:
    ...     print(client.is_connected)
    True
    """
    command = (sys.executable, "-m", "broker", "--listen", "tcp://127.0.0.1:0", "--admin", "off", *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None  # asked for with PIPE
    said: deque[str] = deque(maxlen=KEPT_LINES_N)
    reader: asyncio.Task[None] | None = None
    try:
        url = await _wait_for_url(process.stdout, said)
        reader = asyncio.create_task(_read_on(process.stdout, said))
        yield url
    finally:
        await _stop(process)
        if reader is not None:
            await reader


async def _wait_for_url(output: asyncio.StreamReader, said: deque[str]) -> str:
    try:
        async with asyncio.timeout(START_S):
            while line := (await output.readline()).decode(errors="replace").strip():
                said.append(line)
                if line.startswith(_LISTENING) and "tcp://" in line:
                    return next(word for word in line.split() if word.startswith("tcp://"))
    except TimeoutError:
        said.append(f"(no line 'listening tcp://…' within {START_S:g} s)")
    raise RuntimeError("the broker did not start; it said: " + (" | ".join(said) or "nothing"))


async def _read_on(output: asyncio.StreamReader, said: deque[str]) -> None:
    """Keeps the pipe empty, or the broker would stop at a full one."""
    while line := await output.readline():
        said.append(line.decode(errors="replace").strip())


async def _stop(process: asyncio.subprocess.Process) -> None:
    for signal in (process.terminate, process.kill):
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            signal()
            async with asyncio.timeout(STOP_S):
                await process.wait()

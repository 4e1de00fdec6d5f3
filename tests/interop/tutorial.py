"""rsocket-py's own tutorial, a chat, which comes with its sdist; nothing of it is kept here.

0.4.9 is the last release whose sdist has it. The servers run on the rsocket of that release, the clients on the one
that is installed: their routers changed in between, what clients use did not.
"""

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final, TypeAlias

from tests.system.support.processes import ROOT

FOLDER: Final = ROOT / "build" / "rsocket-py"  # outside of the tree that is kept
WANTED: Final = "rsocket==0.4.9"
SDIST: Final = "rsocket-0.4.9.tar.gz"
SHA256: Final = "3ade7b050a76d898db953e0259b9e779fd2b023a1142827f3790a3572a5b0e0a"
DOWNLOAD_S: Final = 120.0
PROGRAM_S: Final = 35.0  # the longest takes 11 s on a machine with time
RUNNER: Final = Path(__file__).with_name("run_tutorial.py")
CHATS: Final = ("step1", "step2", "step3", "step4", "step5", "step6", "step7", "step8", "reactivex")

Line: TypeAlias = tuple[str, ...]  # its words in alphabetical order


class TutorialMissing(Exception):
    """The sdist cannot be had; the text says how to get it."""


class Tutorial:
    """The programs, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._release: Final = folder / SDIST.removesuffix(".tar.gz")
        self._clients: Final = folder / "clients"  # the examples without the library that came with them

    def program(self, chat: str, name: str) -> Path:
        """`chat_client` or `chat_server` of one of CHATS."""
        return self._clients / "examples" / "tutorial" / chat / f"{name}.py"

    async def run(self, chat: str, engine: str) -> tuple[int, set[Line], str]:
        """Status, lines and errors of a client on the engine "theirs" or "ours", with a server of its own."""
        server = await self._start("server", 0, self.program(chat, "chat_server"), str(self._release))
        assert server.stdout is not None
        try:
            async with asyncio.timeout(PROGRAM_S):
                port = int(await server.stdout.readline())
                path = os.pathsep.join([str(self._clients), *(each or os.getcwd() for each in sys.path)])
                client = await self._start(engine, port, self.program(chat, "chat_client"), path)
                try:
                    said, errors = await client.communicate()
                finally:
                    await _end(client)
        finally:
            await _end(server)
        assert client.returncode is not None
        # Lists in its lines come from sets: each time in another order.
        lines = {tuple(sorted(re.split(r"[\[\], ]+", line))) for line in said.decode().splitlines()}
        return client.returncode, lines, errors.decode()

    async def _start(self, role: str, port: int, program: Path, path: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            str(RUNNER),
            role,
            str(port),
            str(program),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL if role == "server" else asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.communicate()


def get() -> Tutorial:
    """The tutorial, which is fetched at the first use. TutorialMissing where that cannot be."""
    sdist = FOLDER / SDIST
    if not sdist.exists():
        _download()
    if hashlib.sha256(sdist.read_bytes()).hexdigest() != SHA256:
        raise TutorialMissing(f"{sdist.relative_to(ROOT)} is not what PyPI has: remove it, and test again")
    clients = FOLDER / "clients"
    shutil.rmtree(clients, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(FOLDER, filter="data")
    shutil.copytree(FOLDER / SDIST.removesuffix(".tar.gz") / "examples", clients / "examples")
    (clients / "examples" / "__init__.py").touch()  # or a folder `examples` of somebody else would be part of it
    return Tutorial(FOLDER)


def _download() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    what = ("--no-deps", "--no-binary", ":all:", "--dest", str(FOLDER), WANTED)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--retries", "1", *what]
    how = f"with the network there, run: pip download --no-deps --no-binary :all: --dest build/rsocket-py {WANTED}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired:
        raise TutorialMissing(f"the tutorial of rsocket-py is missing, pip download hangs; {how}") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason told"])[-1]
        raise TutorialMissing(f"the tutorial of rsocket-py is missing, pip download failed ({reason}); {how}")

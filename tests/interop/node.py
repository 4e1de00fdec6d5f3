"""Node programs of the tests: the npm packages they need, and talking to them in lines of JSON."""

import json
import queue
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from tests.system.support.processes import ROOT
from tests.system.support.waits import WAIT_S, until_now

HERE = Path(__file__).parent
FOLDER = ROOT / "build" / "node"  # outside of the tree that is kept
INSTALL_S = 120.0
PROGRAM_S = 120.0

Said = dict[str, Any]


class NodeMissing(Exception):
    """Node or its packages are not there; the text says how to get them."""


class JsError(AssertionError):
    """A script answered with an exception of its own."""


class Node:
    """Node with the packages, and copies of the scripts beside them: imports are looked up from a script's folder."""

    def __init__(self, node: str, folder: Path) -> None:
        self._node = node
        self._folder = folder

    def start(self, script: str, **options: object) -> "JsPeer":
        """Starts `js/SCRIPT`, which has said `ready` when this returns."""
        peer = JsPeer([self._node, str(self._folder / "js" / script), json.dumps(options)])
        try:
            peer.event("ready")
        except BaseException:
            peer.end()
            raise
        return peer

    def run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Runs a program of a package, `PACKAGE/FILE`, until its end."""
        command = [self._node, str(self._folder / "node_modules" / program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)


class JsPeer:
    """A script that obeys lines `{"id":1,"do":…}` with lines `{"id":1,…}`, and tells events as `{"event":…}`."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._replies: queue.Queue[Said] = queue.Queue()
        self._asked = 0
        self.events: list[Said] = []
        self.errors: list[str] = []  # lines of standard error
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def ask(self, do: str, **fields: object) -> Said:
        """One command and its answer."""
        self._asked += 1
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": self._asked, "do": do, **fields}) + "\n")
        self._process.stdin.flush()
        try:
            reply = self._replies.get(timeout=WAIT_S)
        except queue.Empty:
            raise AssertionError(f"no answer to {do} {fields}; {self}") from None
        assert reply.pop("id") == self._asked
        if "thrown" in reply:
            raise JsError(reply["thrown"])
        return reply

    def event(self, name: str, **fields: object) -> Said:
        """The first event of this name with these fields, now or soon."""
        wanted = {"event": name, **fields}
        try:
            until_now(lambda: self._found(wanted))
        except AssertionError:
            raise AssertionError(f"no event {wanted}; {self}") from None
        return self._found(wanted)[0]

    def seen(self, **fields: object) -> list[Said]:
        """Events with these fields, of all that it has seen by now: it is asked, for its lines may be on their way."""
        self.ask("nothing")
        return self._found(fields)

    def _found(self, fields: Said) -> list[Said]:
        return [each for each in self.events if fields.items() <= each.items()]

    def end(self) -> int:
        """Ends it by closing its input; the exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()
        return status

    def kill(self) -> None:
        """It is gone without a word."""
        self._process.kill()
        self._process.wait()

    def __str__(self) -> str:
        return f"events {self.events[-20:]}, errors {self.errors[-20:]}, status {self._process.poll()}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "id" in said:
                self._replies.put(said)
            else:
                self.events.append(said)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self.errors.extend(line.rstrip() for line in self._process.stderr)


class Peers:
    """Scripts that a test starts, and that end with it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._started: list[JsPeer] = []

    def start(self, script: str, name: str = "", number: int = 0, **options: object) -> JsPeer:
        """A peer; with a number it is a service, whose route has joined when this returns."""
        peer = self._node.start(script, name=name, number=number, **options)
        self._started.append(peer)
        if number:
            # Its own request follows its SETUP on one connection, and so finds the route.
            assert ask(peer, {"RouteId": uuid(number)}, "up?") == {"data": f"{name}:up?"}
        return peer

    def end(self) -> None:
        """All of them."""
        for peer in self._started:
            assert peer.end() == 0, peer.errors


def uuid(number: int) -> str:
    """The route id that a number stands for, as text."""
    raw = f"{number:032x}"
    return "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))


def ask(peer: JsPeer, tags: dict[str, str], data: str, **more: object) -> Said:
    """A request/response; what came, without what is empty or the same for all."""
    said = peer.ask("response", tags=tags, data=data, **more)
    return {key: value for key, value in said.items() if key in ("data", "error")}


def install(folder: Path = FOLDER) -> Node:
    """Node with all packages, which are fetched at the first use. NodeMissing where that cannot be."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NodeMissing("Node and npm are not installed: apt install nodejs npm (Node 18 or newer)")
    wanted = (HERE / "package.json").read_text()
    stamp = folder / "installed.json"  # what the last complete installation was made from
    if not stamp.exists() or stamp.read_text() != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
        shutil.copyfile(HERE / "package.json", folder / "package.json")
        _run_npm(npm, folder)
        stamp.write_text(wanted)
    shutil.rmtree(folder / "js", ignore_errors=True)
    shutil.copytree(HERE / "js", folder / "js")
    return Node(node, folder)


def _run_npm(npm: str, folder: Path) -> None:
    # No lock file: it would hold the addresses of whatever registry this machine uses.
    quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--no-progress")
    patience = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000")  # where there is no network, it is soon known
    command = [npm, "install", "--prefix", str(folder), *quiet, *patience]
    began_at = time.monotonic()
    how = f"with the network there, run: npm install --no-package-lock --prefix {folder.relative_to(ROOT)}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, cwd=folder, check=False)
    except subprocess.TimeoutExpired:
        waited_s = time.monotonic() - began_at
        raise NodeMissing(f"npm packages are missing, npm install gave up after {waited_s:.0f} s; {how}") from None
    if done.returncode:
        reason = next((line for line in done.stderr.splitlines() if "npm error" in line.lower()), "no reason told")
        raise NodeMissing(f"npm packages are missing, npm install failed ({reason.strip()}); {how}")

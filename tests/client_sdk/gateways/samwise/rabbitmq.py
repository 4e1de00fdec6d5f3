"""Real RabbitMQ nodes for tests: on free ports, with all their files in a folder of their own, gone at the end.

A node takes some seconds of CPU to start, so two serve all tests (the fixtures `nodes` and `rabbit`), and one that is
to be away for a while is stopped in its process. The port mapper of Erlang, which a node would start by itself and
leave behind, is a child of the tests, too.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aiormq import connect
from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp.commands import Basic

from tests.conftest import missing
from tests.system.support.waits import POLL_S, WAIT_S, until_now

START_S: Final = 120.0  # beside other tests on a machine with two cores
# Beside `erl` it is, but not in PATH: Debian links the others only.
ERL_CALL: Final = str(Path(shutil.which("erl") or "erl").resolve().with_name("erl_call"))
HOST: Final = "127.0.0.1"
# By name of a node: the longest frame, RabbitMQ's own and a short one.
FRAME_MAX: Final = {"rabbit-1": 131_072, "rabbit-2": 8192}
MAX_MESSAGE_BYTES: Final = 2_000_000  # a longer body closes the channel
CERTIFICATE: Final = Path(__file__).parents[2] / "localhost.pem"  # of 127.0.0.1, with its key
USER: Final = "guest"  # of a new node; may come by loopback only
# Few threads that do not spin: many of them start faster on a machine that has two cores and works.
ERLANG: Final = "+S 2:2 +A 8 +sbwt none +sbwtdcpu none +sbwtdio none"
# RabbitMQ loads each module of each application that it uses, and asks it for steps of the start, which its own have.
# That of these, of Erlang and its neighbours, is two fifths of a start: so they are said to have no modules.
_OTHERS: Final = (
    "asn1",
    "compiler",
    "crypto",
    "mnesia",
    "os_mon",
    "public_key",
    "runtime_tools",
    "ssl",
    "syntax_tools",
    "tools",
    "xmerl",
)
_WITHOUT_MODULES: Final = (
    "[application:load({application, Name, lists:keystore(modules, 1, Keys, {modules, []})})"
    f" || Name <- [{', '.join(_OTHERS)}],"
    ' {ok, [{application, _, Keys}]} <- [file:consult(code:where_is_file(atom_to_list(Name) ++ ".app"))]].'
)
# Before those of PATH, where Debian has a wrapper that becomes another user.
FOLDERS: Final = ("/usr/lib/rabbitmq/bin", "/usr/local/sbin", "/opt/homebrew/sbin")


class RabbitNodes:
    """Nodes that know nothing of each other: each is a broker of its own."""

    def __init__(self, folder: Path, names: Sequence[str] = tuple(FRAME_MAX)) -> None:
        """Skips the test where RabbitMQ is not installed."""
        server = shutil.which("rabbitmq-server", path=os.pathsep.join((*FOLDERS, os.environ.get("PATH", ""))))
        mapper = shutil.which("epmd")
        if server is None or mapper is None or shutil.which(ERL_CALL) is None:
            missing("rabbitmq-server is not installed: apt install rabbitmq-server")
        self._mapper_port = free_port()
        self._mapper_command = [mapper, "-address", HOST, "-port", str(self._mapper_port)]
        self._mapper: subprocess.Popen[bytes] | None = None  # None until the nodes are started
        self.nodes = {name: RabbitNode(server, folder / name, name, self._mapper_port) for name in names}

    def __enter__(self) -> Self:
        try:
            self._mapper = subprocess.Popen(self._mapper_command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until_now(lambda: is_open(self._mapper_port))
            for node in self.nodes.values():
                node.start()
            for node in self.nodes.values():
                node.wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        for node in self.nodes.values():
            node.kill()
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait(WAIT_S)


class RabbitNode:
    """One node; after `kill` it starts again with what it had stored."""

    def __init__(self, server: str, folder: Path, name: str, mapper_port: int) -> None:
        self.name = name
        self.port = free_port()
        self.tls_port = free_port()
        self._folder = folder
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None  # None while it is not there
        folder.mkdir()
        (folder / "node.conf").write_text(
            f"""
            listeners.ssl.1 = {HOST}:{self.tls_port}
            ssl_options.certfile = {CERTIFICATE}
            ssl_options.keyfile = {CERTIFICATE}
            frame_max = {FRAME_MAX[name]}
            max_message_size = {MAX_MESSAGE_BYTES}
            """
        )
        (folder / "plugins").write_text("[].\n")
        own = {
            "HOME": str(folder),  # where Erlang has its cookie
            "ERL_EPMD_PORT": str(mapper_port),
            "RABBITMQ_NODENAME": f"{name}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "node.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG,
            "RABBITMQ_ALLOW_INPUT": "1",  # it does not stay behind a shell, so that a signal hits it
            "RABBITMQ_NODE_ONLY": "1",  # `-s rabbit boot` comes later, see _WITHOUT_MODULES
        }
        self._environment = {**{k: v for k, v in os.environ.items() if not k.startswith("RABBITMQ_")}, **own}

    def start(self) -> None:
        """Starts it and waits for nothing."""
        assert self._process is None
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [self._server, "-noinput", "-eval", _WITHOUT_MODULES, "-s", "rabbit", "boot"],
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Until clients can connect."""
        process = self._process
        assert process is not None

        def is_ready() -> bool:
            assert process.poll() is None, f"node {self.name} ended:\n{self.output}"
            return is_open(self.port)

        until_now(is_ready, START_S)

    @property
    def output(self) -> str:
        """What it said."""
        return (self._folder / "output").read_text(errors="replace")

    def limit_memory(self, part: float) -> None:
        """It takes messages only while it uses no more than this part of the machine's memory; 0.4 unless told."""
        self._call(f"vm_memory_monitor set_vm_memory_high_watermark [{part:.9f}]")

    def stop(self) -> None:
        """Ends it in order, until `go_on`: nobody listens then, and clients are disconnected. Its process stays, which
        a start takes a quarter of the time with."""
        self._call("rabbit stop")

    def go_on(self) -> None:
        """Starts it after `stop`, with what it had stored; clients can connect when this returns."""
        self._call("rabbit start")

    def pause(self) -> None:
        """It says nothing more, and takes nothing, as a machine that hangs."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends it, and what it has started, as a power failure does."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(WAIT_S)

    def _call(self, function: str) -> None:
        """Has it call a function of Erlang: module, name and, in brackets, arguments."""
        cookie = (self._folder / ".erlang.cookie").read_text()
        command = [ERL_CALL, "-sname", f"{self.name}@localhost", "-c", cookie, "-a", function]
        subprocess.run(command, env=self._environment, check=True, capture_output=True, timeout=START_S)


class Consumer:
    """Queues of a node, and what is in them; a connection of its own."""

    def __init__(self, channel: AbstractChannel) -> None:
        self.channel = channel

    @classmethod
    @contextlib.asynccontextmanager
    async def at(cls, node: RabbitNode) -> AsyncIterator["Consumer"]:
        """Connected to the node; the queues that it makes vanish with it."""
        async with connect(f"amqp://{USER}:{USER}@{HOST}:{node.port}/") as connection:
            yield cls(await connection.channel())

    async def queue(self, exchange: str = "", key: str = "") -> str:
        """A new queue, bound to the exchange; messages to the default exchange reach it by its name."""
        name = (await self.channel.queue_declare(exclusive=True)).queue
        assert name is not None
        if exchange:
            await self.channel.queue_bind(name, exchange, key)
        return name

    async def take(self, queue: str, messages_n: int) -> list[DeliveredMessage]:
        """So many messages from the queue, in its order; AssertionError when they do not come, or if there are more."""
        found: list[DeliveredMessage] = []
        end_at = asyncio.get_running_loop().time() + WAIT_S
        while len(found) < messages_n:
            message = await self.channel.basic_get(queue, no_ack=True)
            if not isinstance(message.delivery, Basic.GetEmpty):
                found.append(message)
                continue
            assert asyncio.get_running_loop().time() < end_at, f"{len(found)} messages of {messages_n} came"
            await asyncio.sleep(POLL_S)
        assert await self.count(queue) == 0
        return found

    async def bodies(self, queue: str, messages_n: int) -> list[bytes]:
        """What is in so many messages."""
        return [message.body for message in await self.take(queue, messages_n)]

    async def count(self, queue: str) -> int:
        """How many messages are in it."""
        found = await self.channel.queue_declare(queue, passive=True)
        assert found.message_count is not None
        return found.message_count


def free_port() -> int:
    """A port that nobody had a moment ago."""
    with socket.socket() as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    """Somebody listens there."""
    with socket.socket() as one:
        return one.connect_ex((HOST, port)) == 0

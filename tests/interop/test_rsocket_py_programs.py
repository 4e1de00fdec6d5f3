"""Programs of rsocket-py's own, unchanged, on our engine: they say what they say on theirs, but for one line."""

import asyncio
import importlib.util
import runpy
from typing import Any

import pytest
from rsocket.routing.routing_request_handler import RoutingRequestHandler
from rsocket.rsocket_server import RSocketServer
from rsocket.transports.tcp import TransportTCP

from broker.server import Server
from client_sdk import address, connect
from tests.client_sdk.rsocket_py.strangers import their_router
from tests.conftest import missing
from tests.interop.tutorial import CHATS, Tutorial, TutorialMissing, get
from tests.system.support.processes import run_python
from tests.system.support.waits import until

pytestmark = pytest.mark.interop

# Their servers of these steps take a channel and never ask for an item. Their engine sends one all the same, as the
# program's Publisher publishes it without being asked; ours keeps to "Flow Control" and waits for the REQUEST_N.
UNASKED = ("ServerStatistics(user_count=2", "channel_count=None)")
WITHOUT_UNASKED = ("step6", "step7", "step8")


@pytest.fixture(scope="session")
def tutorial() -> Tutorial:
    """rsocket-py's tutorial, in build/rsocket-py."""
    try:
        return get()
    except TutorialMissing as error:
        missing(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("chat", CHATS)
async def test_their_tutorial_says_the_same_on_our_engine(tutorial: Tutorial, chat: str) -> None:
    theirs, ours = await asyncio.gather(tutorial.run(chat, "theirs"), tutorial.run(chat, "ours"))
    assert (ours[0], theirs[0]) == (0, 0), f"{ours[2]}\n{theirs[2]}"
    assert ours[1] == theirs[1] - ({UNASKED} if chat in WITHOUT_UNASKED else set()), ours[2]
    assert ours[1] or chat == "step2"  # which prints nothing


@pytest.fixture
def their_command() -> str:
    """rsocket-py's command line tool, which needs asyncclick."""
    if importlib.util.find_spec("asyncclick") is None:
        missing("asyncclick is not installed: pip install '.[interop]'")
    found = importlib.util.find_spec("rsocket.cli.command")
    assert found is not None
    assert found.origin is not None
    return found.origin


@pytest.mark.parametrize(
    ("ask", "to", "data", "says"),
    [
        ("--request", "echo", "hello", "echo hello\n"),
        ("--stream", "count", "3", "['0', '1', '2']\n"),
        ("--channel", "echo", "x", "['0', '1', '2']\n"),
    ],
)
async def test_their_command_line_tool_asks_their_server_on_our_engine(
    their_command: str, ask: str, to: str, data: str, says: str
) -> None:
    handler = RoutingRequestHandler(their_router())
    servers: list[RSocketServer] = []

    def session(*streams: Any) -> None:
        servers.append(RSocketServer(TransportTCP(*streams), handler_factory=lambda: handler))

    listening = await asyncio.start_server(session, "127.0.0.1", 0)
    url = f"tcp://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    command = ("-m", "client_sdk.rsocket_py", their_command, ask, "-r", to, "-d", data, url)
    try:
        done = await asyncio.to_thread(run_python, *command)
    finally:
        listening.close()
        for server in servers:
            await server.close()
    assert (done.returncode, done.stdout) == (0, says), done.stderr


async def test_their_tutorial_runs_behind_the_broker(
    tutorial: Tutorial, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs: dict[str, Any] = runpy.run_path(str(tutorial.program("step1", "chat_server")))
    program: dict[str, Any] = runpy.run_path(str(tutorial.program("step1", "chat_client")))
    url = next(url for url in server.listeners if url.startswith("tcp://"))
    async with connect(url, service="chat", handler=theirs["handler_factory"]), connect(url) as client:
        await until(lambda: server.core.table.size() == 1)
        await program["ChatClient"](client.as_rsocket(address("chat"))).login("user1")
    assert capsys.readouterr().out == "Server response: Hello user1\n"

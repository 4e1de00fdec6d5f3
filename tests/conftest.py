"""Brokers to talk to, in this process and in processes of their own, and what a test may ask of the machine.

A test that needs a program or package which is not there skips with one line that says how to get it; where the
environment says `CI=true` it fails instead, so that a machine that is meant to have all cannot pass by having less.
"""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

from broker.config.load import load
from broker.limited_log import STRANGERS
from broker.server import Server
from tests.golden import Golden
from tests.interop.node import Node, NodeMissing, install
from tests.system.support.certificates import BROKER_NAMES, Authority
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import until

if TYPE_CHECKING:
    from tests.client_sdk.gateways.samwise.rabbitmq import RabbitNode, RabbitNodes

# The same cases in each run: a case that fails here fails everywhere. How long one takes says how busy the machine is.
hypothesis.settings.register_profile(
    "tests",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("tests")
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"  # contexts of whoever runs the tests are not asked
for variable in ("RSB_URL", "RSB_ADMIN", "RSB_CONTEXT", "RSB_TOKEN"):
    os.environ.pop(variable, None)
# jsonschema makes a grammar of it when it is imported, for 2.5 s in each process, and no test looks at formats.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
gc.disable()  # until all tests are there: nothing of them is garbage

MakeServer = Callable[..., Awaitable[Server]]
StartBroker = Callable[..., BrokerProcess]

SHOWN_LINES = 100  # of what a broker said
NAME_CHARS = 60  # of a parameter in the name of a test
LISTEN_ALL = ("tcp://127.0.0.1:0", "ws://127.0.0.1:0")

# Who is started in the background of a shell has Ctrl-C ignored, who is started by nohup SIGHUP, and so have all whom
# they start: tests that send it would hang.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a developer may want of the tests."""
    parser.addoption("--write-golden", action="store_true", help="write golden files anew (tests/golden.py)")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist puts groups into names
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the tests (`make test`), those of a group go to one of them."""
    for item in items:
        group = group_of(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names of tests are sent to each process that shares them, and stand in the environment: megabytes are cut."""
    return repr(val)[:NAME_CHARS] if isinstance(val, str | bytes) and len(val) > NAME_CHARS else None


def group_of(item: pytest.Item) -> str:
    """The group of a test; empty: it may run anywhere.

    `spark`: one Java serves them all. `rabbitmq`: one pair of nodes does, also of a fixture that asks for it by its
    parameter `amqp`. `node`: one installation of packages is made,
    and nobody reads it meanwhile. The file of a test that shares something with others of its file: a broker, a
    browser, what was fetched.
    """
    names: list[str] = getattr(item, "fixturenames", [])
    if item.get_closest_marker("spark") is not None or "spark" in names:
        return "spark"
    params: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    if "nodes" in names or "amqp" in (params.get("broker"), params.get("server")):  # `rabbit` is one of them
        return "rabbitmq"
    if "needs_node" in names:
        return "node"
    found = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    made = [each for name in names for each in found.get(name, ())[-1:] if each.baseid.startswith("tests")]
    file = item.nodeid.partition("::")[0]
    is_shared = any(each.scope == "module" or (each.scope == "session" and each.baseid == file) for each in made)
    return file if is_shared else ""


def missing(text: str) -> NoReturn:
    """Skips the test, or fails it in CI. `text`: what is not there and how to get it, in one line."""
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(f"CI has to have everything: {text}", pytrace=False)
    pytest.skip(text)


@pytest.fixture(autouse=True)
def fresh_second() -> None:
    """What one test has made strangers do takes no lines of the log from the next one."""
    STRANGERS.flush()


@pytest.fixture(scope="session", autouse=True)
def tokens_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Brokers of the tests write the tokens of their machine into a folder of the tests, and `ctl` finds them there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The golden files beside the test."""
    return Golden(request.path.parent / "golden", request.config.getoption("--write-golden"))


@pytest.fixture(scope="session")
def needs_node() -> Node:
    """Node with the npm packages of tests/interop/package.json, in build/node."""
    try:
        return install()
    except NodeMissing as error:
        missing(str(error))


@pytest.fixture(scope="session")
def needs_openssl() -> str:
    """Path of the openssl program."""
    path = shutil.which("openssl")
    if path is None:
        missing("openssl is not installed: apt install openssl")
    return path


@pytest.fixture(scope="session")
def authority(needs_openssl: str, tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that has signed `broker` and `client`."""
    made = Authority(needs_openssl, tmp_path_factory.mktemp("authority"), "ours")
    made.sign("broker", BROKER_NAMES)
    made.sign("client")
    return made


@pytest.fixture(scope="session")
def needs_chromium() -> str:
    """Path of a Chromium."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        missing("there is no Chromium: apt install chromium")
    return path


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[RabbitNodes]":
    """Two RabbitMQ brokers that know nothing of each other. A test leaves them as they were, but for what is stored."""
    from tests.client_sdk.gateways.samwise.rabbitmq import RabbitNodes  # which imports this module

    with RabbitNodes(tmp_path_factory.mktemp("rabbitmq")) as started:
        yield started


@pytest.fixture(scope="session")
def rabbit(nodes: "RabbitNodes") -> "RabbitNode":
    """One of them."""
    return nodes.nodes["rabbit-1"]


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder whose path is short enough for Unix sockets, which tmp_path need not be."""
    with tempfile.TemporaryDirectory(prefix="rsb-") as folder:
        yield Path(folder)


@pytest.fixture
async def make_server(socket_folder: Path) -> AsyncIterator[MakeServer]:
    """`await make_server(**{"limits.setup_timeout_s": 0.2})`: a broker in this process, on TCP, WebSocket and Unix
    socket; at the end it stops and has forgotten everybody."""
    servers: list[Server] = []

    async def make(**options: object) -> Server:
        unix = f"unix://{socket_folder}/{len(servers)}.sock"
        variables = {f"RSB_{key.upper().replace('.', '__')}": str(value) for key, value in options.items()}
        flags = {"server.listen": (*LISTEN_ALL, unix), "admin.listen": "off"}
        server = Server(load(None, variables, flags))
        await server.start()
        servers.append(server)
        return server

    yield make
    for server in servers:
        if server.is_stopping:
            continue  # the test did it
        server.wish_stop()
        server.wish_stop()  # nothing that a test left hanging is waited for
        await server.stop()
        await until(lambda server=server: server.core.peers() == [] and server.shell.links_open() == 0)  # type: ignore[misc]


@pytest.fixture
async def server(make_server: MakeServer) -> Server:
    """A broker in this process with the default limits."""
    return await make_server()


@pytest.fixture
def start_broker(socket_folder: Path) -> Iterator[StartBroker]:
    """`start_broker("--events", path, limits__setup_timeout_s=0.2)`: a broker process on TCP, WebSocket and Unix
    socket, or on the `--listen` given. It is ended with the test; what it said is shown when the test fails."""
    yield from _starting(socket_folder)


@pytest.fixture
def broker_process(start_broker: StartBroker) -> BrokerProcess:
    """A broker process with the default limits."""
    return start_broker()


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[BrokerProcess]:
    """One broker process for all tests of a module that do not disturb each other."""
    with tempfile.TemporaryDirectory(prefix="rsb-") as folder:
        for start in _starting(Path(folder)):
            yield start()


def _starting(folder: Path) -> Iterator[StartBroker]:
    started: list[BrokerProcess] = []

    def start(*arguments: str, **environment: object) -> BrokerProcess:
        number = len(started)
        if "--listen" not in arguments:
            urls = (*LISTEN_ALL, f"unix://{folder}/{number}.sock")
            arguments = (*(each for url in urls for each in ("--listen", url)), *arguments)
        process = BrokerProcess(folder / f"broker-{number}.log", arguments, environment)
        started.append(process)
        process.start()
        return process

    try:
        yield start
    finally:
        for process in started:
            process.end()
            said = process.output.splitlines()[-SHOWN_LINES:]
            print("\n".join([f"--- broker {process.pid} said:", *said]))  # pytest shows it when the test failed


def pytest_collection_finish() -> None:
    """All tests and their modules stay to the end: no collection of garbage has to look through them."""
    gc.freeze()
    gc.enable()

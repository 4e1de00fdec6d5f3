"""What is installed: a base that clients and brokers run with, extras for the rest, and no tests."""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.commands.main import main
from broker.config.extras import EVENTS_LINE, EVENTS_MODULES, RABBITMQ_MODULE, SAMWISE_LINE, ZEROMQ_MODULE
from client_sdk.gateways.samwise.endpoint.client import SamwiseClient
from client_sdk.gateways.samwise.values import Ping

ROOT = Path(__file__).resolve().parents[1]
SAMWISE_MODULES = (ZEROMQ_MODULE, RABBITMQ_MODULE)
PACKAGES = {"rsocket_wire", "broker", "client_sdk", "admin_api", "spark_sink"}
MAX_OWN_MB = 15  # installed: sources and what Python compiles of them
MAX_BASE_MB = 80  # with all that it depends on, whose next releases may be a little larger

# Imports every module of the base install where no extra is; prints those that could not be imported.
IMPORT_ALL = """
import importlib, sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(","), None))
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(f"{name}: {error}")
"""


def modules_of_the_base() -> list[str]:
    """All but spark_sink, the demo, which reads tables, gateways, and what runs when it is imported."""
    names = []
    others = ("demo.run", "script", "samwise")
    for package in sorted(PACKAGES - {"spark_sink"}):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            is_other = name.removeprefix("broker.commands.") in others or ".gateways." in name
            if not name.endswith(".__main__") and not is_other:
                names.append(name)
    return names


@pytest.fixture
def no_events() -> Iterator[None]:
    """An installation without the extra `events`, and nothing of it imported yet."""

    def needs_it(name: str) -> bool:
        return name.split(".")[0] in ("spark_sink", *EVENTS_MODULES) or name == "broker.commands.demo.run"

    before = {name: module for name, module in sys.modules.items() if needs_it(name)}
    for name in before:
        del sys.modules[name]
    for name in EVENTS_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # what the import system takes for "not there"
    yield
    for name in filter(needs_it, list(sys.modules)):
        del sys.modules[name]
    sys.modules.update(before)


def test_clients_and_brokers_need_no_extra() -> None:
    extras = ",".join([*EVENTS_MODULES, *SAMWISE_MODULES, "pyspark", "plotly", "opentelemetry", "pandas"])
    command = [sys.executable, "-c", IMPORT_ALL, extras, *modules_of_the_base()]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


@pytest.mark.usefixtures("no_events")
def test_events_without_the_extra_are_refused_with_the_line_to_type(tmp_path: Path) -> None:
    lacking = f"needs numpy and pyarrow: {EVENTS_LINE}\n"
    file = tmp_path / "broker.toml"
    file.write_text(f'[events]\ndir = "{tmp_path}/events"\n')
    result = CliRunner().invoke(main, ["serve", "--events", f"{tmp_path}/events"])
    assert (result.exit_code, result.stderr) == (9, f"command line: --events: {lacking}")
    result = CliRunner().invoke(main, ["check", str(file)])
    assert (result.exit_code, result.stderr) == (9, f"{file}:2: events.dir: {lacking}")
    result = CliRunner().invoke(main, ["check"], env={"RSB_EVENTS__DIR": "events"})
    assert (result.exit_code, result.stderr) == (9, f"environment: RSB_EVENTS__DIR: {lacking}")


@pytest.mark.usefixtures("no_events")
@pytest.mark.parametrize(
    "command", ["demo", "pipeline run --once", "report tables --html x", "table --at now", "simulate"]
)
def test_commands_that_need_the_extra_say_the_line_to_type(command: str) -> None:
    result = CliRunner().invoke(main, command.split(), prog_name="rsocket-broker")
    name = command.split()[0]
    assert (result.exit_code, result.stderr) == (9, f"rsocket-broker {name} needs numpy and pyarrow: {EVENTS_LINE}\n")


@pytest.mark.parametrize("command", ["ping", "publish -x orders", "rpc exchange.delete news", "status"])
def test_programs_that_ask_a_gateway_say_the_line_to_type(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr("broker.config.extras.find_spec", lambda name: None)
    words = ["samwise", *command.split(), "-e", "ipc:///nobody"]
    result = CliRunner().invoke(main, words, prog_name="rsocket-broker")
    lacking = f"rsocket-broker samwise {words[1]} needs zmq: {SAMWISE_LINE}\n"
    assert (result.exit_code, result.stderr) == (9, lacking)


def test_a_gateway_for_services_and_its_operators_need_no_extra(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({SAMWISE_MODULES}, None))\n"
        "from broker.commands.script import main\n"
        "main()"
    )
    words = [sys.executable, "-c", code, "samwise"]
    endpoint = f"ipc://{tmp_path}/s"
    environment = {**os.environ, "RSB_SERVER__LISTEN": "tcp://127.0.0.1:1"}
    serve = [*words, "serve", "--endpoint", endpoint, "--dir", f"{tmp_path}/d"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, env=environment) as gateway:
        assert gateway.stdout is not None
        try:
            assert gateway.stdout.readline() == f"listening {endpoint}\n"
            listed = [*words, "messages", "list", "--dir", f"{tmp_path}/d"]
            assert subprocess.run(listed, capture_output=True, text=True, check=True).stdout == "none\n"
            with SamwiseClient(endpoint) as client:
                assert client.ask(Ping(110)).is_ok
        finally:
            gateway.terminate()
    assert gateway.returncode == 0


def test_neither_clients_nor_brokers_import_a_gateway_or_what_it_needs() -> None:
    """`serve` knows what to tell one, and no more; and a broker without a REST API does without what that imports."""
    code = (
        "import sys, broker.commands.broker_process, broker.server, client_sdk; client_sdk.connect\n"
        "never = ('zmq', 'aiormq', 'sqlite3', 'aiohttp', 'admin_api')\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in never))\n"
        "print(sorted(name for name in sys.modules if name.startswith('client_sdk.gateways.samwise.')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["[]", "['client_sdk.gateways.samwise.assignment']"]


@pytest.mark.usefixtures("no_events")
def test_help_without_the_extra_lists_all_commands() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert {"serve", "check", "call", "demo", "report", "pipeline"} <= set(result.stdout.split())
    assert "needs numpy and pyarrow" in result.stdout


@pytest.mark.long
def test_wheel_and_sdist_hold_no_tests_and_the_base_is_small(tmp_path: Path) -> None:
    """Builds both as PyPI would get them, and installs the wheel into an environment of its own."""
    environment = {**os.environ, "RSOCKET_BROKER_PURE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment.pop("PYTHONPATH", None)

    def run(*command: object) -> None:
        subprocess.run([str(part) for part in command], cwd=tmp_path, env=environment, check=True)

    def install(venv: str, *what: object) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", venv)
        run(sys.executable, "-m", "pip", "--python", venv, "install", "--quiet", *what)

    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    install("builds", "--no-compile", "build", *(each for each in needed if each.startswith("hatchling")))
    # The wheel is built from the sdist. In environments of their own both would have what compiles, which nothing does.
    run("builds/bin/python", "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", "dist", ROOT)
    (sdist,) = tmp_path.glob("dist/*.tar.gz")
    (wheel,) = tmp_path.glob("dist/*.whl")
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    assert tops == PACKAGES | {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "PKG-INFO", ".gitignore"}
    with zipfile.ZipFile(wheel) as zipped:
        names = zipped.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == PACKAGES
    assert {name.split("/")[-1] for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}
    assert not [name for name in names if name.split("/")[-1].startswith(("test_", "conftest"))]

    install("fresh", wheel)
    (installed,) = tmp_path.glob("fresh/lib/python*/site-packages")
    assert sum(megabytes(installed / package) for package in PACKAGES) <= MAX_OWN_MB
    assert megabytes(installed) <= MAX_BASE_MB
    run("fresh/bin/rsocket-broker", "check")
    run("fresh/bin/python", "-c", "import client_sdk, client_sdk.testing, admin_api.app")


def megabytes(folder: Path) -> float:
    """What the files of a folder take on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) / 2**20

"""docs/clients/java.md says what happens: its programs are built and run as a reader would do it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from client_sdk import RetryBudget, RetryPolicy, address, sync
from tests.conftest import missing
from tests.interop.pages_of_clients.page import read_page
from tests.system.support.processes import ROOT, BrokerProcess
from tests.system.support.waits import WAIT_S

# Maven fetches its plugins and 6 MB of packages at the first use, which takes half a minute; they are kept by Maven.
pytestmark = [pytest.mark.interop, pytest.mark.long]

BUILD_S = 300.0
PATIENT = RetryPolicy(attempts=1000, max_delay_s=0.05, budget=RetryBudget(min_per_s=1000))


@pytest.fixture
def java() -> str:
    """Path of the program java, beside which Maven and the compiler are there."""
    paths = [shutil.which(name) for name in ("java", "javac", "mvn")]
    if paths[0] is None or None in paths:
        missing("a JDK and Maven are not installed: apt install default-jdk-headless maven")
    return paths[0]


def build(folder: Path) -> None:
    """Classes of a folder, and the packages that they need."""
    sources = sorted(path.name for path in folder.glob("*.java"))
    maven = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    for command in (maven, ["javac", "-cp", "lib/*", "-d", "classes", *sources]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_programs_of_the_page_say_what_it_says(java: str, shared_broker: BrokerProcess) -> None:
    page = read_page("java.md", "java")
    pom = read_page("java.md", "xml")
    folder = ROOT / "build" / "java"
    for each in (page, pom):
        each.write(folder, shared_broker)
    build(folder)
    command = [java, "-cp", "classes:lib/*"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen([*command, "OrdersService"], cwd=folder, stdout=quiet, stderr=quiet) as service:
        try:
            with sync.connect(shared_broker.urls[0], retry=PATIENT) as client:
                orders = address("orders", shop="eu")
                answer = client.request_response(orders, b"from Python", route="create", timeout_s=WAIT_S)
                assert answer.data == b"order taken: from Python"
            caller = [*command, "OrdersCaller"]
            done = subprocess.run(caller, cwd=folder, capture_output=True, text=True, timeout=WAIT_S, check=False)
            assert (done.returncode, [done.stdout]) == (0, page.says), done.stderr
            assert service.poll() is None
        finally:
            service.kill()

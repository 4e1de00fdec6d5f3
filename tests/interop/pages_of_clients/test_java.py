"""docs/clients/java.md says what happens: its programs are built and run as a reader would do it."""

import subprocess
from pathlib import Path

import pytest

from client_sdk import RetryBudget, RetryPolicy, address, sync
from tests.interop.pages_of_clients.maven import SHORT, find_java, run_maven
from tests.interop.pages_of_clients.page import read_page
from tests.system.support.processes import ROOT, BrokerProcess
from tests.system.support.waits import WAIT_S

pytestmark = [pytest.mark.interop, pytest.mark.long]

BUILD_S = 60.0
PATIENT = RetryPolicy(attempts=1000, max_delay_s=0.05, budget=RetryBudget(min_per_s=1000))


@pytest.fixture
def java() -> str:
    return find_java()


def build(folder: Path) -> None:
    """Classes of a folder, and the packages that they need."""
    sources = sorted(path.name for path in folder.glob("*.java"))
    run_maven(folder, "dependency:copy-dependencies", "-DoutputDirectory=lib")
    command = ["javac", *(f"-J{each}" for each in SHORT), "-cp", "lib/*", "-d", "classes", *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_programs_of_the_page_say_what_it_says(java: str, shared_broker: BrokerProcess) -> None:
    page = read_page("java.md", "java")
    pom = read_page("java.md", "xml")
    folder = ROOT / "build" / "java"
    for each in (page, pom):
        each.write(folder, shared_broker)
    build(folder)
    command = [java, *SHORT, "-cp", "classes:lib/*"]
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

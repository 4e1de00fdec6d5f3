"""docs/clients/spring.md says what happens: its programs are built and run as a reader would do it."""

import shutil
import subprocess

import pytest

from client_sdk import RetryBudget, RetryPolicy, address, sync
from tests.interop.pages_of_clients.maven import SHORT, find_java, run_maven
from tests.interop.pages_of_clients.page import read_page
from tests.system.support.processes import ROOT, BrokerProcess

pytestmark = [pytest.mark.interop, pytest.mark.long]

START_S = 120.0  # Spring Boot takes 4 s, many times that on a machine that does ten other things
PATIENT = RetryPolicy(attempts=10_000, max_delay_s=0.05, budget=RetryBudget(min_per_s=1000))


@pytest.fixture
def java() -> str:
    return find_java()


def test_the_programs_of_the_page_say_what_it_says(java: str, shared_broker: BrokerProcess) -> None:
    page = read_page("spring.md", "java")
    folder = ROOT / "build" / "spring"
    shutil.rmtree(folder / "src", ignore_errors=True)
    for each in (page, read_page("spring.md", "xml"), read_page("spring.md", "properties")):
        each.write(folder, shared_broker)
    run_maven(folder, "compile", "dependency:copy-dependencies", "-DoutputDirectory=target/lib")
    command = [java, *SHORT, "-cp", "target/classes:target/lib/*"]
    quiet = subprocess.DEVNULL
    starting = [*command, "orders.service.OrdersService"]
    with subprocess.Popen(starting, cwd=folder, stdout=quiet, stderr=quiet) as service:
        try:
            with sync.connect(shared_broker.urls[0], retry=PATIENT) as client:
                orders = address("orders", shop="eu")
                answer = client.request_response(orders, b"from Python", route="create", timeout_s=START_S)
                assert answer.data == b"order taken: from Python"
            calling = [*command, "orders.caller.OrdersCaller"]
            done = subprocess.run(calling, cwd=folder, capture_output=True, text=True, timeout=START_S, check=False)
            assert (done.returncode, [done.stdout]) == (0, page.says), done.stderr
            assert service.poll() is None
        finally:
            service.kill()

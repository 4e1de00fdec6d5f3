"""docs/clients/javascript.md says what happens: its programs run as a reader would run them."""

import subprocess

import pytest

from client_sdk import RetryBudget, RetryPolicy, address, sync
from tests.interop.node import FOLDER, Node
from tests.interop.pages_of_clients.page import read_page
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import WAIT_S

pytestmark = pytest.mark.interop

PATIENT = RetryPolicy(attempts=1000, max_delay_s=0.05, budget=RetryBudget(min_per_s=1000))


def test_the_programs_of_the_page_say_what_it_says(needs_node: Node, shared_broker: BrokerProcess) -> None:
    page = read_page("javascript.md", "javascript")
    folder = FOLDER / "page"  # imports are looked up from a script's folder
    page.write(folder, shared_broker)
    command = ["node", str(folder / "service.cjs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as service:
        try:
            with sync.connect(shared_broker.urls[0], retry=PATIENT) as client:
                orders = address("orders", shop="eu")
                answer = client.request_response(orders, b"from Python", route="create", timeout_s=WAIT_S)
                assert answer.data == b"order taken: from Python"
            command = ["node", str(folder / "caller.cjs")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
            assert [done.stdout, done.stderr] == [*page.says, ""]
            assert service.poll() is None
        finally:
            service.kill()

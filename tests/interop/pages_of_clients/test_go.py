"""docs/clients/go.md says what happens: its programs are built and run as a reader would do it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from client_sdk import RetryBudget, RetryPolicy, address, sync
from tests.conftest import missing
from tests.interop.pages_of_clients.page import read_page
from tests.system.support.processes import ROOT, BrokerProcess
from tests.system.support.waits import WAIT_S

# The first build on a machine compiles the standard library, which Go keeps: 39 s of CPU without optimizing, else 57.
pytestmark = [pytest.mark.interop, pytest.mark.long]

BUILD_S = 300.0
PATIENT = RetryPolicy(attempts=1000, max_delay_s=0.05, budget=RetryBudget(min_per_s=1000))


@pytest.fixture
def go() -> str:
    """Path of the program go."""
    path = shutil.which("go")
    if path is None:
        missing("Go is not installed: apt install golang-go")
    return path


def build(go: str, folder: Path) -> None:
    """Programs of a folder, into the folder itself."""
    (folder / "go.mod").write_text(
        "module example.org/orders\n\ngo 1.19\n\nrequire github.com/rsocket/rsocket-go v0.8.12\n"
    )
    shutil.rmtree(folder / "bin", ignore_errors=True)
    building = ["build", "-gcflags=all=-N -l", "-ldflags=-s -w", "-o", "bin/", "./service", "./caller"]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    for arguments in (["mod", "tidy"], building):
        command = [go, *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_programs_of_the_page_say_what_it_says(go: str, shared_broker: BrokerProcess) -> None:
    page = read_page("go.md", "go")
    folder = ROOT / "build" / "go"
    page.write(folder, shared_broker)
    build(go, folder)
    with subprocess.Popen([folder / "bin/service"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as service:
        try:
            with sync.connect(shared_broker.urls[0], retry=PATIENT) as client:
                orders = address("orders", shop="eu")
                answer = client.request_response(orders, b"from Python", route="create", timeout_s=WAIT_S)
                assert answer.data == b"order taken: from Python"
            done = subprocess.run([folder / "bin/caller"], capture_output=True, text=True, timeout=WAIT_S, check=False)
            assert (done.returncode, [done.stdout]) == (0, page.says), done.stderr
            assert service.poll() is None
        finally:
            service.kill()

"""docs/clients/javascript.md says what happens: its programs run as a reader would run them."""

import contextlib
import functools
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from client_sdk import RetryBudget, RetryPolicy, address, sync
from tests.conftest import StartBroker
from tests.interop.node import FOLDER, Node
from tests.interop.pages_of_clients.page import read_page
from tests.system.support.chromium import Page, browser
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import WAIT_S

pytestmark = pytest.mark.interop

PATIENT = RetryPolicy(attempts=1000, max_delay_s=0.05, budget=RetryBudget(min_per_s=1000))
BUNDLING = ("page.cjs", "--bundle", "--inject:inject.mjs", "--outfile=bundle.js")


@contextlib.contextmanager
def service_of(folder: Path, broker: BrokerProcess) -> Iterator[None]:
    """The service of the page, which a caller in Python has found."""
    command = ["node", str(folder / "service.cjs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as service:
        try:
            with sync.connect(broker.urls[0], retry=PATIENT) as client:
                orders = address("orders", shop="eu")
                answer = client.request_response(orders, b"from Python", route="create", timeout_s=WAIT_S)
                assert answer.data == b"order taken: from Python"
            yield
            assert service.poll() is None
        finally:
            service.kill()


def test_the_programs_of_the_page_say_what_it_says(needs_node: Node, shared_broker: BrokerProcess) -> None:
    page = read_page("javascript.md", "javascript")
    folder = FOLDER / "page"  # imports are looked up from a script's folder
    page.write(folder, shared_broker)
    with service_of(folder, shared_broker):
        command = ["node", str(folder / "caller.cjs")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert [done.stdout, done.stderr] == [*page.says, ""]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and writes no log of it."""

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def site_port() -> Iterator[int]:
    """Where the files of the page are served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(FOLDER / "site"))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def bundle(folder: Path, broker: BrokerProcess) -> None:
    """The page of a browser, as a reader makes it."""
    for language in ("javascript", "html"):
        read_page("javascript.md", language).write(folder, broker)
    command = [str(FOLDER / "node_modules/.bin/esbuild"), *BUNDLING]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


async def shown(page: Page, url: str) -> str:
    """What the page of this URL shows when it is done."""
    await page.open(url, "document.body?.dataset.done == 'yes'")
    lines: str = await page.value(
        "[...document.querySelectorAll('p')].map((each) => each.textContent + '\\n').join('')"
    )
    return lines


@pytest.mark.slow
async def test_a_browser_shows_what_the_caller_says_where_the_broker_knows_the_origin(
    needs_node: Node, needs_chromium: str, start_broker: StartBroker, site_port: int, tmp_path: Path
) -> None:
    broker = start_broker(server__origins=f"http://localhost:{site_port}")
    folder = FOLDER / "site"
    bundle(folder, broker)
    with service_of(folder, broker):
        async with browser(needs_chromium, tmp_path / "browser") as page:
            said = await shown(page, f"http://localhost:{site_port}/")
            assert [said] == [
                "".join(each.partition("no-route")[0] for each in read_page("javascript.md", "javascript").says)
            ]
            assert page.errors == []
            assert (await shown(page, f"http://127.0.0.1:{site_port}/")).startswith("not connected")
    assert f"a page of http://127.0.0.1:{site_port} " in broker.output

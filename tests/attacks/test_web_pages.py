"""Pages of other sites in a real browser: over WebSockets, the REST API, and HTTP to whatever listens.

The browser believes that names below `example` are on this machine, so that a page of `evil.example` reaches the broker
under that name, as one does whose name server changes its answer ("DNS rebinding").
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from broker.server import Server
from rsocket_wire.rsocket.frames import encode_keepalive
from tests.attacks.brokers import Asked, asked, running
from tests.fakes import announcement, framed, setup
from tests.system.support.chromium import Page, browser
from tests.system.support.waits import until
from tests.system.support.wires import Wire, url_of

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SHOP: Final = "http://shop.example"  # the origin that is let in
RESOLVER: Final = "--host-resolver-rules=MAP *.example 127.0.0.1"
# The browser's own protection of this machine from pages is off: not every browser has it.
UNGUARDED: Final = "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"
DRAIN: Final = "/api/v1/drains/broker"
# What a page can try; each gives a word.
SCRIPT: Final = """
const socket = (url) => new Promise((done) => {
    const opened = new WebSocket(url);
    opened.binaryType = 'arraybuffer';
    opened.onopen = () => SAID.forEach((frame) => opened.send(new Uint8Array(frame)));
    opened.onmessage = () => { done('answered'); opened.close(); };
    opened.onerror = () => done('refused');
});
const request = (url, options) => fetch(url, options).then(
    (answer) => answer.type == 'opaque' ? 'unreadable' : answer.text(),
    () => 'refused');
const frame = (url) => new Promise((done) => {
    const made = document.body.appendChild(Object.assign(document.createElement('iframe'), {src: url}));
    made.onload = () => done(made.contentDocument ? 'shown' : 'hidden');
});
const post = (url) => new Promise((done) => {
    const frame = document.body.appendChild(Object.assign(document.createElement('iframe'), {name: 'f' + url}));
    const form = document.body.appendChild(document.createElement('form'));
    Object.assign(form, {action: url, method: 'post', enctype: 'text/plain', target: frame.name});
    form.append(Object.assign(document.createElement('input'), {name: 'a', value: 'b'}));
    frame.onload = () => done('sent');
    form.submit();
});
"""
PAGE: Final = "<!doctype html><body><script>SCRIPT</script></body>"
# The same from a page without an origin of its own: it tells the one around it.
SANDBOX: Final = """<!doctype html><body><script>
const told = new Promise((done) => { addEventListener('message', (event) => done([event.origin, event.data])); });
</script><iframe sandbox="allow-scripts" srcdoc="<script>SCRIPT
Promise.all([TRIED]).then((all) => parent.postMessage(all, '*'));</script>"></iframe></body>"""


@dataclass
class Attacked:
    """A broker, and where pages find it."""

    server: Server
    admin: Asked

    @property
    def port(self) -> int:
        """Of its WebSockets."""
        return int(urlsplit(url_of(self.server, "ws")).port or 0)

    def services(self) -> list[str]:
        """Those that have announced themselves."""
        return [route.service for route in self.server.core.table.routes()]

    async def is_drained(self) -> bool:
        return '"broker"' in (await self.admin.ask("GET", "/api/v1/drains"))[1]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attacked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Attacked]:
    folder = tmp_path_factory.mktemp("attacked")
    async with running({"server.origins": SHOP}) as server, asked(server, folder / "token") as admin:
        yield Attacked(server, admin)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(needs_chromium: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    """One browser for all of these: its start takes longer than they do."""
    async with browser(needs_chromium, tmp_path_factory.mktemp("browser") / "new", RESOLVER, UNGUARDED) as page:
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def page(attacked: Attacked, tab: Page) -> AsyncIterator[Page]:
    """The tab, which leaves nothing open."""
    tab.errors.clear()
    yield tab
    await tab.open("about:blank", "true")
    await until(lambda: attacked.server.core.peers() == [])


def script() -> str:
    """SCRIPT, whose WebSockets would be a service, and want to hear from the broker."""
    return SCRIPT.replace("SAID", json.dumps([list(announcing()), list(encode_keepalive(b"", respond=True))]))


def announcing() -> bytes:
    """A SETUP with a route."""
    return setup(announcement(0xE71, "evil"))


def tried(*attempts: str) -> str:
    return f"Promise.all([{', '.join(attempts)}])"


async def visit(page: Page, site: str) -> None:
    """A page of this site that can try all of SCRIPT."""
    await page.visit(f"{site}/page", PAGE.replace("SCRIPT", script()))


# WebSockets


async def test_a_page_of_a_site_that_is_named_gets_a_websocket(attacked: Attacked, page: Page) -> None:
    """Else the tests below would pass where nothing works at all."""
    await visit(page, SHOP)
    joined_n = attacked.server.core.table.generation
    assert await page.value(f"socket('ws://127.0.0.1:{attacked.port}/')") == "answered"
    assert attacked.server.core.table.generation > joined_n


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "evil.example"])
async def test_a_page_of_another_site_gets_no_websocket(attacked: Attacked, page: Page, host: str) -> None:
    await visit(page, "http://evil.example")
    assert await page.value(f"socket('ws://{host}:{attacked.port}/')") == "refused"
    assert attacked.services() == []


async def test_a_page_without_an_origin_gets_no_websocket(attacked: Attacked, page: Page) -> None:
    """Within a page of a site that gets one."""
    attempt = tried(f"socket('ws://127.0.0.1:{attacked.port}/')")
    await page.visit(f"{SHOP}/sandbox", SANDBOX.replace("SCRIPT", script()).replace("TRIED", attempt))
    assert await page.value("told") == ["null", [["refused"]]]
    assert attacked.services() == []


async def test_a_page_whose_host_has_become_this_machine_gets_no_websocket(attacked: Attacked, page: Page) -> None:
    """To the browser it asks the server that it came from."""
    site = f"evil.example:{attacked.port}"
    await visit(page, f"http://{site}")
    assert await page.value(f"socket('ws://{site}/')") == "refused"
    assert attacked.services() == []


# The REST API


@pytest.mark.parametrize("site", ["http://evil.example", SHOP])
async def test_a_page_of_another_site_reads_and_changes_nothing(attacked: Attacked, page: Page, site: str) -> None:
    """Nor one of a site whose WebSockets are let in."""
    await visit(page, site)
    url, bearer = attacked.admin.url, f"headers: {{Authorization: 'Bearer {attacked.admin.token}'}}"
    attempts = [
        f"request('{url}/api/v1/status')",
        f"request('{url}{DRAIN}', {{method: 'PUT'}})",
        f"request('{url}{DRAIN}', {{method: 'PUT', {bearer}}})",
        f"request('{url}/api/v1/status', {{mode: 'no-cors'}})",
        f"request('{url}{DRAIN}', {{mode: 'no-cors', method: 'POST', body: '{{}}'}})",
        f"post('{url}{DRAIN}')",
    ]
    assert await page.value(tried(*attempts)) == ["refused"] * 3 + ["unreadable"] * 2 + ["sent"]
    assert not await attacked.is_drained()


async def test_a_page_whose_host_has_become_this_machine_reads_and_changes_nothing(
    attacked: Attacked, page: Page
) -> None:
    """It knows the token, too."""
    await visit(page, f"http://evil.example:{attacked.admin.port}")
    options = f"headers: {{Authorization: 'Bearer {attacked.admin.token}'}}"
    attempts = [f"request('/api/v1/status', {{{options}}})", f"request('{DRAIN}', {{method: 'PUT', {options}}})"]
    answers = await page.value(tried(*attempts))
    assert [json.loads(answer)["code"] for answer in answers] == ["wrong-host"] * 2
    assert not await attacked.is_drained()


async def test_a_page_of_the_api_itself_changes_nothing(attacked: Attacked, page: Page) -> None:
    await visit(page, attacked.admin.url)
    options = f"headers: {{Authorization: 'Bearer {attacked.admin.token}'}}"
    attempts = ["request('/api/v1/status')", f"request('{DRAIN}', {{method: 'PUT', {options}}})"]
    status, drained = map(json.loads, await page.value(tried(*attempts)))
    assert (status["state"], drained["code"]) == ("ready", "not-allowed")
    assert not await attacked.is_drained()


async def test_the_status_page_runs_no_script_and_stands_in_no_frame(attacked: Attacked, page: Page) -> None:
    await page.open(f"{attacked.admin.url}/", "document.readyState == 'complete'")
    assert await page.value("getComputedStyle(document.body).maxWidth") == "800px"
    assert [each for each in page.errors if attacked.admin.url in each] == []
    assert not await page.obeys_scripts()
    await visit(page, attacked.admin.url)  # a page of this very site could look into a frame
    assert await page.value("frame('/page')") == "shown"
    assert await page.value("frame('/')") == "hidden"


# What speaks no HTTP


async def test_a_request_of_a_page_to_the_tcp_port_is_no_frame(attacked: Attacked, page: Page) -> None:
    """What it sends would announce a route."""
    await visit(page, "http://evil.example")
    url = url_of(attacked.server, "tcp").replace("tcp://", "http://")
    body = f"new Uint8Array({list(framed(announcing()))})"
    attempts = [f"request('{url}', {{mode: 'no-cors', method: 'POST', body: {body}}})", f"post('{url}')"]
    assert await page.value(tried(*attempts)) == ["unreadable", "sent"]  # an answer without CORS is told to no page
    assert attacked.services() == []
    await (await Wire.caller(url_of(attacked.server, "tcp"))).ping()

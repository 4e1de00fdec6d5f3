"""A page in a real browser, over the DevTools protocol: what it drew, what it said, what it asked the network for."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

START_S = 30.0
ANSWER_S = 60.0
MESSAGE_BYTES = 256 << 20
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
)


class Page:
    """One tab. `errors`: what the console and the page's scripts complained of; `requests`: URLs it asked for.

    `sites`: pages of the test by their URLs. The browser takes them for what is there, and asks nobody.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.sites: dict[str, str] = {}

    async def ask(self, method: str, **values: Any) -> dict[str, Any]:
        """A command's result; what the page reports meanwhile is kept."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": values})
        async with asyncio.timeout(ANSWER_S):
            while True:
                message = json.loads(await self._socket.receive_str())
                if message.get("id") == self._number:
                    assert "error" not in message, message
                    result: dict[str, Any] = message["result"]
                    return result
                await self._note(message)

    async def _note(self, message: dict[str, Any]) -> None:
        method, values = message.get("method"), message.get("params", {})
        if method == "Fetch.requestPaused":
            await self._serve(values["requestId"], self.sites[values["request"]["url"]])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(values["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.errors.append(str(values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.errors.append(str(values["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])

    async def _serve(self, id: str, html: str) -> None:
        """Answers a request of the browser; what it says to that is not looked at."""
        body = base64.b64encode(html.encode()).decode()
        headers = [{"name": "Content-Type", "value": "text/html"}]
        values = {"requestId": id, "responseCode": 200, "responseHeaders": headers, "body": body}
        await self._socket.send_json({"id": 0, "method": "Fetch.fulfillRequest", "params": values})

    async def visit(self, url: str, html: str) -> None:
        """Opens a page that is not there."""
        self.sites[url] = html
        await self.ask("Fetch.enable", patterns=[{"urlPattern": site} for site in self.sites])
        await self.open(url, "document.readyState == 'complete'")

    async def value(self, expression: str) -> Any:
        """What this JavaScript gives; a promise is awaited."""
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def open(self, url: str, is_there: str) -> None:
        """Until this JavaScript is true."""
        await self.ask("Page.navigate", url=url)
        await self.until(f"location.href == {json.dumps(url)} && {is_there}")

    async def until(self, is_there: str) -> None:
        """This JavaScript is true."""
        async with asyncio.timeout(ANSWER_S):
            while not await self.value(is_there):
                await asyncio.sleep(0.05)

    async def prefer(self, *, is_dark: bool) -> None:
        """What the reader's system says. The page hears of it before it is shown the next time."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        await self.ask("Emulation.setEmulatedMedia", features=scheme)
        await self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    async def obeys_scripts(self) -> bool:
        """Whether it runs a program that is put into it."""
        await self.value("void document.body.append(Object.assign(document.createElement('script'), {text: 'a = 1'}))")
        kind: str = await self.value("typeof a")
        return kind != "undefined"


@contextlib.asynccontextmanager
async def browser(program: str, folder: Path, *switches: str) -> AsyncIterator[Page]:
    """A browser with one empty tab; `folder`: new, for what it keeps."""
    command = [program, *SWITCHES, *switches, f"--user-data-dir={folder}", "--window-size=1400,1000", "about:blank"]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        port = await _port(folder / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                [target] = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=MESSAGE_BYTES) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await page.ask(f"{domain}.enable")
                yield page
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _port(path: Path) -> int:
    """Where the browser listens: it writes that down when it does."""
    async with asyncio.timeout(START_S):
        while True:
            lines = path.read_text().split() if path.exists() else []
            if lines:
                return int(lines[0])
            await asyncio.sleep(0.05)

"""A page in a real browser, over the DevTools protocol: what it drew, what it said, what it asked the network for."""

import asyncio
import base64
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
START_S = 30.0
ANSWER_S = 60.0
MESSAGE_BYTES = 256 << 20  # a picture of a long page
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


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """One tab. `errors`: what the console and the page's scripts complained of; `requests`: URLs it asked for."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._loads = 0
        self.errors: list[str] = []
        self.requests: list[str] = []

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
                self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, values = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(values["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.errors.append(str(values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.errors.append(str(values["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])

    async def value(self, expression: str) -> Any:
        """What this JavaScript gives; a promise is awaited."""
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def open(self, path: Path, *, is_dark: bool = False) -> None:
        """Until all plots are drawn, or none is there."""
        await self.prefer(is_dark=is_dark)
        await self.ask("Page.navigate", url=path.as_uri())
        drawn = "document.readyState == 'complete' && document.body.dataset.drawn == 'yes'"
        async with asyncio.timeout(ANSWER_S):
            while not await self.value(f"location.href == {json.dumps(path.as_uri())} && {drawn}"):
                await asyncio.sleep(0.05)

    async def prefer(self, *, is_dark: bool) -> None:
        """What the reader's system says. The page hears of it before it is shown the next time."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        await self.ask("Emulation.setEmulatedMedia", features=scheme)
        await self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    async def picture(self, path: Path, clip: dict[str, float] | None = None) -> None:
        """The whole page, or a piece of it, as PNG."""
        values: dict[str, Any] = {"captureBeyondViewport": True}
        size = (await self.ask("Page.getLayoutMetrics"))["cssContentSize"]
        values["clip"] = (clip or {"x": 0, "y": 0, "width": size["width"], "height": size["height"]}) | {"scale": 1}
        answer = await self.ask("Page.captureScreenshot", **values)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextlib.asynccontextmanager
async def browser(program: str, folder: Path, width: int = 1400, height: int = 1000) -> AsyncIterator[Page]:
    """A browser with one empty tab; `folder`: new, for what it keeps."""
    command = [program, *SWITCHES, f"--user-data-dir={folder}", f"--window-size={width},{height}", "about:blank"]
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

"""docs/sdk/frameworks.md: its applications answer, and its cells run, with a real broker."""

import ast
import inspect
import re
import sys
from collections.abc import AsyncIterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Request, Service, connect, sync
from client_sdk.testing import local_broker, sync_local_broker
from tests.client_sdk.public.docstring_runner import WRITTEN_URL
from tests.conftest import missing
from tests.system.support.processes import ROOT

PAGE = (ROOT / "docs/sdk/frameworks.md").read_text()
SHOP, SHELF, CELL, SYNC, VIEWS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

Message = MutableMapping[str, Any]
orders = Service("orders")


@orders.request_response("create")
async def create(data: bytes) -> bytes:
    return b"order taken: " + data


@orders.request_stream("watch")
async def watch(request: Request) -> AsyncIterator[bytes]:
    for state in (b"taken", b"sent"):
        yield request.data + b" " + state


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Of a broker where somebody takes orders."""
    async with local_broker() as url, connect(url, service=orders):
        yield url


def load(text: str, url: str) -> dict[str, Any]:
    """The names of a block."""
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(text.replace(WRITTEN_URL, url), "frameworks.md", "exec"), names)
    return names


async def ask(app: Any, state: dict[str, Any], method: str, path: str) -> tuple[int, bytes]:
    """What an ASGI application answers to a request without a body: status and body."""
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "raw_path": path.encode()}
    scope |= {
        "headers": [],
        "query_string": b"",
        "state": dict(state),
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "root_path": "",
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent)


async def test_an_application_of_fastapi_calls_and_streams(url: str) -> None:
    names = load(SHOP, url)
    app = names["app"]
    async with names["lifespan"](app) as state:
        assert await ask(app, state, "POST", "/orders/book") == (200, b'"order taken: book"')
        states = b"data: book taken\n\ndata: book sent\n\n"
        assert await ask(app, state, "GET", "/orders/book/states") == (200, states)


async def test_an_application_of_fastapi_says_that_nobody_serves() -> None:
    async with local_broker() as url:
        names = load(SHOP, url)
        async with names["lifespan"](names["app"]) as state:
            status, body = await ask(names["app"], state, "POST", "/orders/book")
    assert (status, b"no route has service=orders" in body) == (503, True)


async def test_an_application_of_starlette_calls(url: str) -> None:
    names = load(SHELF, url)
    async with names["lifespan"](names["app"]) as state:
        assert await ask(names["app"], state, "POST", "/orders/book") == (200, b"order taken: book")


async def test_a_cell_of_jupyter_awaits(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    code = compile(CELL.replace(WRITTEN_URL, url), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(code, names)
    assert inspect.iscoroutine(running)
    await running
    assert names["answer"] == b"order taken: a book"
    assert capsys.readouterr().out.splitlines() == ["b'a book taken'", "b'a book sent'"]


def test_the_blocking_client_is_made_once() -> None:
    with sync_local_broker() as url:
        client = load(SYNC, url)["client"]
        with client() as made:
            assert client() is made


URLS = """\
from django.urls import path

from .views import create

urlpatterns = [path("orders/<str:item>", create)]
"""


@pytest.mark.interop
def test_a_view_of_django_calls_and_says_that_nobody_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        from django.conf import settings
        from django.test import Client, override_settings
    except ImportError:
        missing("Django is not installed: pip install 'Django>=5.2,<7'")
    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["testserver"])
    with sync_local_broker() as url:
        package = tmp_path / "site_of_django"
        package.mkdir()
        for name, text in (("clients", SYNC.replace(WRITTEN_URL, url)), ("views", VIEWS), ("urls", URLS)):
            (package / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        with override_settings(ROOT_URLCONF="site_of_django.urls"):
            browser = Client()
            with sync.connect(url, service=orders):
                answer = browser.post("/orders/book")
                assert (answer.status_code, answer.content) == (200, b"order taken: book")
            answer = browser.post("/orders/book")
            assert (answer.status_code, answer.content) == (503, b"no route has service=orders")
        sys.modules["site_of_django.clients"].client().close()

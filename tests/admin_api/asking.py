"""How tests ask an admin API: over HTTP, and with `ctl`."""

import asyncio
import json
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner, Result

from admin_api.app import make_app
from admin_api.ctl.commands import ctl
from admin_api.errors import MISSING, PROBLEMS
from tests.admin_api.contract import check_answer, check_refusal
from tests.admin_api.fakes import FakeAdmin

Api = TestClient[Any, Any]


def api_of(of: FakeAdmin | web.Application) -> Api:
    """Listens as long as its block lasts."""
    return TestClient(TestServer(make_app(of, of.gateway, of.feed) if isinstance(of, FakeAdmin) else of))


async def get(api: Api, path: str, missing: str = "") -> Any:
    """The JSON of a success; `missing`: the workers that are said not to be in it."""
    async with api.get(path) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json"), await answer.text()
        assert answer.headers.get(MISSING, "") == missing
        body = await answer.json()
        check_answer("GET", answer.url.raw_path, body)
        return body


async def change(api: Api, method: str, path: str, **said: object) -> Any:
    """The JSON of a success."""
    async with api.request(method, path, json=said or None) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json"), await answer.text()
        body = await answer.json()
        check_answer(method, answer.url.raw_path, body)
        return body


async def problem(api: Api, path: str, method: str = "GET", **options: Any) -> dict[str, Any]:
    """The JSON of a refusal, which is always a problem that says what its status is."""
    async with api.request(method, path, **options) as answer:
        assert answer.content_type == "application/problem+json", await answer.text()
        body: dict[str, Any] = json.loads(await answer.read())
        assert body["status"] == answer.status
        assert body["type"] == f"urn:rsocket-broker:problem:{body['code']}"
        assert body["page"] == f"docs/admin-api.md#{body['code']}"
        assert body["title"] == PROBLEMS[body["code"]][1]
        check_refusal(method, answer.url.raw_path, body)
        return body


async def refusal(api: Api, method: str, path: str, **options: Any) -> tuple[int, str, str]:
    """Status, code and detail of a refusal."""
    body = await problem(api, path, method, **options)
    return body["status"], body["code"], body["detail"]


async def run(*arguments: str, columns: int = 200) -> Result:
    """`ctl`, in a thread, so that the broker of this loop can answer."""
    return await asyncio.to_thread(CliRunner(env={"COLUMNS": str(columns)}).invoke, ctl, list(arguments))


async def said(*arguments: str, columns: int = 200) -> str:
    """What `ctl` says of what it could do."""
    result = await run(*arguments, columns=columns)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.removesuffix("\n")


def squeezed(text: str) -> list[str]:
    """The lines, blanks squeezed; lines of a table's frame left out."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip(" ─")]

"""Which answers are packed, and for whom."""

import gzip

import pytest

from admin_api.answers.packing import IN_THREAD_BYTES, MIN_BYTES, packed
from tests.admin_api.asking import Api, change
from tests.admin_api.fakes import FakeAdmin


async def encoding_of(api: Api, path: str, accepted: str, method: str = "GET") -> tuple[str, str]:
    """Content-Encoding and Vary; the body can be read."""
    async with api.request(method, path, headers={"Accept-Encoding": accepted}) as answer:
        assert method == "HEAD" or len(await answer.text()) > MIN_BYTES
        return answer.headers.get("Content-Encoding", ""), answer.headers.get("Vary", "")


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/v1", "/api/v1/status", "/api/v1/openapi.json"])
async def test_an_answer_is_packed_for_who_takes_it_and_for_nobody_else(client: Api, path: str) -> None:
    assert await encoding_of(client, path, "gzip, deflate, br") == ("gzip", "Accept-Encoding")
    assert await encoding_of(client, path, "identity") == ("", "Accept-Encoding")
    assert await encoding_of(client, path, "GZIP;q=0.5") == ("gzip", "Accept-Encoding")
    assert await encoding_of(client, path, "br, gzip; q=0") == ("", "Accept-Encoding")
    assert await encoding_of(client, path, "gzip", "HEAD") == ("gzip", "Accept-Encoding")


async def test_what_is_packed_is_the_same_and_shorter(client: Api) -> None:
    async with client.get("/api/v1/limits", headers={"Accept-Encoding": "identity"}) as answer:
        plain = await answer.read()
    async with client.get("/api/v1/limits", headers={"Accept-Encoding": "gzip"}) as answer:
        assert await answer.read() == plain
        assert int(answer.headers["Content-Length"]) < len(plain) / 3


async def test_metrics_are_not_packed_for_who_asks_behind_one_that_takes_it(client: Api) -> None:
    for accepted, encoding in (("gzip", "gzip"), ("identity", ""), ("gzip", "gzip")):
        assert (await encoding_of(client, "/metrics", accepted))[0] == encoding


@pytest.mark.parametrize("path, status", [("/livez", 200), ("/api/v1/routes/1", 404), (f"/{'x' * 2000}", 404)])
async def test_neither_what_is_short_nor_a_problem_is_packed(client: Api, path: str, status: int) -> None:
    async with client.get(path, headers={"Accept-Encoding": "gzip"}) as answer:
        assert (answer.status, answer.headers.get("Content-Encoding", "")) == (status, "")


async def test_a_long_answer_is_packed_beside_the_loop() -> None:
    body = b"orders" * IN_THREAD_BYTES
    assert gzip.decompress(await packed(body)) == body


async def test_a_packed_body_is_bounded_by_what_it_becomes(admin: FakeAdmin, client: Api) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    bomb = gzip.compress(b" " * (64 << 20))
    async with client.put("/api/v1/drains/broker", data=bomb, headers=headers) as answer:
        assert answer.status == 413
    body = gzip.compress(b'{"grace_s": 7}')
    async with client.put("/api/v1/drains/broker", data=body, headers=headers) as answer:
        assert (await answer.json())["grace_s"] == 7
    assert (await change(client, "DELETE", "/api/v1/drains/broker"))["kind"] == "broker"

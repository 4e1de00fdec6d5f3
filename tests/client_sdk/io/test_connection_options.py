"""What `connect` says of the connection itself, through the broker of this project: pieces, leases."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from client_sdk import NoLease, Payload, Rejected, address, connect
from client_sdk.testing import local_broker
from tests.client_sdk.samples import echo_service


@pytest.mark.parametrize("fragment_bytes", [64, 1000, 0])
async def test_payloads_go_in_pieces_of_that_size_and_come_whole(fragment_bytes: int) -> None:
    async with (
        local_broker(limits__max_small_fragments_per_s=0) as url,
        connect(url, service=echo_service(), fragment_bytes=fragment_bytes),
        connect(url, fragment_bytes=fragment_bytes) as client,
    ):
        to = address("echo")
        contents = [bytes([number]) * (number * 37) for number in range(60)]
        calls = [client.request_response(to, content, metadata={"application/json": content}) for content in contents]
        assert [answer.data for answer in await asyncio.gather(*calls)] == contents

        async def items() -> AsyncIterator[Payload]:
            for content in contents:
                yield Payload(content, content or None)

        found = [(item.data, item.metadata or b"") async for item in client.request_channel(to, items())]
        assert [data for data, _ in found] == contents
        assert [metadata for _, metadata in found[1:]] == contents[1:]


async def test_small_calls_pass_a_large_one_that_goes_in_pieces() -> None:
    async with (
        local_broker() as url,
        connect(url, service=echo_service()),
        connect(url, fragment_bytes=1 << 14) as client,
    ):
        large = bytes(15 << 20)
        call = asyncio.ensure_future(client.request_response(address("echo"), large))
        await asyncio.sleep(0)
        assert (await client.request_response(address("echo"), b"small")).data == b"small"
        assert not call.done()
        assert (await call).data == large


async def test_a_service_is_sent_no_more_requests_than_its_lease_grants() -> None:
    async with local_broker() as url, connect(url, service=echo_service(), lease=(2, 60.0)), connect(url) as client:
        to = address("echo")
        for _ in range(2):
            assert (await client.request_response(to, b"x")).data == b"x"
        with pytest.raises(Rejected) as caught:
            await client.request_response(to, b"x")
        assert caught.value.word == "no-lease"


async def test_who_leases_needs_a_grant_for_its_own_requests_and_the_broker_grants_all() -> None:
    async with local_broker() as url, connect(url, service=echo_service(), lease=(1, 0.05)) as both:
        for _ in range(3):
            answer = None
            while answer is None:
                await asyncio.sleep(0)
                with contextlib.suppress(NoLease):
                    answer = await both.request_response(address("echo"), b"x")
            assert answer.data == b"x"


@pytest.mark.parametrize("options", [{"fragment_bytes": 63}, {"lease": (0, 1.0)}])
async def test_what_cannot_be_is_refused_by_connect(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"fragment_bytes|lease"):
        connect("tcp://127.0.0.1:1", **options)  # type: ignore[arg-type]

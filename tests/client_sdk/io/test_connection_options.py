"""What `connect` says of the connection itself, through the broker of this project: pieces, leases."""

import asyncio
import contextlib

import pytest

from client_sdk import NoLease, Rejected, address, connect
from client_sdk.testing import local_broker
from tests.client_sdk.samples import echo_service


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

"""The services of the demo fail while they shall, and not else."""

import random

from broker.commands.demo.services import Shop
from client_sdk import ApplicationError, address, connect
from client_sdk.testing import local_broker

ASKED_N = 20


async def test_payments_fail_only_while_they_shall_and_not_all_of_them() -> None:
    shop = Shop(random.Random(1))
    async with local_broker() as url, connect(url, service=shop.payments(1)), connect(url) as client:

        async def failures() -> int:
            count = 0
            for _ in range(ASKED_N):
                try:
                    await client.request_response(address("payments"), b"tea", route="pay")
                except ApplicationError:
                    count += 1
            return count

        assert await failures() == 0
        shop.do_payments_fail = True
        assert 0 < await failures() < ASKED_N

"""A broker with an admin API, and a client of it."""

from collections.abc import AsyncIterator

import pytest

from tests.admin_api.asking import Api, api_of
from tests.admin_api.fakes import FakeAdmin, shop_with_traffic


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin(shop_with_traffic())


@pytest.fixture
async def client(admin: FakeAdmin) -> AsyncIterator[Api]:
    async with api_of(admin) as client:
        yield client

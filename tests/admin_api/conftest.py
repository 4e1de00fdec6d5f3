"""A broker with an admin API, and a client of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.admin_api.asking import Api, api_of
from tests.admin_api.fakes import FakeAdmin, shop_with_traffic
from tests.admin_api.feed import FakeFeed
from tests.admin_api.gateway import FakeGateway


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin(shop_with_traffic())


@pytest.fixture
async def client(admin: FakeAdmin) -> AsyncIterator[Api]:
    async with api_of(admin) as client:
        yield client


@pytest.fixture
async def feed(socket_folder: Path) -> AsyncIterator[FakeFeed]:
    """A feed that answers."""
    folder = socket_folder / "feed"
    folder.mkdir()
    async with FakeFeed(folder) as feed:
        yield feed


@pytest.fixture
async def gateway(socket_folder: Path) -> AsyncIterator[FakeGateway]:
    """A Samwise gateway that answers, with messages."""
    async with FakeGateway(socket_folder) as gateway:
        yield gateway

"""No test of this folder may hang, whatever the stranger does."""

from collections.abc import Iterator

import pytest

from tests.interop.node import Node, Peers
from tests.system.support.waits import bound_tests_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    bound_tests_of(__file__, items)


@pytest.fixture
def peers(needs_node: Node) -> Iterator[Peers]:
    """Programs of rsocket-js."""
    peers = Peers(needs_node)
    yield peers
    peers.end()

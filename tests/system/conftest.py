"""No test of this folder may hang, whatever breaks."""

import pytest

from tests.system.support.waits import bound_tests_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    bound_tests_of(__file__, items)

"""No test of this folder may hang, whatever breaks; and the certificates that its brokers and their clients show."""

import pytest

from tests.system.support.certificates import BROKER_NAMES, Authority
from tests.system.support.waits import bound_tests_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    bound_tests_of(__file__, items)


@pytest.fixture(scope="session")
def authority(needs_openssl: str, tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that has signed `broker` and `client`."""
    made = Authority(needs_openssl, tmp_path_factory.mktemp("authority"), "ours")
    made.sign("broker", BROKER_NAMES)
    made.sign("client")
    return made

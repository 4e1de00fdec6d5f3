"""Methods of choosing: the SDK knows the names that this broker knows."""

import logging

import pytest

from broker.routing.choosers import registry
from broker.routing.policies import CHOOSERS, WRAPPERS
from broker.routing.sharding import methods as sharding
from client_sdk import address, shard
from client_sdk.mistakes.methods import LB_METHODS, LB_WRAPPERS, MAX_LOOKED_AT, SHARD_METHODS, look_at, looked_at


@pytest.fixture(autouse=True)
def _nothing_looked_at() -> None:
    looked_at.clear()


def test_what_the_broker_knows_is_known(caplog: pytest.LogCaptureFixture) -> None:
    assert (LB_METHODS, LB_WRAPPERS, SHARD_METHODS) == (CHOOSERS, WRAPPERS, sharding.NAMES)
    for name in (*CHOOSERS, *WRAPPERS, *registry._ALIASES, "sticky:round_robin", "Zone-First:p2c"):
        address("orders", lb=name)
    for name in (*sharding.NAMES, *sharding._ALIASES):
        shard("carts", key="user", user="ada", method=name)
    assert not caplog.records


def test_of_an_unknown_name_the_log_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        address("orders", lb="round_robbin")
        shard("carts", key="user", user="ada", method="md5")
    text = "a broker that knows no such method takes that of the service"
    assert caplog.messages == [
        f"lb='round_robbin': {text}; did you mean round_robin?",
        f"method='md5': {text}; write rendezvous, maglev, ring, jump or modulo",
    ]


def test_names_are_forgotten_when_there_are_too_many() -> None:
    logging.disable(logging.WARNING)
    try:
        for number in range(MAX_LOOKED_AT + 1):
            look_at("lb", str(number))
    finally:
        logging.disable(logging.NOTSET)
    assert looked_at == {("lb", str(MAX_LOOKED_AT))}

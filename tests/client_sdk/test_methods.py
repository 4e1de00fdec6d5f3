"""Methods of choosing: SDK and broker know the same names."""

import logging

import pytest

from broker.routing.choosers.registry import ROUND_ROBIN, Methods
from broker.routing.sharding.methods import ShardMethods
from client_sdk import address, shard
from client_sdk.mistakes.methods import MAX_LOOKED_AT, look_at, looked_at
from rsocket_wire.methods import CHOOSERS, CHOOSERS_ALIASES, SHARD_ALIASES, SHARD_METHODS, WRAPPERS, plain_name


@pytest.fixture(autouse=True)
def _nothing_looked_at() -> None:
    looked_at.clear()


@pytest.mark.parametrize("name", ["roundrobin", "RoundRobin", "round-robin", "ROUND_ROBIN", "round robin"])
def test_upper_case_and_what_stands_between_words_do_not_matter(name: str) -> None:
    assert plain_name(name) == ROUND_ROBIN


def test_what_the_broker_knows_is_known(caplog: pytest.LogCaptureFixture) -> None:
    choosers, shard_methods = Methods(), ShardMethods()
    for name in (*CHOOSERS, *WRAPPERS, *CHOOSERS_ALIASES, "sticky:round_robin", "Zone-First:p2c"):
        assert choosers.find(name, ROUND_ROBIN) is not None, name
        address("orders", lb=name)
    for name in (*SHARD_METHODS, *SHARD_ALIASES):
        assert shard_methods.find(name) is not None, name
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

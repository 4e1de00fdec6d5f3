"""What the log says once of requests, and how much of it at most."""

from broker.routing.policies import Policy
from broker.routing.query import Query
from broker.routing.remarks import MAX_SAID, MAX_UNTOLD, Remarks
from broker.routing.rng import Rng
from rsocket_wire.wire.frames import SHARD, UNICAST, Address
from rsocket_wire.wire.keys import LB_METHOD, SERVICE_NAME, SHARD_KEY, SHARD_METHOD, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.routing.made import table_of

ORDERS = Tag(SERVICE_NAME, b"orders")


def said_of(query: Query, flag: int, *hints: Tag) -> list[str]:
    raw = Address(bytes(16), [ORDERS], list(hints), b"", flag).encode()
    query.resolve(raw, 0, len(raw))
    return query.remarks.take()


def test_a_hint_that_names_no_method_is_said_once_with_the_methods() -> None:
    query = Query(table_of(2, "orders"), Rng(1))
    fastest, slowest = Tag(LB_METHOD, b"fastest"), Tag(LB_METHOD, b"slowest")
    assert said_of(query, UNICAST, fastest) == [
        "service=orders: lb_method 'fastest' is no method of this broker, which takes round_robin; write round_robin, "
        "random, weighted, least_busy, power_of_two, peak_ewma, zone_first or sticky"
    ]
    assert said_of(query, UNICAST, fastest, Tag(SHARD_KEY, b"x")) == []
    assert [text[:38] for text in said_of(query, UNICAST, slowest)] == ["service=orders: lb_method 'slowest' is"]
    key = Tag(SHARD_KEY, b"service")
    assert said_of(query, SHARD, key, Tag(SHARD_METHOD, b"fastest")) == [
        "service=orders: shard_method 'fastest' is no method of this broker, which takes "
        f"{Policy().shard_method}; write rendezvous, maglev, ring, jump or modulo"
    ]
    assert said_of(query, SHARD, key, Tag(SHARD_METHOD, b"maglev")) == []


def test_the_label_of_an_address_leaves_out_its_keys_whatever_was_said_of_it() -> None:
    query = Query(table_of(2, "orders"), Rng(1))
    hints = [Tag(SHARD_KEY, b"user"), Tag(SHARD_METHOD, b"fastest")]
    raw = Address(bytes(16), [ORDERS, Tag(Key.text("user"), b"ada")], hints, b"", SHARD).encode()
    assert query.resolve(raw, 0, len(raw)).label == "service=orders"
    assert query.remarks.take()[0].startswith("service=orders user=ada: shard_method 'fastest'")


def test_what_nobody_gets_is_said_once_for_each_service() -> None:
    remarks = Remarks()
    for label in ("service=order user=1", "service=order user=2"):
        remarks.unheard("fire_and_forget", label, "order", "no route has service=order; did you mean service=orders?")
    assert remarks.untold == [
        "service=order user=1: a fire_and_forget was dropped, and its caller cannot be told: no route has "
        "service=order; did you mean service=orders?"
    ]
    remarks.unheard("metadata_push", "service=x", "x", "no route has service=x")
    assert remarks.untold[1].endswith("told: no route has service=x; start the service or correct the tags")


def test_names_of_strangers_fill_neither_the_memory_nor_the_log() -> None:
    remarks = Remarks()
    for number in range(2 * MAX_UNTOLD):
        remarks.unheard("fire_and_forget", "", f"s{number}", "")
    assert len(remarks.untold) == MAX_UNTOLD
    remarks.take()
    assert all(remarks.is_news("unheard", f"n{number}") for number in range(MAX_SAID - MAX_UNTOLD))
    assert not remarks.is_news("unheard", "s0")
    assert remarks.is_news("unheard", "one more")
    assert remarks.is_news("unheard", "s0")  # all were forgotten

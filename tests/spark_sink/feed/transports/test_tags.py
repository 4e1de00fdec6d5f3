"""Tags: how acknowledgements of AMQP are put together."""

import random

from spark_sink.feed.transports.amqp import Tags


def test_one_says_it_for_all_before_it() -> None:
    tags = Tags()
    assert tags.acknowledge({1, 2, 3}) == [(3, True)]
    assert tags.acknowledge({4}) == [(4, True)]


def test_those_behind_one_that_is_out_are_told_alone_and_once() -> None:
    tags = Tags()
    assert tags.acknowledge({1, 3, 5}) == [(1, True), (3, False), (5, False)]
    assert tags.acknowledge({6}) == [(6, False)]
    assert tags.acknowledge({2, 7}) == [(2, True), (7, False)]
    assert tags.acknowledge({4}) == [(4, True)]
    assert tags.acknowledge({8}) == [(8, True)]


def test_the_broker_hears_of_each_in_any_order() -> None:
    chance = random.Random(7)
    out: set[int] = set()
    tags, next_tag = Tags(), 1
    for _ in range(2_000):
        out.update(range(next_tag, next_tag := next_tag + chance.randrange(4)))
        fresh = set(chance.sample(sorted(out), chance.randrange(len(out) + 1)))
        left = out - fresh
        for tag, is_multiple in tags.acknowledge(fresh) if fresh else []:
            assert tag in out  # RabbitMQ closes the channel for one that it does not know
            out -= {each for each in out if each <= tag} if is_multiple else {tag}
        assert out == left

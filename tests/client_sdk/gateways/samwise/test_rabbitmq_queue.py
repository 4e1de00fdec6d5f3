import asyncio

import pytest

from client_sdk.gateways.samwise.backends.backend import NotDelivered
from client_sdk.gateways.samwise.backends.rabbitmq_publication import Publication
from client_sdk.gateways.samwise.backends.rabbitmq_queue import DEFAULT, REFUSED_S, WRITE_BYTES, PublishQueue
from tests.client_sdk.gateways.samwise.messages import publish_to, stored

MISSING = "NOT_FOUND - no exchange 'gone' in vhost '/'"
NOW = 100.0


def waiting(queue: PublishQueue, *exchanges: str, payload: bytes = b"") -> list[Publication]:
    """One message to each exchange."""
    loop = asyncio.get_running_loop()
    made = [
        Publication(stored(publish_to(each, payload=payload)), loop.create_future(), "rabbit-1") for each in exchanges
    ]
    for each in made:
        queue.add(each)
    return made


def fault(publication: Publication) -> NotDelivered:
    error = publication.outcome.exception()
    assert isinstance(error, NotDelivered)
    return error


async def test_the_first_message_to_an_exchange_goes_alone_and_those_behind_it_wait() -> None:
    queue = PublishQueue()
    one, two, three, four = waiting(queue, DEFAULT, "e", "e", DEFAULT)
    assert queue.take(NOW) == [one]
    assert queue.take(NOW) == []
    assert queue.take_one() == two
    queue.trust("e")
    assert queue.take(NOW) == [three, four]
    assert queue.take_one() is None


async def test_an_exchange_that_is_declared_or_deleted_is_trusted_no_more() -> None:
    queue = PublishQueue()
    queue.trust("e")
    queue.forget("e")
    queue.forget(DEFAULT)  # which nobody can delete
    one, _ = waiting(queue, DEFAULT, "e")
    assert queue.take(NOW) == [one]
    assert len(queue) == 1


async def test_who_was_alone_when_the_channel_closed_has_failed_and_others_to_a_named_exchange_do_at_once() -> None:
    queue = PublishQueue()
    first, second, other = waiting(queue, "gone", "gone", DEFAULT)
    assert queue.take(NOW) == []
    assert queue.take_one() == first
    queue.channel_closed([first], MISSING, NOW)
    assert queue.take(NOW + REFUSED_S - 0.01) == [other]
    for failed in (first, second):
        assert fault(failed).reason == f"rabbit-1: {MISSING}"
        assert not fault(failed).is_away


async def test_a_refused_exchange_is_tried_again_after_a_while_and_when_somebody_declares_it() -> None:
    queue = PublishQueue()
    for is_declared in (False, True):
        (failed,) = waiting(queue, "gone")
        queue.take_one()
        queue.channel_closed([failed], MISSING, NOW)
        assert fault(failed)
        if is_declared:
            queue.forget("gone")
        (again,) = waiting(queue, "gone")
        assert queue.take(NOW if is_declared else NOW + REFUSED_S) == []
        assert queue.take_one() == again


@pytest.mark.parametrize("name", ["gone", "e's mine"])
async def test_of_several_in_flight_those_to_the_named_exchange_go_alone_and_all_keep_their_order(name: str) -> None:
    queue = PublishQueue()
    queue.trust("e")
    queue.trust(name)
    one, two, three, four = waiting(queue, "e", name, "e", name)
    assert queue.take(NOW) == [one, two, three, four]
    (behind,) = waiting(queue, "e")
    reason = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
    queue.channel_closed([one, two, three, four], reason, NOW)
    assert queue.take(NOW) == [one]
    assert queue.take_one() == two
    queue.channel_closed([two], reason, NOW)
    assert queue.take(NOW) == [three, behind]
    assert fault(two).reason == fault(four).reason == f"rabbit-1: {reason}"


@pytest.mark.parametrize(
    "reason", ["PRECONDITION_FAILED - message size", "ACCESS_REFUSED - access to topic 'k' in exchange"]
)
async def test_of_several_in_flight_each_goes_alone_when_nobody_is_named(reason: str) -> None:
    queue = PublishQueue()
    queue.trust("e")
    one, two, three = waiting(queue, "e", "e", "e")
    assert queue.take(NOW) == [one, two, three]
    (behind,) = waiting(queue, "e")
    queue.channel_closed([one, two, three], reason, NOW)
    for each in (one, two):
        assert queue.take(NOW) == []
        assert queue.take_one() == each
        each.acknowledged()
        queue.trust("e")
    assert queue.take_one() == three
    queue.channel_closed([three], reason, NOW)
    assert fault(three).reason == f"rabbit-1: {reason}"
    assert queue.take(NOW) == [behind]  # the exchange is not to blame


async def test_what_nobody_waits_for_is_not_sent_again() -> None:
    queue = PublishQueue()
    one, two, three = waiting(queue, DEFAULT, DEFAULT, DEFAULT)
    queue.discard(two)
    assert queue.take(NOW) == [one, three]
    queue.discard(three)
    three.outcome.cancel()
    queue.channel_closed([one, three], "PRECONDITION_FAILED", NOW)
    assert queue.take_one() == one
    assert queue.take_one() is None


async def test_a_lost_broker_has_not_seen_what_waited_but_for_suspects() -> None:
    queue = PublishQueue()
    queue.trust("e")
    one, two = waiting(queue, "e", "e")
    queue.take(NOW)
    queue.channel_closed([one, two], "PRECONDITION_FAILED", NOW)
    (three,) = waiting(queue, "e")
    queue.broker_lost("connection lost")
    assert [fault(each).is_away for each in (one, two, three)] == [False, False, True]
    assert len(queue) == 0
    waiting(queue, "e")
    assert queue.take(NOW) == []  # it may be gone


async def test_one_write_has_a_bound() -> None:
    queue = PublishQueue()
    many = waiting(queue, *[DEFAULT] * 10, payload=bytes(WRITE_BYTES // 4))
    batches = [queue.take(NOW) for _ in range(3)]
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert [each for batch in batches for each in batch] == many


async def test_only_so_many_exchanges_are_remembered() -> None:
    queue = PublishQueue(max_exchanges=2)
    queue.trust("a")
    queue.trust("b")
    one, two, _ = waiting(queue, DEFAULT, "b", "a")
    assert queue.take(NOW) == [one, two]
    assert queue.take_one()
    for name in ("x", "y", "z"):
        (failed,) = waiting(queue, name)
        queue.take_one()
        queue.channel_closed([failed], f"NOT_FOUND - no exchange '{name}' in vhost '/'", NOW)
        assert fault(failed)
    z, y = waiting(queue, "z", "y")
    assert queue.take(NOW) == []
    assert fault(z)
    assert queue.take_one() == y

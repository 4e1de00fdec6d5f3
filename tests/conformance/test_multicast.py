"""The section "Multicast Routing": bytes in, bytes out."""

import pytest

from broker.core import CoreSettings
from tests.conformance import scripts
from tests.conformance.scripts import COMPLETE, NEXT, cancel, destination, error, heard, on, payload
from tests.conformance.stage import ALL, Stage, capped

STREAMS = [scripts.REQUEST_STREAM, scripts.REQUEST_CHANNEL]


@pytest.mark.parametrize("kind", scripts.MODELS)
def test_multicast_goes_to_all_routes_of_the_list_and_to_no_other(kind: int) -> None:
    stage = Stage(3)
    other = destination(stage.world, 9, "stock")
    raw = stage.ask(kind, 1, ALL, n=9)
    assert stage.heard() == [[on(2, capped(raw, 3))]] * 3  # D-44: within what the caller has asked for
    assert heard(other) == []


def test_multicast_fire_and_forget_is_sent_to_each_and_that_is_all() -> None:
    stage = Stage(3)
    raw = stage.ask(scripts.REQUEST_FNF, 1, ALL)
    assert stage.heard() == [[on(2, raw)]] * 3
    for wire in stage.orders:
        wire.send(payload(2, NEXT | COMPLETE, b"nobody asked"), error(2, 0x201, "no"))
    assert heard(stage.caller) == []
    assert stage.world.left_over() == []


def test_multicast_request_response_gives_the_first_answer_and_cancels_the_others() -> None:
    stage = Stage(3)
    stage.ask(scripts.REQUEST_RESPONSE, 1, ALL)
    stage.heard()
    first = payload(2, NEXT | COMPLETE, b"first", b"and its metadata")
    stage.orders[1].send(first)
    assert (heard(stage.caller), stage.heard()) == ([on(1, first)], [[cancel(2)], [], [cancel(2)]])
    stage.orders[0].send(payload(2, NEXT | COMPLETE, b"second"))
    stage.orders[2].send(error(2, 0x201, "third"))
    assert (heard(stage.caller), stage.heard()) == ([], [[], [], []])
    assert stage.world.left_over() == []


def test_multicast_request_response_ends_with_the_first_error() -> None:
    """ "The broker will only reply to client with the FIRST message that returns. This includes an error." """
    stage = Stage(3)
    stage.ask(scripts.REQUEST_RESPONSE, 1, ALL)
    stage.heard()
    first = error(2, 0x201, "because")
    stage.orders[2].send(first)
    stage.orders[0].send(payload(2, NEXT | COMPLETE, b"too late"))
    assert (heard(stage.caller), stage.heard()) == ([on(1, first)], [[cancel(2)], [cancel(2)], []])
    assert stage.world.left_over() == []


def test_multicast_request_stream_combines_the_streams_into_one() -> None:
    """Each item once, the items of a route in their order, one completion when all have completed."""
    stage = Stage(3)
    stage.ask(scripts.REQUEST_STREAM, 1, ALL, n=100)
    stage.heard()
    for text in (b"1", b"2", b"3"):
        for name, wire in zip((b"a", b"b", b"c"), stage.orders, strict=True):
            wire.send(payload(2, NEXT, name + text, b"m"))
    stage.orders[0].send(payload(2, COMPLETE))
    stage.orders[1].send(payload(2, NEXT | COMPLETE, b"b4"))
    got = heard(stage.caller)
    expected = [name + text for text in (b"1", b"2", b"3") for name in (b"a", b"b", b"c")]
    assert got == [payload(1, NEXT, each, b"m") for each in expected] + [payload(1, NEXT, b"b4")]
    stage.orders[2].send(payload(2, COMPLETE))
    assert heard(stage.caller) == [payload(1, COMPLETE)]
    assert stage.world.left_over() == []


def test_multicast_request_stream_never_exceeds_the_callers_credit() -> None:
    stage = Stage(3)
    stage.ask(scripts.REQUEST_STREAM, 1, ALL, n=3)
    stage.heard()
    for name, wire in zip((b"a", b"b", b"c"), stage.orders, strict=True):
        wire.send(payload(2, NEXT, name))
    assert len(heard(stage.caller)) == 3
    stage.caller.send(scripts.request_n(1, 1))
    asked = [sum(int.from_bytes(raw[6:10], "big") for raw in each) for each in stage.heard()]
    for n, wire in zip(asked, stage.orders, strict=True):
        wire.send(*[payload(2, NEXT, b"more")] * n)
    assert heard(stage.caller) == [payload(1, NEXT, b"more")]


@pytest.mark.parametrize("kind", STREAMS)
def test_error_in_a_multicast_stream_cancels_all(kind: int) -> None:
    stage = Stage(3)
    stage.ask(kind, 1, ALL, n=100)
    stage.heard()
    item, end = payload(2, NEXT, b"x"), error(2, 0x301, "because")
    stage.orders[0].send(item)
    stage.orders[1].send(end)
    stage.orders[0].send(item)
    assert (heard(stage.caller), stage.heard()) == ([on(1, item), on(1, end)], [[cancel(2)], [], [cancel(2)]])
    assert stage.world.left_over() == []


def test_multicast_request_channel_streams_each_item_to_all_and_combines_the_answers() -> None:
    stage = Stage(2)
    raw = scripts.request(scripts.REQUEST_CHANNEL, 1, scripts.carried(scripts.COMPOSITE, ALL), b"first", 10)
    stage.caller.send(raw)
    assert stage.heard() == [[on(2, capped(raw, 5))]] * 2
    for wire in stage.orders:
        wire.send(scripts.request_n(2, 3))
    assert heard(stage.caller) == [scripts.request_n(1, 3)]
    script = [payload(1, NEXT, b"second"), payload(1, NEXT, b"third", b"m"), payload(1, COMPLETE)]
    stage.caller.send(*script, payload(1, NEXT, b"behind the end"))
    assert stage.heard() == [[on(2, each) for each in script]] * 2
    stage.orders[0].send(payload(2, NEXT, b"a"))
    stage.orders[1].send(payload(2, NEXT | COMPLETE, b"b"))
    stage.orders[0].send(payload(2, COMPLETE))
    assert heard(stage.caller) == [payload(1, NEXT, b"a"), payload(1, NEXT, b"b"), payload(1, COMPLETE)]
    assert stage.world.left_over() == []


def test_error_of_the_caller_of_a_multicast_channel_ends_all() -> None:
    stage = Stage(2)
    stage.ask(scripts.REQUEST_CHANNEL, 1, ALL)
    stage.heard()
    end = error(1, 0x201, "enough")
    stage.caller.send(end)
    assert stage.heard() == [[on(2, end)]] * 2
    assert stage.world.left_over() == []


@pytest.mark.parametrize("kind", STREAMS)
def test_route_that_leaves_a_multicast_is_removed_quietly(kind: int) -> None:
    """D-14, `multicast_on_leave = "ignore"`, the default."""
    stage = Stage(2)
    stage.ask(kind, 1, ALL, n=100)
    stage.heard()
    stage.orders[0].send(payload(2, NEXT, b"last words"))
    stage.orders[0].lose()
    stage.orders[1].send(payload(2, NEXT | COMPLETE, b"and on"))
    got = heard(stage.caller)
    assert got[:2] == [payload(1, NEXT, b"last words"), payload(1, NEXT, b"and on")]
    assert got[2:] == [payload(1, COMPLETE)]


@pytest.mark.parametrize("kind", STREAMS)
def test_route_that_leaves_a_multicast_may_end_it_with_an_error(kind: int) -> None:
    """D-14, `multicast_on_leave = "error"`."""
    stage = Stage(2, CoreSettings(multicast_on_leave="error"))
    stage.ask(kind, 1, ALL, n=100)
    stage.heard()
    stage.orders[0].lose()
    text = "route-lost: a connection of orders went away in the middle of the multicast"
    assert heard(stage.caller) == [error(1, scripts.CANCELED, text)]
    assert heard(stage.orders[1]) == [cancel(2)]

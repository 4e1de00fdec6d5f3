"""What a client is doing: everybody who asks is told, and who does not listen costs nothing."""

import asyncio
import gc

import pytest

from client_sdk import ConnectionLost
from client_sdk.reconnect.state import MAX_KEPT_CHANGES, Change, Changes, State, StateBroadcaster
from tests.client_sdk.clocks import rest


def show(broadcaster: StateBroadcaster, *states: State) -> None:
    for state in states:
        broadcaster.publish(Change(state, "tcp://b", None))


async def read(changes: Changes, n: int) -> list[State]:
    return [(await anext(changes)).state for _ in range(n)]


async def test_a_listener_waits_for_what_has_not_happened_yet() -> None:
    states = StateBroadcaster()
    changes = states.listen()
    await anext(changes)
    waiting = asyncio.ensure_future(anext(changes))
    await rest()
    assert not waiting.done()
    show(states, State.CONNECTED)
    assert repr(await waiting) == "<connected tcp://b>"


async def test_the_same_state_again_is_no_change_and_after_the_end_there_is_none() -> None:
    states = StateBroadcaster()
    show(states, State.CONNECTED)
    changes = states.listen()
    show(states, State.CONNECTED, State.CLOSED, State.CONNECTED)
    assert [change.state async for change in changes] == ["connected", "closed"]
    assert states.current.state is State.CLOSED


async def test_who_does_not_keep_up_misses_the_oldest() -> None:
    states = StateBroadcaster()
    changes = states.listen()
    show(states, *([State.CONNECTED, State.RECONNECTING] * MAX_KEPT_CHANGES))
    assert changes.missed_n == MAX_KEPT_CHANGES + 1
    assert await read(changes, MAX_KEPT_CHANGES) == ["connected", "reconnecting"] * (MAX_KEPT_CHANGES // 2)


def test_who_was_left_is_forgotten() -> None:
    states = StateBroadcaster()
    left = states.listen()
    kept = states.listen()
    del left
    gc.collect()
    assert list(states._listeners) == [kept]


async def test_all_who_wait_for_a_change_get_it() -> None:
    states = StateBroadcaster()
    listeners = [states.listen() for _ in range(4)]
    assert [await read(each, 1) for each in listeners] == [["connecting"]] * 4
    *waiting, given_up = [asyncio.ensure_future(anext(each)) for each in listeners]
    await rest()
    given_up.cancel()
    await rest()
    reason = ConnectionLost("it broke")
    states.publish(Change(State.RECONNECTING, "", reason))
    assert [(await each).reason for each in waiting] == [reason] * 3
    with pytest.raises(asyncio.CancelledError):
        await given_up


def test_a_change_shows_why() -> None:
    assert repr(Change(State.RECONNECTING, "tcp://b", ConnectionLost("x"))) == "<reconnecting tcp://b: connection-lost>"

"""The shell: how much of one connection is worked off in a turn, so that nobody waits for a flood."""

import math

import pytest

from broker.core import CoreSettings
from broker.edge.shell import SLICE_FRAMES, SLICE_MESSAGES, TURN_BYTES
from broker.forwarding.engine import ZERO_N
from rsocket_wire.rsocket.frames import NEXT, encode_keepalive, encode_payload
from tests.fakes import framed
from tests.system.support.shells import SETUP, FakeLink, FakeLoop, Pair, make_shell

SLICE_PINGS = -(-SLICE_FRAMES // (1 + ZERO_N))  # of a slice, rounded up


def answers_n(link: FakeLink) -> int:
    return link.pending // (3 + 14)  # KEEPALIVEs without data


def flood(frames_n: int) -> bytes:
    ping = encode_keepalive(b"", respond=True)
    return framed(*[ping] * frames_n)


def crowded(turn_s: float) -> Pair:
    return Pair(CoreSettings(max_keepalives_per_s=0), quiet_s=math.inf, turn_s=turn_s)


async def test_of_one_read_so_much_is_worked_off_in_a_turn_and_nothing_is_read_meanwhile() -> None:
    pair = crowded(0.0)
    flooding, other = pair.links
    pair.shell.received(pair.peers[0], flood(3 * SLICE_PINGS))
    assert flooding.is_paused
    for turn in range(1, 4):
        pair.ask(1)
        pair.loop.turn()
        assert (answers_n(other), flooding.is_paused) == (turn, turn < 2)
    pair.loop.turn()
    assert answers_n(flooding) == 3 * SLICE_PINGS


async def test_what_takes_less_than_a_turn_is_worked_off_at_once() -> None:
    pair = crowded(math.inf)
    pair.shell.received(pair.peers[0], flood(10 * SLICE_PINGS))
    assert not pair.links[0].is_paused
    pair.loop.turn()
    assert answers_n(pair.links[0]) == 10 * SLICE_PINGS


async def test_a_transport_that_gives_much_is_read_from_once_in_a_turn() -> None:
    pair = crowded(math.inf)
    pair.shell.received(pair.peers[0], bytes([0x02, 0, 0]) + bytes(TURN_BYTES - 3))
    assert pair.links[0].is_paused
    pair.loop.turn()
    assert not pair.links[0].is_paused


@pytest.mark.parametrize("frames_n", [SLICE_FRAMES, SLICE_FRAMES + 1])
async def test_a_transport_that_gives_much_is_read_from_once_in_a_turn_however_soon_that_is_worked_off(
    frames_n: int,
) -> None:
    pair = crowded(math.inf)
    frame = encode_payload(99, NEXT, bytes(TURN_BYTES // SLICE_FRAMES))
    pair.shell.received(pair.peers[0], framed(*[frame] * frames_n))
    assert pair.links[0].is_paused
    pair.loop.turn()
    assert not pair.links[0].is_paused


async def test_messages_of_one_connection_have_a_turn_together() -> None:
    """Each comes alone: the transport is paused, and what it gives all the same is kept in order."""
    loop, link = FakeLoop(), FakeLink()
    sockets = make_shell(loop, CoreSettings(max_keepalives_per_s=0), quiet_s=math.inf, turn_s=0.0)
    peer = sockets.connected("ws 127.0.0.1:1", False, link)
    sockets.received(peer, SETUP)
    pings = [encode_keepalive(b"%d" % number, respond=True) for number in range(5 * SLICE_MESSAGES)]
    for ping in pings:
        sockets.received(peer, ping)
    assert link.is_paused
    assert sockets.core.frames_in < len(pings)
    for _ in pings:
        loop.turn()
    assert not link.is_paused
    assert sockets.core.frames_in == 1 + len(pings)
    assert link.pending == sum(map(len, pings))


LOST = "the peer closed the connection"


@pytest.mark.parametrize(("calls", "reason"), [(["lost"], ""), (["left"], "left"), (["refuse", "lost"], "bad-frame")])
async def test_what_a_connection_had_sent_before_it_ended_counts(calls: list[str], reason: str) -> None:
    """However it ended: it was lost, was closed in order, or said something wrong."""
    pair = crowded(0.0)
    peer, link, shell = pair.peers[0], pair.links[0], pair.shell
    shell.received(peer, flood(3 * SLICE_PINGS))
    frames_in = shell.core.frames_in
    for call in calls:
        if call == "refuse":
            shell.refuse(peer, "bad-frame", "no WebSocket frame")
        else:
            getattr(shell, call)(peer, LOST)
    assert not peer.is_lost
    for _ in range(5):
        pair.loop.turn()
    assert shell.core.frames_in == frames_in + 2 * SLICE_PINGS
    assert (peer.is_lost, link.is_closed) == (calls[-1] == "lost", calls == ["left"])
    assert peer.end_reason == reason or not reason

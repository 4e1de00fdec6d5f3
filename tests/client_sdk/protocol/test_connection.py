"""The connection itself: keepalive, silence, its ends, leases, and anything that a peer may send."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.protocol.machine import LATE_S, PARDON_S
from client_sdk.protocol.settings import MAX_GATHERED_BYTES, Settings
from rsocket_wire.rsocket.frames import Setup
from tests.client_sdk import frames
from tests.client_sdk.protocol.far import KEEPALIVE_S, LIFETIME_S, Far, M, frame, said

PING = (frames.KEEPALIVE, 0, frames.RESPOND, bytes(8))


def test_a_keepalive_is_sent_in_each_interval_and_before_all_else() -> None:
    far = Far()
    far.pass_time(KEEPALIVE_S - 0.1)
    assert far.take() == []
    far.ask(b"x")
    far.pass_time(0.2)
    assert far.take() == [PING, (frames.RESPONSE, 1, 0, b"x")]
    far.pass_time(KEEPALIVE_S)
    assert far.take() == [PING]


def test_any_frame_is_a_sign_of_life_and_silence_is_a_loss() -> None:
    far = Far()
    stream = far.ask()
    for _ in range(5):
        far.pass_time(LIFETIME_S - 1)
        far.send(frame(0, 0x3F, 0x200))
    assert not far.machine.is_over
    far.pass_time(LIFETIME_S + PARDON_S)
    assert far.machine.is_over
    assert said(stream) == (0, "keepalive-timeout: nothing was received for 30 s")


def test_a_program_that_was_busy_reads_before_it_calls_the_other_side_silent() -> None:
    far = Far()
    far.now += LIFETIME_S + LATE_S + 5
    far.machine.tick(far.now)
    far.pass_time(PARDON_S / 2)
    assert not far.machine.is_over
    far.send(frame(0, frames.KEEPALIVE, 0, bytes(8)))
    far.pass_time(LIFETIME_S - 1)
    assert not far.machine.is_over
    far.now += 5
    far.machine.tick(far.now)
    far.pass_time(PARDON_S)
    assert far.machine.is_over


def test_frames_that_a_server_may_not_send_are_ignored() -> None:
    far = Far()
    far.send(
        *(frame(0, kind, flags, bytes(12)) for kind in (1, 2, 4, 5, 6, 7, 8, 9, 10, 13, 14, 0x3F) for flags in (0, M))
    )
    assert (far.machine.is_over, far.news(), far.take()) == (False, [], [])


def test_a_peer_that_asks_and_does_not_read_is_ended_at_the_bound() -> None:
    far = Far(Settings(max_unsent_bytes=1000), serves=False)
    for number in range(100):
        far.send(frame(2 * number + 2, frames.RESPONSE))
    assert far.machine.failure is not None
    assert far.machine.failure.message.startswith("slow-peer: ")


def test_too_much_that_waits_makes_it_full() -> None:
    far = Far(Settings(max_queued_bytes=1000))
    far.machine.fire_and_forget(bytes(980), None)
    assert not far.machine.is_full
    far.machine.fire_and_forget(bytes(20), None)
    assert far.machine.is_full
    far.take()
    assert not far.machine.is_full


# Leases


def leasing(settings: Settings | None = None) -> Far:
    far = Far(settings, Setup("m", "d", 10_000, 30_000, wants_lease=True))
    far.take()
    return far


def lease(ttl_ms: int, n: int) -> bytes:
    return frame(0, frames.LEASE, 0, ttl_ms.to_bytes(4) + n.to_bytes(4))


def test_requests_are_covered_by_the_newest_lease_only() -> None:
    far = leasing()
    assert not far.machine.may_ask(far.now)
    far.send(lease(1000, 2))
    assert [far.machine.may_ask(far.now) for _ in range(3)] == [True, True, False]
    far.send(lease(1000, 5), lease(1000, 1), frame(0, frames.LEASE, 0, b"short"))
    assert [far.machine.may_ask(far.now) for _ in range(2)] == [True, False]
    far.send(lease(1000, 5))
    assert not far.machine.may_ask(far.now + 1.0)


def test_who_has_not_asked_for_leases_needs_none() -> None:
    far = Far()
    far.send(lease(1, 0))
    assert far.machine.may_ask(far.now)


def test_callers_get_as_many_requests_as_they_were_granted_and_anew_when_the_time_is_over() -> None:
    far = Far(Settings(lease=(2, 5.0)), Setup("m", "d", 10_000, 30_000, wants_lease=True), is_accepted=False)
    grant = (frames.LEASE, 0, 0, (5000).to_bytes(4) + (2).to_bytes(4))
    assert far.take()[2:] == [grant]
    far.send(*(frame(id, frames.RESPONSE) for id in (2, 4, 6)), frame(8, frames.FNF))
    assert [stream.id for stream in far.news()] == [2, 4]
    assert [(kind, id, body[:12]) for kind, id, _, body in far.take()] == [
        (frames.ERROR, 6, (0x202).to_bytes(4) + b"no-lease")
    ]
    far.pass_time(5.1)
    assert far.take() == [grant]
    far.send(frame(10, frames.RESPONSE))
    assert [stream.id for stream in far.news()] == [10]


@pytest.mark.parametrize("lease", [(0, 1.0), (1, 0.0), (1, 1e10), (1 << 31, 1.0)])
def test_a_lease_that_no_frame_can_say_is_refused(lease: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="lease is"):
        Settings(lease=lease)


@pytest.mark.parametrize("fragment_bytes", [-1, 1, 63, 1 << 24])
def test_fragments_that_no_frame_can_be_are_refused(fragment_bytes: int) -> None:
    with pytest.raises(ValueError, match="fragment_bytes"):
        Settings(fragment_bytes=fragment_bytes)


# Anything


BODIES = st.one_of(
    st.binary(max_size=24),
    st.builds(lambda n, rest: n.to_bytes(4) + rest, st.integers(0, 0xFFFFFFFF), st.binary(max_size=12)),
    st.builds(lambda n, rest: n.to_bytes(3) + rest, st.integers(0, 8), st.binary(max_size=12)),
)
FRAMES = st.builds(
    frame, st.sampled_from([0, 1, 2, 3, 4, 5, 7, 0x7FFFFFFF]), st.integers(0, 63), st.integers(0, 0x3FF), BODIES
)


def check(far: Far) -> None:
    """What holds after whatever came."""
    machine = far.machine
    open_n = machine.open_streams_n
    assert machine.gathered_bytes <= MAX_GATHERED_BYTES
    for stream in far.news():
        assert stream.is_over == (not stream.in_open and not stream.out_open) or stream.kind in (
            frames.FNF,
            frames.PUSH,
        )
        stream.items = []
        if stream.is_new and stream.kind == frames.CHANNEL:
            machine.streams.grant(stream, 2)
        elif stream.is_new and stream.kind == frames.RESPONSE:
            machine.streams.answer(stream, b"x", None)
    if machine.is_over:
        assert (open_n, machine.gathered_bytes, machine.failure is not None) == (0, 0, True)
    for kind, id, _, _ in far.take():
        assert kind != frames.ERROR or id != 0 or machine.is_over


@settings(max_examples=75, deadline=None)
@given(st.lists(st.one_of(FRAMES, st.binary(max_size=40)), max_size=16), st.booleans())
def test_whatever_a_peer_sends_it_goes_on_or_ends_and_keeps_its_bounds(messages: list[bytes], is_framed: bool) -> None:
    far = Far(is_framed=is_framed)
    far.ask()
    far.ask_items(4)
    far.ask_items(4, kind=frames.CHANNEL)
    for message in messages:
        far.send(message)
        check(far)
    far.pass_time(LIFETIME_S * 2)
    check(far)
    assert far.machine.is_over

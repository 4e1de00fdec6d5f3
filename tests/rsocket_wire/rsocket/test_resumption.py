"""Positions, retained frames and their bounds, without a connection."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.rsocket.frames import encode_cancel, encode_payload
from rsocket_wire.rsocket.resumption import FRAME_COST, Budget, Session

ROOM = 1 << 20


def made(limit_bytes: int = ROOM, total_bytes: int = ROOM) -> Session:
    """A session that is alone with its budget."""
    return Session(b"token", limit_bytes, Budget(total_bytes))


def frames(count: int, size: int = 10) -> list[bytes]:
    """Frames of `size` bytes that differ."""
    return [encode_payload(at + 1, 0x20, b"x" * (size - 6)) for at in range(count)]


def sent(session: Session, raws: list[bytes]) -> Session:
    for raw in raws:
        session.retain(raw)
    return session


def test_positions_count_the_bytes_of_frames_from_zero() -> None:
    session = made()
    assert (session.received_position, session.first_position, session.sent_position) == (0, 0, 0)
    session.received(13)
    session.received(6)
    session.retain(encode_cancel(5))
    assert (session.received_position, session.first_position, session.sent_position) == (19, 0, 6)


def test_an_acknowledgement_forgets_whole_frames_only() -> None:
    session = sent(made(), frames(3))
    session.acknowledge(19)
    assert (session.first_position, session.frames_n) == (10, 2)
    session.acknowledge(20)
    assert (session.first_position, session.frames_n) == (20, 1)


def test_acknowledgements_that_go_back_or_beyond_what_was_sent_do_nothing() -> None:
    session = sent(made(), frames(3))
    session.acknowledge(20)
    for position in (0, 10, 31, 1 << 62):
        session.acknowledge(position)
        assert (session.first_position, session.sent_position, session.frames_n) == (20, 30, 1)


def test_a_client_resumes_only_from_a_border_between_retained_frames() -> None:
    session = sent(made(), frames(4))
    session.acknowledge(20)
    session.suspend()
    found = {position: session.obstacle(position, 0) for position in range(0, 60, 5)}
    assert {position for position, why in found.items() if not why} == {20, 30, 40}
    assert found[10] == "it says that 10 bytes had arrived, frames before 20 are gone"
    assert found[25] == "it says that 25 bytes had arrived, no frame ends there"
    assert found[45] == "it says that 45 bytes had arrived, only 40 were sent"


def test_a_client_that_has_forgotten_what_never_arrived_cannot_resume() -> None:
    session = made()
    session.received(12)
    session.suspend()
    assert session.obstacle(0, 12) == ""
    assert session.obstacle(0, 13) == "it can send again from 13, only 12 bytes had arrived"


def test_connected_a_frame_larger_than_the_limit_is_not_retained_and_nothing_before_it() -> None:
    session = sent(made(limit_bytes=500), frames(2))
    session.retain(encode_payload(1, 0x20, bytes(500)))
    assert (session.first_position, session.sent_position, session.retained_bytes) == (526, 526, 0)
    session.suspend()
    assert session.obstacle(20, 0) == "it says that 20 bytes had arrived, frames before 526 are gone"
    assert session.obstacle(526, 0) == ""


def test_suspended_one_frame_too_many_ends_the_hope_and_frees_the_memory() -> None:
    raws = frames(4)
    session = made(limit_bytes=3 * (10 + FRAME_COST))
    session.suspend()
    sent(session, raws[:3])
    assert (session.is_overrun, session.retained_bytes) == (False, session.limit_bytes)
    session.retain(raws[3])
    assert (session.is_overrun, session.retained_bytes, session.frames_n) == (True, 0, 0)
    assert session.obstacle(0, 0) == "more waited for it than the 222 bytes that are kept"
    session.retain(raws[0])
    session.hold(raws[0])
    assert (session.retained_bytes, session.frames_n) == (0, 0)


def test_frames_without_a_position_are_bounded_like_the_others() -> None:
    session = made(limit_bytes=2 * (6 + FRAME_COST))
    session.suspend()
    session.hold(b"pushed")
    session.hold(b"pushed")
    assert not session.is_overrun
    session.hold(b"pushed")
    assert (session.is_overrun, session.retained_bytes) == (True, 0)


def test_a_connected_session_finds_no_room_in_a_budget_that_suspended_ones_use_up() -> None:
    budget = Budget(10 + FRAME_COST)
    sent(Session(b"1", ROOM, budget), frames(1)).suspend()
    second = sent(Session(b"2", ROOM, budget), frames(1))
    assert (second.frames_n, second.first_position, second.sent_position) == (0, 10, 10)


def test_a_suspended_session_gets_its_room_from_those_connected_that_hold_most() -> None:
    """D-39: what is kept for a connected client is a courtesy, what waits for a suspended one is not."""
    budget = Budget(8 * (10 + FRAME_COST))
    honest, hog, suspended = (Session(token, ROOM, budget) for token in (b"1", b"2", b"3"))
    sent(honest, frames(1))
    sent(hog, frames(9))
    suspended.suspend()
    sent(suspended, frames(5))
    assert (honest.frames_n, hog.frames_n, hog.first_position, suspended.frames_n) == (1, 2, 70, 5)
    assert budget.used_bytes == budget.limit_bytes
    sent(suspended, frames(3))
    assert (honest.frames_n, hog.frames_n, suspended.frames_n) == (0, 0, 8)
    assert (suspended.is_overrun, budget.used_bytes) == (False, budget.limit_bytes)
    sent(suspended, frames(1))
    assert (suspended.is_overrun, budget.used_bytes) == (True, 0)


def test_a_connected_session_that_holds_little_gets_room_from_one_that_holds_much() -> None:
    budget = Budget(8 * (10 + FRAME_COST))
    hog, honest = Session(b"1", ROOM, budget), Session(b"2", ROOM, budget)
    sent(hog, frames(20))
    sent(honest, frames(1))
    assert (hog.frames_n, honest.frames_n, honest.first_position) == (7, 1, 0)
    assert budget.used_bytes == budget.limit_bytes


def test_what_waits_for_a_suspended_session_is_taken_by_nobody_until_it_is_back() -> None:
    budget = Budget(4 * (10 + FRAME_COST))
    first, second = Session(b"1", ROOM, budget), Session(b"2", ROOM, budget)
    sent(first, frames(4))
    first.suspend()
    sent(second, frames(1))
    assert (first.frames_n, second.frames_n) == (4, 0)
    assert first.resume(0) == frames(4)
    sent(second, frames(1))
    assert (first.frames_n, second.frames_n, budget.used_bytes) == (3, 1, budget.limit_bytes)
    first.close()
    sent(second, frames(9))
    assert (second.frames_n, budget.used_bytes) == (4, budget.limit_bytes)


def test_a_frame_that_never_has_room_takes_none_from_others() -> None:
    budget = Budget(4 * (10 + FRAME_COST))
    other = sent(Session(b"1", ROOM, budget), frames(4))
    for is_suspended in (False, True):
        session = Session(b"2", ROOM, budget)
        if is_suspended:
            session.suspend()
        session.retain(bytes(budget.limit_bytes))
        assert (session.frames_n, session.is_overrun) == (0, is_suspended)
        session.close()
    assert (other.frames_n, budget.used_bytes) == (4, budget.limit_bytes)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.data())
def test_whatever_sessions_do_the_budget_is_their_sum_and_kept(data: st.DataObject) -> None:
    """Nobody is overrun while a connected session holds a frame."""
    budget = Budget(1000)
    sessions = [Session(b"%d" % at, 700, budget) for at in range(4)]
    for _ in range(data.draw(st.integers(0, 60))):
        session = data.draw(st.sampled_from(sessions))
        what = data.draw(st.sampled_from(["retain", "retain", "retain", "hold", "acknowledge", "turn", "close"]))
        if what == "retain":
            session.retain(bytes(data.draw(st.integers(6, 300))))
        elif what == "hold" and session.is_suspended:
            session.hold(b"pushed")
        elif what == "acknowledge":
            session.acknowledge(data.draw(st.integers(0, session.sent_position)))
        elif what == "turn" and not session.is_suspended:
            session.suspend()
        elif what == "turn" and not session.is_overrun:
            session.resume(session.first_position)
        elif what == "close" or session.is_overrun:
            session.close()
            sessions[sessions.index(session)] = Session(session.token, 700, budget)
        assert budget.used_bytes == sum(each.retained_bytes for each in sessions) <= budget.limit_bytes
    held = [each for each in sessions if not each.is_suspended]
    last = Session(b"last", 700, budget)
    last.suspend()
    last.retain(bytes(300))
    assert not last.is_overrun or not any(each.frames_n for each in held)

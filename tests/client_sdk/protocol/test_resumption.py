"""A session that survives its wire, cut at every byte: nothing is lost, nothing comes twice, streams go on."""

from client_sdk.protocol.machine import ACKNOWLEDGE_S
from client_sdk.protocol.settings import Settings
from client_sdk.protocol.stream import LOST, Failure
from rsocket_wire.rsocket.frames import Setup
from tests.client_sdk import frames
from tests.client_sdk.protocol.far import C, F, Far, N, error, frame, parts, said

TOKEN = b"token"
BROKE = Failure(LOST, "connection-lost: it broke")


def resuming(settings: Settings | None = None) -> Far:
    setup = Setup("m", "d", 10_000, 30_000, wants_resume=True, token=TOKEN)
    far = Far(settings, setup, is_framed=True, is_accepted=False)
    assert [kind for kind, *_ in far.take()] == [frames.SETUP, frames.KEEPALIVE]
    far.send(frame(0, frames.KEEPALIVE, 0, bytes(8)))
    return far


def lose(far: Far) -> None:
    far.machine.lost_wire(BROKE, far.now)
    far._rest = b""


def resume(far: Far, arrived: int) -> tuple[int, int]:
    """Over a new wire; what its RESUME says: (our frames that had arrived there, first of its own)."""
    far.machine.resume(True, far.now)
    [(kind, id, _, body)] = far.take()
    assert (kind, id, body[:11]) == (frames.RESUME, 0, b"\0\1\0\0\0\5" + TOKEN)
    far.send(frame(0, frames.RESUME_OK, 0, arrived.to_bytes(8)))
    return int.from_bytes(body[11:19]), int.from_bytes(body[19:])


def test_before_it_was_accepted_there_is_no_session() -> None:
    far = Far(None, Setup("m", "d", 10_000, 30_000, wants_resume=True, token=TOKEN), is_accepted=False)
    lose(far)
    assert far.machine.is_over


def test_streams_go_on_and_what_did_not_arrive_is_sent_again() -> None:
    far = resuming()
    arrived, lost = far.ask(b"1"), far.ask(b"2")
    first, second = far.take_raw()
    lose(far)
    assert (far.machine.is_suspended, far.machine.is_full, arrived.is_over) == (True, True, False)
    far.machine.streams.cancel(lost)
    assert resume(far, len(first)) == (0, 0)
    assert not far.machine.is_resuming
    assert far.take() == [(frames.KEEPALIVE, 0, 0x80, bytes(8)), parts(second), (frames.CANCEL, 3, 0, b"")]
    far.send(frame(1, frames.PAYLOAD, N | C, b"answer"))
    assert (arrived.data, far.machine.is_full) == (b"answer", False)


def sent_by(far: Far) -> int:
    session = far.machine._session
    assert session is not None
    return session.sent_position


def frames_of_a_channel(far: Far) -> list[bytes]:
    """What the other side says on a channel and a request of ours, and a request of its own."""
    far.ask_items(kind=frames.CHANNEL)
    far.ask()
    return [
        frame(1, frames.REQUEST_N, 0, (3).to_bytes(4)),
        frame(1, frames.PAYLOAD, N | F, b"ab"),
        frame(3, frames.PAYLOAD, N | F, b"x"),
        frame(1, frames.PAYLOAD, N, b"cd"),
        frame(2, frames.RESPONSE, F, b"que"),
        frame(0, frames.KEEPALIVE, 0, bytes(8)),
        frame(3, frames.PAYLOAD, N | C, b"y"),
        frame(2, frames.PAYLOAD, N, b"stion"),
        frame(1, frames.PAYLOAD, C),
    ]


def test_a_wire_that_is_cut_at_any_byte_loses_nothing_and_doubles_nothing() -> None:
    data = b"".join(len(raw).to_bytes(3) + raw for raw in frames_of_a_channel(resuming()))
    for cut in range(len(data) + 1):
        far = resuming()
        raws = frames_of_a_channel(far)
        far.take()
        if cut:
            far.machine.receive(data[:cut], far.now)
        lose(far)
        received, _ = resume(far, sent_by(far))
        at = 0
        again = []
        for raw in raws:  # what the other side retains: frames with a position, from where we stand
            if raw[:4] != bytes(4):
                if at >= received:
                    again.append(raw)
                at += len(raw)
        assert sum(map(len, again)) == at - received
        far.send(*again)
        found = {stream.id: stream for stream in far.news()}
        channel, question, request = found[1], found[3], found[2]
        assert (channel.items, channel.credit_n, channel.in_open) == ([(b"abcd", None)], 3, False)
        assert (question.data, request.data) == (b"xy", b"question")


def test_what_we_send_is_cut_at_any_byte_and_sent_again_from_the_border_of_a_frame() -> None:
    far = resuming(Settings(fragment_bytes=64))

    def send_all(far: Far) -> list[bytes]:
        far.ask(b"a" * 100)
        far.machine.fire_and_forget(b"b", b"m")
        far.machine.streams.cancel(far.ask(b"c"))
        return far.take_raw()

    whole = send_all(far)
    borders = [0]
    for raw in whole:
        borders.append(borders[-1] + len(raw))
    for number, border in enumerate(borders):
        far = resuming(Settings(fragment_bytes=64))
        assert send_all(far) == whole
        lose(far)
        resume(far, border)
        assert far.take_raw()[1:] == whole[number:]


def test_a_position_that_is_no_border_ends_the_session() -> None:
    far = resuming()
    stream = far.ask(b"12345")
    far.take()
    lose(far)
    resume(far, 3)
    assert far.machine.is_over
    assert stream.failure is not None
    assert stream.failure.message.startswith("cannot-resume: ")
    assert far.machine.failure is not None
    assert far.machine.failure.kind == LOST


def test_a_server_that_does_not_know_the_session_ends_it() -> None:
    far = resuming()
    stream = far.ask()
    lose(far)
    far.machine.resume(True, far.now)
    far.send(error(0, 0x004, "unknown-session: x"))
    assert (far.machine.is_over, said(stream)) == (True, (0x004, "unknown-session: x"))


def test_nothing_but_the_resume_is_sent_and_nothing_is_read_before_the_answer() -> None:
    far = resuming()
    stream = far.ask()
    far.take()
    lose(far)
    far.machine.resume(True, far.now)
    assert [kind for kind, *_ in far.take()] == [frames.RESUME]
    far.send(frame(1, frames.PAYLOAD, N | C, b"too early"))
    far.machine.streams.grant(far.ask_items(), 1)
    far.pass_time(11)
    assert (far.take(), stream.is_over) == ([], False)


def test_a_wire_that_breaks_while_resuming_may_be_tried_again() -> None:
    far = resuming()
    stream = far.ask(b"1")
    [raw] = far.take_raw()
    lose(far)
    far.machine.resume(True, far.now)
    lose(far)
    assert far.machine.is_suspended
    resume(far, 0)
    assert far.take_raw()[1:] == [raw]
    far.send(frame(1, frames.PAYLOAD, N | C, b"x"))
    assert stream.data == b"x"


def test_a_session_that_nobody_resumes_is_given_up_and_deadlines_hold_meanwhile() -> None:
    far = resuming(Settings(resume_s=20))
    late, stream = far.ask(deadline=far.now + 5), far.ask()
    lose(far)
    far.pass_time(6)
    assert (late.is_over, stream.is_over) == (True, False)
    far.pass_time(15)
    assert (far.machine.is_over, said(stream)) == (True, (0, "resume-timeout: not resumed within 20 s"))


def test_keepalives_say_what_has_arrived_and_what_they_acknowledge_is_forgotten() -> None:
    far = resuming()
    far.ask(b"1")
    [raw] = far.take_raw()
    far.send(frame(1, frames.PAYLOAD, N, b"x"))
    far.send(frame(0, frames.KEEPALIVE, 0x80, len(raw).to_bytes(8)))
    assert far.take() == [(frames.KEEPALIVE, 0, 0, (7).to_bytes(8))]
    lose(far)
    assert resume(far, len(raw)) == (7, len(raw))


def test_who_sends_much_asks_what_has_arrived() -> None:
    far = resuming(Settings(resume_bytes=10_000))
    for _ in range(6):
        far.machine.fire_and_forget(bytes(1000), None)
    far.now += ACKNOWLEDGE_S
    assert [kind for kind, *_ in far.take()].count(frames.KEEPALIVE) == 1
    far.machine.fire_and_forget(b"", None)
    assert [kind for kind, *_ in far.take()].count(frames.KEEPALIVE) == 0


def test_what_is_retained_has_a_bound_and_then_it_cannot_be_resumed_from_before() -> None:
    far = resuming(Settings(resume_bytes=5_000))
    stream = far.ask()
    for _ in range(100):
        far.machine.fire_and_forget(bytes(1000), None)
    session = far.machine._session
    assert session is not None
    assert session.retained_bytes <= 5_000
    lose(far)
    resume(far, 0)
    assert (far.machine.is_over, stream.is_over) == (True, True)


def test_who_closes_says_so_or_the_session_would_stay() -> None:
    far = resuming()
    far.machine.end(Failure(LOST, "closed: this client was closed"), 0)
    assert [(kind, id, body[:4]) for kind, id, _, body in far.take()] == [(frames.ERROR, 0, (0x102).to_bytes(4))]

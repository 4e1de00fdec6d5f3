"""The shell gives the links of new sockets to the peers that are resumed on them (D-39)."""

from broker.edge.shell import TURN_BYTES
from broker.edge.slow_peers import CLOSE_S
from broker.forwarding.peer import Peer
from rsocket_wire.rsocket.frames import NEXT, Resume, Setup, encode_keepalive, encode_payload, encode_resume_ok
from tests.fakes import framed
from tests.system.support.shells import STUCK_S, FakeLink, FakeLoop, make_shell

SETUP = Setup("a/b", "a/b", 1_000_000, 2_000_000, wants_resume=True, token=b"t").encode()


class Bench:
    """A shell with a peer that has a session, on its first link."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.shell = make_shell(self.loop)
        self.shell.start()
        self.first = FakeLink()
        self.peer = self.connect(self.first)
        self.receive(self.peer, SETUP)

    def connect(self, link: FakeLink) -> Peer:
        return self.shell.connected("tcp 127.0.0.1:1", True, link)

    def receive(self, peer: Peer, raw: bytes) -> None:
        self.shell.received(peer, framed(raw))
        self.loop.turn()

    def fall_behind(self, later: bytes = b"") -> None:
        """Its transport gives so much that it is not read from until the next turn, and then this all the same."""
        self.shell.received(self.peer, framed(encode_payload(99, NEXT, bytes(TURN_BYTES))))
        self.shell.received(self.peer, later)
        assert self.peer.id in self.shell._pending_input

    def turn(self, times: int = 3) -> None:
        for _ in range(times):
            self.loop.turn()

    def resume(self) -> FakeLink:
        """The peer comes back on this link."""
        link = FakeLink()
        self.receive(self.connect(link), Resume(b"t", 0, 0).encode())
        return link


def test_the_new_link_serves_the_old_peer_and_the_old_link_nobody() -> None:
    bench = Bench()
    second = bench.resume()
    assert (bench.first.served, bench.first.is_aborted) == ([None], True)
    assert (second.served, second.is_aborted) == ([bench.peer], False)
    assert second.pending == 3 + len(encode_resume_ok(0))
    assert bench.shell.links_open() == 1
    bench.shell.lost(bench.peer, "reset")
    assert (bench.peer.is_suspended, bench.shell.links_open()) == (True, 0)


def test_a_peer_that_is_not_to_be_read_from_is_not_on_its_new_link_either() -> None:
    bench = Bench()
    bench.peer.paused_by = {bench.peer.id: {}}
    second = bench.resume()
    assert second.is_paused


def test_a_stuck_link_is_aborted_and_its_peer_waits_for_another() -> None:
    bench = Bench()
    bench.receive(bench.peer, encode_keepalive(bytes(1000), respond=True))
    bench.shell.congested(bench.peer)
    while not bench.first.is_aborted:
        bench.loop.tick()
    assert (bench.first.served, bench.peer.is_suspended, bench.peer.is_congested) == ([None], True, False)
    assert STUCK_S <= bench.loop.now <= STUCK_S + 0.2
    assert bench.resume().served == [bench.peer]
    assert not bench.peer.is_suspended


def go_on(bench: Bench, link: FakeLink) -> None:
    """The peer is served on this link."""
    bench.turn()
    assert (link.served, link.is_aborted, link.is_paused) == ([bench.peer], False, False)
    assert (bench.peer.is_suspended, bench.peer.end_reason, bench.shell.links_open()) == (False, "", 1)
    before = link.pending
    bench.receive(bench.peer, encode_keepalive(b"still here", respond=True))
    bench.shell.flush()
    assert link.pending > before


def test_a_peer_whose_socket_broke_while_it_was_behind_goes_on_where_it_is_resumed() -> None:
    bench = Bench()
    bench.fall_behind()
    bench.shell.lost(bench.peer, "reset")
    go_on(bench, bench.resume())


def test_what_the_old_socket_gave_and_nobody_looked_at_is_not_taken_for_what_the_new_one_gives() -> None:
    bench = Bench()
    bench.fall_behind(framed(encode_payload(99, NEXT, bytes([0xFF]) * 100))[50:])
    go_on(bench, bench.resume())


def test_a_peer_that_is_behind_and_takes_nothing_goes_on_where_it_is_resumed() -> None:
    bench = Bench()
    bench.receive(bench.peer, encode_keepalive(bytes(1000), respond=True))
    bench.shell.congested(bench.peer)
    while not bench.first.is_aborted:
        bench.turn()
        bench.fall_behind()
        bench.loop.fire()
    assert bench.peer.is_suspended
    go_on(bench, bench.resume())


def resume_and_ask() -> bytes:
    return framed(Resume(b"t", 0, 0).encode()) + framed(encode_keepalive(b"behind it", respond=True))


ANSWERED = len(framed(encode_resume_ok(0)) + framed(encode_keepalive(b"behind it")))


def test_what_came_behind_the_resume_has_the_next_turn_and_nothing_is_read_before() -> None:
    bench = Bench()
    second = FakeLink()
    bench.shell.received(bench.connect(second), resume_and_ask())
    assert (second.served, second.is_paused) == ([bench.peer], True)
    bench.turn()
    assert (second.pending, second.is_paused) == (ANSWERED, False)


def fall_behind_before_the_resume(bench: Bench) -> tuple[Peer, FakeLink]:
    """A newcomer whose transport has given so much that is no frame that its RESUME has to wait."""
    second = FakeLink()
    newcomer = bench.connect(second)
    bench.shell.rest(newcomer)
    for read in (framed(Resume(b"t", 0, 0).encode()), framed(encode_keepalive(b"behind it", respond=True))):
        bench.shell.received(newcomer, read)
    return newcomer, second


def test_what_waits_behind_a_resume_that_waits_is_that_of_the_resumed_peer() -> None:
    bench = Bench()
    _, second = fall_behind_before_the_resume(bench)
    bench.turn()
    assert (second.served, second.pending, second.is_paused) == ([bench.peer], ANSWERED, False)


def test_who_is_resumed_on_a_socket_that_has_broken_meanwhile_is_suspended_again() -> None:
    bench = Bench()
    newcomer, _ = fall_behind_before_the_resume(bench)
    bench.shell.lost(newcomer, "reset")
    bench.turn()
    assert (bench.peer.is_suspended, bench.shell.links_open()) == (True, 0)
    third = bench.resume()
    bench.turn()
    assert (third.served, bench.peer.is_suspended) == ([bench.peer], False)


def test_a_peer_that_has_closed_its_link_waits_for_another_at_once() -> None:
    bench = Bench()
    bench.shell.congested(bench.peer)
    bench.shell.left(bench.peer, "the peer closed the connection")
    assert (bench.first.served, bench.first.is_closed, bench.peer.is_suspended) == ([None], True, True)
    while not bench.first.is_aborted:
        bench.loop.tick()
    assert CLOSE_S <= bench.loop.now <= CLOSE_S + 0.2
    assert bench.resume().served == [bench.peer]

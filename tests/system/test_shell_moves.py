"""The shell gives the links of new sockets to the peers that are resumed on them (D-39)."""

from broker.core import Core, CoreSettings
from broker.edge.shell import CLOSE_S, Shell
from broker.forwarding.peers import Peer
from broker.routing.dice import Dice
from broker.rsocket.frames import Resume, Setup, encode_keepalive, encode_resume_ok
from tests.fakes import START_MS, route_id
from tests.system.test_shell import STUCK_S, FakeLink, FakeLoop

SETUP = Setup("a/b", "a/b", 1_000_000, 2_000_000, wants_resume=True, token=b"t").encode()


class Bench:
    """A shell with a peer that has a session, on its first link."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.core = Core(CoreSettings(), route_id(0xB1), Dice(1), 0.0, START_MS)
        self.shell = Shell(self.core, STUCK_S, lambda events: None, self.loop)
        self.shell.start()
        self.first = FakeLink()
        self.peer = self.connect(self.first)
        self.receive(self.peer, SETUP)

    def connect(self, link: FakeLink) -> Peer:
        return self.shell.connected("tcp 127.0.0.1:1", True, link)

    def receive(self, peer: Peer, raw: bytes) -> None:
        self.shell.received(peer, len(raw).to_bytes(3, "big") + raw)
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
    bench.peer.feeds = {bench.peer.id: {}}
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


def test_a_peer_that_has_closed_its_link_waits_for_another_at_once() -> None:
    bench = Bench()
    bench.shell.congested(bench.peer)
    bench.shell.left(bench.peer, "the peer closed the connection")
    assert (bench.first.served, bench.first.is_closed, bench.peer.is_suspended) == ([None], True, True)
    while not bench.first.is_aborted:
        bench.loop.tick()
    assert CLOSE_S <= bench.loop.now <= CLOSE_S + 0.2
    assert bench.resume().served == [bench.peer]

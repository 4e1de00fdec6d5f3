"""rsocket-js 1.0.0-alpha.3 resumes: as a caller and as a service behind a wire that is cut in the middle (D-39).

What is known of it: its RESUME has the version 0.1, it sends no KEEPALIVE of its own once it has resumed, and a socket
that breaks between its RESUME and the RESUME_OK is never tried again.
"""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.interop.node import JsPeer, Peers, Said, ask, uuid
from tests.system.support.processes import BrokerProcess
from tests.system.support.relay import Relay

pytestmark = pytest.mark.interop

Start = Callable[..., JsPeer]

ITEMS = 400  # of a stream, some 20 bytes each


@pytest.fixture
def relay(shared_broker: BrokerProcess) -> Iterator[Relay]:
    """The wire that is cut."""
    port = urlsplit(shared_broker.url("tcp")).port
    assert port is not None
    relay = Relay(port)
    yield relay
    relay.close()


@pytest.fixture
def start(peers: Peers, shared_broker: BrokerProcess, relay: Relay) -> Start:
    """`start("orders", 7, token="t")`: a peer whose socket runs through the relay when it has a token."""

    def go(name: str = "", number: int = 0, token: str = "") -> JsPeer:
        url = relay.url if token else shared_broker.url("tcp")
        return peers.start("peer.cjs", name, number, url=url, resume=token)

    return go


def counted(caller: JsPeer, service: str, credit: int) -> int:
    """Begins a stream of ITEMS; its handle."""
    said: Said = caller.ask("stream", tags={"ServiceName": service}, data=f"count {ITEMS}", n=credit)
    handle: int = said["handle"]
    return handle


def test_a_callers_stream_goes_on_behind_each_cut(start: Start, relay: Relay) -> None:
    """In the middle of a frame, again and again, while items run: each comes once and in order."""
    start("resumed-caller", 501)
    relay.cut()
    relay.heal(cut_after=101)
    caller = start(token="caller-1")
    handle = counted(caller, "resumed-caller", ITEMS)
    for count in (1501, 2222, 999):
        relay.wait_for_cut()
        relay.heal(count)
    relay.wait_for_cut()
    relay.heal()
    done = caller.ask("wait", handle=handle)
    assert relay.connections == 5
    assert done["items"] == [f"resumed-caller:{at}" for at in range(1, ITEMS + 1)]
    assert (done["completed"], done["error"]) == (True, None)


def test_a_caller_asks_for_more_while_its_wire_is_cut(start: Start, relay: Relay) -> None:
    start("asked-later", 502)
    caller = start(token="caller-2")
    handle = counted(caller, "asked-later", 5)
    caller.ask("wait", handle=handle, items=5)
    relay.cut()
    caller.ask("request", handle=handle, n=ITEMS)
    again = caller.ask("stream", tags={"ServiceName": "asked-later"}, data="count 3", n=3)["handle"]
    relay.heal()
    assert len(caller.ask("wait", handle=handle)["items"]) == ITEMS
    assert caller.ask("wait", handle=again)["items"] == [f"asked-later:{at}" for at in (1, 2, 3)]


def test_requests_wait_for_a_service_whose_wire_is_cut(start: Start, relay: Relay) -> None:
    service = start("cut-service", 503, token="service-1")
    caller = start()
    relay.cut()
    caller.ask("openResponse", tags={"ServiceName": "cut-service"}, data="waits", keep="waits")
    handle = counted(caller, "cut-service", ITEMS)
    # The broker has seen the end of the wire and both requests, when it answers a third one on the same connection.
    start("elsewhere", 504)
    assert ask(caller, {"ServiceName": "elsewhere"}, "there?") == {"data": "elsewhere:there?"}
    assert caller.ask("state", handle=handle)["items"] == []
    assert service.seen(event="rr", data="waits") == []
    relay.heal()
    service.event("rr", data="waits")
    done = caller.ask("wait", handle=handle)
    assert (len(done["items"]), done["completed"], done["error"]) == (ITEMS, True, None)


def test_a_service_goes_on_with_its_streams_and_is_the_same_route(start: Start, relay: Relay) -> None:
    service = start("same-route", 505, token="service-2")
    caller = start()
    handle = counted(caller, "same-route", 10)
    caller.ask("wait", handle=handle, items=10)
    for count in (20, 30, 40):
        relay.cut()
        caller.ask("request", handle=handle, n=10)
        relay.heal()
        done = caller.ask("wait", handle=handle, items=count)  # a cut in the middle of its RESUME would be for good
    assert done["items"] == [f"same-route:{at}" for at in range(1, 41)]
    assert ask(caller, {"RouteId": uuid(505)}, "you?") == {"data": "same-route:you?"}
    assert [each["n"] for each in service.seen(event="asked")] == [10, 10, 10, 10]


def test_a_channel_survives_in_both_directions(start: Start, relay: Relay) -> None:
    start("cut-channel", 506)
    caller = start(token="caller-3")
    handle = caller.ask("channel", tags={"ServiceName": "cut-channel"}, data="0", n=100)["handle"]
    for at in range(1, 20):
        caller.ask("wait", handle=handle, asked=at)
        if at % 5 == 0:
            relay.cut()
            relay.heal()
        caller.ask("send", handle=handle, data=str(at), complete=at == 19)
    done = caller.ask("wait", handle=handle)
    while not done["completed"]:
        done = caller.ask("wait", handle=handle, items=len(done["items"]) + 1)
    assert done["items"] == [f"cut-channel:{at}" for at in range(20)]

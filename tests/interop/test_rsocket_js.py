"""rsocket-js, the RSocket of browsers and Node, through the broker: 1.0.0-alpha.3 as caller and as service on both of
its transports, 0.0.27 for METADATA_PUSH, and rsocket-broker-client-js as caller."""

from collections.abc import Callable, Iterator

import pytest

from tests.interop.node import JsPeer, Node, Peers, Said, ask, uuid
from tests.system.support.processes import BrokerProcess

pytestmark = pytest.mark.interop

COMPOSITE = "message/x.rsocket.composite-metadata.v0"
SEED = "message/x.rsocket.forwarding"
JAVA = "message/x.rsocket.broker.frame.v0"
ADDRESS = "ADDRESS"

Start = Callable[..., JsPeer]


@pytest.fixture
def start(peers: Peers, shared_broker: BrokerProcess) -> Start:
    """`start("ws", "orders", 7, region="eu")`: a peer, as a service when it has a name. Its route has joined."""

    def go(
        scheme: str,
        name: str = "",
        number: int = 0,
        script: str = "peer.cjs",
        mime: str = COMPOSITE,
        fragment: int = 0,
        **tags: str,
    ) -> JsPeer:
        url = shared_broker.url(scheme)
        return peers.start(script, name, number, url=url, tags=tags, mime=mime, fragment=fragment)

    return go


@pytest.fixture(scope="module", params=["tcp-tcp", "tcp-ws", "ws-tcp", "ws-ws"])
def pair(
    request: pytest.FixtureRequest, needs_node: Node, shared_broker: BrokerProcess
) -> Iterator[tuple[JsPeer, JsPeer]]:
    """A caller and a service (its name is "orders"), on all pairs of transports."""
    schemes = request.param.split("-")
    caller = needs_node.start("peer.cjs", url=shared_broker.url(schemes[0]))
    url = shared_broker.url(schemes[1])
    service = needs_node.start("peer.cjs", url=url, name="orders", number=77, tags={"Region": "eu"})
    assert ask(service, {"ServiceName": "orders"}, "up?")["data"] == "orders:up?"
    service.events.clear()
    yield caller, service
    assert (caller.end(), service.end()) == (0, 0), (caller.errors, service.errors)


@pytest.fixture(autouse=True)
def forget_events(request: pytest.FixtureRequest) -> None:
    """A test that shares its peers with others sees only its own events."""
    if "pair" in request.fixturenames:
        for peer in request.getfixturevalue("pair"):
            peer.events.clear()


def eu_orders(data: str, **more: object) -> Said:
    """Fields of a command to the service of `pair`."""
    return {"tags": {"ServiceName": "orders", "Region": "eu"}, "data": data, **more}


def test_request_response_passes_data_and_metadata_both_ways(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, service = pair
    entries = [["message/x.rsocket.routing.v0", "\x04book"], ["text/css", "blue"]]
    answer = caller.ask("response", **eu_orders("a book", entries=entries))
    assert answer == {"data": "orders:a book", "bytes": 13, "metadata": "answered"}
    metadata = [[SEED, ADDRESS], *entries]
    assert service.event("rr") == {"event": "rr", "data": "a book", "bytes": 6, "metadata": metadata}


def test_fire_and_forget_arrives(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, service = pair
    caller.ask("fnf", **eu_orders("forget me"))
    assert service.event("fnf")["data"] == "forget me"


def test_stream_sends_what_was_asked_for_and_no_more(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, service = pair
    handle = caller.ask("stream", **eu_orders("count 7", n=2))["handle"]
    assert caller.ask("wait", handle=handle, items=2)["items"] == ["orders:1", "orders:2"]
    # What travelled behind the second item would have come before this answer.
    assert ask(caller, {"ServiceName": "orders"}, "more?")["data"] == "orders:more?"
    assert caller.ask("state", handle=handle)["items"] == ["orders:1", "orders:2"]
    caller.ask("request", handle=handle, n=3)
    assert caller.ask("wait", handle=handle, items=5)["completed"] is False
    caller.ask("request", handle=handle, n=10)
    done = caller.ask("wait", handle=handle)
    assert (done["items"], done["completed"]) == ([f"orders:{at}" for at in range(1, 8)], True)
    assert [each["n"] for each in service.seen(event="asked")] == [2, 3, 10]


def test_cancel_of_a_stream_reaches_the_service(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, service = pair
    handle = caller.ask("stream", **eu_orders("count 100", n=3))["handle"]
    caller.ask("wait", handle=handle, items=3)
    caller.ask("cancel", handle=handle)
    assert service.event("cancelled")["sent"] == 3


def test_cancel_of_a_request_response_reaches_the_service(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, service = pair
    caller.ask("openResponse", keep="it", **eu_orders("hang"))
    service.event("rr", data="hang")
    caller.ask("cancelResponse", keep="it")
    assert service.event("cancelled")["data"] == "hang"


def test_channel_runs_both_ways_with_credit_on_each(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, _service = pair
    handle = caller.ask("channel", **eu_orders("1", n=2))["handle"]
    assert caller.ask("wait", handle=handle, asked=1)["asked"] == 1  # the service asks for one more than the first
    caller.ask("send", handle=handle, data="2")
    assert caller.ask("wait", handle=handle, items=2)["items"] == ["orders:1", "orders:2"]
    caller.ask("send", handle=handle, data="3", complete=True)
    assert ask(caller, {"ServiceName": "orders"}, "more?")["data"] == "orders:more?"
    assert caller.ask("state", handle=handle)["items"] == ["orders:1", "orders:2"]  # two were asked for
    caller.ask("request", handle=handle, n=1)
    done = caller.ask("wait", handle=handle)
    assert (done["items"], done["completed"], done["error"]) == (["orders:1", "orders:2", "orders:3"], True, None)


def test_channel_half_that_the_service_ends_leaves_the_other_half_open(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, service = pair
    handle = caller.ask("channel", **eu_orders("halves", n=5))["handle"]
    state = caller.ask("wait", handle=handle)
    assert (state["items"], state["completed"]) == (["orders:only"], True)
    caller.ask("wait", handle=handle, asked=100)
    caller.ask("send", handle=handle, data="still")
    caller.ask("send", handle=handle, data="here")
    caller.ask("complete", handle=handle)
    service.event("other half ended")
    assert [each["data"] for each in service.seen(event="item")] == ["still", "here"]


def test_channel_half_that_the_caller_ends_leaves_the_other_half_open(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, _service = pair
    handle = caller.ask("channel", **eu_orders("1", n=1, complete=True))["handle"]
    done = caller.ask("wait", handle=handle)
    assert (done["items"], done["completed"]) == (["orders:1"], True)


def test_an_error_of_a_channels_caller_reaches_the_service(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, service = pair
    handle = caller.ask("channel", **eu_orders("1", n=5))["handle"]
    caller.ask("wait", handle=handle, items=1)
    caller.ask("fail", handle=handle, message="the caller broke")
    assert service.event("channel error") == {"event": "channel error", "code": 0x201, "message": "the caller broke"}


def test_an_error_of_a_service_arrives_as_it_was(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, _service = pair
    assert ask(caller, {"ServiceName": "orders"}, "fail") == {"error": {"code": 0x201, "message": "asked to fail"}}


def test_an_error_in_the_middle_of_a_stream_follows_its_items(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, _service = pair
    done = caller.ask("wait", handle=caller.ask("stream", **eu_orders("break 2", n=10))["handle"])
    assert done["items"] == ["orders:1", "orders:2"]
    assert done["error"] == {"code": 0x201, "message": "broke in the middle"}


def test_refusals_of_the_broker_begin_with_their_code_word(pair: tuple[JsPeer, JsPeer]) -> None:
    caller, _service = pair
    error = ask(caller, {"ServiceName": "nobody"}, "hi")["error"]
    assert (error["code"], error["message"].split(":")[0]) == (0x202, "no-route")
    error = ask(caller, {"ServiceName": "orders"}, "hi", routing="shard")["error"]
    assert (error["code"], error["message"].split(":")[0]) == (0x204, "bad-shard-key")
    done = caller.ask(
        "wait", handle=caller.ask("stream", tags={"ServiceName": "nobody"}, data="count 3", n=1)["handle"]
    )
    assert done["error"]["message"].startswith("no-route:")


@pytest.mark.parametrize("schemes", ["tcp-ws", "ws-tcp"])
def test_fragments_pass_in_both_directions(start: Start, schemes: str) -> None:
    """The caller's ADDRESS and data come in pieces of 64 bytes."""
    from_scheme, to_scheme = schemes.split("-")
    service = start(to_scheme, f"pieces-{from_scheme}", 300, Region="eu")
    caller = start(from_scheme, fragment=64)
    tags = {"ServiceName": f"pieces-{from_scheme}", "Region": "eu"}
    answer = caller.ask("response", tags=tags, fill=20_000, entries=[["text/plain", "m" * 300]])
    assert (answer["bytes"], answer["metadata"]) == (20_000 + len(f"pieces-{from_scheme}:"), "answered")
    event = service.event("rr", bytes=20_000)
    assert event["metadata"] == [[SEED, ADDRESS], ["text/plain", "m" * 300]]
    caller.ask("fnf", tags=tags, fill=5_000)
    assert service.event("fnf")["bytes"] == 5_000
    handle = caller.ask("channel", tags=tags, fill=1_000, n=2)["handle"]
    caller.ask("wait", handle=handle, asked=1)
    caller.ask("send", handle=handle, data="y" * 1_000, complete=True)
    done = caller.ask("wait", handle=handle)
    assert [len(item) for item in done["items"]] == [1_000 + len(f"pieces-{from_scheme}:")] * 2


@pytest.mark.parametrize(("caller_mime", "service_mime"), [(COMPOSITE, SEED), (SEED, JAVA), (JAVA, COMPOSITE)])
def test_composite_and_plain_metadata_understand_each_other(start: Start, caller_mime: str, service_mime: str) -> None:
    service = start("tcp", "mimes", 400, mime=service_mime)
    caller = start("ws", mime=caller_mime)
    assert ask(caller, {"ServiceName": "mimes"}, "hello") == {"data": "mimes:hello"}
    (metadata,) = service.event("rr", data="hello")["metadata"]
    wanted = caller_mime if service_mime == COMPOSITE and caller_mime != COMPOSITE else service_mime
    assert metadata[0] == (SEED if wanted == COMPOSITE else wanted)


def test_multicast_reaches_all_and_shards_reach_one(start: Start) -> None:
    services = [start(scheme, "many", 500 + at, Region="eu") for at, scheme in enumerate(["tcp", "ws", "tcp"])]
    caller = start("tcp")
    tags = {"ServiceName": "many"}
    caller.ask("fnf", tags=tags, data="to all", routing="multicast")
    for service in services:
        service.event("fnf", data="to all")
    assert ask(caller, tags, "first", routing="multicast") == {"data": "many:first"}
    handle = caller.ask("stream", tags=tags, data="count 2", n=4, routing="multicast")["handle"]
    assert len(caller.ask("wait", handle=handle, items=4)["items"]) == 4
    caller.ask("request", handle=handle, n=10)
    done = caller.ask("wait", handle=handle)
    assert (sorted(done["items"]), done["completed"]) == (sorted(["many:1", "many:2"] * 3), True)

    for user in range(12):
        for _ in range(2):
            more = {"hints": {"ShardKey": "user"}, "routing": "shard"}
            assert ask(caller, {**tags, "user": f"u{user}"}, f"user {user}", **more)["data"] == f"many:user {user}"
    for user in range(12):
        assert sorted(len(service.seen(event="rr", data=f"user {user}")) for service in services) == [0, 0, 2]
    assert sum(1 for service in services if service.seen(event="rr")) > 1


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_a_service_that_dies_in_the_middle_is_told_to_its_callers(
    start: Start, needs_node: Node, shared_broker: BrokerProcess, scheme: str
) -> None:
    caller = start(scheme)
    service = needs_node.start("peer.cjs", url=shared_broker.url(scheme), name=f"mortal-{scheme}", number=600)
    tags = {"ServiceName": f"mortal-{scheme}"}
    assert ask(service, tags, "up?")["data"] == f"mortal-{scheme}:up?"
    handle = caller.ask("stream", tags=tags, data="count 100", n=2)["handle"]
    caller.ask("wait", handle=handle, items=2)
    service.kill()
    error = caller.ask("wait", handle=handle)["error"]
    service.end()
    assert (error["code"], error["message"].split(":")[0]) == (0x203, "route-lost")
    assert ask(caller, tags, "still there?")["error"]["message"].startswith("no-route:")


def test_a_second_connection_with_the_same_route_id_closes_the_first(start: Start) -> None:
    first = start("ws", "twin", 700)
    start("tcp", "twin", 700)
    closed = first.event("closed")
    assert (closed["error"]["code"], closed["error"]["message"].split(":")[0]) == (0x102, "replaced")


def test_metadata_push_of_the_old_rsocket_js_arrives(start: Start) -> None:
    """0.0.27 writes METADATA_PUSH without the M flag; it and everybody else understands what the broker makes of it."""
    services = [start("tcp", "pushed", 800 + at, script="push.cjs") for at in range(2)]
    caller = start("tcp", script="push.cjs")
    entries = [["text/plain", "the news"]]
    caller.ask("push", tags={"ServiceName": "pushed", "RouteId": uuid(801)}, entries=entries)
    assert services[1].event("push")["metadata"] == [[SEED, ADDRESS], *entries]
    caller.ask("push", tags={"ServiceName": "pushed"}, routing="multicast", entries=[["text/plain", "for all"]])
    assert services[0].event("push")["metadata"] == [[SEED, ADDRESS], ["text/plain", "for all"]]
    services[1].event("push", metadata=[[SEED, ADDRESS], ["text/plain", "for all"]])


def test_a_route_may_be_announced_in_a_push_without_the_m_flag(start: Start) -> None:
    late = start("tcp", "late", script="push.cjs")
    late.ask("announce", number=900, name="late", tags={"Region": "eu"})
    assert late.ask("response", tags={"ServiceName": "late", "Region": "eu"}, data="me?") == {"data": "late:me?"}


def test_the_java_brokers_js_client_calls_through_us(start: Start, peers: Peers, shared_broker: BrokerProcess) -> None:
    service = start("tcp", "pong", 1000)
    client = peers.start("broker_client.mjs", "web", url=shared_broker.url("ws"), id=uuid(1001), token="token-123")
    assert client.ask("response", service="pong", route="ping", data="hi") == {"data": "pong:hi"}
    metadata = service.event("rr", data="hi")["metadata"]
    assert [mime for mime, _ in metadata] == [
        "message/x.rsocket.authentication.v0",
        "message/x.rsocket.routing.v0",
        JAVA,
        "message/x.rsocket.mime-type.v0",  # its data is JSON by its SETUP, the service's is not
    ]
    # It asks for 5 items, and for more when they came.
    assert client.ask("stream", service="pong", data="count 12") == {"items": [f"pong:{at}" for at in range(1, 13)]}
    assert client.ask("channel", service="pong", items=["a", "b", "c"]) == {"items": ["pong:a", "pong:b", "pong:c"]}
    client.ask("fnf", service="pong", data="forget me")
    service.event("fnf", data="forget me")
    client.ask("fnf", service="pong", data="to all", routing="MULTICAST")
    service.event("fnf", data="to all")
    error = client.ask("response", service="nobody", data="hi")["error"]
    assert (error["code"], error["message"].split(":")[0]) == (0x202, "no-route")

"""The section "Forwarding Protocol", and what the introduction says about requests: bytes in, bytes out."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.wire.frames import Address, decode_frame
from tests.conformance import scripts
from tests.conformance.scripts import (
    NEXT,
    REGION,
    REQUEST_RESPONSE,
    SERVICE_NAME,
    SHARD_KEY,
    M,
    U,
    address,
    destination,
    heard,
    on,
    payload,
    request,
)
from tests.conformance.stage import ORDERS, Stage, served
from tests.fakes import World

MIMES = [scripts.COMPOSITE, scripts.FORWARDING, scripts.FORWARDING_V0]


# Every interaction model, every way to carry an ADDRESS


@pytest.mark.parametrize("mime", MIMES)
@pytest.mark.parametrize("entry_mime", [scripts.FORWARDING, scripts.FORWARDING_V0])
@pytest.mark.parametrize("kind", scripts.MODELS)
def test_address_is_taken_as_an_entry_and_as_the_only_metadata(kind: int, entry_mime: str, mime: str) -> None:
    """ "Implementations MUST support both cases." The destination gets every byte but the stream id as it was."""
    stage = Stage(mime=mime)
    metadata = scripts.carried(mime, ORDERS, entry_mime)
    if mime == scripts.COMPOSITE:
        metadata = scripts.composite(("text/plain", b"before")) + metadata + scripts.composite(("a/b", b"\x00\xff"))
    raw = request(kind, 1, metadata, b"\x00\x01 any data", 0x7FFFFFFF)
    stage.caller.send(raw)
    assert (heard(stage.caller), stage.heard()) == ([], [[on(2, raw)]])


@pytest.mark.parametrize("mime", MIMES)
@pytest.mark.parametrize("flags", [U, M])
def test_metadata_push_is_forwarded(mime: str, flags: int) -> None:
    stage = Stage(2, mime=mime)
    raw = scripts.push(scripts.carried(mime, address(flags, (SERVICE_NAME, "orders"))))
    stage.caller.send(raw)
    got = stage.heard()
    assert sorted(got) == ([[raw], [raw]] if flags == M else [[], [raw]])
    assert heard(stage.caller) == []


def test_conversation_of_each_model_there_and_back() -> None:
    """Stream 1 of the caller is stream 2, 4, 6, 8 of the destination, and nothing else differs."""
    stage = Stage()
    (orders,) = stage.orders
    sent = [stage.ask(kind, 2 * place + 1) for place, kind in enumerate(scripts.MODELS)]
    assert heard(orders) == [on(2 * place + 2, raw) for place, raw in enumerate(sent)]
    answers = [
        payload(2, NEXT | scripts.COMPLETE, b"answer", b"with metadata"),
        payload(6, NEXT, b"item"),
        payload(8, NEXT, b"item"),
        scripts.request_n(8, 5),
        payload(6, NEXT | scripts.COMPLETE, b"last"),
        payload(8, scripts.COMPLETE),
    ]
    orders.send(*answers)
    back = {2: 1, 6: 5, 8: 7}
    assert heard(stage.caller) == [on(back[raw[3]], raw) for raw in answers]
    more = [payload(7, NEXT, b"item of the caller"), payload(7, NEXT | scripts.COMPLETE, b"last")]
    stage.caller.send(*more)
    assert heard(orders) == [on(8, raw) for raw in more]
    assert stage.world.left_over() == []


@pytest.mark.parametrize("kind", scripts.ANSWERED)
@pytest.mark.parametrize("code", [0x201, 0x202, 0x203, 0x204, 0x301, 0xFFFFFFFE, 0xFFFFFFFF, 0])
def test_error_of_a_destination_is_the_callers(kind: int, code: int) -> None:
    stage = Stage()
    stage.ask(kind)
    raw = scripts.error(2, code, "because")
    stage.orders[0].send(raw)
    assert heard(stage.caller) == [on(1, raw)]
    assert stage.world.left_over() == []


@pytest.mark.parametrize("kind", scripts.ANSWERED)
def test_extension_frames_stay_in_their_stream(kind: int) -> None:
    """D-32: an EXT frame that may be ignored is passed on within a request; no EXT begins one."""
    stage = Stage()
    stage.ask(kind)
    stage.heard()
    there = scripts.frame(1, 0x3F, scripts.IGNORE | scripts.METADATA, scripts.u32(7) + b"\x00\x00\x01m" + b"body")
    back = scripts.frame(2, 0x3F, scripts.IGNORE, scripts.u32(7) + b"body")
    stage.caller.send(
        there, scripts.frame(3, 0x3F, scripts.IGNORE | scripts.METADATA, scripts.u32(7) + b"\x00\x00\x01m")
    )
    stage.orders[0].send(back)
    assert (stage.heard(), heard(stage.caller)) == ([[on(2, there)]], [on(1, back)])


@pytest.mark.parametrize("kind", [scripts.REQUEST_STREAM, scripts.REQUEST_CHANNEL])
def test_route_of_a_request_stays_the_same_for_all_of_its_stream(kind: int) -> None:
    """ "Once a suitable route is found, that route stays active for the duration of the RSocket stream." """
    stage = Stage(3)
    raw = stage.ask(kind, n=1)
    first = stage.heard().index([on(2, raw)])
    asks = [scripts.request_n(1, number) for number in range(1, 6)]
    stage.caller.send(*asks)
    assert stage.heard() == [[on(2, each) for each in asks] if place == first else [] for place in range(3)]
    destination(stage.world, 9, "orders")
    item = payload(2, NEXT, b"x")
    stage.orders[first].send(item)
    assert heard(stage.caller) == [on(1, item)]


def test_destination_may_call_and_caller_may_serve() -> None:
    """Who is client and who is server of an RSocket connection says nothing about who asks and who answers."""
    world = World()
    one = destination(world, 1, "orders")
    two = destination(world, 2, "stock")
    there = request(REQUEST_RESPONSE, 1, scripts.carried(scripts.COMPOSITE, address(U, (SERVICE_NAME, "stock"))))
    back = request(REQUEST_RESPONSE, 1, scripts.carried(scripts.COMPOSITE, ORDERS))
    one.send(there)
    two.send(back)
    assert (heard(one), heard(two)) == ([on(2, back)], [on(2, there)])
    for wire in (one, two):
        wire.send(payload(2, NEXT | scripts.COMPLETE, b"yes"))
    assert (heard(one), heard(two)) == (
        [payload(1, NEXT | scripts.COMPLETE, b"yes")],
        [payload(1, NEXT | scripts.COMPLETE, b"yes")],
    )


@pytest.mark.parametrize("metadata", [None, b"", scripts.composite(("text/plain", b"x"))])
def test_request_without_an_address_is_invalid(metadata: bytes | None) -> None:
    stage = Stage()
    raw = scripts.frame(1, REQUEST_RESPONSE, 0, b"data") if metadata is None else request(REQUEST_RESPONSE, 1, metadata)
    stage.caller.send(raw)
    text = "bad-address: the metadata of the request holds no ADDRESS"
    assert (heard(stage.caller), stage.heard()) == ([scripts.error(1, scripts.INVALID, text)], [[]])


# Wrapping and unwrapping


@pytest.mark.parametrize("kind", scripts.MODELS)
@pytest.mark.parametrize("mime", MIMES)
@pytest.mark.parametrize("metadata", [None, [(scripts.LB_METHOD, "round_robin"), ("trace", b"\x00\xff")]])
def test_wrapped_metadata_arrives_as_it_was_wrapped(
    kind: int, mime: str, metadata: list[scripts.AnyTag] | None
) -> None:
    stage = Stage(mime=mime)
    wrapped = scripts.composite(("application/json", b"{}"), (scripts.FORWARDING, ORDERS)) + bytes(range(256))
    raw = stage.ask(kind, 1, address(U, (SERVICE_NAME, "orders"), metadata=metadata, wrapped=wrapped))
    assert stage.heard() == [[on(2, raw)]]
    assert raw[-len(wrapped) - 4 :] == wrapped + b"data"


def test_destination_unwraps_and_discards_the_address() -> None:
    """What a destination does with the frame that the broker has passed on."""
    stage = Stage(mime=scripts.FORWARDING)
    stage.ask(REQUEST_RESPONSE, 1, address(U, (SERVICE_NAME, "orders"), wrapped=b"what was there before"))
    ((got,),) = stage.heard()
    size = int.from_bytes(got[6:9], "big")
    envelope = decode_frame(got[9 : 9 + size])
    assert isinstance(envelope, Address)
    assert (envelope.wrapped, got[9 + size :]) == (b"what was there before", b"data")


def test_other_entries_become_wrapped_metadata_for_a_destination_that_reads_no_composite_metadata() -> None:
    """D-16: the wrapping of the specification, where caller and destination have agreed on different mime types."""
    world = World()
    orders = destination(world, 1, "orders", mime=scripts.FORWARDING)
    others = scripts.composite(("text/plain", b"x"), ("a/b", b"\x00"))
    scripts.caller(world).send(request(REQUEST_RESPONSE, 1, scripts.forwarding(ORDERS) + others))
    assert heard(orders) == [request(REQUEST_RESPONSE, 2, address(U, (SERVICE_NAME, "orders"), wrapped=others))]


def test_wrapped_metadata_and_data_are_never_changed_by_a_translation() -> None:
    """ "it MUST not mutate the wrapped metadata, or data of the request": D-16 puts envelopes around, and no more."""
    wrapped = bytes(range(256))
    raw = address(U, (SERVICE_NAME, "orders"), wrapped=wrapped)
    for caller_mime, mime, sent, expected in [
        (scripts.COMPOSITE, scripts.FORWARDING, scripts.composite((scripts.FORWARDING, raw), ("a/b", b"x")), raw),
        (scripts.FORWARDING, scripts.COMPOSITE, raw, scripts.forwarding(raw)),
        (scripts.FORWARDING, scripts.FORWARDING_V0, raw, raw),
    ]:
        world = World()
        orders = destination(world, 1, "orders", mime=mime)
        scripts.caller(world, caller_mime).send(request(REQUEST_RESPONSE, 1, sent, wrapped[::-1]))
        assert heard(orders) == [request(REQUEST_RESPONSE, 2, expected, wrapped[::-1])]


# Creating the list of routable destinations


def test_tags_are_combined_by_and() -> None:
    world = World()
    wires = [
        destination(world, 1, "orders", (REGION, "eu"), (scripts.ZONE, "a"), ("color", "red")),
        destination(world, 2, "orders", (REGION, "eu"), (scripts.ZONE, "b")),
        destination(world, 3, "orders", (REGION, "us"), (scripts.ZONE, "a")),
        destination(world, 4, "stock", (REGION, "eu"), (scripts.ZONE, "a")),
    ]
    wire = scripts.caller(world)
    wanted: list[tuple[list[scripts.AnyTag], list[int]]] = [
        ([(SERVICE_NAME, "orders")], [1, 1, 1, 0]),
        ([(SERVICE_NAME, "orders"), (REGION, "eu")], [1, 1, 0, 0]),
        ([(REGION, "eu"), (scripts.ZONE, "a")], [1, 0, 0, 1]),
        ([(REGION, "eu"), (scripts.ZONE, "a"), (SERVICE_NAME, "orders")], [1, 0, 0, 0]),
        ([("color", "red")], [1, 0, 0, 0]),
    ]
    for tags, expected in wanted:
        wire.send(request(scripts.REQUEST_FNF, 1, scripts.forwarding(address(M, *tags))))
        assert served(wires) == expected


def test_tags_that_only_the_destination_has_are_ignored() -> None:
    """The example of the specification: the ADDRESS wants A, B and C, the destination has D, too."""
    world = World()
    wire = destination(world, 1, "orders", ("A", "1"), ("B", "2"), ("C", "3"), ("D", "4"))
    scripts.assert_arrives(world, wire, scripts.forwarding(address(U, ("A", "1"), ("B", "2"), ("C", "3"))))


@pytest.mark.parametrize("flags", [0, U, M, scripts.E | U])
@pytest.mark.parametrize("kind", scripts.ANSWERED)
def test_tag_without_an_index_means_no_route(kind: int, flags: int) -> None:
    """D-10, `reject`: the error is sent at once and names the tag."""
    stage = Stage()
    stage.ask(kind, 1, address(flags, (SERVICE_NAME, "orders"), (REGION, "mars")))
    text = "no-route: no route has region=mars"
    assert (heard(stage.caller), stage.heard()) == ([scripts.error(1, scripts.REJECTED, text)], [[]])


@pytest.mark.parametrize("flags", [U, M])
def test_empty_intersection_means_no_route(flags: int) -> None:
    world = World()
    destination(world, 1, "orders", (REGION, "eu"))
    destination(world, 2, "stock", (REGION, "us"))
    wire = scripts.caller(world)
    wire.send(
        request(REQUEST_RESPONSE, 1, scripts.forwarding(address(flags, (SERVICE_NAME, "orders"), (REGION, "us"))))
    )
    text = "no-route: no route has all: 1 have service=orders, 1 have region=us"
    assert heard(wire) == [scripts.error(1, scripts.REJECTED, text)]


@pytest.mark.parametrize("kind", scripts.MODELS)
def test_request_may_wait_for_its_route(kind: int) -> None:
    """D-10, `wait`."""
    stage = Stage(0, CoreSettings(no_route="wait", no_route_timeout_s=5.0))
    raw = stage.ask(kind)
    stage.world.advance(4.9)
    orders = destination(stage.world, 1, "orders")
    assert (heard(orders), heard(stage.caller)) == ([on(2, raw)], [])


@pytest.mark.parametrize("kind", scripts.ANSWERED)
def test_request_waits_no_longer_than_the_timeout(kind: int) -> None:
    """D-10, `wait`: "If the timeout expires, send an error to the client"."""
    stage = Stage(0, CoreSettings(no_route="wait", no_route_timeout_s=5.0))
    stage.ask(kind)
    stage.world.advance(4.9)
    assert heard(stage.caller) == []
    stage.world.advance(0.2)
    (said,) = heard(stage.caller)
    assert said.startswith(
        scripts.error(1, scripts.REJECTED, "no-route: no route has service=orders, after 5.0 s of waiting")
    )


def test_fire_and_forget_and_metadata_push_have_no_error() -> None:
    """D-23."""
    stage = Stage(0)
    stage.ask(scripts.REQUEST_FNF)
    stage.caller.send(scripts.push(scripts.carried(scripts.COMPOSITE, ORDERS)))
    assert (heard(stage.caller), stage.caller.is_closed) == ([], False)


# Flags


@pytest.mark.parametrize("flags", [U | M, U | scripts.S, M | scripts.S, U | M | scripts.S, scripts.E | U | M])
@pytest.mark.parametrize("kind", scripts.ANSWERED)
def test_more_than_one_routing_flag_is_rejected(kind: int, flags: int) -> None:
    """D-11: "The flags U, M, S are exclusive. … the request MUST be rejected." """
    stage = Stage()
    stage.ask(
        kind, 1, address(flags, (SERVICE_NAME, "orders"), metadata=[(SHARD_KEY, "io.rsocket.routing.ServiceName")])
    )
    text = f"bad-address: more than one of unicast, multicast and shard is set (flags 0x{flags:03x})"
    assert (heard(stage.caller), stage.heard()) == ([scripts.error(1, scripts.INVALID, text)], [[]])


@pytest.mark.parametrize("flags", [U | M, U | scripts.S, M | scripts.S, U | M | scripts.S])
def test_fire_and_forget_and_push_with_more_than_one_routing_flag_go_nowhere(flags: int) -> None:
    stage = Stage()
    raw = address(flags, (SERVICE_NAME, "orders"), metadata=[(SHARD_KEY, "io.rsocket.routing.ServiceName")])
    stage.ask(scripts.REQUEST_FNF, 1, raw)
    stage.caller.send(scripts.push(scripts.carried(scripts.COMPOSITE, raw)))
    assert (heard(stage.caller), stage.heard()) == ([], [[]])


def test_no_routing_flag_means_unicast() -> None:
    """D-11."""
    stage = Stage(2)
    for number in range(4):
        stage.ask(scripts.REQUEST_FNF, 2 * number + 1, address(0, (SERVICE_NAME, "orders")))
    assert served(stage.orders) == [2, 2]


@pytest.mark.parametrize("flags", [scripts.E, scripts.E | U, scripts.E | M, scripts.E | scripts.S])
@pytest.mark.parametrize("kind", scripts.MODELS)
def test_encrypted_flag_is_passed_on_and_the_payload_not_looked_at(kind: int, flags: int) -> None:
    stage = Stage()
    metadata: list[scripts.AnyTag] = [(SHARD_KEY, "io.rsocket.routing.ServiceName")]
    raw = stage.ask(kind, 1, address(flags, (SERVICE_NAME, "orders"), metadata=metadata), bytes(range(256)))
    assert stage.heard() == [[on(2, raw)]]


# Unicast


@pytest.mark.parametrize("kind", scripts.MODELS)
def test_unicast_goes_to_exactly_one_of_the_routes(kind: int) -> None:
    stage = Stage(3)
    for number in range(6):
        raw = stage.ask(kind, 2 * number + 1)
        got = stage.heard()
        assert sorted(len(each) for each in got) == [0, 0, 1]
        assert [on(1, each[0]) for each in got if each] == [on(1, raw)]


@pytest.mark.parametrize("hint", ["round_robin", "Round-Robin", "RoundRobin"])
def test_hint_for_load_balancing_is_followed(hint: str) -> None:
    stage = Stage(3, CoreSettings())
    raw = address(U, (SERVICE_NAME, "orders"), metadata=[(scripts.LB_METHOD, hint)])
    for number in range(6):
        stage.ask(scripts.REQUEST_FNF, 2 * number + 1, raw)
    assert served(stage.orders) == [2, 2, 2]


@pytest.mark.parametrize("hint", ["astrology", "", b"\xff\xfe"])
def test_hint_that_nobody_knows_keeps_no_request_from_its_route(hint: str | bytes) -> None:
    """ "This is optional and the broker does not need to use the hint": the default is taken, and that is counted."""
    stage = Stage()
    for stream_id in (1, 3):
        raw = stage.ask(
            scripts.REQUEST_FNF, stream_id, address(U, (SERVICE_NAME, "orders"), metadata=[(scripts.LB_METHOD, hint)])
        )
        assert stage.heard() == [[on(stream_id + 1, raw)]]
    assert stage.world.core.query.unknown_methods == 1  # when the ADDRESS is understood, not for each request
    assert len(stage.world.core.query.remarks.untold) == 1  # for the broker's log


# Shard


def sharded(user: str, *metadata: scripts.AnyTag, more: tuple[scripts.AnyTag, ...] = ()) -> bytes:
    return address(scripts.S, (SERVICE_NAME, "orders"), ("user", user), *more, metadata=list(metadata))


@pytest.mark.parametrize("kind", scripts.MODELS)
def test_requests_of_one_shard_key_have_one_owner(kind: int) -> None:
    stage = Stage(5)
    owners: dict[str, set[int]] = {}
    for number in range(60):
        user = f"user-{number % 20}"
        raw = stage.ask(kind, 2 * number + 1, sharded(user, (SHARD_KEY, "user")))
        got = stage.heard()
        assert [on(1, each[0]) for each in got if each] == [on(1, raw)]
        owners.setdefault(user, set()).add([bool(each) for each in got].index(True))
    assert [len(each) for each in owners.values()] == [1] * 20
    assert len(set.union(*owners.values())) > 1


def test_metadata_push_is_sharded_too() -> None:
    stage = Stage(5)
    raw = scripts.push(scripts.carried(scripts.COMPOSITE, sharded("ann", (SHARD_KEY, "user"))))
    stage.caller.send(raw, raw, raw)
    assert sorted(stage.heard()) == [[], [], [], [], [raw, raw, raw]]


@pytest.mark.parametrize("kind", scripts.ANSWERED)
def test_shard_request_without_a_shard_key_is_rejected(kind: int) -> None:
    stage = Stage()
    for metadata in ([], [(scripts.SHARD_METHOD, "modulo")]):
        stage.ask(kind, 1, sharded("ann", *metadata))
        text = "bad-shard-key: a shard request needs at least one ShardKey"
        assert (heard(stage.caller), stage.heard()) == ([scripts.error(1, scripts.INVALID, text)], [[]])


@pytest.mark.parametrize(
    "keys", [["planet"], ["user", "planet"], ["planet", "user"], ["ann"], ["io.rsocket.routing.Zone"], [""]]
)
def test_shard_key_that_names_no_tag_of_the_request_is_rejected(keys: list[str]) -> None:
    stage = Stage()
    stage.ask(REQUEST_RESPONSE, 1, sharded("ann", *[(SHARD_KEY, each) for each in keys]))
    (absent,) = [each for each in keys if each != "user"]
    text = f"bad-shard-key: ShardKey {absent!r} names no tag of the ADDRESS"
    assert (heard(stage.caller), stage.heard()) == ([scripts.error(1, scripts.INVALID, text)], [[]])


def test_several_shard_keys_are_one_key_together() -> None:
    stage = Stage(5)
    places: dict[tuple[str, str], set[int]] = {}
    for number in range(100):
        user, tenant = f"u{number % 5}", f"t{number % 10 // 5}"
        keys: list[scripts.AnyTag] = [(SHARD_KEY, "user"), (SHARD_KEY, "tenant")]
        stage.ask(scripts.REQUEST_FNF, 2 * number + 1, sharded(user, *keys, more=(("tenant", tenant),)))
        places.setdefault((user, tenant), set()).add(served(stage.orders).index(1))
    assert [len(each) for each in places.values()] == [1] * 10
    assert any(places[f"u{number}", "t0"] != places[f"u{number}", "t1"] for number in range(5))


def test_shard_key_may_name_a_well_known_key_that_routes_have() -> None:
    world = World()
    wires = [destination(world, 1, "orders", (REGION, "eu")), destination(world, 2, "orders", (REGION, "us"))]
    wire = scripts.caller(world)
    for name in ("io.rsocket.routing.Region", "io.rsocket.broker.Region"):
        raw = address(scripts.S, (SERVICE_NAME, "orders"), (REGION, "us"), metadata=[(SHARD_KEY, name)])
        wire.send(request(scripts.REQUEST_FNF, 1, scripts.forwarding(raw)))
        assert served(wires) == [0, 1]


def test_shard_key_may_stand_among_the_tags_of_a_short_address() -> None:
    """D-12: where there is no map of metadata a client cannot say it otherwise."""
    stage = Stage(5)
    for number in range(3):
        raw = scripts.short_address(scripts.S, (SHARD_KEY, "user"), (SERVICE_NAME, "orders"), ("user", "ann"))
        stage.ask(scripts.REQUEST_FNF, 2 * number + 1, raw)
    assert sorted(served(stage.orders)) == [0, 0, 0, 0, 3]


@pytest.mark.parametrize("method", ["rendezvous", "maglev", "ring", "jump", "modulo", "astrology", "", b"\xff"])
def test_any_shard_method_has_one_owner_for_a_key(method: str | bytes) -> None:
    """ "This is optional and broker does not need to use the hint." """
    stage = Stage(5)
    found: list[int] = []
    for number in range(40):
        raw = sharded(f"user-{number % 20}", (SHARD_KEY, "user"), (scripts.SHARD_METHOD, method))
        stage.ask(scripts.REQUEST_FNF, 2 * number + 1, raw)
        found.append(served(stage.orders).index(1))
    assert found[:20] == found[20:]
    assert len(set(found)) > 1


def test_shard_request_without_a_route_is_rejected_as_any_other() -> None:
    stage = Stage(0)
    stage.ask(REQUEST_RESPONSE, 1, sharded("ann", (SHARD_KEY, "user")))
    assert heard(stage.caller) == [scripts.error(1, scripts.REJECTED, "no-route: no route has service=orders")]


# Forwarding the request


@pytest.mark.parametrize("kind", scripts.MODELS)
def test_fragments_arrive_as_they_were_sent(kind: int) -> None:
    """The ADDRESS may be cut anywhere; metadata and data are not looked at beyond it."""
    stage = Stage()
    whole = request(kind, 1, scripts.composite((scripts.FORWARDING, ORDERS), ("a/b", b"x" * 20)), b"0123456789")
    start = 13 if kind >= scripts.REQUEST_STREAM else 9
    metadata, data = whole[start:-10], whole[-10:]
    for place, cut in enumerate(range(1, len(metadata), 7)):
        stream_id = 2 * place + 1
        credit = whole[6 : start - 3]
        first = metadata[:cut]
        script = [
            scripts.frame(
                stream_id, kind, scripts.METADATA | scripts.FOLLOWS, credit + len(first).to_bytes(3, "big") + first
            ),
            payload(stream_id, NEXT | scripts.FOLLOWS, data[:4], metadata[cut:]),
            payload(stream_id, NEXT, data[4:]),
        ]
        stage.caller.send(*script)
        assert stage.heard() == [[on(2 * place + 2, raw) for raw in script]]

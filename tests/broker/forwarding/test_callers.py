"""D-102: services are told who calls, by brokers alone: what clients say of that is taken out, wherever it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.access.roles import Offer, Role
from broker.core import CoreSettings
from broker.routing.policies import Policy
from rsocket_wire.errors import REJECTED, REJECTED_SETUP
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import (
    COMPLETE,
    FOLLOWS,
    METADATA_PUSH,
    NEXT,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    encode_metadata_push,
)
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, encode_entry
from rsocket_wire.wire.caller import CALLER_MIME, Caller
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD
from rsocket_wire.wire.keys import SHARD_KEY
from tests.broker.forwarding.pairs import MODELS, Pair
from tests.fakes import Frame, Wire, World, address, addressed, composite, error, fragments, moved

TELLS = CoreSettings(policies={"orders": Policy(identity=True)})
WAITS = CoreSettings(policies={"orders": Policy(identity=True)}, no_route="wait")
ADA = "certificate:spiffe://acme/ada"
MIME = CALLER_MIME.decode()
FORGED = Caller("user", "admin", "admins").encode()
MORE = ("text/plain", b"more")
ORDERS = address(service="orders")


def told(kind: str = "anonymous", name: str = "", role: str = "") -> bytes:
    """The entry that a broker writes."""
    return encode_entry(CALLER_MIME, Caller(kind, name, role).encode())


TOLD_ADA = told("certificate", "spiffe://acme/ada")


def claiming(raw: bytes = ORDERS, mime: str = MIME) -> bytes:
    """Metadata of a client that says who it is, in front of, between and behind the others."""
    return composite((mime, FORGED), (MIME_TYPE, raw), (mime, FORGED), MORE, (mime, b""))


HONEST = composite((MIME_TYPE, ORDERS), MORE)


def metadata_of(wire: Wire) -> list[bytes | None]:
    """The metadata of all requests and items that have come, of pushes too."""
    got = wire.received()
    return [frame.data if frame.kind == METADATA_PUSH else frame.metadata for frame in got]


def ask(wire: Wire, kind: int, stream_id: int, metadata: bytes) -> None:
    if kind == METADATA_PUSH:
        wire.push(metadata)
    else:
        wire.send(frames.encode_request(kind, stream_id, b"hi", metadata, 8))


@pytest.mark.parametrize("kind", [*MODELS, METADATA_PUSH])
@pytest.mark.parametrize(("caller_framed", "service_framed"), [(True, True), (False, False)])
def test_a_service_is_told_who_calls_and_the_rest_is_as_it_came(
    kind: int, caller_framed: bool, service_framed: bool
) -> None:
    pair = Pair(caller_framed, service_framed, TELLS)
    ada = pair.world.caller(origin=("", ADA))
    for stream_id in (1, 3):
        ask(ada, kind, stream_id, HONEST)
        ask(pair.caller, kind, stream_id, HONEST)
    assert metadata_of(pair.service) == [TOLD_ADA + HONEST, told() + HONEST] * 2


@pytest.mark.parametrize("kind", [*MODELS, METADATA_PUSH])
@pytest.mark.parametrize("mode", ["off", "observe", "required"])
def test_what_a_client_says_is_taken_out_for_every_service(kind: int, mode: str) -> None:
    accept = () if mode == "off" else ("anonymous", "certificate")
    world = World(CoreSettings(policies=TELLS.policies, auth_mode=mode, auth_accept=accept))
    orders, stock = world.service("orders", 1), world.service("stock", 2)
    ada = world.caller(origin=("", ADA))
    for stream_id in (1, 3):
        ask(ada, kind, stream_id, claiming())
        ask(ada, kind, stream_id + 10, claiming(address(service="stock"), MIME.upper()))
    assert metadata_of(orders) == [TOLD_ADA + HONEST] * 2
    assert metadata_of(stock) == [addressed(address(service="stock"), MORE)] * 2
    assert ada.received() == []


@pytest.mark.parametrize("flags", [MULTICAST, SHARD])
@pytest.mark.parametrize("kind", [*MODELS, METADATA_PUSH])
def test_all_routes_of_such_a_service_are_told_and_no_others(kind: int, flags: int) -> None:
    world = World(TELLS)
    found = [world.service(name, at, region="eu") for at, name in enumerate(["orders", "stock", "orders"], 1)]
    hints = [(SHARD_KEY, "region")] if flags == SHARD else []
    raw = (
        address(flags, hints, region="eu")
        if flags == MULTICAST
        else address(flags, hints, service="orders", region="eu")
    )
    ada = world.caller(origin=("", ADA))
    ask(ada, kind, 1, composite((MIME, FORGED), (MIME_TYPE, raw)))
    got = [metadata_of(wire) for wire in found]
    if flags == MULTICAST:
        assert got == [[TOLD_ADA + addressed(raw)], [addressed(raw)], [TOLD_ADA + addressed(raw)]]
    else:
        assert sorted(got) == [[], [], [TOLD_ADA + addressed(raw)]]


def test_a_role_is_told_and_another_one_once_it_has_another() -> None:
    def role(name: str) -> Role:
        return Role(name, [ADA, "anonymous"], [Offer([("service", ["*"])])], [Offer([("service", ["*"])])])

    accept = ("certificate", "anonymous")
    settings = CoreSettings(policies=TELLS.policies, auth_mode="required", auth_accept=accept, roles=(role("one"),))
    world = World(settings)
    service = world.service("orders", 1)
    ada = world.caller(origin=("", ADA))
    ask(ada, REQUEST_RESPONSE, 1, HONEST)
    world.core.set_roles([role("two")], world.now)
    world.pump()
    ask(ada, REQUEST_RESPONSE, 3, HONEST)
    names = ("certificate", "spiffe://acme/ada")
    assert metadata_of(service) == [told(*names, "one") + HONEST, told(*names, "two") + HONEST]


@pytest.mark.parametrize("kind", MODELS)
def test_requests_that_wait_are_told_when_they_go_on(kind: int) -> None:
    world = World(WAITS)
    ada = world.caller(origin=("", ADA))
    ask(ada, kind, 1, claiming())
    assert metadata_of(world.service("orders", 1)) == [TOLD_ADA + HONEST]


@pytest.mark.parametrize("kind", MODELS)
def test_metadata_cut_anywhere_is_told_and_has_no_claims(kind: int) -> None:
    whole = claiming()
    for cut in range(1, len(whole) + 1, 7):
        pair = Pair(settings=TELLS)
        pair.caller.send(*fragments(kind, 1, whole, b"data", [cut]))
        got = pair.service.received()
        assert b"".join(frame.metadata or b"" for frame in got) == told() + HONEST, cut
        assert b"".join(frame.data for frame in got) == b"data", cut


@pytest.mark.parametrize("kind", MODELS)
def test_what_follows_where_there_is_no_room_for_more_has_no_claims_either(kind: int) -> None:
    """D-69: the rest of the metadata passes without a halt, and is looked through on the way."""
    first = addressed(ORDERS, ("text/plain", b"x" * 40))
    whole = first + claiming(b"")[: -len(composite((MIME, b"")))]
    for cut in range(len(first), len(whole), 5):
        pair = Pair(settings=CoreSettings(max_metadata_bytes=2 * len(first)))
        cuts = [len(first) - 3, cut, len(whole) + 2] if cut > len(first) - 3 else [cut]
        pair.caller.send(*fragments(kind, 1, whole, b"data", cuts))
        got = pair.service.received()
        assert b"".join(frame.metadata or b"" for frame in got) == first + composite((MIME_TYPE, b""), MORE), cut
        assert b"".join(frame.data for frame in got) == b"data", cut


def test_a_claim_in_what_is_held_where_there_is_no_room_for_more_is_refused() -> None:
    whole = addressed(ORDERS, (MIME, FORGED), ("text/plain", b"x" * 400))
    pair = Pair(settings=CoreSettings(max_metadata_bytes=300))
    pair.caller.send(*fragments(REQUEST_RESPONSE, 1, whole, b"data", [200, 310, 400]))
    (answer,) = pair.caller.received()
    assert (answer.kind, answer.code, pair.service.received()) == (frames.ERROR, REJECTED, [])


def item(stream_id: int, metadata: bytes | None, data: bytes = b"item", flags: int = NEXT) -> bytes:
    return frames.encode_payload(stream_id, flags, data, metadata)


@pytest.mark.parametrize("settings", [TELLS, CoreSettings()], ids=["told", "not told"])
def test_items_of_a_channel_have_no_claims(settings: CoreSettings) -> None:
    pair = Pair(settings=settings)
    pair.open(REQUEST_CHANNEL)
    claim = composite((MIME, FORGED))
    more = composite(MORE)
    pair.caller.send(item(1, claim + more), item(1, more), item(1, None), item(1, b"no composite"))
    expected = [item(2, more), item(2, more), item(2, None), item(2, b"no composite")]
    assert pair.service.received() == [Frame(raw) for raw in expected]
    assert pair.caller.peer.items == {}


def test_an_item_in_fragments_has_no_claims_however_it_is_cut() -> None:
    claim, more = composite((MIME, FORGED)), composite(MORE)
    whole = more + claim + more
    for cut in range(1, len(whole)):
        pair = Pair()
        pair.open(REQUEST_CHANNEL)
        pair.caller.send(
            item(1, whole[:cut], b"", NEXT | FOLLOWS),
            item(1, whole[cut:], b"data", NEXT | FOLLOWS),
            item(1, claim, b"end", NEXT),  # metadata behind data: a lenient reader would put it behind the other
            item(1, claim + more, b"next"),
        )
        got = pair.service.received()
        assert b"".join(frame.metadata or b"" for frame in got) == more + more + more, cut
        assert [frame.data for frame in got] == [b"", b"data", b"end", b"next"]
        assert pair.caller.peer.items == {}


@pytest.mark.parametrize("kind", [REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL])
def test_metadata_behind_the_data_of_a_request_does_not_pass(kind: int) -> None:
    """It would be behind an entry that breaks off, and hide the claim from whoever looks at each frame alone."""
    begun = HONEST + encode_entry(b"text/plain", bytes(50))[:-40]
    hidden = bytes(40) + composite((MIME, FORGED))
    pair = Pair()
    pair.caller.send(frames.encode_request(kind, 1, b"da", begun, 8, FOLLOWS))
    pair.caller.send(item(1, hidden, b"ta", NEXT))
    got = pair.service.received()
    assert [frame.metadata for frame in got] == [begun, b""]
    assert [frame.data for frame in got] == [b"da", b"ta"]


def test_a_stream_id_that_is_used_again_begins_anew() -> None:
    pair = Pair()
    pair.caller.send(frames.encode_request(REQUEST_RESPONSE, 1, b"da", HONEST, 0, FOLLOWS))
    pair.caller.cancel(1)
    pair.service.received()
    pair.caller.send(frames.encode_request(REQUEST_CHANNEL, 1, b"", HONEST, 8))
    pair.caller.send(item(1, composite(MORE)))
    assert [frame.metadata for frame in pair.service.received()] == [HONEST, composite(MORE)]


def test_what_is_known_of_streams_that_have_ended_is_bounded() -> None:
    pair = Pair()
    for stream_id in range(1, 601, 2):
        pair.caller.send(frames.encode_request(REQUEST_RESPONSE, stream_id, b"da", HONEST, 0, FOLLOWS))
        pair.caller.cancel(stream_id)
    assert len(pair.caller.peer.items) <= 65


def test_a_caller_of_addresses_alone_says_nothing_in_its_items() -> None:
    """Nobody translates them: who reads composite metadata would take them for that."""
    for service_mime, expected in ((COMPOSITE_MIME, b""), (MIME_TYPE, composite((MIME, FORGED)))):
        pair = Pair(mime=MIME_TYPE, service_mime=service_mime)
        pair.open(REQUEST_CHANNEL)
        pair.caller.send(item(1, composite((MIME, FORGED))), item(1, None, flags=NEXT | COMPLETE))
        assert [frame.metadata for frame in pair.service.received()] == [expected, None]


@pytest.mark.parametrize("kind", MODELS)
def test_a_caller_of_addresses_alone_is_told_too(kind: int) -> None:
    pair = Pair(settings=TELLS, mime=MIME_TYPE)
    pair.caller.request(kind, 1, ORDERS, b"hi", 8)
    assert metadata_of(pair.service) == [told() + addressed(ORDERS)]


def test_a_route_without_composite_metadata_cannot_be_told_and_is_refused() -> None:
    world = World(TELLS)
    service = world.service("orders", 1, True, MIME_TYPE)
    text = "orders is told who its callers are (identity), for which it needs composite metadata"
    assert service.received() == [error(0, REJECTED_SETUP, f"bad-route: {text}")]
    assert not world.service("stock", 2, True, MIME_TYPE).is_closed


def test_what_an_address_wraps_is_never_the_word_of_a_broker() -> None:
    """A destination of this very mime type gets the entry of the broker, or nothing."""
    world = World()
    service = world.service("stock", 1)
    service.peer.mimes = world.core.engine.mime_pairs.take(MIME, "text/plain")
    world.caller().request(REQUEST_RESPONSE, 1, address(service="stock", wrapped=FORGED))
    assert metadata_of(service) == [None]


SPELLINGS = st.sampled_from([MIME, MIME.upper(), f" {MIME}", f"{MIME};v=1", "text/plain"])


@given(st.lists(st.tuples(SPELLINGS, st.binary(max_size=40)), max_size=5), st.integers(0, 5))
def test_no_metadata_of_a_client_reaches_a_service_with_a_claim(others: list[tuple[str, bytes]], at: int) -> None:
    entries = [*others[:at], (MIME_TYPE, ORDERS), *others[at:]]
    honest = composite(*[entry for entry in entries if entry[0] in (MIME_TYPE, "text/plain")])
    pair = Pair()
    ask(pair.caller, REQUEST_RESPONSE, 1, composite(*entries))
    ask(pair.caller, METADATA_PUSH, 0, composite(*entries))
    assert metadata_of(pair.service) == [honest, honest]


def test_a_name_that_no_entry_can_hold_is_unknown_and_not_cut() -> None:
    pair = Pair(settings=TELLS)
    ask(pair.world.caller(origin=("", "certificate:" + "x" * 2000)), REQUEST_RESPONSE, 1, HONEST)
    assert metadata_of(pair.service) == [told("unknown") + HONEST]


def test_without_such_an_entry_and_such_a_service_a_request_passes_as_it_came() -> None:
    pair = Pair()
    raw = frames.encode_request(REQUEST_RESPONSE, 1, b"hi", HONEST)
    pair.caller.send(raw)
    assert pair.service.received() == [moved(raw, 2)]
    pair.caller.send(encode_metadata_push(HONEST))
    assert pair.service.received() == [Frame(encode_metadata_push(HONEST))]

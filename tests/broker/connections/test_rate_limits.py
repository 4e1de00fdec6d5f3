"""Token buckets and counters of connections, and the floods that they end (D-43)."""

import pytest

from admin_api.access.gate import MAX_CALLERS
from broker.connections.guesses import MAX_SLOWED, SLOW_S, WRONG_PER_S, Guesses
from broker.connections.rate_limits import BURST_S, SPENT, TokenBucket, TokenBuckets
from broker.core import CoreSettings
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED
from rsocket_wire.rsocket import frames
from tests.fakes import Frame, Wire, World, address, addressed, error, framed, orders

MANY = 20_000  # of what a flood has a million of: enough to pass every bound that is not a matter of time


def spent(rate: TokenBucket, moments: list[float]) -> list[bool]:
    """Which of the tokens at these moments were there."""
    full_at, found = 0.0, []
    for now in moments:
        at = rate.spend(full_at, now)
        found.append(at != SPENT)
        full_at = at if at != SPENT else full_at
    return found


@pytest.mark.parametrize("per_s", [1, 3, 10, 1000, 7919])
def test_a_full_bucket_gives_its_burst_at_once_and_then_one_token_in_its_time(per_s: int) -> None:
    rate = TokenBucket(per_s)
    burst = int(per_s * BURST_S)
    assert spent(rate, [500.0] * (burst + 1)) == [True] * burst + [False]
    moments = [500.0] * burst + [500.0 + 0.8 / per_s, 500.0 + 1.1 / per_s, 500.0 + 1.2 / per_s]
    assert spent(rate, moments)[burst:] == [False, True, False]


def test_a_bucket_is_full_again_after_its_time_and_never_fuller() -> None:
    rate = TokenBucket(10)
    assert spent(rate, [500.0] * 100 + [510.0] * 101)[100:] == [True] * 100 + [False]
    assert spent(rate, [500.0] * 100 + [9999.0] * 101)[100:] == [True] * 100 + [False]


def test_who_keeps_to_the_rate_is_never_refused() -> None:
    assert all(spent(TokenBucket(10), [500.0 + number / 10 for number in range(5000)]))


def test_a_rate_of_none_is_no_bound() -> None:
    assert all(spent(TokenBucket(0), [500.0] * 1000))


# Floods of one connection. D-43


def flood_of(wire: Wire, raw: bytes, times: int) -> None:
    for _ in range(times):
        wire.send(raw)


def ended(text: str) -> list[Frame]:
    return [error(0, CONNECTION_ERROR, text)]


def test_d_43_a_flood_of_keepalives_ends_its_connection_and_no_other() -> None:
    world = World()
    caller, other = world.caller(), world.caller()
    keepalive = frames.encode_keepalive(b"abc", respond=True, position=77)
    flood_of(caller, keepalive, 100)
    assert caller.received() == [Frame(frames.encode_keepalive(b"abc"))] * 100
    caller.send(keepalive)
    text = "over-limit: KEEPALIVEs to be answered: more than 100 came faster than 10 a second "
    text += "(limits.max_keepalives_per_s)"
    assert caller.received() == ended(text)
    assert caller.is_closed
    other.send(keepalive)
    assert other.one() == Frame(frames.encode_keepalive(b"abc"))


def test_d_43_keepalives_at_their_rate_and_those_that_want_no_answer_are_no_flood() -> None:
    world = World()
    caller = world.caller()
    for _ in range(500):
        world.now += 0.1
        caller.send(frames.encode_keepalive(b"", respond=True))
    flood_of(caller, frames.encode_keepalive(b""), 1000)
    assert caller.received() == [Frame(frames.encode_keepalive(b""))] * 500


def test_d_43_a_flood_of_route_setups_ends_its_connection() -> None:
    world = World()
    service = world.service("orders", 1)
    for number in range(99):  # one came with the SETUP
        service.announce(1, f"orders-{number}")
    assert service.received() == []
    assert world.core.table.size() == 1
    service.announce(1, "orders-99")
    text = "over-limit: ROUTE_SETUPs: more than 100 came faster than 10 a second (limits.max_route_setups_per_s)"
    assert service.received() == ended(text)
    assert world.core.table.size() == 0


def small(stream_id: int, data: bytes) -> bytes:
    return frames.encode_payload(stream_id, frames.NEXT | frames.FOLLOWS, data)


@pytest.mark.parametrize("framed", [True, False])
def test_d_43_a_flood_of_small_fragments_ends_its_connection(framed: bool) -> None:
    world = World(CoreSettings(max_small_fragments_per_s=10))
    service = world.service("orders", 1)
    caller = world.caller(framed)
    caller.request(frames.REQUEST_CHANNEL, 1, address(service="orders"), b"x" * 64)
    flood_of(caller, small(1, b"x" * 54), 100)  # 54 bytes behind a header of 6 and a length of 3
    assert caller.received() == []
    assert len(service.received()) == 101
    caller.send(small(1, b"x" * 54))
    text = "over-limit: fragments of less than 64 bytes: more than 100 came faster than 10 a second"
    text += " (limits.max_small_fragments_per_s)"
    assert caller.received() == ended(text)
    assert [frame.name for frame in service.received()] == ["CANCEL"]
    assert world.left_over() == []


def test_d_43_fragments_of_64_bytes_last_ones_and_those_of_services_within_the_rate_are_no_flood() -> None:
    _, service, caller = orders(CoreSettings(max_small_fragments_per_s=1))
    caller.request(frames.REQUEST_CHANNEL, 1, address(service="orders"))
    stream_id = service.one().stream_id
    flood_of(caller, small(1, b"x" * 55), 100)
    flood_of(caller, frames.encode_payload(1, frames.NEXT, b"x"), 100)
    flood_of(caller, frames.encode_request_n(1, 1), 100)
    flood_of(service, small(stream_id, b"x"), 10)
    assert len(service.received()) == 300
    assert len(caller.received()) == 10
    service.send(small(stream_id, b"x"))
    assert service.is_closed
    assert [frame.name for frame in caller.received()] == ["ERROR"]


@pytest.mark.parametrize("kind", [frames.REQUEST_RESPONSE, frames.REQUEST_FNF])
def test_refused_requests_at_line_rate_leave_nothing_behind(kind: int) -> None:
    """Nothing ends such a caller: it is bounded by reading its own answers."""
    world = World()
    caller = world.caller()
    for number in range(MANY):
        caller.request(kind, 2 * number + 1, address(service="nobody"))
        if kind == frames.REQUEST_RESPONSE:
            assert caller.one().code == REJECTED
    flows = world.core.engine.flows
    assert (world.left_over(), flows.opened, len(flows.active), len(flows.totals)) == ([], 1, 1, 0)
    assert (world.core.query.remembered(), caller.peer.buffered_bytes) == (1, 0)


def test_answers_that_a_caller_does_not_read_count_as_buffered() -> None:
    world = World()
    caller = world.caller()
    before = caller.peer.bytes_out
    for number in range(10):
        raw = frames.encode_request(frames.REQUEST_RESPONSE, 2 * number + 1, b"", addressed(address(service="nobody")))
        world.core.receive(caller.peer, framed(raw), world.now)
    waiting = caller.peer.buffered_bytes
    world.pump()
    assert caller.peer.bytes_out - before == waiting > 10 * 9
    assert caller.peer.buffered_bytes == 0


# Wrong secrets


def test_so_many_wrong_secrets_of_an_address_slow_it_down_for_a_while_and_no_other() -> None:
    guesses, burst_n = Guesses(), int(WRONG_PER_S * BURST_S)
    for _ in range(burst_n):
        assert guesses.delay_s("10.1.1.1", 100.0) == 0.0
        guesses.count_wrong("10.1.1.1", 100.0)
    assert [guesses.delay_s(each, 100.5) for each in ("10.1.1.1", "10.1.1.2")] == [SLOW_S, 0.0]
    assert [guesses.delay_s("10.1.1.1", at) for at in (101.1, 100.0 + BURST_S)] == [0.0, 0.0]
    assert guesses._wrong.full_at == {}


def test_those_that_are_being_tried_count_as_if_they_were_wrong() -> None:
    guesses = Guesses(2)
    guesses.count_wrong("10.1.1.1", 100.0)
    assert [guesses.has_room("10.1.1.1", tried_n, 100.0) for tried_n in (18, 19)] == [True, False]


def test_0_is_no_bound() -> None:
    guesses = Guesses(0)
    for _ in range(1000):
        guesses.count_wrong("10.1.1.1", 100.0)
    assert (guesses.delay_s("10.1.1.1", 100.0), guesses._wrong.full_at) == (0.0, {})


def test_so_many_slow_addresses_are_remembered() -> None:
    guesses = Guesses()
    for number in range(MAX_SLOWED + 1):
        for _ in range(12):
            guesses.count_wrong(str(number), 100.0)
    assert [guesses.delay_s(each, 100.0) for each in ("0", "1", str(MAX_SLOWED))] == [0.0, SLOW_S, SLOW_S]


def test_names_that_are_remembered_are_bounded_and_without_the_option_none_are() -> None:
    buckets = TokenBuckets(1, MAX_CALLERS)
    for _ in range(int(BURST_S)):
        assert buckets.has_room("first", 0.0)
        buckets.spend("first", 0.0)
    assert not buckets.has_room("first", 0.0)
    for number in range(MAX_CALLERS):
        assert buckets.has_room(f"{number}", 0.0)
        buckets.spend(f"{number}", 0.0)
    assert buckets.has_room("first", 0.0)  # it was forgotten
    assert len(buckets.full_at) == MAX_CALLERS
    free = TokenBuckets(0, MAX_CALLERS)
    for _ in range(1000):
        assert free.has_room("first", 0.0)
        free.spend("first", 0.0)
    assert len(free.full_at) == 0

"""broker.views: what an operator sees of a core."""

import pytest

from broker.config.options import SECTIONS, TABLES, Config
from broker.config.sections.process import ServerOptions
from broker.config.sections.samwise import RabbitmqOptions, SamwiseOptions
from broker.config.urls import Listen
from broker.core import CoreSettings
from broker.events import bucket_of
from broker.forwarding.traffic.flows import Counts
from broker.routing.policies import Policy
from broker.views import queries, schemas
from broker.views.queries import TagFilter
from broker.views.schemas import DrainView, Listed, Moment, Part, ProtectionView, RouteView, ServiceView, WaitingView
from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE, REQUEST_STREAM, encode_lease
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import Key
from rsocket_wire.wire.tags import Tag
from tests.admin_api.fakes import shop, shop_with_traffic
from tests.fakes import START_MS, World, address, composite, route_id, tags_of

ORDERS_EU = "00000000-0000-0000-0000-000000000001"
ORDERS_US = "00000000-0000-0000-0000-000000000002"


def moment(world: World) -> Moment:
    return Moment(world.now, world.at_ms)


def ids(world: World, *wanted: tuple[str, str], part: Part = Part()) -> list[str]:  # noqa: B008 -- immutable
    """Route ids that a filter finds."""
    tags = TagFilter()
    for name, value in wanted:
        tags.add(name, value)
    return [route.route_id for route in queries.routes(world.core, moment(world), tags, part).items]


def shown(world: World, number: int) -> RouteView:
    """A route as operators see it."""
    found = queries.route(world.core, moment(world), id_text(route_id(number)))
    assert found is not None
    return found


def test_a_route_that_reads_too_slowly_or_calls_itself_unhealthy_says_so() -> None:
    world = shop()
    world.core.congested(world.wires[1].peer)
    world.service("orders", 4, health="down", weight="7")
    assert [shown(world, number).states for number in (1, 2, 4)] == [["congested"], [], ["unhealthy"]]
    assert [shown(world, number).weight for number in (1, 4)] == [1, 7]
    none = dict.fromkeys(["draining", "full", "unleased", "ejected", "unhealthy", "congested"], 0)
    assert queries.route_states(world.core) == {**none, "unhealthy": 1, "congested": 1}


def test_a_route_with_all_the_requests_that_it_may_have_is_full() -> None:
    world = World(CoreSettings(policies={"orders": Policy(max_in_flight_per_route=1)}))
    world.service("orders", 1)
    caller = world.caller()
    caller.request(REQUEST_STREAM, 1, address(service="orders"))
    caller.request(REQUEST_RESPONSE, 3, address(service="orders"))
    found = shown(world, 1)
    assert (found.in_flight, found.awaited, found.states) == (2, 1, ["full"])
    caller.request(REQUEST_RESPONSE, 5, address(service="orders"))
    assert caller.one().text.startswith("over-limit: ")
    refusing = ServiceView("orders", 1, 0, 2, 2, awaited=1, ejected=0, is_refusing=True, refused=1)
    assert queries.services(world.core, Part()).items == [refusing]
    assert queries.protection(world.core) == ProtectionView(0, 0, 0, breakers_opened=1, refused=1, panics=0)
    world.advance(3)
    assert not queries.services(world.core, Part()).items[0].is_refusing


def test_a_route_that_fails_is_shown_with_its_errors_and_for_how_long_it_is_ejected() -> None:
    world = World(CoreSettings(policy=Policy(eject_after_errors=3, eject_s=60.0)))
    world.service("orders", 1)
    orders, caller = world.wires[1], world.caller()
    for number in range(3):
        assert shown(world, 1).errors_in_a_row == number
        caller.request(REQUEST_RESPONSE, 2 * number + 1, address(service="orders"))
        orders.fail(orders.one().stream_id, 0x201, "broken")
    world.advance(0.5)
    found = shown(world, 1)
    assert (found.states, found.ejections, found.ejected_s) == (["ejected"], 1, 59.5)
    assert [each.ejected for each in queries.services(world.core, Part()).items] == [1]
    caller.request(REQUEST_RESPONSE, 7, address(service="orders"))  # it is the only one: panic
    assert queries.protection(world.core) == ProtectionView(1, 0, 0, 0, 0, panics=1)


def test_a_route_that_grants_requests_is_shown_with_what_is_left() -> None:
    world = World()
    wire = world.service("orders", 1, wants_lease=True)
    assert (shown(world, 1).grants, shown(world, 1).states) == (0, ["unleased"])
    wire.send(encode_lease(60_000, 2))
    assert (shown(world, 1).grants, shown(world, 1).states) == (2, [])


def test_a_service_is_shown_with_the_policy_that_is_in_use() -> None:
    world = World(CoreSettings(policies={"orders": Policy(chooser="random")}))
    world.service("orders", 1)
    world.service("billing", 2)
    found = [queries.service(world.core, moment(world), name, Part()) for name in ("orders", "billing")]
    assert [each.policy["chooser"] for each in found if each] == ["random", "round_robin"]


def test_requests_that_wait_for_a_route_are_counted_with_their_bytes() -> None:
    world = World(CoreSettings(no_route="wait"))
    raw = world.caller().request(REQUEST_RESPONSE, 1, address(service="orders"))
    assert queries.waiting(world.core) == WaitingView(requests=1, bytes=len(raw), waited=1)
    world.service("orders", 1)
    assert queries.waiting(world.core) == WaitingView(requests=0, bytes=0, waited=1)


def test_drains_are_shown_with_the_routes_and_connections_that_are_left() -> None:
    world = shop()
    world.core.lifecycle.drains.drain_tag(Tag.of("region", "eu"), 5, 20, True, world.now)
    world.core.lifecycle.drains.drain_route(route_id(2), 1, 2, False, world.now)
    world.core.lifecycle.drains.drain_broker(3, 4, False, world.now)
    world.advance(10)  # one has gone at once, the other's turn has just come
    eu = DrainView("tag", "region=eu", START_MS + 7_000, 10.0, 5.0, 20.0, True, routes=0, connections_left=0)
    us = DrainView("route", ORDERS_US, START_MS + 7_000, 10.0, 1.0, 2.0, False, routes=1, connections_left=0)
    everything = DrainView("broker", "", START_MS + 7_000, 10.0, 3.0, 4.0, False, routes=1, connections_left=0)
    assert queries.drains(world.core, moment(world), Part()) == Listed([eu, us, everything], 3, 0, 100)
    assert queries.drains(world.core, moment(world), Part(1, 1)) == Listed([us], 3, 1, 1)
    assert queries.drain(world.core, moment(world), route_id(2), None) == us
    assert queries.drain(world.core, moment(world), None, Tag.of("Region", "eu")) == eu
    assert queries.drain(world.core, moment(world), None, None) == everything
    assert queries.drain(world.core, moment(world), route_id(1), None) is None


def test_a_name_means_the_text_key_of_the_same_spelling_too() -> None:
    """A client that writes the text "region" is found beside those that write the well-known key."""
    world = shop()
    tags = [Tag(Key.text("region"), b"us")]
    world.caller().push(composite((MIME_TYPE, RouteSetup(route_id(4), "orders", tags).encode())))
    assert ids(world, ("region", "us")) == [ORDERS_US, "00000000-0000-0000-0000-000000000004"]


@pytest.mark.parametrize("name", ["", "k" * 128])
def test_a_name_that_is_no_key_is_refused(name: str) -> None:
    with pytest.raises(BrokerError, match="bad-tag"):
        TagFilter().add(name, "x")


def test_a_filter_finds_what_a_request_with_the_same_tags_would_find() -> None:
    world = shop()
    wanted = tags_of({"region": "eu", "zone": "a"})
    matching = [route.id_text for route in world.core.query.matching([[tag] for tag in wanted])]
    assert ids(world, ("region", "eu"), ("zone", "a")) == matching == [ORDERS_EU]


def test_a_connection_is_connecting_until_its_setup_and_ending_until_its_last_bytes_are_written() -> None:
    world = World()
    world.connect()
    world.service("orders", 1)
    world.core.end(world.core.peers()[1], "closed-by-operator", "enough", world.now)
    states = [each.state for each in queries.connections(world.core, moment(world), Part()).items]
    assert states == ["connecting", "ending"]


def test_a_connection_without_a_socket_that_may_come_back_is_suspended() -> None:
    world = World()
    for token in (b"1", b"2"):
        world.caller(token=token)
    world.wires[1].lose()
    states = [each.state for each in queries.connections(world.core, moment(world), Part()).items]
    assert states == ["suspended", "open"]
    assert queries.sessions(world.core) == schemas.SessionsView(2, 1, 0, 0)


def test_closed_connections_are_shown_latest_first_with_the_reason() -> None:
    world = shop()
    world.wires[4].lose()
    world.advance(1)
    world.service("orders", 1)
    listed = queries.closed(world.core, Part())
    assert [(each.connection_id, each.reason) for each in listed.items] == [(1, "replaced"), (4, "left")]
    assert listed.items[0].detail == f"another connection came with the Route Id {ORDERS_EU}"
    assert world.core.lifecycle.limits.closed.by_reason == {"left": 1, "replaced": 1}


@pytest.mark.parametrize(
    "histogram, expected",
    [
        ({}, [0, 0, 0]),
        ({7: 1}, [7, 7, 7]),
        ({1: 50, 2: 49, 3: 1}, [1, 2, 2]),
        ({1: 1, bucket_of(1000): 99}, [1007, 1007, 1007]),
    ],
)
def test_percentiles_of_a_histogram(histogram: dict[int, int], expected: list[int]) -> None:
    assert queries.percentiles_us(histogram, (0.5, 0.95, 0.99)) == expected


def test_what_the_edge_measured_is_shown_with_its_percentiles() -> None:
    world = shop()
    for us, number in ((10, 50), (30, 49), (1000, 1)):
        world.core.added.add(us / 1e6, number)
    world.core.lag.add(-1.0, 1)  # a clock that went back
    status = queries.status(world.core, moment(world), name="eu-1", state="ready")
    assert status.added_latency == schemas.DurationsView(number=100, p50_us=10, p99_us=30, max_us=1000)
    assert status.loop_lag == schemas.DurationsView(number=1, p50_us=0, p99_us=0, max_us=0)


def test_a_connection_that_is_ending_is_counted_once_among_those_that_ever_came() -> None:
    world = shop()
    world.core.end(world.core.peers()[0], "closed-by-operator", "enough", world.now)
    assert queries.connections_accepted(world.core) == 4
    world.wires[1].lose()
    assert queries.connections_accepted(world.core) == 4


def test_the_configuration_is_shown_as_one_would_write_it() -> None:
    config = Config(
        server=ServerOptions(listen=(Listen("tcp", "::1", 7878), Listen("unix", path="/run/b.sock"))),
        samwise=SamwiseOptions(rabbitmq={"r": RabbitmqOptions(password="hush")}),
        service={"orders": {"chooser": "random"}},
    )
    shown = queries.config_view(config)
    assert shown["server"]["listen"] == ["tcp://[::1]:7878", "unix:///run/b.sock"]
    assert shown["admin"] == {
        **{"listen": "127.0.0.1:7070", "changes": "local", "tokens": "", "token_file": "", "audience": ""},
        **{key: [] for key in ("admins", "operators", "viewers", "readers")},
        "max_requests_per_s": 0,
    }
    assert shown["service"] == {"orders": {"chooser": "random"}}
    assert shown["samwise.retry"] == {"tries": 3, "interval": 5.0, "threshold": 10.0}
    rabbitmq = shown["samwise.rabbitmq"]["r"]
    assert isinstance(rabbitmq, dict)
    assert (rabbitmq["host"], rabbitmq["password"]) == ("127.0.0.1", queries.HIDDEN)
    assert "hush" not in str(shown)
    assert list(shown) == [*SECTIONS, *TABLES]


def test_a_look_changes_nothing() -> None:
    world = shop_with_traffic()
    before = (world.core.table.generation, world.core.query.hits, world.core.query.misses)
    queries.status(world.core, moment(world), name="x", state="ready", config=Config())
    ids(world, ("service", "orders"))
    assert (world.core.table.generation, world.core.query.hits, world.core.query.misses) == before


def test_traffic_of_no_requests_has_no_mean() -> None:
    world = World()
    world.core.engine.flows.totals["a", "request_response", "unicast", "completed", ""] = Counts()
    assert queries.traffic(world.core, Part()).items[0].latency_mean_us == 0


def test_a_request_in_flight_is_a_stream_of_its_caller_and_of_its_route() -> None:
    world = shop()
    world.wires[4].request(REQUEST_RESPONSE, 1, address(service="billing"))
    found = {each.connection_id: each for each in queries.connections(world.core, moment(world), Part()).items}
    assert (found[4].streams_begun, found[3].streams_served, world.core.in_flight_n) == (1, 1, 1)

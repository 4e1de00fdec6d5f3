import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from client_sdk.gateways.samwise.backends.backend import ANY
from client_sdk.gateways.samwise.decisions import Parked, ReadNew, TakeDue, TakeLane
from client_sdk.gateways.samwise.delivery import LANES_N, Delivery, Retry
from tests.client_sdk.gateways.samwise.disk import World
from tests.client_sdk.gateways.samwise.messages import message


def world(*up: str, tries: int = 3, interval_s: float = 5, in_flight_n: int = 10, window_n: int = 100) -> World:
    """RabbitMQ brokers, these of which are up."""
    made = World(Retry(tries=tries, interval_s=interval_s, threshold_s=10), in_flight_n=in_flight_n, window_n=window_n)
    made.set_up(*up)
    return made


def services(in_flight_n: int = 10, window_n: int = 100, **up: tuple[str, ...]) -> World:
    """Services by name of their exchange."""
    return World(is_fixed=False, up=dict(up), in_flight_n=in_flight_n, window_n=window_n)


# Round robin


def test_messages_go_to_destinations_by_turns() -> None:
    rabbits = world("a", "b", "c")
    rabbits.put(*(message(id) for id in range(1, 7)))
    assert rabbits.begun == [(1, "a"), (2, "b"), (3, "c"), (4, "a"), (5, "b"), (6, "c")]


def test_what_is_acknowledged_is_done() -> None:
    rabbits = world("a")
    rabbits.put(message(1))
    rabbits.ack(1, "a")
    assert rabbits.done == [1]
    assert rabbits.rows == {}
    assert rabbits.delivery.next_at_ms() is None


def test_who_is_down_is_left_out_at_once() -> None:
    rabbits = world("a", "b")
    rabbits.put(message(1))
    rabbits.set_up("b")
    rabbits.put(message(2), message(3))
    assert rabbits.begun[1:] == [(2, "b"), (3, "b")]


def test_where_one_fails_the_other_is_asked_at_once() -> None:
    rabbits = world("a", "b")
    rabbits.put(message(1))
    rabbits.fail(1, "a")
    rabbits.ack(1, "b")
    assert rabbits.done == [1]


def test_when_all_that_are_up_have_failed_it_rests_for_the_interval() -> None:
    rabbits = world("a", "b", tries=9)
    rabbits.put(message(1))
    rabbits.fail(1, "a")
    rabbits.fail(1, "b")
    assert (rabbits.rows[1].due_at_ms, rabbits.rows[1].message.tries_n) == (rabbits.now_ms + 5000, 2)
    rabbits.wait(4.999)
    assert len(rabbits.begun) == 2
    rabbits.wait(0.001)
    assert len(rabbits.begun) == 3


def test_nobody_up_waits_for_a_change_in_the_order_of_ids_and_uses_up_no_tries() -> None:
    rabbits = world(tries=1)
    rabbits.put(*(message(id) for id in range(1, 31)))
    for _ in range(720):  # an hour
        rabbits.wait(5)
    assert rabbits.begun == []
    rabbits.set_up("a")
    for id in range(1, 31):
        rabbits.ack(id, "a")
    assert rabbits.done == list(range(1, 31))


def test_a_change_that_nobody_told_is_seen_after_the_interval() -> None:
    rabbits = world()
    rabbits.put(message(1))
    rabbits.up[""] = ("a",)
    rabbits.wait(4.999)
    assert rabbits.begun == []
    rabbits.wait_for_next()
    assert rabbits.begun == [(1, "a")]


def test_a_destination_with_many_under_way_is_left_out_and_then_all_wait() -> None:
    rabbits = world("a", "b", in_flight_n=2)
    rabbits.put(*(message(id) for id in range(1, 7)))
    assert rabbits.under_way == [(1, "a"), (2, "b"), (3, "a"), (4, "b")]
    rabbits.ack(2, "b")
    rabbits.ack(4, "b")
    assert rabbits.under_way == [(1, "a"), (3, "a"), (5, "b"), (6, "b")]


def test_what_failed_goes_before_those_behind_it() -> None:
    rabbits = world("a", "b", in_flight_n=1)
    rabbits.put(message(1), message(2), message(3))
    rabbits.fail(1, "a")
    rabbits.ack(2, "b")
    assert rabbits.begun == [(1, "a"), (2, "b"), (1, "b"), (3, "a")]


# Tries


@pytest.mark.parametrize("tries", [1, 2, 3])
def test_tries_is_how_often_it_is_published(tries: int) -> None:
    rabbits = world("a", tries=tries)
    rabbits.put(message(1))
    while rabbits.under_way:
        rabbits.fail(1, "a", f"failure {len(rabbits.begun)}")
        rabbits.wait(5)
    assert rabbits.begun == [(1, "a")] * tries
    assert rabbits.dead == {1: f"failure {tries}"}


def test_no_limit_of_tries() -> None:
    rabbits = world("a", tries=0)
    rabbits.put(message(1))
    for _ in range(50):
        rabbits.fail(1, "a")
        rabbits.wait(5)
    assert rabbits.under_way == [(1, "a")]


def test_what_is_hopeless_is_dead_at_once() -> None:
    rabbits = world("a", "b")
    rabbits.put(message(1))
    rabbits.fail(1, "a", "nonsense", is_hopeless=True)
    assert rabbits.dead == {1: "nonsense"}
    assert rabbits.begun == [(1, "a")]


def test_a_destination_that_went_before_it_was_published_uses_up_no_try() -> None:
    rabbits = world("a", tries=1)
    rabbits.put(message(1))
    for _ in range(5):
        rabbits.fail(1, "a", "connection lost", is_away=True)
        assert rabbits.under_way == []
        rabbits.wait(5)
    rabbits.ack(1, "a")
    assert rabbits.done == [1]


def test_who_went_and_came_back_is_asked_without_a_rest() -> None:
    rabbits = world("a")
    rabbits.put(message(1))
    rabbits.up[""] = ()
    rabbits.fail(1, "a")
    rabbits.set_up("a")
    assert rabbits.under_way == [(1, "a")]


def test_a_delivery_that_waits_too_long_is_told_once_and_goes_on_when_it_has_ended() -> None:
    rabbits = world("a", "b")
    rabbits.put(message(1))
    assert rabbits.delivery.next_at_ms() == rabbits.now_ms + 10_000
    assert rabbits.delivery.overdue(rabbits.now_ms + 9_999) == []
    assert rabbits.delivery.overdue(rabbits.now_ms + 10_000) == [(1, "a")]
    assert rabbits.delivery.overdue(rabbits.now_ms + 99_999) == []
    rabbits.wait(60)
    assert rabbits.begun == [(1, "a")]
    rabbits.fail(1, "a", "no acknowledgement")
    assert rabbits.begun == [(1, "a"), (1, "b")]


def test_deadlines_of_deliveries_that_ended_are_gone() -> None:
    rabbits = world("a")
    rabbits.put(message(1))
    rabbits.ack(1, "a")
    assert rabbits.delivery.overdue(rabbits.now_ms + 99_999) == []


# Redundant


def test_redundant_is_done_when_different_destinations_have_acknowledged_it() -> None:
    rabbits = world("a", "b", "c")
    rabbits.put(message(1, acks_n=2))
    assert rabbits.under_way == [(1, "a"), (1, "b")]
    rabbits.ack(1, "a")
    assert rabbits.done == []
    assert rabbits.rows[1].message.acknowledged_by == {"a"}
    rabbits.ack(1, "b")
    assert rabbits.done == [1]


def test_only_what_is_missing_is_tried_again() -> None:
    rabbits = world("a", "b")
    rabbits.put(message(1, acks_n=2))
    rabbits.ack(1, "a")
    rabbits.fail(1, "b")
    rabbits.wait(5)
    assert rabbits.begun == [(1, "a"), (1, "b"), (1, "b")]
    rabbits.ack(1, "b")
    assert rabbits.done == [1]


def test_a_third_one_takes_it_where_one_of_two_fails() -> None:
    rabbits = world("a", "b", "c")
    rabbits.put(message(1, acks_n=2))
    rabbits.fail(1, "a")
    rabbits.ack(1, "b")
    assert rabbits.under_way == [(1, "c")]


def test_one_down_and_back_completes_there_whatever_the_outage_lasts() -> None:
    rabbits = world("a", tries=1)
    rabbits.put(*(message(id, acks_n=2) for id in (1, 2, 3)))
    for id in (1, 2, 3):
        rabbits.ack(id, "a")
    for _ in range(720):
        rabbits.wait(5)
    rabbits.put(message(4))  # others go on meanwhile
    rabbits.ack(4, "a")
    rabbits.set_up("a", "b")
    assert rabbits.under_way == [(1, "b"), (2, "b"), (3, "b")]
    for id in (1, 2, 3):
        rabbits.ack(id, "b")
    assert rabbits.done == [4, 1, 2, 3]


def test_after_a_restart_an_acknowledgement_is_not_asked_for_again() -> None:
    rabbits = world("a", "b")
    rabbits.put(message(1, acks_n=2))
    rabbits.ack(1, "b")
    rabbits.restart()
    assert rabbits.under_way == [(1, "a")]


def test_a_redundant_message_waits_for_room_at_all_and_keeps_its_place() -> None:
    rabbits = world("a", "b", in_flight_n=1)
    rabbits.put(message(1), message(2, acks_n=2), message(3))
    assert rabbits.under_way == [(1, "a")]
    rabbits.ack(1, "a")
    assert rabbits.under_way == [(2, "b"), (2, "a")]


# Services: destinations by exchange


def test_what_finds_no_service_does_not_hold_up_others() -> None:
    net = services(there=(ANY,))
    net.put(message(1, exchange="away"), message(2, exchange="there"), message(3, exchange="away"))
    assert net.under_way == [(2, ANY)]
    assert {net.rows[1].lane, net.rows[3].lane} == {"away"}


def test_a_lane_is_delivered_in_order_when_its_service_comes_and_new_ones_go_behind() -> None:
    net = services(in_flight_n=2)
    net.put(*(message(id, exchange="orders") for id in range(1, 8)))
    net.set_up(ANY, exchange="orders")
    net.put(message(8, exchange="orders"))
    while net.under_way:
        net.ack(net.under_way[0][0], ANY, by="orders-1")
    assert [id for id, _ in net.begun] == list(range(1, 9))
    assert net.done == list(range(1, 9))


def test_an_hour_without_the_service_costs_a_look_at_one_message_in_each_interval() -> None:
    net = services()
    net.put(*(message(id) for id in range(1, 50)))
    lanes = [net.rows[id].lane for id in range(1, 50)]
    assert lanes == ["orders"] * 49
    net.now_ms += 5000
    assert net.delivery.wants(net.now_ms) == [TakeLane("orders", 1)]


def test_of_those_taken_from_a_lane_the_first_speaks_for_all() -> None:
    delivery = Delivery(Retry(), has_fixed_destinations=False)
    delivery.resume(3, ["orders"], None)
    delivery.got_new([], 3)
    delivery.got_lane("orders", [message(1), message(2), message(3)], is_all=False)
    assert delivery.begin(message(1), [], 0) == []
    assert delivery.head(0) is None
    assert delivery.take_fates() == [Parked(message(id), "orders", "") for id in (1, 2, 3)]


def test_a_service_that_hangs_holds_up_its_own_messages_only() -> None:
    net = services(in_flight_n=2, hangs=(ANY,), works=(ANY,))
    net.put(*(message(id, exchange="hangs") for id in range(1, 6)))
    net.put(message(6, exchange="works"))
    assert net.under_way == [(1, ANY), (2, ANY), (6, ANY)]
    net.ack(1, ANY, by="hangs-1")
    assert net.under_way == [(2, ANY), (6, ANY), (3, ANY)]


def test_a_service_that_is_away_though_the_backend_did_not_know_uses_up_no_tries() -> None:
    net = services(orders=(ANY,))
    net.put(message(1))
    for _ in range(10):
        net.fail(1, ANY, "no-route", is_away=True)
        assert (net.rows[1].lane, net.rows[1].message.tries_n) == ("orders", 0)
        net.wait(5)
    net.ack(1, ANY, by="orders-1")
    assert net.done == [1]


def test_a_service_that_fails_is_tried_again_after_the_interval() -> None:
    net = services(orders=(ANY,))
    net.put(message(1), message(2))
    net.fail(1, ANY, "sold out")
    assert net.under_way == [(2, ANY)]
    net.wait(5)
    assert net.under_way == [(2, ANY), (1, ANY)]


def test_lanes_are_bounded_and_beyond_them_a_message_rests_alone() -> None:
    net = World(is_fixed=False, max_lanes=2)
    net.put(*(message(id, exchange=str(id)) for id in (1, 2, 3)))
    assert [net.rows[id].lane for id in (1, 2, 3)] == ["1", "2", None]
    assert net.rows[3].due_at_ms == net.now_ms + 5000
    net.set_up(ANY, exchange="3")
    net.wait(5)
    assert net.under_way == [(3, ANY)]


def test_many_lanes_are_looked_at_in_turns_and_new_messages_go_on() -> None:
    delivery = Delivery(Retry(), has_fixed_destinations=False)
    names = {f"exchange-{n}" for n in range(100)}
    delivery.resume(1, names, None)
    rounds = 0
    while wants := delivery.wants(7):
        rounds += 1
        assert len(wants) <= LANES_N + 1
        assert (ReadNew(0, 2048 // 9) in wants) == (rounds == 1)
        names -= {want.lane for want in wants if isinstance(want, TakeLane)}
        for want in wants:
            if isinstance(want, TakeLane):
                delivery.got_lane(want.lane, [], is_all=False)
    assert names == set()


def test_lanes_are_known_after_a_restart() -> None:
    net = services()
    net.put(message(1), message(2))
    net.restart()
    net.set_up(ANY, exchange="orders")
    assert net.under_way == [(1, ANY), (2, ANY)]


# The window


def test_a_million_messages_are_read_a_window_at_a_time() -> None:
    delivery = Delivery(Retry(), has_fixed_destinations=True, window_n=100)
    delivery.resume(1_000_000, [], None)
    assert delivery.wants(0) == [ReadNew(0, 100)]
    assert delivery.wants(0) == []  # it is being read
    delivery.got_new([message(id) for id in range(1, 101)], 100)
    assert delivery.wants(0) == []


def test_what_the_disk_did_not_give_is_wanted_again() -> None:
    delivery = Delivery(Retry(), has_fixed_destinations=True)
    delivery.resume(2, ["lane"], 5)
    wants = delivery.wants(5)
    delivery.reading_failed()
    assert sorted(map(str, delivery.wants(5))) == sorted(map(str, wants))
    assert len(wants) == 3


def test_a_message_that_comes_while_others_wait_on_disk_is_read_behind_them() -> None:
    delivery = Delivery(Retry(), has_fixed_destinations=True)
    delivery.resume(7, [], None)
    delivery.stored(message(8))
    assert delivery.head(0) is None
    assert delivery.wants(0) == [ReadNew(0, 256)]
    delivery.got_new([message(8)], 8)
    delivery.stored(message(9))
    assert delivery.begin(message(8), ["a"], 0) == ["a"]
    assert delivery.begin(message(9), ["a"], 0) == ["a"]
    assert delivery.wants(0) == []


def test_room_is_shared_by_those_that_come_again_and_new_ones() -> None:
    delivery = Delivery(Retry(), has_fixed_destinations=True, window_n=1)
    delivery.resume(10, [], 5)
    wants = [delivery.wants(5) for _ in range(2)]
    assert sorted(map(str, wants)) == sorted(map(str, [[TakeDue(1)], [ReadNew(0, 1)]]))


def test_a_full_window_is_woken_by_its_messages_and_not_by_those_on_disk() -> None:
    delivery = Delivery(Retry(), has_fixed_destinations=True, window_n=1)
    delivery.resume(2, ["lane"], 5)
    assert delivery.next_at_ms() == 0
    delivery.got_new([message(1)], 1)
    assert delivery.next_at_ms() is None
    assert delivery.begin(message(1), ["a"], 7) == ["a"]
    assert delivery.next_at_ms() == 10_007


def test_a_window_full_of_bytes_reads_no_more() -> None:
    delivery = Delivery(Retry(), has_fixed_destinations=True, window_bytes=5)
    delivery.resume(2, [], None)
    delivery.got_new([message(1)], 1)
    assert delivery.wants(0) == []
    assert delivery.next_at_ms() is None


def test_what_an_operator_removes_is_not_delivered() -> None:
    rabbits = world()
    rabbits.put(message(1), message(2))
    rabbits.delivery.forget(1)
    rabbits.delivery.forget(77)
    rabbits.set_up("a")
    assert rabbits.begun == [(2, "a")]
    rabbits.delivery.forget(2)  # it is under way
    rabbits.ack(2, "a")
    assert rabbits.done == [2]


@pytest.mark.parametrize("tries", [1, 9])
def test_what_an_operator_removes_while_it_is_under_way_is_not_tried_again(tries: int) -> None:
    rabbits = world("a", "b", tries=tries)
    rabbits.put(message(1), message(2, acks_n=2))
    for id in (1, 2):
        rabbits.delivery.forget(id)
        del rabbits.rows[id]
    rabbits.fail(1, "a")
    rabbits.fail(2, "a")
    rabbits.ack(2, "b")
    assert rabbits.begun == [(1, "a"), (2, "b"), (2, "a")]
    assert rabbits.delivery.next_at_ms() is None


def test_of_deliveries_that_are_not_under_way_nothing_is_heard() -> None:
    rabbits = world("a")
    rabbits.put(message(1))
    rabbits.ack(1, "a")
    rabbits.delivery.acknowledged(1, "a", "a")
    rabbits.delivery.failed(1, "a", "late")
    assert rabbits.delivery.take_fates() == []


class History(RuleBasedStateMachine):
    """Whatever happens, in whatever order, none is lost and none is asked twice."""

    is_fixed = True
    names = ("a", "b", "c")

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Retry(tries=3, interval_s=5), is_fixed=self.is_fixed, window_n=4, in_flight_n=2)
        self.put_n = 0
        self.failures: dict[int, int] = {}

    @rule(acks=st.lists(st.sampled_from([1, 1, 1, 2, 3, 4]), min_size=1, max_size=5), exchange=st.sampled_from("xy"))
    def put(self, acks: list[int], exchange: str) -> None:
        found = [message(self.put_n + n, acks_n=acks_n, exchange=exchange) for n, acks_n in enumerate(acks, 1)]
        self.put_n += len(acks)
        self.world.put(*found)

    @rule(up=st.sets(st.sampled_from(names)), exchange=st.sampled_from("xy"), is_told=st.booleans())
    def change(self, up: set[str], exchange: str, is_told: bool) -> None:
        self.world.up["" if self.is_fixed else exchange] = tuple(sorted(up))
        if is_told:
            self.world.delivery.changed()
        self.world.pump()

    @precondition(lambda self: self.world.under_way)
    @rule(which=st.integers(0, 99))
    def ack(self, which: int) -> None:
        id, to = self.world.under_way[which % len(self.world.under_way)]
        self.world.ack(id, to)

    @precondition(lambda self: self.world.under_way)
    @rule(which=st.integers(0, 99), is_away=st.booleans(), is_hopeless=st.sampled_from([False, False, False, True]))
    def fail(self, which: int, is_away: bool, is_hopeless: bool) -> None:
        id, to = self.world.under_way[which % len(self.world.under_way)]
        self.failures[id] = self.failures.get(id, 0) + (not is_away) + 3 * is_hopeless
        self.world.fail(id, to, is_away=is_away, is_hopeless=is_hopeless)

    @rule(seconds=st.sampled_from([0.1, 5, 60]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @invariant()
    def none_is_lost(self) -> None:
        world = self.world
        assert sorted([*world.done, *world.dead, *world.rows]) == list(range(1, self.put_n + 1))
        entries = world.delivery._entries
        assert len(entries) <= 4
        for id, row in world.rows.items():
            is_at_hand_or_new = id in entries or id > world.delivery._read_to
            is_due, is_parked = row.due_at_ms is not None, row.lane is not None
            assert is_due + is_parked <= 1
            assert is_due or is_parked or is_at_hand_or_new
            assert id not in entries or not (is_due or is_parked)

    @invariant()
    def none_is_dead_before_its_tries_are_used_up(self) -> None:
        assert all(self.failures[id] >= 3 for id in self.world.dead)

    @invariant()
    def no_destination_has_too_many(self) -> None:
        under_way = [to for _, to in self.world.under_way]
        assert all(under_way.count(name) <= 2 for name in self.names)

    def teardown(self) -> None:
        """All come up and take what they get: what wants no more than there are arrives."""
        for exchange in ("", "x", "y"):
            self.world.up[exchange] = self.names
        self.world.delivery.changed()
        self.world.pump()
        for _ in range(10_000):
            if self.world.under_way:
                self.world.ack(*self.world.under_way[0])
            elif all(row.message.publish.acks_n > 3 for row in self.world.rows.values()):
                break
            else:
                self.world.wait_for_next()
        for row in self.world.rows.values():
            assert row.message.publish.acks_n > 3


class HistoryOfServices(History):
    is_fixed = False


test_history_with_fixed_destinations = History.TestCase
test_history_with_services = HistoryOfServices.TestCase
History.TestCase.settings = HistoryOfServices.TestCase.settings = settings(max_examples=20, stateful_step_count=60)

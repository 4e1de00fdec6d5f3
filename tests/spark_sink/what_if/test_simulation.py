"""What is asked, and what comes out: removed and added routes, other methods, what cannot be replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.events import BROKER_LOAD, REDIRECT_SET, ROUTE_SEEN, TABLE_DIGEST
from broker.routing.sharding.hashes import key_hash
from broker.routing.sharding.maglev import MaglevTable
from broker.routing.table import Route
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST
from rsocket_wire.wire.keys import LB_METHOD, SHARD_KEY, SHARD_METHOD
from spark_sink.errors import BadFolder
from spark_sink.what_if import local
from spark_sink.what_if.question import Question
from spark_sink.what_if.replay import BEFORE_SNAPSHOT, NO_ADDRESS
from tests.fakes import address, route_id
from tests.spark_sink.what_if.histories import START_US, History, asked, loads, name_of, tags_of


def two_routes(requests: int = 10) -> History:
    """Round robin over a route in each of two zones."""
    history = History().start().join(1, "orders", zone="a").join(2, "orders", zone="b")
    for number in range(requests):
        history.ask(1 + number % 2, "orders")
    return history


def test_without_all_routes_requests_find_none_and_the_tag_is_named(tmp_path: Path) -> None:
    history = two_routes().ask(1, "orders", address(service="orders", zone="a"))
    question = Question(without=(("zone", "a"), ("zone", "b")))
    assert asked(history.write(tmp_path), question).result.unroutable == {"orders": {"service=orders": 11}}


def test_a_load_of_the_broker_changes_nothing(tmp_path: Path) -> None:
    history = two_routes().tell(BROKER_LOAD, tags={"cpu_permille": "250", "in_flight": "3"})
    for number in range(10):
        history.ask(1 + number % 2, "orders")
    simulation = asked(history.write(tmp_path))
    assert loads(simulation) == {name_of(1): (10, 10), name_of(2): (10, 10)}
    assert [(each.choices, each.same) for each in simulation.checked.compared.values() if each.choices] == [(20, 20)]


def test_copies_leave_with_their_route(tmp_path: Path) -> None:
    history = two_routes().leave(2, "orders").ask(1, "orders").ask(1, "orders")
    simulation = asked(history.write(tmp_path), Question(copies_of=(("zone", "b"),)))
    assert sum(now for _, now in loads(simulation).values()) == 12
    assert loads(simulation)[name_of(1)][1] >= 5  # a third of ten, and the last two


def test_requests_that_found_no_route_may_find_a_copy_of_none(tmp_path: Path) -> None:
    history = two_routes().ask(0, "billing")
    result = asked(history.write(tmp_path), Question(copies_of=(("zone", "b"),))).result
    assert result.still_refused == {"no-route": 1}
    assert result.newly_routed == {}


def test_requests_that_found_no_route_find_one_under_another_history(tmp_path: Path) -> None:
    """As if the events of the route were true, and the broker had been wrong: a replay says so."""
    simulation = asked(two_routes().ask(0, "orders").write(tmp_path))
    assert simulation.result.newly_routed == {"orders": 1}
    assert simulation.checked.compared["refused, no route"].same == 0


def test_a_chooser_that_is_asked_for_overrides_hints(tmp_path: Path) -> None:
    history = History().start().join(1, "orders", weight="1").join(2, "orders", weight="60000")
    for number in range(400):
        history.ask(1 + number % 2, "orders", address(UNICAST, [(LB_METHOD, "round_robin")], service="orders"))
    folder = history.write(tmp_path)
    assert loads(asked(folder, Question(chooser="weighted")))[name_of(1)] == (200, 0)
    assert loads(asked(folder, Question(shard="maglev")))[name_of(1)] == (200, 200)


def test_a_shard_method_that_is_asked_for_overrides_hints_and_tells_whose_owner_changes(tmp_path: Path) -> None:
    routes = {number: Route(route_id(number), "orders", [], None) for number in range(1, 8)}
    history = History().start()
    for number in routes:
        history.join(number, "orders")
    modulo = sorted(routes)
    table = MaglevTable([routes[number] for number in modulo])
    moved = set()
    for user in range(300):
        key = key_hash([str(user % 150).encode()])
        owner = modulo[key % len(modulo)]
        moved |= {key} if modulo[table.position_of(key)] != owner else set()
        raw = address(SHARD, [(SHARD_KEY, "user"), (SHARD_METHOD, "modulo")], service="orders", user=str(user % 150))
        history.ask(owner, "orders", raw, routing="shard", key_hash=key)
    folder = history.write(tmp_path)
    assert asked(folder).result.moved_requests == 0
    moves = asked(folder, Question(shard="maglev")).result.shards["orders"]
    assert (moves.keys.keys_n, moves.keys.moved_n) == (150, len(moved))
    assert (moves.requests, moves.moved_requests) == (300, 2 * len(moved))


def test_another_seed_gives_other_choices_and_the_same_twice(tmp_path: Path) -> None:
    history = History().start(lb_method="random").join(1, "orders").join(2, "orders")
    for _ in range(64):
        history.ask(1, "orders")
    folder = history.write(tmp_path)
    one, again, other = (loads(asked(folder, Question(seed=seed))) for seed in (5, 5, 6))
    assert one == again
    assert one != other


def test_multicasts_go_to_all_that_would_be_there(tmp_path: Path) -> None:
    history = two_routes(0)
    for _ in range(3):
        history.ask(1, "orders", address(MULTICAST, service="orders"), routing="multicast", route_id="", branches=2)
    result = asked(history.write(tmp_path), Question(without=(("zone", "b"),))).result
    assert (result.multicast_requests, result.real_branches, result.branches) == (3, 6, 3)


@pytest.mark.parametrize("frame", ["", "%%%"])
def test_requests_without_an_address_are_taken_as_they_were_and_said(tmp_path: Path, frame: str) -> None:
    history = two_routes().ask(2, "orders", address_frame=frame)
    simulation = asked(history.write(tmp_path), Question(chooser="random"))
    assert simulation.result.not_replayed == {NO_ADDRESS: 1}
    assert simulation.notes == [f"a request was taken as it was, 1 times: {NO_ADDRESS}"]
    assert sum(now for _, now in loads(simulation).values()) == 11


def test_refusals_that_routing_has_no_part_in_stay(tmp_path: Path) -> None:
    history = two_routes().ask(0, "orders", word="over-limit").ask(0, "orders", word="deadline", address_frame="")
    assert asked(history.write(tmp_path)).result.still_refused == {"over-limit": 1, "deadline": 1}


def test_choices_without_a_record_are_said(tmp_path: Path) -> None:
    history = two_routes()
    history.choices += 3
    simulation = asked(history.ask(2, "orders").write(tmp_path))
    assert simulation.notes[0].startswith("one, epoch 1: 3 of 14 choices have no record")


def test_one_of_some_requests_stands_for_all_of_them(tmp_path: Path) -> None:
    history = History().start().join(1, "orders").ask(1, "orders", weight=10).ask(1, "orders", weight=10)
    simulation = asked(history.write(tmp_path))
    assert loads(simulation) == {name_of(1): (20, 20)}
    assert simulation.notes == [
        "one, epoch 1: one of 10 requests was written and stands for all of them: in flight, and in the order of "
        "choices, the others are missing"
    ]


def test_an_epoch_without_its_beginning_starts_at_its_snapshot(tmp_path: Path) -> None:
    history = History()
    history.ask(1, "orders")
    for number in (2, 1):
        history.tell(ROUTE_SEEN, number, "orders", tags_of(number, "orders"), detail=str(3 - number))
    history.tell(TABLE_DIGEST, tags={"routes": "2"})
    for number in range(6):
        history.ask(1 + number % 2, "orders")
    simulation = asked(history.write(tmp_path))
    assert simulation.result.not_replayed == {BEFORE_SNAPSHOT: 1}
    assert [now for _, now in sorted(loads(simulation).values())] == [3, 3]
    assert "the beginning is gone: the replay starts at the snapshot of" in simulation.notes[0]
    assert "the seed of the broker's rng is unknown" in simulation.notes[1]


def test_half_a_snapshot_is_none(tmp_path: Path) -> None:
    history = (
        History()
        .tell(ROUTE_SEEN, 1, "orders", tags_of(1, "orders"), detail="0")
        .tell(TABLE_DIGEST, tags={"routes": "2"})
    )
    with pytest.raises(BadFolder, match="no epoch of any broker has its beginning or a snapshot"):
        asked(history.ask(1, "orders").write(tmp_path))


def test_epochs_that_cannot_begin_are_said_beside_those_that_can(tmp_path: Path) -> None:
    History(epoch=1).ask(1, "orders").tell(ROUTE_SEEN).write(tmp_path)
    two = History(epoch=2).start().join(1, "orders").ask(1, "orders")
    simulation = asked(two.write(tmp_path))
    assert loads(simulation) == {name_of(1): (1, 1)}
    assert "one, epoch 1: requests that are not replayed, because the beginning is gone" in simulation.notes[0]


def test_epochs_have_random_numbers_and_tables_of_their_own(tmp_path: Path) -> None:
    for epoch in (1, 2):
        history = History(epoch).start().join(epoch, "orders")
        history.ask(epoch, "orders").ask(epoch, "orders").write(tmp_path)
    assert loads(asked(tmp_path)) == {name_of(1): (2, 2), name_of(2): (2, 2)}


def test_flow_records_are_replayed_where_there_are_no_requests(tmp_path: Path) -> None:
    history = History().start().join(1, "orders", zone="a").join(2, "orders", zone="b")
    history.flow(1, "orders", 900).flow(2, "orders", 100).flow(0, "billing", 7)
    folder = history.write(tmp_path)
    simulation = asked(folder)
    assert loads(simulation) == {name_of(1): (900, 500), name_of(2): (100, 500)}
    assert simulation.result.still_refused == {"no-route": 7}
    assert "1,007 requests of flow records are spread evenly over their intervals" in simulation.notes[0]
    assert loads(asked(folder, Question(without=(("zone", "a"),)))) == {name_of(1): (900, 0), name_of(2): (100, 1000)}


def test_many_requests_of_a_flow_are_some_rows_and_all_counted(tmp_path: Path) -> None:
    history = History().start().join(1, "orders").join(2, "orders").flow(1, "orders", 123_457)
    simulation = asked(history.write(tmp_path))
    assert simulation.result.rows == 1000
    assert sum(now for _, now in loads(simulation).values()) == 123_457


def test_an_epoch_with_requests_is_not_replayed_from_its_flows_too(tmp_path: Path) -> None:
    history = two_routes().flow(1, "orders", 5).flow(2, "orders", 5, started_at=START_US)
    folder = history.write(tmp_path)
    assert asked(folder).result.requests == 10
    with pytest.raises(BadFolder, match="no requests and no flow records"):
        asked(folder, Question(until_us=START_US + 1))  # before the first of them, too


def test_since_until_service_and_broker_say_what_counts(tmp_path: Path) -> None:
    history = two_routes().join(3, "stock").ask(3, "stock")
    folder = history.write(tmp_path)
    first = history.requests[0]["started_at"]
    assert asked(folder, Question(service="stock")).result.requests == 1
    assert asked(folder, Question(broker="one")).result.requests == 11
    since = asked(folder, Question(since_us=first + 1))
    assert since.result.requests == 10
    assert since.checked.compared["round_robin"].same == 10  # it was replayed from the beginning on
    assert asked(folder, Question(until_us=first + 1)).result.requests == 1
    with pytest.raises(BadFolder, match="no lifecycle events of a broker 'two'"):
        asked(folder, Question(broker="two"))
    with pytest.raises(BadFolder, match="no requests and no flow records"):
        asked(folder, Question(since_us=first + 10**9))


def test_a_tag_that_no_route_ever_had_is_a_slip(tmp_path: Path) -> None:
    with pytest.raises(BadFolder, match="no route ever had zone=c in these events"):
        asked(two_routes().write(tmp_path), Question(without=(("zone", "c"),)))


def test_redirected_services_are_one_unit(tmp_path: Path) -> None:
    history = two_routes(0).tell(REDIRECT_SET, service="old", detail="requests go to orders")
    for number in range(6):
        history.ask(1 + number % 2, "orders", address(service="old"))
    assert asked(history.write(tmp_path), Question(chooser="random")).result.unroutable == {}


def test_a_request_that_names_no_service_may_reach_all(tmp_path: Path) -> None:
    history = History().start().join(1, "orders", zone="a").join(2, "stock", zone="a")
    for number in range(8):
        history.ask(1 + number % 2, "orders", address(zone="a"), address="zone=a")
    found = loads(asked(history.write(tmp_path), Question(chooser="least_busy")))
    assert all(now for _, now in found.values())


def test_a_slow_route_gets_less_from_who_looks_at_loads(tmp_path: Path) -> None:
    """A request that goes elsewhere takes as long as requests do there."""
    history = History().start().join(1, "orders").join(2, "orders")
    ends = []
    for number in range(600):
        is_slow = number % 2 == 0
        history.ask(1 + number % 2, "orders", duration_us=50_000 if is_slow else 1000)
        ends.append(history.requests[-1])
    for row in ends:  # a request every millisecond
        row["ended"] = row["choice"] + row["duration_us"] // 1000
    found = loads(asked(history.write(tmp_path), Question(chooser="least_busy")))
    assert found[name_of(1)][1] < 60
    assert found[name_of(2)][1] > 540


def test_too_many_records_are_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_RECORDS", 9)
    with pytest.raises(Exception, match=r"10 records are more than are replayed without Spark \(9\)"):
        asked(two_routes().write(tmp_path))


def test_files_that_are_no_segments_are_named_and_not_counted(tmp_path: Path) -> None:
    """A copy under another name, one of another broker, a torn one, and one of somebody else."""
    folder = two_routes().write(tmp_path)
    [segment] = (folder / "requests").glob("*.parquet")
    for name in ("copy.parquet", segment.name.replace("b0000000", "c0000000"), "notes.txt"):
        (segment.parent / name).write_bytes(segment.read_bytes())
    segment.with_name(segment.name.replace("01.parquet", "02.parquet")).write_bytes(segment.read_bytes()[:-9])
    simulation = asked(folder)
    assert simulation.result.requests == 10
    said = [note for note in simulation.notes if "is passed over" in note]
    assert len(said) == 4
    assert all(
        sum(f"/requests/{name}" in note for note in said) == 1 for name in ("copy.parquet", "c0000000", "notes.txt")
    )

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from broker.events import BROKER_DIED
from spark_sink.errors import BadMoment, NotKnown
from spark_sink.history.records import DIED, RUNNING, STOPPED
from spark_sink.time_travel import Check, Gap, SeenRoute, table_at
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.values import BROKER_START, EQUAL, FIRST_RECORD, NONE_NEAR, NOT_EQUAL, SILENT, SNAPSHOT
from spark_sink.timestamps import moment_at
from tests.spark_sink.records import NOON_MS
from tests.spark_sink.time_travel.histories import History, random_history, random_step, tags_of, write_segments

A, B, C, D = (f"00000000-0000-0000-0000-00000000000{digit}" for digit in "abcd")
NOON = moment_at(NOON_MS * 1000)
BEGINS_LATE = "the history begins at 2023-11-15 {}: neither BrokerStarted nor a whole snapshot is there"


def after(seconds: float) -> datetime:
    """So long after noon, when the histories begin."""
    return NOON + timedelta(seconds=seconds)


def history_of(*joins: tuple[float, str]) -> History:
    """Routes that join so many seconds after noon."""
    history = History()
    for seconds, route_id in joins:
        history.at_ms = NOON_MS + round(seconds * 1000)
        history.join(route_id, "orders", [("zone", "a")], "tcp 10.0.0.4:5123")
    return history


def ids(events: Path, at: datetime) -> list[str]:
    return [route.route_id for route in table_at(events, at).routes]


def test_at_300_random_instants_of_random_histories_the_table_is_the_true_one(tmp_path: Path) -> None:
    rng = random.Random(5)
    first = random_history(1, 1500)
    later = random_history(2, 900, epoch=first.header.epoch + 1, at_ms=first.at_ms + 5000)
    other = random_history(3, 600, number=2, snapshot_ms=0)
    for history in (first, later, other):
        write_segments(tmp_path, history, roll_ms=5000)
    reader = SegmentReader(tmp_path)
    for history, count in ((first, 150), (later, 100), (other, 50)):
        begin_ms, end_ms = history.rows[0].at_ms, history.rows[-1].at_ms
        for _ in range(count):
            at_ms = rng.randint(begin_ms, end_ms)
            table = table_at(reader, moment_at(at_ms * 1000), history.header.broker_id)
            assert (table.epoch, table.digest) == (history.header.epoch, history.digest_at(at_ms)), at_ms
            assert (table.is_complete, table.gaps, table.problems) == (True, (), ())
            assert all(check.is_equal for check in table.checks)


def test_snapshots_that_are_told_piece_by_piece_behind_younger_events_are_whole(tmp_path: Path) -> None:
    rng = random.Random(9)
    history = random_history(9, 700, snapshot_ms=15_000)
    write_segments(tmp_path, history, history.late_snapshots(rng))
    reader = SegmentReader(tmp_path)
    for _ in range(150):
        at_ms = rng.randint(NOON_MS, history.at_ms)
        table = table_at(reader, moment_at(at_ms * 1000))
        assert (table.digest, table.gaps, table.verdict != NOT_EQUAL) == (history.digest_at(at_ms), (), True), at_ms
        assert table.start_at > moment_at(at_ms * 1000) - timedelta(seconds=20) or at_ms < NOON_MS + 17_000


def test_routes_are_those_of_the_history_with_their_tags_since_when_and_whose_they_are(tmp_path: Path) -> None:
    history = random_history(4, 400)
    write_segments(tmp_path, history)
    table = table_at(tmp_path, moment_at(history.at_ms * 1000))
    assert [(route.route_id, route.service, route.tags, route.peer, route.joined_at) for route in table.routes] == [
        (route_id, route.service, tags_of(route), route.peer, moment_at(route.joined_ms * 1000))
        for route_id, route in sorted(history.table.items(), key=lambda each: (each[1].service, each[0]))
    ]
    assert {route.broker_id for route in table.routes} == {"", "7f3a0000-0000-4000-8000-000000000002"}


def test_a_snapshot_tells_requests_and_a_join_begins_with_those_of_the_route(tmp_path: Path) -> None:
    history = history_of((1, A))
    history.table[A].requests = 41
    history.at_ms += 2000
    history.snapshot()
    write_segments(tmp_path, history)
    assert table_at(tmp_path, after(4)).routes == (
        SeenRoute(A, "orders", {"zone": "a"}, "tcp 10.0.0.4:5123", after(1), timedelta(seconds=3), 41, after(3), True),
    )
    assert table_at(tmp_path, after(2)).routes[0].requests == 0


def test_where_the_clock_was_put_back_the_last_time_of_a_moment_counts_and_all_records_before_it(
    tmp_path: Path,
) -> None:
    history = history_of((0, A), (10, B), (-20, C), (20, D))  # the clock goes back by half a minute after B
    write_segments(tmp_path, history)
    assert ids(tmp_path, after(-15)) == [A, B, C]  # not before B: what was then is not what is asked for
    table = table_at(tmp_path, after(5))
    assert [route.route_id for route in table.routes] == [A, B, C]
    assert [note for note in table.notes if "put back" in note] == [
        "the broker's clock was put back by up to 30 s before this: the moment was more than once, this is the last "
        "time; records up to 2023-11-15 12:00:10 came before it"
    ]
    assert ids(tmp_path, after(20)) == [A, B, C, D]


@pytest.mark.parametrize("are_copied", [False, True])
def test_whatever_the_clock_did_the_table_is_one_that_was(tmp_path: Path, are_copied: bool) -> None:
    rng = random.Random(7)
    history = History()
    for _ in range(8):
        for _ in range(60):
            random_step(history, rng)
        history.snapshot()
        history.at_ms += rng.choice((-3_600_000, -40_000, -900, 0, 600_000))
    write_segments(tmp_path, history)
    if are_copied:
        for number, path in enumerate(sorted(tmp_path.rglob("*.parquet"))):
            os.utime(path, (2e9 + number % 7, 2e9 + number % 7))
    reader = SegmentReader(tmp_path)
    times = [row.at_ms for row in history.rows]
    for _ in range(60):
        at_ms = rng.randint(min(times), max(times))
        table = table_at(reader, moment_at(at_ms * 1000))
        assert (table.digest, table.is_complete) == (history.digest_at(at_ms), True)


def test_life_of_a_broker_that_stopped_and_came_again(tmp_path: Path) -> None:
    first = history_of((1, A))
    first.at_ms = NOON_MS + 3000
    first.stop()
    second = History(epoch=first.header.epoch + 1, at_ms=NOON_MS + 60_000)
    for history in (first, second):
        write_segments(tmp_path, history)
    running, stopped, again = (table_at(tmp_path, after(seconds)) for seconds in (2, 30, 60))
    assert [(table.life, table.epoch, len(table.routes)) for table in (running, stopped, again)] == [
        (RUNNING, first.header.epoch, 1),
        (STOPPED, first.header.epoch, 0),
        (SILENT, second.header.epoch, 0),
    ]
    assert stopped.notes == ("the broker had stopped at 2023-11-15 12:00:03, 27 s before",)
    assert (again.start, again.digest, again.verdict) == (BROKER_START, "0" * 32, NONE_NEAR)


def test_routes_of_other_brokers_are_gone_when_the_broker_has_stopped(tmp_path: Path) -> None:
    history = History()
    history.join(A, "orders", [], "broker 7f3a0000-0000-4000-8000-000000000002")
    history.stop()
    write_segments(tmp_path, history)
    assert table_at(tmp_path, after(1)).routes == ()


def test_broker_that_died_says_so_with_the_table_at_its_last_record(tmp_path: Path) -> None:
    first = history_of((1, A))
    second = History(epoch=first.header.epoch + 1, at_ms=NOON_MS + 60_000)
    write_segments(tmp_path, first)
    alone = table_at(tmp_path, after(400))
    assert (alone.life, [route.route_id for route in alone.routes]) == (SILENT, [A])
    assert alone.notes[0].startswith(
        "no later record of the broker is there: its last record is of 2023-11-15 12:00:01, 6 min 39 s before; it died"
    )
    write_segments(tmp_path, second)
    dead = table_at(tmp_path, after(30))
    assert (dead.life, [route.route_id for route in dead.routes]) == (DIED, [A])
    assert dead.notes == (
        "the broker ended without BrokerStopped: its last record is of 2023-11-15 12:00:01, 29 s before, and it was "
        "started again at 2023-11-15 12:01:00; this is the table at its last record",
    )
    assert table_at(tmp_path, after(70), epoch=first.header.epoch).life == DIED


def test_broker_of_which_its_writer_told_that_it_died_needs_no_other_run_to_be_dead(tmp_path: Path) -> None:
    history = history_of((1, A))
    history.at_ms = NOON_MS + 30_000
    history.tell(BROKER_DIED)
    write_segments(tmp_path, history)
    dead = table_at(tmp_path, after(31))
    assert (dead.life, [route.route_id for route in dead.routes]) == (DIED, [A])
    assert dead.notes == (
        "the broker died, as its writer recorded at 2023-11-15 12:00:30; this is the table at its last record",
    )
    assert table_at(tmp_path, after(29)).life == RUNNING


def test_before_the_first_event_nothing_is_known(tmp_path: Path) -> None:
    write_segments(tmp_path, history_of((1, A)))
    with pytest.raises(NotKnown) as told:
        table_at(tmp_path, after(-90))
    assert str(told.value) == (
        "nothing is known of broker broker-1 (7f3a0000-0000-4000-8000-000000000001) at 2023-11-15 11:58:30: the first "
        "record is of 2023-11-15 12:00:00, 1 min 30 s later"
    )


def test_brokers_are_found_by_name_id_or_its_beginning_and_listed_if_not(tmp_path: Path) -> None:
    for number, name in ((1, "east"), (2, "west")):
        write_segments(tmp_path, History(number, name=name))
    for broker in ("west", "7f3a0000-0000-4000-8000-000000000002"):
        assert table_at(tmp_path, after(0), broker).broker_name == "west"
    there = "broker east (7f3a0000-0000-4000-8000-000000000001), broker west (7f3a0000-0000-4000-8000-000000000002)"
    wrong: list[tuple[str | None, str]] = [
        (None, f"there are events of 2 brokers, say which one with --broker: {there}"),
        ("north", f"there is no broker 'north'; there are {there}"),
        ("7f3a", f"'7f3a' is the name of 2 brokers, say which one by its id: {there}"),
    ]
    for asked, text in wrong:
        with pytest.raises(NotKnown) as told:
            table_at(tmp_path, after(0), asked)
        assert str(told.value) == text
    with pytest.raises(NotKnown, match="has no run 5; there are 1700000000000"):
        table_at(tmp_path, after(0), "east", 5)
    with pytest.raises(BadMoment):
        table_at(tmp_path, "noon", "east")


def test_starts_from_the_latest_whole_snapshot_and_checks_the_digests_on_both_sides(tmp_path: Path) -> None:
    history = history_of((1, A), (2, B))
    history.at_ms = NOON_MS + 60_000
    history.snapshot()
    digest = history.digests[-1]
    history.at_ms += 30_000
    history.leave(A)
    history.at_ms += 30_000
    history.snapshot()
    write_segments(tmp_path, history)
    table = table_at(tmp_path, after(91))
    assert (table.start, table.start_at, table.verdict) == (SNAPSHOT, after(60), EQUAL)
    seq = next(seq for seq, row in enumerate(history.rows, 1) if row.at_ms == NOON_MS + 90_000) - 1
    assert table.checks == (
        Check(after(60), seq, digest, digest),
        Check(after(120), history.seq, history.digests[-1], history.digests[-1]),
    )
    assert table_at(tmp_path, after(400)).verdict == NONE_NEAR


def test_snapshot_that_is_not_whole_is_no_start_and_its_numbers_are_told(tmp_path: Path) -> None:
    history = history_of((1, A), (2, B))
    history.at_ms = NOON_MS + 60_000
    history.snapshot()
    lost = history.seq - 1  # the last RouteSeen
    history.at_ms += 1000
    history.leave(A)
    write_segments(tmp_path, history, [row for row in history.rows if row.seq != lost])
    table = table_at(tmp_path, after(61))
    assert (table.start, table.gaps) == (BROKER_START, (Gap(lost, lost, 1, "missing", ""),))
    assert [route.route_id for route in table.routes] == [B]


def test_a_lost_join_makes_the_digest_unequal_and_its_number_missing(tmp_path: Path) -> None:
    history = history_of((1, A), (2, B))
    history.at_ms = NOON_MS + 30_000
    history.snapshot()
    write_segments(tmp_path, history, [row for row in history.rows if row.seq != 3])
    table = table_at(tmp_path, after(5))
    assert (table.verdict, table.is_complete) == (NOT_EQUAL, False)
    assert table.gaps == (Gap(3, 3, 1, "missing", ""),)


def test_dropped_records_are_told_in_their_own_words(tmp_path: Path) -> None:
    history = history_of((1, A), (2, B), (3, C))
    history.drop(3, 4)
    write_segments(tmp_path, history)
    for seconds in (2.5, 5):
        table = table_at(tmp_path, after(seconds))
        assert table.gaps == (Gap(3, 4, 2, "not-taken", "lost"),)
        assert [route.route_id for route in table.routes] == [A]


def test_records_missing_right_behind_the_instant_may_belong_before_it(tmp_path: Path) -> None:
    history = history_of((1, A), (2, B), (30, C))
    write_segments(tmp_path, history, [row for row in history.rows if row.seq != 3])
    assert table_at(tmp_path, after(1)).gaps == (Gap(3, 3, 1, "missing", ""),)
    assert table_at(tmp_path, after(0)).gaps == ()


@pytest.mark.parametrize("lost, renumbered", [(2, 0), (1, 1)])
def test_without_a_start_the_first_record_that_is_there_is_one_and_all_before_it_is_missing(
    tmp_path: Path, lost: int, renumbered: int
) -> None:
    """Also where the numbers begin with another event than the start."""
    history = history_of((1, A), (2, B), (3, C))
    write_segments(tmp_path, history, [row._replace(seq=row.seq - renumbered) for row in history.rows[lost:]])
    table = table_at(tmp_path, after(9))
    assert (table.start, table.is_complete, len(table.routes)) == (FIRST_RECORD, False, 4 - lost)
    assert table.gaps == ((Gap(1, 2, 2, "missing", ""),) if not renumbered else ())
    assert table.problems == (BEGINS_LATE.format(f"12:00:0{lost}"),)


def test_moments_may_be_texts_and_without_a_zone_are_utc(tmp_path: Path) -> None:
    write_segments(tmp_path, history_of((1, A)))
    found = [table_at(tmp_path, at).at for at in ("2023-11-15 12:00:01", datetime(2023, 11, 15, 12, 0, 1))]
    assert found == [datetime(2023, 11, 15, 12, 0, 1, tzinfo=UTC)] * 2

"""The map that all brokers have in common."""

from hashlib import blake2b
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.gossip import _SPARE_N, EXPIRY_STEP_S, TOMBSTONE_S, GossipEntry, GossipState
from broker.cluster.messages import RedirectMessage
from rsocket_wire.errors import InvalidFrame

AT_MS = 1_700_000_000_000
TOMBSTONE_MS = TOMBSTONE_S * 1000
STEP_MS = EXPIRY_STEP_S * 1000  # AT_MS begins a step


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def route(number: int, broker: int, after_ms: int = 0) -> GossipEntry:
    key = b"R" + id_of(number) + id_of(broker)
    return GossipEntry(key, AT_MS + after_ms, b"ADD %d %d %d" % (number, broker, after_ms), False)


def removed(number: int, broker: int, after_ms: int = 0) -> GossipEntry:
    key = b"R" + id_of(number) + id_of(broker)
    return GossipEntry(key, AT_MS + after_ms, b"REMOVE %d %d %d" % (number, broker, after_ms), True)


def info(broker: int, after_ms: int = 0) -> GossipEntry:
    return GossipEntry(b"I" + id_of(broker), AT_MS + after_ms, b"INFO %d %d" % (broker, after_ms), False)


def redirect(service: str, to: str, broker: int, after_ms: int = 0) -> GossipEntry:
    message = RedirectMessage(AT_MS + after_ms, id_of(broker), service, to)
    return GossipEntry(b"S" + service.encode(), message.timestamp_ms, message.encode(), not to)


def gossip(*all_of: GossipEntry, max_entries: int = 1000, at_ms: int = AT_MS) -> GossipState:
    made = GossipState(max_entries)
    for each in all_of:
        made.apply(each, at_ms)
    return made


def raws(entries: list[GossipEntry]) -> list[bytes]:
    return [entry.raw for entry in entries]


# Which word counts


def test_a_newer_word_is_news_and_an_older_or_equally_old_one_is_not() -> None:
    """D-08, D-47"""
    made = GossipState(10)
    assert made.apply(route(1, 7, 5), AT_MS)
    assert [made.apply(each, AT_MS) for each in (route(1, 7, 5), route(1, 7, 4), removed(1, 7, 5))] == [False] * 3
    assert raws(made.entries()) == [b"ADD 1 7 5"]
    assert made.apply(removed(1, 7, 6), AT_MS)
    assert not made.apply(route(1, 7, 5), AT_MS)
    assert (raws(made.entries()), made.routes_of(id_of(7)), made.route_entries(id_of(1))) == ([b"REMOVE 1 7 6"], [], [])
    assert made.apply(route(1, 7, 7), AT_MS)
    assert raws(made.routes_of(id_of(7))) == raws(made.route_entries(id_of(1))) == [b"ADD 1 7 7"]


def test_of_two_redirects_of_one_moment_that_of_the_larger_broker_id_counts_everywhere() -> None:
    """D-47"""
    one, other = redirect("orders", "a", 7), redirect("orders", "b", 8)
    there, here = gossip(one, other), gossip(other, one)
    assert raws(there.entries()) == raws(here.entries()) == [other.raw]
    assert there.digest() == here.digest() != gossip(one).digest()
    assert not there.apply(other, AT_MS)
    assert there.apply(redirect("orders", "", 1, 1), AT_MS)
    assert [entry.is_removed for entry in there.entries()] == [True]


def test_hashes_tell_keys_timestamps_and_removal_apart() -> None:
    """And are the same wherever they are made: they go over the wire."""
    made = [
        route(1, 7), route(1, 7, 1), removed(1, 7), route(1, 8), route(2, 7), info(7), redirect("a", "b", 7),
        redirect("a", "b", 8), redirect("a", "", 7),
    ]  # fmt: skip
    assert len({each.hash for each in made}) == len(made)
    said = b"R" + id_of(1) + id_of(7) + AT_MS.to_bytes(8, "big") + b"\x00"
    assert route(1, 7).hash == int.from_bytes(blake2b(said, digest_size=8).digest(), "big") == 3679500582814826500


# Tombstones


def test_a_tombstone_stays_for_its_time_and_keeps_the_old_word_away() -> None:
    """D-47"""
    made = gossip(removed(1, 7, STEP_MS))
    made.expire(AT_MS + STEP_MS + TOMBSTONE_MS)
    assert not made.apply(route(1, 7, 4), AT_MS)
    made.expire(AT_MS + 2 * STEP_MS + TOMBSTONE_MS)
    assert (made.size(), made.digest(), made.table()) == (0, GossipState(1).digest(), bytes(8))


def test_brokers_that_look_at_other_moments_forget_the_same_tombstones() -> None:
    """D-47: in the same step of wall time."""
    after = [-3 * STEP_MS, -2 * STEP_MS - 1, -2 * STEP_MS, -STEP_MS - 1, -STEP_MS, -1, 0, 1, STEP_MS]
    one, other = [gossip(*[removed(n, 7, each) for n, each in enumerate(after)]) for _ in range(2)]
    one.expire(AT_MS - STEP_MS + TOMBSTONE_MS)
    other.expire(AT_MS - 1 + TOMBSTONE_MS)
    assert [entry.timestamp_ms - AT_MS for entry in one.entries()] == after[4:]
    assert one.digest() == other.digest()
    other.expire(AT_MS + TOMBSTONE_MS)
    assert [entry.timestamp_ms - AT_MS for entry in other.entries()] == after[6:]


def test_a_tombstone_that_comes_too_late_removes_and_does_not_stay() -> None:
    """D-47"""
    late_ms = AT_MS + STEP_MS + TOMBSTONE_MS
    made = gossip(route(1, 7))
    assert made.apply(removed(1, 7, 5), late_ms)
    assert (made.size(), made.routes_of(id_of(7)), made.route_entries(id_of(1))) == (0, [], [])
    assert not made.apply(removed(1, 7, 5), late_ms), "it would go round for ever"
    assert made.apply(removed(1, 7, 5), late_ms - 1)
    assert made.size() == 1


def test_a_route_that_came_again_does_not_expire_with_its_tombstone() -> None:
    made = gossip(route(1, 7), removed(1, 7, 5), route(1, 7, 6), removed(2, 7, 5))
    made.expire(AT_MS + 2 * TOMBSTONE_MS)
    assert raws(made.entries()) == [b"ADD 1 7 6"]


def test_a_route_that_comes_and_goes_again_and_again_leaves_no_trace() -> None:
    made = GossipState(10)
    for number in range(2000):
        made.apply(route(1, 7, 2 * number), AT_MS)
        made.apply(removed(1, 7, 2 * number + 1), AT_MS)
    assert made.size() == 1
    assert len(made._tombs) <= _SPARE_N + 2
    made.expire(AT_MS + STEP_MS + TOMBSTONE_MS)
    assert (made.size(), made._tombs, made._by_broker, made._by_route) == (0, [], {}, {})


# Bounds


def test_one_entry_too_many_is_refused_and_those_that_are_there_can_change() -> None:
    made = gossip(route(1, 7), info(7), max_entries=2)
    assert not made.apply(route(2, 7), AT_MS)
    assert not made.apply(removed(3, 7), AT_MS)
    assert (made.size(), made.refused_n) == (2, 2)
    assert made.apply(removed(1, 7, 1), AT_MS)
    assert made.apply(info(7, 1), AT_MS)
    made.expire(AT_MS + STEP_MS + TOMBSTONE_MS)
    assert made.apply(route(2, 7), AT_MS)
    assert (raws(made.entries()), made.refused_n) == ([b"INFO 7 1", b"ADD 2 7 0"], 2)


# Looking


def test_brokers_come_before_routes_and_routes_before_redirects_each_by_time() -> None:
    made = gossip(redirect("orders", "a", 7), route(1, 7, 9), removed(2, 8, 3), info(8, 9), route(3, 7, 3), info(7, 5))
    expected = [b"INFO 7 5", b"INFO 8 9", b"REMOVE 2 8 3", b"ADD 3 7 3", b"ADD 1 7 9", redirect("orders", "a", 7).raw]
    assert raws(made.entries()) == expected
    assert raws(made.lacking(GossipState(1).table())) == expected


def test_a_forgotten_broker_leaves_no_tombstones_and_nobody_else_goes_with_it() -> None:
    made = gossip(info(7), route(1, 7), removed(2, 7), info(8), route(1, 8), redirect("orders", "a", 7))
    made.forget_broker(id_of(7))
    made.forget_broker(id_of(9))
    assert [entry.key for entry in made.entries() if entry.key[:1] == b"I"] == [b"I" + id_of(8)]
    assert made.find(b"R" + id_of(2) + id_of(7)) is None
    assert raws(made.route_entries(id_of(1))) == [b"ADD 1 8 0"]
    assert made.digest() == gossip(info(8), route(1, 8), redirect("orders", "a", 7)).digest()
    assert made.apply(route(1, 7), AT_MS)


def test_what_is_found_is_what_was_said_last() -> None:
    made = gossip(route(1, 7), removed(1, 7, 1))
    found = made.find(b"R" + id_of(1) + id_of(7))
    assert found is not None
    assert (found.raw, found.is_removed) == (b"REMOVE 1 7 1", True)
    assert made.find(b"R" + id_of(2) + id_of(7)) is None


# Comparing


def test_a_table_says_what_each_side_lacks() -> None:
    here, there = gossip(info(7), route(1, 7), route(2, 7)), gossip(info(7), route(1, 7, 1), route(3, 8))
    assert raws(here.lacking(there.table())) == [b"ADD 1 7 0", b"ADD 2 7 0"]
    assert raws(there.lacking(here.table())) == [b"ADD 3 8 0", b"ADD 1 7 1"]
    assert here.lacks_any(there.table())
    assert not here.lacks_any(gossip(info(7)).table())
    assert not here.lacks_any(here.table())
    assert here.lacking(here.table()) == []


def test_what_is_no_table_is_refused_whoever_reads_it() -> None:
    made = gossip(info(7))
    for read in (made.lacking, made.lacks_any):
        with pytest.raises(InvalidFrame, match="TABLE: says 1 buckets, 0 are there"):
            read(b"\x01" + bytes(7))


WORDS = st.lists(
    st.one_of(
        st.builds(route, st.integers(1, 4), st.integers(7, 8), st.integers(0, 5).map(lambda each: 2 * each)),
        # A broker never says two things of one route at one moment.
        st.builds(removed, st.integers(1, 4), st.integers(7, 8), st.integers(0, 5).map(lambda each: 2 * each + 1)),
        st.builds(info, st.integers(7, 8), st.integers(0, 3)),
        st.builds(redirect, st.sampled_from(["a", "b"]), st.sampled_from(["x"]), st.integers(7, 9), st.integers(0, 2)),
    ),
    max_size=30,
)


def newest(words: list[GossipEntry]) -> dict[bytes, GossipEntry]:
    """The model."""
    found: dict[bytes, GossipEntry] = {}
    for word in words:
        old = found.get(word.key)
        if old is None or (word.timestamp_ms, word.broker_id) > (old.timestamp_ms, old.broker_id):
            found[word.key] = word
    return found


@given(WORDS, st.randoms(use_true_random=False))
def test_the_same_words_make_the_same_map_in_any_order_and_any_number(words: list[GossipEntry], chance: Random) -> None:
    """D-47; and every index says the same as the map."""
    again = words + words[: len(words) // 2]
    chance.shuffle(again)
    here, there = gossip(*words), gossip(*again)
    model = newest(words)
    assert {entry.key: entry.raw for entry in here.entries()} == {key: entry.raw for key, entry in model.items()}
    assert (here.digest(), here.table()) == (there.digest(), there.table())
    for made in (here, there):
        live = [entry.key for entry in model.values() if entry.key[:1] == b"R" and not entry.is_removed]
        for number in (7, 8):
            found = sorted(entry.key for entry in made.routes_of(id_of(number)))
            assert found == sorted(key for key in live if key[17:] == id_of(number))
        for number in range(1, 5):
            found = sorted(entry.key for entry in made.route_entries(id_of(number)))
            assert found == sorted(key for key in live if key[1:17] == id_of(number))
        found = sorted(entry.key for entry in made.entries() if entry.key[:1] == b"I")
        assert found == sorted(key for key in model if key[:1] == b"I")


@given(WORDS, WORDS)
def test_two_that_send_each_other_what_the_other_lacks_agree(
    here_said: list[GossipEntry], there_said: list[GossipEntry]
) -> None:
    here, there = gossip(*here_said), gossip(*there_said)
    to_there, to_here = here.lacking(there.table()), there.lacking(here.table())
    for word in to_there:
        there.apply(word, AT_MS)
    for word in to_here:
        here.apply(word, AT_MS)
    assert here.digest() == there.digest() == gossip(*here_said, *there_said).digest()
    assert here.size() == there.size()
    assert not here.lacks_any(there.table())

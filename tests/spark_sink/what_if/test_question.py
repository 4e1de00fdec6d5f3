from __future__ import annotations

import pytest

from rsocket_wire.wire.keys import ROUTE_ID, SERVICE_NAME, ZONE
from spark_sink.what_if.question import (
    BadQuestion,
    Question,
    TagValues,
    check_chooser,
    check_shard,
    copy_id,
    key_of,
    parse_tag,
)
from spark_sink.what_if.settings import RunSettings


@pytest.mark.parametrize("name", ["p2c", "round-robin", "least-busy", "ewma", "weighted", "zone_first:p2c", "sticky"])
def test_choosers_have_the_names_that_hints_may_have(name: str) -> None:
    assert check_chooser(name) == name


def test_unknown_names_are_told_with_those_that_are_known() -> None:
    with pytest.raises(BadQuestion, match="unknown chooser 'best': use round_robin, random"):
        check_chooser("best")
    with pytest.raises(BadQuestion, match="unknown shard method 'best': use rendezvous, maglev"):
        check_shard("best")
    assert check_shard("ring") == "ring"


def test_tags_are_names_and_values() -> None:
    assert parse_tag("zone=b") == ("zone", "b")
    assert parse_tag("note=a=b") == ("note", "a=b")
    for bad in ("zone", "=b"):
        with pytest.raises(BadQuestion, match="is not a tag"):
            parse_tag(bad)


def test_a_well_known_name_means_its_key_and_the_text_that_is_spelt_like_it() -> None:
    """And values that stand together are found one by one."""
    tags = TagValues({ZONE.name: "a,b"})
    assert all(tags.has("zone", value) for value in ("a", "b", "a,b"))
    assert TagValues({"zone": "b"}).has("zone", "b")
    assert not TagValues({ZONE.name: "b"}).has("zone", "a")
    assert key_of("zone") != key_of(ZONE.name)


def test_copies_have_ids_of_their_own_and_the_same_in_every_run() -> None:
    one = copy_id("00000000-0000-0000-0000-000000000001", 1)
    assert one == copy_id("00000000-0000-0000-0000-000000000001", 1)
    assert len({one, copy_id("00000000-0000-0000-0000-000000000001", 2), ROUTE_ID.name, SERVICE_NAME.name}) == 4


def test_a_question_says_itself() -> None:
    question = Question("p2c", "maglev", (("zone", "b"),), (("zone", "a"),), 2, 7)
    assert question.as_text() == ("chooser p2c, shard method maglev, without zone=b, 2 more of each zone=a, seed 7")
    assert Question().as_text() == "nothing changed"


def test_settings_of_a_run_are_those_that_it_told() -> None:
    told = RunSettings(
        {
            "seed": "99",
            "zone": "a",
            "prefers_local": "no",
            "strict_hints": "yes",
            "max_lookup_cache": "5",
            "lb_method": "random",
            "slow_start_s": "2.5",
            "service.orders": "lb_method=weighted panic_percent=10",
            "service.dotted.name": "",
        }
    )
    assert (told.seed, told.zone, told.prefers_local, told.strict_hints, told.lookup_cache) == (99, "a", False, True, 5)
    policies = told.policies(Question())
    orders, other = policies.of("orders"), policies.of("dotted.name")
    assert (orders.chooser, orders.panic_percent, orders.slow_start_s) == ("weighted", 10, 2.5)
    assert (other.chooser, other.panic_percent, other.shard_method) == ("random", 50, "rendezvous")
    asked = told.policies(Question(chooser="p2c", shard="ring"))
    assert {asked.of(name).chooser for name in ("orders", "x")} == {"p2c"}
    assert {asked.of(name).shard_method for name in ("orders", "x")} == {"ring"}


def test_settings_that_nobody_told_are_the_defaults() -> None:
    told = RunSettings({"lb_method": "", "slow_start_s": "soon", "seed": "x"})
    assert (told.seed, told.zone, told.prefers_local) == (1, "", True)
    assert told.policies(Question()).default.chooser == "round_robin"
    assert told.policies(Question()).default.slow_start_s == 0.0


def test_who_asks_for_what_ran_asks_for_nothing_else() -> None:
    told = RunSettings({"seed": "7", "lb_method": "random", "service.orders": "lb_method=p2c"})
    assert told.is_asked_for(Question())
    assert not told.is_asked_for(Question(chooser="random"))  # orders had another one
    assert RunSettings({"seed": "7", "lb_method": "random"}).is_asked_for(Question(chooser="random", seed=7))
    assert not told.is_asked_for(Question(without=(("zone", "a"),)))
    assert not told.is_asked_for(Question(seed=8))

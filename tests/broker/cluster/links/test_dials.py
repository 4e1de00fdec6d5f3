"""Which brokers are dialled, and when."""

import pytest

from broker.cluster.links.dials import FIRST_REDIAL_S, MAX_TARGETS, SELF_S, Dials
from broker.routing.rng import Rng

ONE, OTHER = "tcp://one:7878", "tcp://other:7878"
ID, OTHER_ID = b"1" * 16, b"2" * 16


def dials(*urls: str, redial_max_s: float = 1.0, seed: int = 7) -> Dials:
    made = Dials(Rng(seed), redial_max_s)
    made.set_targets("config", list(urls))
    return made


def shown(made: Dials) -> list[tuple[str, int, str, bool, bool]]:
    return [(dial.url, dial.attempts, dial.error, dial.is_dialling, dial.is_linked) for dial in made.state()]


def waits(made: Dials, times: int) -> list[float]:
    """How long the first URL waits after each failure, in a row."""
    found = []
    now = 100.0
    for _ in range(times):
        made.failed(ONE, "refused", now)
        found.append(made.state()[0].next_at - now)
        now = made.state()[0].next_at
        assert made.take(now) == [ONE]
    return found


def test_each_url_is_dialled_at_once_and_only_once_at_a_time() -> None:
    made = dials(ONE, OTHER, ONE)
    assert made.take(5.0) == [ONE, OTHER]
    assert made.take(1e9) == []
    assert shown(made) == [(ONE, 0, "", True, False), (OTHER, 0, "", True, False)]


def test_who_failed_waits_and_is_dialled_when_its_time_has_come() -> None:
    made = dials(ONE, OTHER)
    made.take(5.0)
    made.failed(OTHER, "Connection refused", 5.0)
    assert shown(made)[1] == (OTHER, 1, "Connection refused", False, False)
    at = made.state()[1].next_at
    assert made.take(at - 0.001) == []
    assert made.take(at) == [OTHER]


def test_waits_double_up_to_the_longest_and_are_shortened_by_chance_to_half_at_most() -> None:
    whole = [FIRST_REDIAL_S, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    found = [waits(dials(ONE, seed=seed * 0x9E3779B1), 7) for seed in range(1, 60)]
    for each in found:
        for wait, longest in zip(each, whole, strict=True):
            assert longest / 2 - 1e-9 <= wait <= longest + 1e-9
    for place, longest in enumerate(whole):
        column = [each[place] for each in found]
        assert min(column) < 0.6 * longest
        assert max(column) > 0.9 * longest


def test_the_longest_wait_is_never_passed_however_often_it_fails() -> None:
    assert max(waits(dials(ONE, redial_max_s=0.05), 100)) <= 0.05 + 1e-9
    assert max(waits(dials(ONE, redial_max_s=30.0), 1100)) <= 30.0 + 1e-9


def test_who_is_linked_is_dialled_again_soon_after_the_link_is_lost() -> None:
    made = dials(ONE)
    waits(made, 5)
    made.linked(ONE, ID)
    assert shown(made) == [(ONE, 0, "", False, True)]
    assert made.take(1e6) == []
    made.failed(ONE, "", 1e6)
    assert made.take(1e6) == []
    assert made.take(1e6 + FIRST_REDIAL_S) == [ONE]
    made.linked(ONE, ID)
    made.failed(ONE, "silent", 2e6)
    assert shown(made) == [(ONE, 1, "silent", False, False)]
    assert made.take(2e6 + FIRST_REDIAL_S) == [ONE]


def test_a_url_of_a_broker_that_is_linked_otherwise_rests_while_that_link_is_up() -> None:
    made = dials(ONE, OTHER)
    made.take(5.0)
    made.know(ONE, ID)
    made.failed(ONE, "there is a link already", 5.0)
    made.failed(OTHER, "refused", 5.0)
    made.set_linked_ids({ID, OTHER_ID})
    assert made.take(10.0) == [OTHER]
    made.set_linked_ids({OTHER_ID})
    assert made.take(10.0) == [ONE]


def test_a_url_that_leads_to_ourselves_is_not_dialled_again_while_somebody_is_linked() -> None:
    made = dials(ONE, OTHER)
    made.set_linked_ids({OTHER_ID})
    made.take(5.0)
    made.is_self(ONE)
    made.failed(ONE, "it is this broker", 5.0)
    made.failed(OTHER, "refused", 5.0)
    assert made.take(1e9) == [OTHER]
    assert [dial.is_self for dial in made.state()] == [True, False]


def test_a_url_that_has_led_to_ourselves_is_tried_again_by_who_is_alone() -> None:
    """It is a balancer's: somebody else may be there."""
    made = dials(ONE)
    made.take(5.0)
    made.is_self(ONE)
    made.failed(ONE, "it is this broker", 5.0)
    assert (made.take(5.0 + SELF_S - 0.01), made.take(5.0 + SELF_S)) == ([], [ONE])
    made.linked(ONE, OTHER_ID)
    assert [dial.is_self for dial in made.state()] == [False]


def test_a_url_is_dialled_as_long_as_some_source_names_it() -> None:
    made = dials(ONE)
    made.set_targets("dns:brokers.example", [ONE, OTHER])
    made.set_targets("config", [])
    assert [sorted(dial.sources) for dial in made.state()] == [["dns:brokers.example"]] * 2
    made.set_targets("dns:brokers.example", [OTHER])
    assert made.take(5.0) == [OTHER]
    assert [dial.url for dial in made.state()] == [OTHER]


def test_what_was_begun_is_remembered_though_nobody_names_it_any_more() -> None:
    made = dials(ONE, OTHER)
    made.take(5.0)
    made.linked(ONE, ID)
    made.set_targets("config", [])
    assert [dial.url for dial in made.state()] == [ONE, OTHER]
    made.set_targets("config", [ONE, OTHER])
    assert made.take(1e9) == []
    made.set_targets("config", [])
    made.failed(ONE, "", 6.0)
    made.failed(OTHER, "refused", 6.0)
    assert made.state() == []
    made.set_targets("config", [ONE])
    assert made.take(6.0) == [], "its wait is not forgotten"
    assert made.take(7.0) == [ONE]
    made.set_targets("config", [ONE, OTHER])
    assert made.take(7.0) == [OTHER]
    assert shown(made) == [(ONE, 1, "", True, False), (OTHER, 0, "", True, False)]


def test_one_url_too_many_is_not_dialled_and_those_that_nobody_names_give_way() -> None:
    urls = [f"tcp://host-{number}:7878" for number in range(MAX_TARGETS + 1)]
    made = dials(*urls)
    assert (made.take(5.0), made.refused_n) == (urls[:-1], 1)
    for url in urls[:-1]:
        made.failed(url, "refused", 5.0)
    made.set_targets("config", [*urls[1:-1], "tcp://new:7878"])
    assert made.refused_n == 1
    assert made.take(5.0) == ["tcp://new:7878"]
    assert len(made.state()) == MAX_TARGETS


@pytest.mark.parametrize(
    ("word", "more"), [("failed", ("refused", 5.0)), ("linked", (ID,)), ("know", (ID,)), ("is_self", ())]
)
def test_what_is_said_of_a_url_that_nobody_named_changes_nothing(word: str, more: tuple[object, ...]) -> None:
    made = dials(ONE)
    getattr(made, word)(OTHER, *more)
    assert shown(made) == [(ONE, 0, "", False, False)]

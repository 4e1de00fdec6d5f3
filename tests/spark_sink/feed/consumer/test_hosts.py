"""spark_sink.feed.consumer.hosts: how much is asked of a host, and when again, on a clock that the test advances."""

import pytest

from spark_sink.feed.consumer.hosts import LAST_PAUSE_S, PER_HOST_N, REST_S, Again, Hosts, Rivals


def hosts(tries: int = 3, first_pause_s: float = 4.0) -> Hosts:
    return Hosts(tries=tries, first_pause_s=first_pause_s, chance=lambda: 1.0)


def failed(one: Hosts, now: float, tries: int = 0, **values: bool) -> Again | None:
    return one.failed("h", now, tries=tries, **{"is_host": False, "is_final": False, "is_again": False, **values})


def test_of_one_host_no_more_is_fetched_at_a_time_than_the_bound() -> None:
    one = hosts()
    for _ in range(PER_HOST_N):
        assert one.room_n("h", 0.0) > 0
        one.begin("h")
    assert (one.room_n("h", 0.0), one.room_n("other", 0.0), one.known) == (0, PER_HOST_N, {"h"})
    one.end("h")
    assert (one.room_n("h", 0.0), one.active_n("h")) == (1, PER_HOST_N - 1)


def test_a_host_that_has_failed_rests_and_then_one_fetch_tries_it() -> None:
    one = hosts()
    failed(one, 100.0, is_host=True)
    assert one.room_n("h", 100.0 + REST_S - 0.1) == 0
    assert one.room_n("h", 100.0 + REST_S) == 1
    one.begin("h")
    assert one.room_n("h", 100.0 + REST_S) == 0
    one.reached("h")
    assert one.room_n("h", 100.0 + REST_S) == PER_HOST_N - 1
    one.end("h")
    assert one.known == set()


@pytest.mark.parametrize("tries, pause_s", [(0, 4.0), (1, 8.0), (4, 64.0), (20, LAST_PAUSE_S)])
def test_the_pause_doubles_with_each_try(tries: int, pause_s: float) -> None:
    assert failed(hosts(tries=100), 100.0, tries) == Again(100.0 + pause_s, tries + 1, True)


def test_what_failed_together_does_not_come_together() -> None:
    found = {
        failed(Hosts(tries=3, first_pause_s=4.0, chance=lambda chance=chance: chance), 0.0)  # type: ignore[misc]
        for chance in (0.0, 0.5, 1.0)
    }
    assert {each.at for each in found if each is not None} == {2.0, 3.0, 4.0}


def test_after_the_last_try_and_at_a_final_end_it_is_given_up() -> None:
    assert failed(hosts(), 0.0, 1) is not None
    assert failed(hosts(), 0.0, 2) is None
    assert failed(hosts(), 0.0, is_final=True) is None


def test_an_outage_of_its_host_counts_for_no_post() -> None:
    one = hosts()
    assert failed(one, 0.0, 2, is_host=True) == Again(4.0 * 2, 2, True)


def test_an_outage_is_told_once_and_a_post_that_fails_again_is_not_told() -> None:
    one = hosts()
    told = [failed(one, 0.0, is_host=True), failed(one, 1.0, is_host=True), failed(one, 2.0, is_again=True)]
    assert [each.is_news for each in told if each is not None] == [True, False, False]
    one.reached("h")
    again = failed(one, 3.0, is_host=True)
    assert again is not None
    assert again.is_news


def test_what_needs_no_host_has_room_always() -> None:
    one = hosts()
    one.begin("")
    one.failed("", 0.0, tries=0, is_host=True, is_final=False, is_again=False)
    one.end("")
    assert (one.room_n("", 0.0), one.known) == (PER_HOST_N, set())


def rivals(*posts: tuple[str, str, str], begun: str = "") -> Rivals:
    """Posts: key, place and URL."""
    one = Rivals()
    for key, place, url in posts:
        one.wait(key, place, url)
    for key in begun:
        one.begin(key)
    return one


def test_a_fetch_holds_up_who_would_fetch_the_same_file_from_elsewhere() -> None:
    one = rivals(("a", "f", "http://a/f"), ("b", "f", "http://b/f"), ("c", "g", "http://c/g"), begun="ac")
    assert one.held_up() == {"http://a/f"}
    one.end("a")
    assert one.held_up() == set()
    one.begin("b")
    assert one.held_up() == set()


def test_who_waits_for_the_same_url_is_held_up_by_nobody() -> None:
    assert rivals(("a", "f", "http://a/f"), ("b", "f", "http://a/f"), begun="a").held_up() == set()


def test_who_waits_no_more_holds_up_nobody() -> None:
    one = rivals(("a", "f", "http://a/f"), ("b", "f", "http://b/f"), begun="a")
    one.end("b")
    one.end("unknown")
    one.begin("unknown")
    assert one.held_up() == set()

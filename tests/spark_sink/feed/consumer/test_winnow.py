"""spark_sink.feed.consumer.winnow: which posts are repeats, and for how long that is known."""

from typing import Any

import pytest
from msgspec import to_builtins

from spark_sink.feed.consumer.winnow import DATA, PATH, Winnow
from spark_sink.feed.identity import identity_of
from spark_sink.feed.posts import Post
from tests.spark_sink.feed.samples import post_of
from tests.spark_sink.feed.vectors import VECTORS

ONE = to_builtins(identity_of("sha512", b"one"))
TWO = to_builtins(identity_of("sha512", b"two"))


def winnow(basis: str = PATH, max_posts: int = 100, ttl_s: float = 300.0) -> Winnow:
    return Winnow(basis=basis, max_posts=max_posts, ttl_s=ttl_s)


def at_second(second: int, **headers: Any) -> Post:
    """Published at that second of a minute."""
    return post_of(pubTime=f"20260102T0304{second:02d}", **headers)


def passed(memory: Winnow, *posts: Post) -> list[bool]:
    """Of each whether it is no repeat; it is there from then on."""
    found = []
    for now, post in enumerate(posts):
        is_fresh = not memory.is_repeat(post, float(now))
        found.append(is_fresh)
        if is_fresh:
            memory.remember(post, float(now))
    return found


def test_where_a_file_is_to_be_had_makes_no_difference() -> None:
    posts = [at_second(n, identity=ONE, baseUrl=url) for n, url in enumerate(("http://a/", "https://b/c", "http://d/"))]
    assert passed(winnow(), *posts) == [True, False, False]


@pytest.mark.parametrize(("basis", "last"), [(PATH, "sr3 winnow, nodupe_ttl"), (DATA, "sr3 winnow, nodupe_basis data")])
def test_the_same_posts_pass_as_in_sr3(basis: str, last: str) -> None:
    table = VECTORS["winnow"]
    expected = next(ids for name, ids in table.items() if name.startswith(last))
    posts = [
        post_of(relPath=each["relPath"], identity=ONE if each["identity"] else None)
        for each in table["input (in order)"]
    ]
    ids = [each["id"] for each in table["input (in order)"]]
    found = passed(winnow(basis), *posts)
    assert [id for id, is_fresh in zip(ids, found, strict=True) if is_fresh] == expected


def test_former_content_that_comes_back_is_no_repeat_and_an_old_post_of_it_is() -> None:
    memory = winnow()
    first, other, again = at_second(1, identity=ONE), at_second(2, identity=TWO), at_second(3, identity=ONE)
    assert passed(memory, first, other) == [True, True]
    assert memory.is_repeat(first, 5)
    assert not memory.is_repeat(again, 5)


def test_what_is_put_again_after_its_removal_or_renaming_is_no_repeat() -> None:
    memory = winnow()
    removal = at_second(2, fileOp={"remove": ""})
    assert passed(memory, at_second(1, identity=ONE), removal, at_second(3, identity=ONE)) == [True] * 3
    renamed = at_second(4, relPath="a/g", fileOp={"rename": "a/f"})
    memory.remember(renamed, 4)
    assert memory.is_repeat(at_second(5, identity=ONE), 5)
    memory.remember_vacated("a/f", renamed, 4)
    assert not memory.is_repeat(at_second(5, identity=ONE), 5)


def test_blocks_of_one_file_are_told_apart_and_a_whole_file_replaces_them() -> None:
    def block(number: int, second: int) -> Post:
        blocks = {"method": "inplace", "size": 10, "count": 2, "remainder": 0, "number": number}
        return at_second(second, identity=ONE, blocks=blocks)

    memory = winnow()
    assert passed(memory, block(0, 1), block(1, 1), block(0, 1)) == [True, True, False]
    memory.remember(at_second(2, identity=TWO), 4)
    assert not memory.is_repeat(block(0, 3), 5)


def test_it_is_known_for_the_ttl_and_no_longer() -> None:
    memory = winnow(ttl_s=10)
    memory.remember(post_of(), 0)
    assert memory.is_repeat(post_of(), 9.9)
    assert not memory.is_repeat(post_of(), 10)
    assert memory.expire(10) == 10
    assert len(memory) == 0


def test_beyond_the_bound_the_oldest_are_forgotten() -> None:
    memory = winnow(max_posts=2)
    posts = [post_of(relPath=f"f{number}") for number in range(3)]
    for now, post in enumerate(posts):
        memory.remember(post, now)
    assert len(memory) == 2
    assert [memory.is_repeat(post, 3) for post in posts] == [False, True, True]


def test_what_was_kept_is_known_after_a_restart() -> None:
    before, after = winnow(), winnow()
    kept = [before.remember(at_second(1, identity=ONE), 1), before.remember(at_second(2, identity=TWO), 2)]
    after.load(kept, 3)
    for memory in (before, after):
        assert memory.is_repeat(at_second(1, identity=ONE), 3)
        assert not memory.is_repeat(at_second(3, identity=ONE), 3)

"""spark_sink.feed.consumer.mirror: a post in, a decision out, on a clock that the test advances."""

from typing import Any

import pytest

from spark_sink.feed.blocks import blocks_of
from spark_sink.feed.consumer.mirror import (
    TTL_S,
    Decision,
    Fetch,
    Ignored,
    MakeFolder,
    MakeHardLink,
    MakeLink,
    Mirror,
    MirrorOptions,
    Refused,
    Remove,
    Rename,
    Write,
    claims_of_decision,
)
from spark_sink.feed.consumer.turns import Claim
from spark_sink.feed.identity import Identity, identity_of
from spark_sink.feed.posts import FileOp, Post, make_post
from spark_sink.feed.reports import BAD_MESSAGE, NOT_MODIFIED, UNAVAILABLE, Report, report_post
from tests.spark_sink.feed.samples import PUB_TIME_NS

NOW = 1_000.0
ABC = identity_of("sha512", b"abc")
HERE = Refused(NOT_MODIFIED, "it is here already")
BLOCKS = list(blocks_of("inplace", 3, 2))


def post(path: str = "d/f", base_url: str = "http://h:8080/", at: int = 0, **values: Any) -> Post:
    return make_post(base_url, path, PUB_TIME_NS + at, **values)


def renamed(path: str, before: str, **values: Any) -> Post:
    """As `sr3 watch` says it: with the whole path at its machine."""
    return post(path, **values).changed(fileOp={"rename": before})


def decided(one: Post, **options: Any) -> Decision:
    return Mirror(MirrorOptions(**options)).decide(one, NOW)


def code_of(decision: Decision) -> tuple[int, str]:
    assert isinstance(decision, Refused)
    return decision.code, decision.text


@pytest.mark.parametrize(
    "one, decision",
    [
        (post(identity=ABC, size=3), Fetch(["d", "f"], "h:8080")),
        (post("/d/f", identity=ABC), Fetch(["d", "f"], "h:8080")),
        (post(identity=ABC, blocks=BLOCKS[1], size=1), Fetch(["d", "f"], "h:8080", is_block=True)),
        (post(identity=ABC, size=3, content=b"abc"), Write(["d", "f"], b"abc")),
        (post(identity=Identity("mine", "x"), content=b"abc"), Write(["d", "f"], b"abc")),
        (post(file_op=FileOp("link", "../x")), MakeLink(["d", "f"], "../x")),
        (post(file_op=FileOp("directory", is_directory=True)), MakeFolder(["d", "f"])),
        (post(file_op=FileOp("remove")), Remove(["d", "f"], False)),
        (post(file_op=FileOp("remove", is_directory=True)), Remove(["d", "f"], True)),
        (post(file_op=FileOp("hlink", "../x/g")), MakeHardLink(["d", "f"], ["x", "g"], Fetch(["d", "f"], "h:8080"))),
        (post(file_op=FileOp("hlink", "/x/g")), MakeHardLink(["d", "f"], ["x", "g"], Fetch(["d", "f"], "h:8080"))),
        (renamed("d/f", "/src/g"), Rename(["g"], ["d", "f"], Fetch(["d", "f"], "h:8080"))),
        (renamed("d/f", "/srcs/g"), Rename(["srcs", "g"], ["d", "f"], Fetch(["d", "f"], "h:8080"))),
        (
            post(file_op=FileOp("rename", "g", is_directory=True)),
            Rename(["g"], ["d", "f"], MakeFolder(["d", "f"])),
        ),
        (post(file_op=FileOp("rename", "g", link="x")), Rename(["g"], ["d", "f"], MakeLink(["d", "f"], "x"))),
    ],
)
def test_each_kind_of_post_has_its_decision(one: Post, decision: Decision) -> None:
    assert decided(one, removes=True, strip="/src/") == decision


@pytest.mark.parametrize(
    "one, code, why",
    [
        (post("../f"), BAD_MESSAGE, "'..' is none"),
        (renamed("d/f", "/a/../../f"), BAD_MESSAGE, "'..' is none"),
        (post(file_op=FileOp("hlink", "../../f")), BAD_MESSAGE, "'../../f' is outside of the folder"),
        (post(base_url="ftp://h/"), UNAVAILABLE, "'ftp://h/': files are fetched over http and https"),
        (post(base_url="http:///"), BAD_MESSAGE, "names no host"),
        (post(base_url="http://[h/"), BAD_MESSAGE, "is no URL: "),
        (post(content=b"abc", size=4), BAD_MESSAGE, "content: has 3 bytes, 4 are announced"),
        (post(content=b"abd", identity=ABC), BAD_MESSAGE, "content: its sha512 is "),
        (post(file_op=FileOp("remove")), UNAVAILABLE, "removals are not carried out here"),
    ],
)
def test_what_may_not_be_here_is_refused_with_a_reason(one: Post, code: int, why: str) -> None:
    found, text = code_of(decided(one))
    assert (found, why in text) == (code, True), text


def test_what_the_patterns_do_not_take_and_reports_are_passed_over() -> None:
    options = {"accept": [r"\.txt$", "^b/"], "reject": ["^old/"]}
    taken = [path for path in ("a.txt", "b/c", "c.bin", "old/a.txt") if decided(post(path), **options) != Ignored()]
    assert taken == ["a.txt", "b/c"]
    assert decided(report_post(post(), Report(201, "", "h", "u", ""))) == Ignored()


def test_a_pattern_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match=r"'\(' is no regular expression"):
        Mirror(MirrorOptions(reject=["("]))


def test_what_was_done_is_a_repeat_until_it_is_forgotten() -> None:
    mirror, one = Mirror(MirrorOptions()), post(identity=ABC)
    fetch = mirror.decide(one, NOW)
    (kept,) = mirror.done(one, NOW)
    again = post(base_url="http://other/", at=5, identity=ABC)
    assert mirror.decide(again, NOW + TTL_S - 1) == HERE
    next_process = Mirror(MirrorOptions())
    next_process.winnow.load([kept], NOW + 1)
    assert next_process.decide(one, NOW + 1) == HERE
    assert mirror.decide(one, NOW + TTL_S) == fetch


def test_a_file_whose_name_went_to_another_is_fetched_again() -> None:
    mirror, one = Mirror(MirrorOptions(strip="/src")), post("a", identity=ABC)
    fetch = mirror.decide(one, NOW)
    mirror.done(one, NOW)
    other = renamed("b", "/src/a", at=1, identity=ABC)
    assert mirror.decide(other, NOW) == Rename(["a"], ["b"], Fetch(["b"], "h:8080"))
    assert len(mirror.done(other, NOW)) == 2
    assert (mirror.decide(other, NOW), mirror.decide(post("a", at=2, identity=ABC), NOW)) == (HERE, fetch)


def test_by_data_the_same_under_another_name_is_a_repeat() -> None:
    mirror = Mirror(MirrorOptions(basis="data"))
    mirror.done(post("a", identity=ABC), NOW)
    assert mirror.decide(post("b", identity=ABC), NOW) == HERE


ABOVE = Claim("/d", is_shared=True)


@pytest.mark.parametrize(
    "decision, claims",
    [
        (HERE, []),
        (Fetch(["d", "f"], "h"), [ABOVE, Claim("/d/f")]),
        (Fetch(["d", "f"], "h", is_block=True), [ABOVE, Claim("/d/f", is_shared=True)]),
        (MakeFolder(["d", "f"]), [ABOVE, Claim("/d/f", is_shared=True)]),
        (Remove(["d"], True), [Claim("/d")]),
        (Rename(["g"], ["d", "f"], HERE), [Claim("/g"), ABOVE, Claim("/d/f")]),
        (MakeHardLink(["d", "f"], ["g"], HERE), [Claim("/g", is_shared=True), ABOVE, Claim("/d/f")]),
    ],
)
def test_a_decision_claims_what_it_changes_and_shares_what_it_needs(decision: Decision, claims: list[Claim]) -> None:
    assert claims_of_decision(decision) == claims

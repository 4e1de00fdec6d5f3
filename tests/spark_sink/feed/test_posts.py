"""spark_sink.feed.posts: what is recorded of sr3 is read, what is not known is forwarded, what is wrong is named."""

import json
from typing import Any

import pytest

from spark_sink.feed.errors import BadPost
from spark_sink.feed.identity import Identity, identity_of
from spark_sink.feed.posts import FileOp, Post, make_post, read_post, read_remains
from tests.spark_sink.feed.samples import PUB_TIME_NS, body_of, post_of
from tests.spark_sink.feed.vectors import FED, SENT

TWELVE_DIGITS = "seed_shaped_posts_fed_to_sr3_subscribe: seed example pubTime 201506011357.345"  # sr3 refuses it, too
DIGEST = identity_of("sha512", b"data")
NO_TEXT = bytes((0xFF, 0xFE))  # in no UTF-8


@pytest.mark.parametrize("name", sorted({**SENT, **FED}.keys() - {TWELVE_DIGITS}))
def test_recorded_posts_are_read_and_forwarded_as_they_came(name: str) -> None:
    body = {**SENT, **FED}[name]
    told: dict[str, Any] = json.loads(body)
    post = read_post(body)
    assert (post.pub_time, post.base_url, post.rel_path) == (told["pubTime"], told["baseUrl"], told["relPath"])
    if "identity" in told:
        assert post.identity == Identity(told["identity"]["method"], told["identity"]["value"])
    assert post.size == (int(told["size"]) if "size" in told else None)
    assert list(json.loads(post.encode()).items()) == list(told.items())


def test_the_pub_time_of_twelve_digits_is_named() -> None:
    with pytest.raises(BadPost, match=r"201506011357\.345") as told:
        read_post(FED[TWELVE_DIGITS])
    assert told.value.field == "pubTime"


@pytest.mark.parametrize(
    ("base_url", "rel_path", "url"),
    [
        ("http://h/", "a/f", "http://h/a/f"),
        ("http://h", "/a/f", "http://h/a/f"),
        ("http://h/x/", "/f", "http://h/x/f"),
        ("http://h", "a b/\u00fc#?%", "http://h/a%20b/%C3%BC%23%3F%25"),
    ],
)
def test_url_has_one_slash_between_and_is_encoded(base_url: str, rel_path: str, url: str) -> None:
    assert post_of(baseUrl=base_url, relPath=rel_path).url == url


def test_url_of_sr3_has_its_retrieve_path_as_it_is() -> None:
    assert post_of(retrievePath="x/y?z=1").url == "http://h/x/y?z=1"


@pytest.mark.parametrize(("rename", "place"), [(None, "a/f"), ("b/g", "b/g"), ("NRDPS/GIF/", "NRDPS/GIF/f")])
def test_rename_says_where_the_file_is_to_be(rename: str | None, place: str) -> None:
    assert post_of(rename=rename).place == place


@pytest.mark.parametrize(
    ("values", "file_op"),
    [
        ({"link": "b"}, FileOp("link", "b")),
        ({"hlink": "b"}, FileOp("hlink", "b")),
        ({"remove": ""}, FileOp("remove")),
        ({"rename": "b"}, FileOp("rename", "b")),
        ({"directory": ""}, FileOp("directory", is_directory=True)),
        ({"remove": "", "directory": ""}, FileOp("remove", is_directory=True)),
        ({"rename": "b", "directory": ""}, FileOp("rename", "b", is_directory=True)),
        ({"rename": "b", "link": "c"}, FileOp("rename", "b", link="c")),
    ],
)
def test_operations_are_read(values: dict[str, str], file_op: FileOp) -> None:
    assert post_of(fileOp=values).file_op == file_op


@pytest.mark.parametrize(
    ("rel_path", "before", "written"),
    [
        ("a/new", "a/old", "./old"),
        ("new", "old", "./old"),
        ("a/new", "b/old", "../b/old"),
        ("new", "a/b/old", "./a/b/old"),
    ],
)
def test_d_86_sr3_finds_the_name_before_from_the_folder_of_the_new_one(
    rel_path: str, before: str, written: str
) -> None:
    made = make_post("http://h/", rel_path, PUB_TIME_NS, file_op=FileOp("rename", before))
    assert json.loads(made.encode())["fileOp"] == {"rename": written}
    assert made.file_op == FileOp("rename", before)


@pytest.mark.parametrize(
    ("written", "before"),
    [("b/old", "b/old"), ("/srv/old", "/srv/old"), ("../../old", "../old"), ("../../../old", "../../old")],
)
def test_other_names_before_are_paths_and_may_lead_anywhere(written: str, before: str) -> None:
    assert post_of(fileOp={"rename": written}).file_op == FileOp("rename", before)


@pytest.mark.parametrize("encoding, value", [("utf-8", "gr\u00fc\u00dfe"), ("base64", "Z3LDvMOfZQ==")])
def test_content_is_read_by_its_encoding(encoding: str, value: str) -> None:
    assert post_of(content={"encoding": encoding, "value": value}).content == "gr\u00fc\u00dfe".encode()


@pytest.mark.parametrize("mode", ["644", "0644", 0o644])
def test_mode_is_octal_and_a_number_is_the_bits(mode: str | int) -> None:
    assert post_of(mode=mode).mode == 0o644


@pytest.mark.parametrize(
    ("field", "headers"),
    [
        ("pubTime", {"pubTime": None}),
        ("baseUrl", {"baseUrl": ""}),
        ("relPath", {"relPath": 7}),
        ("relPath", {"relPath": "a\0b"}),
        ("size", {"size": -1}),
        ("mode", {"mode": "888"}),
        ("mode", {"mode": "10000"}),
        ("fileOp", {"fileOp": {}}),
        ("fileOp", {"fileOp": {"link": "a", "remove": ""}}),
        ("fileOp", {"fileOp": {"hlink": "a", "directory": ""}}),
        ("fileOp.rename", {"fileOp": {"rename": ""}}),
        ("fileOp.link", {"fileOp": {"link": "a\0"}}),
        ("content", {"content": "x"}),
        ("content.encoding", {"content": {"encoding": "latin-1", "value": "x"}}),
        ("content.value", {"content": {"encoding": "base64", "value": "%"}}),
        ("to_clusters", {"to_clusters": [1]}),
        ("source", {"source": []}),
        ("mtime", {"mtime": 1.5}),
    ],
)
def test_what_is_wrong_is_named(field: str, headers: dict[str, object]) -> None:
    with pytest.raises(BadPost, match=rf"^{field}: ") as told:
        read_post(body_of(**headers))
    assert told.value.field == field


def test_a_null_is_as_if_it_were_not_there_and_topic_never_is() -> None:
    post = read_post(b'{"pubTime":"20260102T030405.678","baseUrl":"http://h/","relPath":"a/f","size":null,"topic":"t"}')
    assert post.size is None
    assert json.loads(post.encode()) == {
        "pubTime": "20260102T030405.678",
        "baseUrl": "http://h/",
        "relPath": "a/f",
        "size": None,
    }


def test_what_is_changed_stays_in_its_place_and_the_rest_as_it_is() -> None:
    body = (
        b'{"PRINTER": "p", "pubTime": "20260102T030405.678", "baseUrl": "http://h/", "relPath": "a/f", '
        b'"n": 1e400, "size": 7, "x": []}'
    )
    changed = read_post(body).changed(baseUrl="http://mine/", size=None, extra=1)
    assert changed.encode() == (
        b'{"PRINTER": "p", "pubTime": "20260102T030405.678", "baseUrl": "http://mine/", "relPath": "a/f", '
        b'"n": 1e400, "x": [], "extra": 1}'
    )


def test_an_identity_that_was_computed_replaces_every_form_of_it() -> None:
    post = post_of(sum="z,s").identified(DIGEST)
    assert post.identity == DIGEST
    assert "sum" not in post.headers


def test_what_is_made_is_read_again_as_it_was_made() -> None:
    made = make_post(
        "http://h/",
        "a/f",
        PUB_TIME_NS,
        identity=DIGEST,
        size=4,
        mtime_ns=PUB_TIME_NS,
        mode=0o100640,
        source="s",
        content=NO_TEXT,
        extra={"PRINTER": {"name": "p"}},
    )
    assert read_post(made.encode()) == made
    assert (made.mode, made.content, made.pub_time_ns) == (0o640, NO_TEXT, PUB_TIME_NS)
    assert json.loads(made.encode())["PRINTER"] == {"name": "p"}


def test_a_name_that_is_no_utf_8_cannot_be_said() -> None:
    with pytest.raises(BadPost, match=r"^relPath: .* cannot be said in JSON"):
        make_post("http://h/", "a/\udcff", PUB_TIME_NS)


@pytest.mark.parametrize(
    ("body", "rel_path"),
    [
        (b"", ""),
        (b"[1]", ""),
        (b'{"relPath": "a\\u0000b"}', ""),
        (b'{"relPath": 7, "pubTime": []}', ""),
        (b'{"relPath": "a/f", "mode": "x"}', "a/f"),
    ],
)
def test_the_report_of_a_bad_post_has_what_can_be_read_of_it(body: bytes, rel_path: str) -> None:
    remains: Post = read_remains(body)
    assert remains.rel_path == rel_path

"""What the document shows of older forms, and what sr3 reads of them."""

from base64 import b64encode
from typing import Any

import pytest

from spark_sink.feed.blocks import Blocks
from spark_sink.feed.errors import BadPost
from spark_sink.feed.identity import Identity
from spark_sink.feed.posts import FileOp, read_post
from tests.spark_sink.feed.samples import post_of
from tests.spark_sink.feed.vectors import DECODED

HEX = "25d231ec0ae3c569ba27ab7a74dd72ce"
MD5 = Identity("md5", b64encode(bytes.fromhex(HEX)).decode())
LINK = {"method": "link", "value": "AA=="}
REMOVE = {"method": "remove", "value": "AA=="}


def test_what_sr3_renames_is_read_as_it_reads_it() -> None:
    posts = {name.removeprefix("decode_by_sr3: "): read_post(body) for name, body in DECODED.items()}
    assert posts["integrity is the old name of identity"].identity == Identity("md5", "1B2M2Y8AsgTpgAmY7PhCfg==")
    assert posts["retPath is the old name of retrievePath"].retrieve_path == "x/y"
    assert posts["parts 1,... becomes size"].size == 256
    assert posts["parts i,... becomes blocks inplace"].blocks == Blocks("inplace", 100_000, 3, 56_000, 2)
    assert posts["size as a string becomes a number"].size == 9999
    numbered = posts["manifest keys become numbers"].blocks
    assert numbered is not None
    assert list(numbered.manifest or ()) == [0, 1]
    assert len(posts) == 6


def test_older_forms_are_forwarded_as_they_came() -> None:
    for body in DECODED.values():
        assert read_post(body).encode().replace(b" ", b"") == body


@pytest.mark.parametrize(
    ("sum", "identity"),
    [
        (f"d,{HEX}", MD5),
        (f"s,{'00' * 64}", Identity("sha512", b64encode(bytes(64)).decode())),
        ("0,4711", Identity("random", "4711")),
        ("a,any, thing", Identity("arbitrary", "any, thing")),
        (f"n,{HEX}", Identity("md5name", HEX)),
        ("z,d", Identity("cod", "md5")),
        ("z,s", Identity("cod", "sha512")),
        ("z,blake3", Identity("cod", "blake3")),
        ("blake3,AAAA", Identity("blake3", "AAAA")),
    ],
)
def test_a_sum_is_an_identity(sum: str, identity: Identity) -> None:
    assert post_of(sum=sum).identity == identity


def test_the_sum_of_a_link_or_of_a_removal_is_an_operation() -> None:
    """The table of methods: "L - link", "R - remove"."""
    link, removal = post_of(sum="L,AA", link="b"), post_of(sum="R,AA")
    assert (link.identity, link.file_op) == (None, FileOp("link", "b"))
    assert (removal.identity, removal.file_op) == (None, FileOp("remove"))


def test_d_84_methods_of_the_first_list_are_operations() -> None:
    assert post_of(identity=LINK, link="b").file_op == FileOp("link", "b")
    assert post_of(identity=LINK, link="b").identity is None
    assert post_of(identity=REMOVE).file_op == FileOp("remove")
    assert post_of(identity=REMOVE, fileOp={"rename": "old"}).file_op == FileOp("rename", "old")
    assert post_of(identity={"method": "md5name", "value": HEX}).identity == Identity("md5name", HEX)


def test_a_link_beside_data_says_nothing() -> None:
    identity = {"method": MD5.method, "value": MD5.value}
    assert post_of(link="b", identity=identity).file_op is None
    assert post_of(link="b").file_op == FileOp("link", "b")


@pytest.mark.parametrize(("letter", "method"), [("p", "partitioned"), ("i", "inplace")])
def test_parts_are_blocks_or_a_size(letter: str, method: str) -> None:
    post = post_of(parts=f"{letter},457,1,0,0")
    assert (post.blocks, post.size) == (Blocks(method, 457, 1, 0, 0), None)
    assert (post_of(parts="1,256,1,0,0").blocks, post_of(parts="1,256,1,0,0").size) == (None, 256)


def test_d_86_two_posts_of_a_rename_are_the_rename_and_a_removal() -> None:
    sum = f"d,{HEX}"
    new = post_of(relPath="new", oldname="old", sum=sum)
    assert (new.file_op, new.identity) == (FileOp("rename", "old"), MD5)
    assert post_of(relPath="old", newname="new", sum="R,AA").file_op == FileOp("remove")
    assert post_of(relPath="old", newname="new").file_op == FileOp("remove")
    assert post_of(relPath="l", oldname="k", sum="L,AA", link="b").file_op == FileOp("rename", "k", link="b")


def test_the_form_of_v03_counts_where_both_are_there() -> None:
    both = post_of(
        identity={"method": "random", "value": "1"},
        integrity={"method": "random", "value": "2"},
        sum="0,3",
        fileOp={"link": "b"},
        oldname="old",
        retrievePath="x",
        retPath="y",
    )
    assert both.identity == Identity("random", "1")
    assert both.retrieve_path == "x"
    assert both.file_op == FileOp("link", "b")


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"sum": "d"}, "sum: 'd' is no method and value"),
        ({"sum": ",x"}, "sum: ',x' is no method and value"),
        ({"sum": 1}, "sum: 1 is no method and value"),
        ({"sum": "d,xyz"}, "sum: 'xyz' is no hex"),
        ({"sum": "d,ü"}, "sum: 'ü' is no hex"),
        ({"sum": "d,00"}, "identity.value: 'AA==' is no base64 of the 16 bytes of md5"),
        ({"sum": "L,AA"}, "fileOp: ['link'] names none of"),
        ({"parts": "1,256"}, "parts: '1,256' is no method, block size, count, remainder and number"),
        ({"parts": "x,1,1,0,0"}, "parts: 'x,1,1,0,0' is no method"),
        ({"parts": 1}, "parts: 1 is no method"),
        ({"parts": "1,x,1,0,0"}, "size: 'x' is no number from 0 on"),
        ({"parts": "i,10,2,0,2"}, "blocks.number: 2 of 2 blocks, counted from 0"),
        ({"oldname": ""}, "fileOp.rename: '' names no file"),
        ({"oldname": 1}, "fileOp.rename: 1 is no text"),
    ],
)
def test_an_older_form_that_cannot_be_read_is_told(headers: dict[str, Any], text: str) -> None:
    with pytest.raises(BadPost) as told:
        post_of(**headers)
    assert text in str(told.value)

from typing import Any

import pytest

from spark_sink.feed.blocks import (
    MAX_BLOCKS,
    MAX_FILE_BYTES,
    Block,
    Blocks,
    blocks_of,
    file_bytes_of,
    length_of,
    plan,
    range_of,
    read_blocks,
)
from spark_sink.feed.errors import BadPost
from spark_sink.feed.identity import Identity
from spark_sink.feed.posts import read_post
from tests.spark_sink.feed.samples import post_of
from tests.spark_sink.feed.vectors import SENT

FIVE: dict[str, Any] = {"method": "inplace", "size": 100_000, "count": 3, "remainder": 56_000, "number": 2}
MANIFEST = {"0": {"size": 10, "identity": "AA=="}, "1": {"size": 3, "identity": "AA=="}}


def test_a_file_is_cut_into_blocks_that_cover_it() -> None:
    assert plan(256_000, 100_000) == [(0, 100_000), (100_000, 100_000), (200_000, 56_000)]
    assert plan(200_000, 100_000) == [(0, 100_000), (100_000, 100_000)]
    assert plan(0, 100_000) == [(0, 0)]


@pytest.mark.parametrize("file_bytes", [1, 99_999, 100_000, 100_001, 256_000, 300_000])
def test_what_a_post_says_of_blocks_leads_to_their_bytes(file_bytes: int) -> None:
    made = list(blocks_of("inplace", file_bytes, 100_000))
    read = [post_of(blocks=each.values()).blocks for each in made]
    assert read == made
    assert [range_of(each) for each in made] == plan(file_bytes, 100_000)
    assert file_bytes_of(made[-1]) == file_bytes
    assert {each.count for each in made} == {len(made)}


def test_d_85_numbers_are_written_and_texts_are_read() -> None:
    texts = {name: str(value) for name, value in FIVE.items()}
    blocks = Blocks("inplace", 100_000, 3, 56_000, 2)
    assert read_blocks("blocks", texts) == read_blocks("blocks", FIVE) == blocks
    assert blocks.values() == FIVE


def test_a_block_of_sr3_is_placed_by_its_manifest() -> None:
    first, second = (read_post(SENT[f"posts_by_sr3_post: blockSize 100000, block {n} of 3"]) for n in (0, 1))
    assert first.blocks is not None
    assert second.blocks is not None
    assert (first.blocks.count, first.blocks.remainder, file_bytes_of(first.blocks)) == (3, 56_000, 256_000)
    assert [length_of(first.blocks, number) for number in range(3)] == [100_000, 100_000, 56_000]
    assert range_of(second.blocks) == (100_000, 100_000)
    assert (first.size, second.size) == (100_000, 100_000)  # bytes that are advertised: of the block
    assert first.blocks.manifest is not None
    assert first.identity is not None
    assert first.blocks.manifest[0] == Block(100_000, first.identity.value)


def test_a_file_may_be_as_large_as_an_offset_can_be() -> None:
    one = {**FIVE, "count": 1, "remainder": 0, "number": 0}
    assert file_bytes_of(read_blocks("blocks", {**one, "size": 2**63 - 1})) == 2**63 - 1
    with pytest.raises(BadPost, match=r"^blocks.size"):
        read_blocks("blocks", {**one, "size": 2**63})


def test_a_manifest_is_written_and_read_back() -> None:
    blocks = Blocks("partitioned", 10, 2, 3, 1, {0: Block(10, "AA=="), 1: Block(3, "AA==")})
    assert blocks.values()["manifest"] == MANIFEST
    assert read_blocks("blocks", blocks.values()) == blocks
    assert post_of(blocks={"method": "partitioned", "size": 10, "number": 1, "manifest": MANIFEST}).blocks == blocks


def test_d_85_sr3_calls_blocks_that_are_files_separate() -> None:
    """As it announces those that it has fetched."""
    separate = {**FIVE, "method": "separate"}
    assert read_blocks("blocks", separate) == Blocks("partitioned", 100_000, 3, 56_000, 2)
    assert b'"separate"' in post_of(blocks=separate).encode()


def test_d_91_blocks_that_sr3_has_put_together_are_a_file_without_a_digest() -> None:
    """It leaves the digest of the last block, and takes away its number."""
    blocks = {"method": "inplace", "size": 10, "count": 2, "remainder": 3, "manifest": MANIFEST}
    found = post_of(size=13, identity={"method": "arbitrary", "value": "AA=="}, blocks=blocks)
    assert (found.blocks, found.identity, found.size) == (None, None, 13)
    other = post_of(size=13, identity={"method": "arbitrary", "value": "AQ=="}, blocks=blocks)
    assert (other.blocks, other.identity) == (None, Identity("arbitrary", "AQ=="))
    assert read_post(found.encode()).headers == found.headers
    with pytest.raises(BadPost, match=r"blocks\.number"):
        post_of(blocks={**blocks, "manifest": {}})


def test_the_size_of_a_file_is_known_where_something_tells_it() -> None:
    """ "normally 0, on the last block, remaining bytes in the file"."""
    middle = Blocks("inplace", 10, 3, 0, 1)
    assert file_bytes_of(middle) is None
    assert file_bytes_of(Blocks("inplace", 10, 3, 0, 2)) == 30
    assert file_bytes_of(Blocks("inplace", 10, 3, 4, 1)) == 24
    whole = {**FIVE, "remainder": 100_000}
    assert read_blocks("blocks", whole).remainder == 0
    assert range_of(read_blocks("blocks", whole)) == (200_000, 100_000)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"method": "p"}, "method"),
        ({"method": None}, "method"),
        ({"method": ["inplace"]}, "method"),
        ({"size": None}, "size"),
        ({"size": -1}, "size"),
        ({"size": 1.5}, "size"),
        ({"size": "0x10"}, "size"),
        ({"size": "١"}, "size"),
        ({"size": True}, "size"),
        ({"size": "9" * 20}, "size"),
        ({"size": MAX_FILE_BYTES + 1}, "size"),
        ({"size": MAX_FILE_BYTES // 2}, "size"),
        ({"size": 0, "remainder": 0}, "size"),
        ({"count": None}, "count"),
        ({"count": 0}, "count"),
        ({"count": MAX_BLOCKS + 1}, "count"),
        ({"number": None}, "number"),
        ({"number": 3}, "number"),
        ({"remainder": 100_001}, "remainder"),
        ({"manifest": []}, "manifest"),
        ({"manifest": {"x": {"size": 1}}}, "manifest"),
        ({"manifest": {"0": 1}}, "manifest.0"),
        ({"manifest": {"0": {"identity": "AA=="}}}, "manifest.0.size"),
        ({"manifest": {"0": {"size": 100_000, "identity": 1}}}, "manifest.0.identity"),
        ({"manifest": {"3": {"size": 100_000}}}, "manifest.3"),
        ({"manifest": {"0": {"size": 99_999}}}, "manifest.0"),
        ({"manifest": {"2": {"size": 100_000}}}, "manifest.2"),
    ],
)
def test_numbers_that_do_not_fit_each_other_are_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(BadPost) as told:
        read_blocks("blocks", {**FIVE, **changed})
    assert told.value.field == f"blocks.{field}"


def test_blocks_are_an_object_and_no_more_than_the_bound() -> None:
    with pytest.raises(BadPost, match=r"blocks: 'all' is no object"):
        read_blocks("blocks", "all")
    assert read_blocks("blocks", {**FIVE, "count": MAX_BLOCKS}).count == MAX_BLOCKS
    many = {str(number): {"size": 1} for number in range(MAX_BLOCKS + 1)}
    with pytest.raises(BadPost, match=f"{MAX_BLOCKS} are possible"):
        read_blocks("blocks", {"method": "inplace", "size": 1, "number": 0, "manifest": many})
    with pytest.raises(ValueError, match=f"{MAX_BLOCKS} are possible"):
        next(blocks_of("inplace", MAX_BLOCKS + 1, 1))

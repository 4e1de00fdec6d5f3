"""What is said of a change: identity, content, blocks, and nothing of a file that changes meanwhile."""

import hashlib
import os
from base64 import b64encode
from pathlib import Path

import pytest
from msgspec.structs import replace

from spark_sink.feed.blocks import Block
from spark_sink.feed.identity import Identity, identity_of
from spark_sink.feed.posts import DIRECTORY, HLINK, LINK, REMOVE, RENAME, FileOp
from spark_sink.feed.producer import posting
from spark_sink.feed.producer.folders import Folder
from spark_sink.feed.producer.post_tables import Posting
from spark_sink.feed.producer.posting import BadIdentity, PostOptions, PubTimes, find_posting, renamed
from spark_sink.feed.producer.scanning import FILE, Change

URL = "http://a/"


def changed(root: Path, path: str, kind: str = FILE, other: str = "", options: PostOptions | None = None) -> Posting:
    change = Change(kind, path, Folder(root).look({}).entries[path], other)
    found = find_posting(change, root, path, options or PostOptions(base_url=URL), PubTimes(lambda: 10**18))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text, identity",
    [
        ("md5", identity_of("md5", b"abc")),
        ("sha512", identity_of("sha512", b"abc")),
        ("cod,md5", Identity("cod", "md5")),
        ("arbitrary,x", Identity("arbitrary", "x")),
        ("none", None),
    ],
)
def test_a_file_is_posted_with_the_identity_that_is_asked_for(
    tmp_path: Path, text: str, identity: Identity | None
) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    os.utime(tmp_path / "a", ns=(5, 7))
    os.chmod(tmp_path / "a", 0o640)
    said = {"source": "s", "from_cluster": "from", "to_clusters": "to,others"}
    options = replace(PostOptions(base_url=URL, identity=text, extra={"X": [1]}), **said)
    found = changed(tmp_path, "a", options=options)
    (post,) = found.posts
    assert (post.source, post.from_cluster, post.to_clusters) == tuple(said.values())
    assert (post.identity, found.identity, post.size, post.content) == (identity, identity, 3, None)
    assert (post.atime_ns, post.mtime_ns, post.mode) == (5, 7, 0o640)
    assert (post.url, bytes(post.headers["X"])) == ("http://a/a", b"[1]")


def test_a_random_identity_is_a_number(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    identity = changed(tmp_path, "a", options=PostOptions(base_url=URL, identity="random")).identity
    assert identity is not None
    assert (identity.method, identity.value.isdecimal()) == ("random", True)


@pytest.mark.parametrize("text", ["sha1", "cod", "cod,sha1", "md5,x", "arbitrary", ""])
def test_an_identity_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(BadIdentity, match="none of md5"):
        PostOptions(base_url=URL, identity=text)


def test_small_files_are_in_their_posts(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff" * 4)
    (tmp_path / "b").write_bytes(b"x" * 5)
    (tmp_path / "c").touch()
    options = PostOptions(base_url=URL, inline_bytes=4)
    contents = [changed(tmp_path, name, options=options).posts[0].content for name in "abc"]
    assert contents == [b"\xff" * 4, None, b""]
    assert changed(tmp_path, "a", options=options).identity == identity_of("sha512", b"\xff" * 4)
    for size, is_embedded in ((262_144, True), (262_145, False)):
        (tmp_path / "a").write_bytes(b"\xff" * size)
        [post] = changed(tmp_path, "a", options=PostOptions(base_url=URL, inline_bytes=1 << 30)).posts
        assert (post.content is not None) == is_embedded


def test_large_files_are_posted_in_blocks_with_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"aaabbbc")
    found = changed(tmp_path, "a", options=PostOptions(base_url=URL, block_bytes=3))
    values = [b64encode(hashlib.sha512(data).digest()).decode() for data in (b"aaa", b"bbb", b"c")]
    assert [(post.size, post.identity) for post in found.posts] == [
        (size, Identity("sha512", value)) for size, value in zip((3, 3, 1), values, strict=True)
    ]
    manifest = {number: Block(size, values[number]) for number, size in enumerate((3, 3, 1))}
    for number, post in enumerate(found.posts):
        assert post.blocks is not None
        assert (post.blocks.number, post.blocks.manifest) == (number, manifest)
        assert (post.blocks.size, post.blocks.count, post.blocks.remainder) == (3, 3, 1)
    assert len({post.pub_time for post in found.posts}) == 3


def test_a_file_has_no_more_blocks_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "MAX_POSTED_BLOCKS", 2)
    (tmp_path / "a").write_bytes(b"x" * 7)
    sizes = [post.size for post in changed(tmp_path, "a", options=PostOptions(base_url=URL, block_bytes=1)).posts]
    assert sizes == [4, 3]


def test_a_file_that_is_not_as_it_was_found_is_not_posted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    change = Change(FILE, "a", Folder(tmp_path).look({}).entries["a"])
    (tmp_path / "a").write_bytes(b"abcd")
    assert find_posting(change, tmp_path, "a", PostOptions(base_url=URL), PubTimes()) is None


def test_a_file_in_a_folder_that_became_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a").write_bytes(b"abc")
    change = Change(FILE, "d/a", Folder(tmp_path).look({}).entries["d/a"])
    (tmp_path / "d").rename(tmp_path / "e")
    (tmp_path / "d").symlink_to("e")
    with pytest.raises(OSError, match="Not a directory"):
        find_posting(change, tmp_path, "d/a", PostOptions(base_url=URL), PubTimes())


def test_links_folders_and_removals_are_operations(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/l").symlink_to("../x")
    (tmp_path / "f").touch()
    os.link(tmp_path / "f", tmp_path / "d/h")
    operations = [
        changed(tmp_path, "d", DIRECTORY).posts[0].file_op,
        changed(tmp_path, "d/l", LINK).posts[0].file_op,
        changed(tmp_path, "d/h", HLINK, "f").posts[0].file_op,
        changed(tmp_path, "f", REMOVE).posts[0].file_op,
        changed(tmp_path, "d", REMOVE).posts[0].file_op,
    ]
    assert operations == [
        FileOp("directory", is_directory=True),
        FileOp("link", "../x"),
        FileOp("hlink", "../f"),
        FileOp("remove"),
        FileOp("remove", is_directory=True),
    ]


def test_without_removals_what_is_gone_is_forgotten_and_not_posted(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    found = changed(tmp_path, "a", REMOVE, options=PostOptions(base_url=URL, has_removals=False))
    assert found == Posting("a", [], None)


def test_a_rename_says_the_name_before_and_what_the_data_is(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"abc")
    change = Change(RENAME, "b", Folder(tmp_path).look({}).entries["b"], "a")
    identity = identity_of("md5", b"abc")
    found = renamed(change, identity, PostOptions(base_url=URL), PubTimes())
    assert (found.before, found.posts[0].file_op, found.posts[0].identity) == ("a", FileOp("rename", "a"), identity)


def test_pub_times_never_repeat_nor_go_back() -> None:
    moments = iter([5_000, 5_999, 1_000, 9_500])
    times = PubTimes(lambda: next(moments))
    assert [times.next_ns() for _ in range(4)] == [5_000, 6_000, 7_000, 9_000]

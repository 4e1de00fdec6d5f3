"""Blocks of a file: into which it is divided, which one a post is of, and which bytes that is.

    size       bytes of each block but the last
    count      how many there are
    remainder  bytes of the last one; 0: it is as large as the others
    number     which one this is, from 0
    manifest   size and digest of each, by its number: what sr3 needs, and not in the document

Section "Parts". sr3 leaves out count and remainder, and they are read from its manifest (D-85). Its digests of a block
reach to the end of the file (D-91).
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from spark_sink.feed.errors import BadPost, shown

INPLACE: Final = "inplace"  # blocks are read from one file
PARTITIONED: Final = "partitioned"  # each is a file of its own
BLOCK_METHODS: Final = (INPLACE, PARTITIONED)
SEPARATE: Final = "separate"  # what sr3 calls the same
MAX_BLOCKS: Final = 100_000  # of a file: the state of one costs some 100 bytes while it is fetched
MAX_FILE_BYTES: Final = (1 << 63) - 1  # what an offset in a file can be


class Block(msgspec.Struct, frozen=True):
    """One of a manifest."""

    size: int  # bytes
    identity: str  # its digest in base64, by the method of the post's identity; empty: none


class Blocks(msgspec.Struct, frozen=True):
    """The place of one block in its file; all numbers fit each other."""

    method: str  # one of BLOCK_METHODS
    size: int
    count: int
    remainder: int
    number: int
    manifest: Mapping[int, Block] | None = None  # None: there was none

    def values(self) -> dict[str, object]:
        """What a post says: numbers (D-85), and the manifest, whose keys JSON makes texts."""
        values: dict[str, object] = {
            "method": self.method,
            "size": self.size,
            "count": self.count,
            "remainder": self.remainder,
            "number": self.number,
        }
        if self.manifest is not None:
            entries = self.manifest.items()
            values["manifest"] = {str(number): {"size": b.size, "identity": b.identity} for number, b in entries}
        return values


def plan(file_bytes: int, block_bytes: int) -> list[tuple[int, int]]:
    """Offset and length of each block; one of no bytes for an empty file."""
    return [(at, min(block_bytes, file_bytes - at)) for at in range(0, max(file_bytes, 1), block_bytes)]


def blocks_of(method: str, file_bytes: int, block_bytes: int) -> Iterator[Blocks]:
    """All of a file, without a manifest; ValueError when there are more than MAX_BLOCKS."""
    count = len(plan(file_bytes, block_bytes))
    if count > MAX_BLOCKS:
        raise ValueError(f"{count} blocks of {block_bytes} bytes, {MAX_BLOCKS} are possible")
    for number in range(count):
        yield Blocks(method, block_bytes, count, file_bytes % block_bytes, number)


def range_of(blocks: Blocks) -> tuple[int, int]:
    """Offset and length of the block in its file, in bytes."""
    return blocks.number * blocks.size, length_of(blocks, blocks.number)


def length_of(blocks: Blocks, number: int) -> int:
    """Bytes of the block with this number."""
    is_last = number == blocks.count - 1
    return blocks.remainder if is_last and blocks.remainder else blocks.size


def file_bytes_of(blocks: Blocks) -> int | None:
    """Size of the whole file; None: only the last block, or a manifest, would tell.

    "normally 0, on the last block, remaining bytes in the file": 0 on another block says nothing about the last one.
    """
    if not blocks.remainder and blocks.manifest is None and blocks.number < blocks.count - 1:
        return None
    return (blocks.count - 1) * blocks.size + length_of(blocks, blocks.count - 1)


# Reading


def read_blocks(field: str, value: object) -> Blocks:
    """Of a header's value; BadPost unless its numbers, and those of the manifest, fit each other."""
    if not isinstance(value, dict):
        raise BadPost(field, f"{shown(value)} is no object")
    manifest = _read_manifest(f"{field}.manifest", value.get("manifest"))
    size = read_count(f"{field}.size", value.get("size"))
    count, remainder = value.get("count"), value.get("remainder")
    if count is None and manifest:
        count = len(manifest)
    if remainder is None and manifest:
        last = manifest.get(len(manifest) - 1)
        remainder = last.size if last is not None and last.size < size else 0
    return checked_blocks(
        field,
        Blocks(
            PARTITIONED if value.get("method") == SEPARATE else value.get("method") or "",
            size,
            read_count(f"{field}.count", count),
            read_count(f"{field}.remainder", 0 if remainder is None else remainder),
            read_count(f"{field}.number", value.get("number")),
            manifest,
        ),
    )


def find_last_identity(field: str, value: object) -> str | None:
    """Of a header's value that is about the whole file: the digest of its last block. None: it is about one block.

    D-91: sr3 takes the number away when it has put blocks together. BadPost: the manifest is none.
    """
    if not isinstance(value, dict) or value.get("number") is not None:
        return None
    manifest = _read_manifest(f"{field}.manifest", value.get("manifest"))
    return None if not manifest else manifest[max(manifest)].identity


def checked_blocks(field: str, blocks: Blocks) -> Blocks:
    """The same ones; BadPost unless their numbers fit each other."""
    if blocks.method not in BLOCK_METHODS:
        raise BadPost(f"{field}.method", f"{shown(blocks.method)} is neither {INPLACE} nor {PARTITIONED}")
    if not 1 <= blocks.count <= MAX_BLOCKS:
        raise BadPost(f"{field}.count", f"{blocks.count} is not from 1 to {MAX_BLOCKS}")
    if not blocks.size and blocks.count > 1:
        raise BadPost(f"{field}.size", f"0 bytes for each of {blocks.count} blocks")
    if blocks.number >= blocks.count:
        raise BadPost(f"{field}.number", f"{blocks.number} of {blocks.count} blocks, counted from 0")
    if blocks.remainder > blocks.size:
        raise BadPost(f"{field}.remainder", f"{blocks.remainder} bytes in a block of {blocks.size}")
    if blocks.size * blocks.count > MAX_FILE_BYTES:
        raise BadPost(f"{field}.size", f"{blocks.count} blocks of {blocks.size} bytes are no file")
    if blocks.remainder == blocks.size:
        blocks = msgspec.structs.replace(blocks, remainder=0)  # "the size of the last block" where it is a whole one
    for number, block in (blocks.manifest or {}).items():
        at = f"{field}.manifest.{number}"
        if number >= blocks.count:
            raise BadPost(at, f"there are {blocks.count} blocks, counted from 0")
        if block.size != length_of(blocks, number):
            raise BadPost(at, f"{block.size} bytes, and {length_of(blocks, number)} by size and remainder")
    return blocks


def _read_manifest(field: str, value: object) -> Mapping[int, Block] | None:
    """By numbers. BadPost: keys that are none, or entries without a size. None, and an empty one: there is none."""
    if value is None or value == {}:
        return None
    if not isinstance(value, dict):
        raise BadPost(field, f"{shown(value)} is no object")
    if len(value) > MAX_BLOCKS:
        raise BadPost(field, f"{len(value)} blocks, {MAX_BLOCKS} are possible")
    found: dict[int, Block] = {}
    for key, entry in value.items():
        number = read_count(field, key)
        at = f"{field}.{number}"
        if not isinstance(entry, dict):
            raise BadPost(at, f"{shown(entry)} is no object of size and identity")
        identity = entry.get("identity", "")
        if not isinstance(identity, str):
            raise BadPost(f"{at}.identity", f"{shown(identity)} is no text")
        found[number] = Block(read_count(f"{at}.size", entry.get("size")), identity)
    return found


def read_count(field: str, value: object) -> int:
    """A number of bytes or blocks, from 0 on. The document has it as a number and as a text: both are read (D-85)."""
    if value is None:
        raise BadPost(field, "it is missing")
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 19:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_FILE_BYTES:
        raise BadPost(field, f"{shown(value)} is no number from 0 on")
    return value

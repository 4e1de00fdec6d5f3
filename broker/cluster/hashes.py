"""The bytes of a set of 64-bit hashes, as pyroaring's BitMap64 writes them, and how those of others are read.

They are roaring's portable format, little-endian, of which a set of hashes needs this much:

    number of buckets, 8 bytes | bucket | bucket …                    ascending by their upper 32 bits
    bucket: upper 32 bits, 4 bytes | 12346, 4 bytes: no container is a run | containers, 4 bytes
            | of each container: bits 31..16, 2 bytes | values - 1, 2 bytes              ascending
            | of each container: offset of its values behind the upper 32 bits, 4 bytes
            | of each container: its values' lowest 16 bits, 2 bytes each                ascending

A bucket is 22 bytes when, as usual, one hash is in it. Equal sets have equal bytes however they came about: hashes are
scattered, so no container is ever a run or has more than 4096 values. Bytes of others are read here and not by
pyroaring, whose older versions trust what they read; only these bytes of a set are accepted, no others.
"""

from typing import Final

from librt.strings import read_i16_le, read_i32_le, read_i64_le

from rsocket_wire.errors import InvalidFrame

MAX_CONTAINER_N: Final = 4096  # values; one with more would be a bitmap, which hashes never make
_COUNT_BYTES: Final = 8
_HEAD_BYTES: Final = 12  # of a bucket, up to its containers
_COOKIE: Final = 12346
# Of a bucket with one hash, but for the bits of the hash itself.
_SINGLE_BYTES: Final = 22
_SINGLE_HEAD: Final = bytes.fromhex("3a300000 01000000")  # at 4: the cookie, one container
_SINGLE_REST: Final = bytes.fromhex("0000 10000000")  # at 14: one value, 16 bytes behind the upper 32 bits


def decode_hashes(raw: bytes) -> set[int]:
    """The set that all of `raw` is; InvalidFrame for bytes that no set of hashes has."""
    if len(raw) < _COUNT_BYTES:
        raise InvalidFrame(f"TABLE: needs {_COUNT_BYTES} bytes, {len(raw)} are there")
    buckets_n = int(read_i64_le(raw, 0))
    found: set[int] = set()
    last_upper = -1
    at = _COUNT_BYTES
    seen_n = 0
    while at < len(raw):
        _check_left(raw, at, _SINGLE_BYTES)
        upper = int(read_i32_le(raw, at)) & 0xFFFFFFFF
        if upper <= last_upper:
            raise InvalidFrame(f"TABLE: the bucket at {at} does not ascend")
        if raw[at + 4 : at + 12] == _SINGLE_HEAD and raw[at + 14 : at + 20] == _SINGLE_REST:
            found.add(upper << 32 | _u16(raw, at + 12) << 16 | _u16(raw, at + 20))
            at += _SINGLE_BYTES
        else:
            at = _pull_bucket(raw, at, upper << 32, found)
        last_upper = upper
        seen_n += 1
    if seen_n != buckets_n:
        raise InvalidFrame(f"TABLE: says {buckets_n} buckets, {seen_n} are there")
    return found


def _pull_bucket(raw: bytes, at: int, upper: int, found: set[int]) -> int:
    """Adds the hashes of the bucket at `at`, whose upper 32 bits are in `upper`; the offset behind it."""
    cookie = int(read_i32_le(raw, at + 4))
    containers_n = int(read_i32_le(raw, at + 8))
    if cookie != _COOKIE or containers_n < 1 or containers_n > 0x10000:
        raise InvalidFrame(f"TABLE: the bucket at {at} has kind {cookie} and {containers_n} containers")
    _check_left(raw, at, _HEAD_BYTES + 8 * containers_n)
    head_at = at + _HEAD_BYTES
    offset_at = head_at + 4 * containers_n
    value_at = offset_at + 4 * containers_n
    last_middle = -1
    for _ in range(containers_n):
        middle = _u16(raw, head_at)
        values_n = _u16(raw, head_at + 2) + 1
        offset = int(read_i32_le(raw, offset_at))
        if middle <= last_middle or values_n > MAX_CONTAINER_N or offset != value_at - at - 4:
            text = f"{middle} behind {last_middle}, {values_n} values at {offset}"
            raise InvalidFrame(f"TABLE: the bucket at {at} has a container {text}")
        _check_left(raw, value_at, 2 * values_n)
        last_value = -1
        for _ in range(values_n):
            value = _u16(raw, value_at)
            if value <= last_value:
                raise InvalidFrame(f"TABLE: the value at {value_at} does not ascend")
            found.add(upper | middle << 16 | value)
            last_value = value
            value_at += 2
        last_middle = middle
        head_at += 4
        offset_at += 4
    return value_at


def _check_left(raw: bytes, at: int, need: int) -> None:
    if len(raw) - at < need:
        raise InvalidFrame(f"TABLE: needs {need} bytes at offset {at}, {len(raw) - at} are left")


def _u16(raw: bytes, at: int) -> int:
    return int(read_i16_le(raw, at)) & 0xFFFF

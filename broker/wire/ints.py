"""Unsigned big-endian integers in bytes, by offset.

The innermost loop of every codec: index arithmetic and no struct, because that is what compiles well. The caller has
counted the bytes; these functions check nothing (`buffer.Reader` is the one that checks).
"""


def u16_at(data: bytes, at: int) -> int:
    """The 16-bit number at offset `at`; IndexError when it is not all there."""
    return data[at] << 8 | data[at + 1]


def u24_at(data: bytes, at: int) -> int:
    """The 24-bit number at offset `at`; IndexError when it is not all there."""
    return data[at] << 16 | data[at + 1] << 8 | data[at + 2]


def u32_at(data: bytes, at: int) -> int:
    """The 32-bit number at offset `at`; IndexError when it is not all there."""
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def u64_at(data: bytes, at: int) -> int:
    """The 64-bit number at offset `at`; IndexError when it is not all there."""
    return u32_at(data, at) << 32 | u32_at(data, at + 4)


def u16_bytes(number: int) -> bytes:
    """2 bytes; OverflowError unless 0 <= number < 2**16."""
    return number.to_bytes(2, "big")


def u24_bytes(number: int) -> bytes:
    """3 bytes; OverflowError unless 0 <= number < 2**24."""
    return number.to_bytes(3, "big")


def u32_bytes(number: int) -> bytes:
    """4 bytes; OverflowError unless 0 <= number < 2**32."""
    return number.to_bytes(4, "big")


def u64_bytes(number: int) -> bytes:
    """8 bytes; OverflowError unless 0 <= number < 2**64."""
    return number.to_bytes(8, "big")

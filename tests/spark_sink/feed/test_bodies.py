"""Bodies: what is JSON of a post, what is forwarded as it came, and bounds."""

import json
import time
from typing import Final

import pytest

from spark_sink.feed.bodies import MAX_DEPTH, MAX_POST_BYTES, read_body, write_body
from spark_sink.feed.errors import BadPost

# Values that a parser and a writer would change between them.
VALUES: Final = [
    *("1" * 500, "-0.00E+10", "1e999", "0.1000", "40.73", "12345678901234567890123456789.000"),
    *(r'"\u00fc\/\ud83d\ude00"', '"ü€😀"', '""', "true", "null", "[ ]", "{ }"),
    '{"top_left" : { "lat": 40.73, "lon": -74.1 }, "top_left": 1 }',
    '[1,  [2, {"\\"": "]}[{"}],\t"\\\\"\n]',
    "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1),
]


@pytest.mark.parametrize("value", VALUES)
def test_values_are_kept_byte_for_byte(value: str) -> None:
    body = f'{{ "a":1 ,"x" : {value}  , "b":2 }}'.encode()
    headers = read_body(body)
    assert bytes(headers["x"]) == value.encode()
    assert list(headers) == ["a", "x", "b"]
    written = write_body(headers)
    assert written == f'{{"a": 1, "x": {value}, "b": 2}}'.encode()
    assert write_body(read_body(written)) == written


def test_names_are_written_as_json() -> None:
    body = '{"\\u00fc\\"\\\\": 1, "": 2, "ü ": 3}'.encode()
    written = write_body(read_body(body))
    assert json.loads(written) == json.loads(body)
    assert list(json.loads(written)) == ['ü"\\', "", "ü "]


def test_d_83_a_name_that_is_there_twice_has_its_last_value_at_the_place_of_the_first() -> None:
    assert write_body(read_body(b'{"a": 1, "b": 2, "a": 3}')) == b'{"a": 3, "b": 2}'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "it is no JSON"),
        (b"garbage", "it is no JSON"),
        (b"[]", "it is no object"),
        (b'["pubTime"]', "it is no object"),
        (b"null", "it is no object"),
        (b"1", "it is no object"),
        (b'{"a": 1}x', "it is no JSON"),
        (b'{"a": 1,}', "it is no JSON"),
        (b'{"a": NaN}', "it is no JSON"),
        (b'{"a": 01}', "it is no JSON"),
        (b'{"a": "\x01"}', "it is no JSON"),
        (b'{"a": "\\ud800"}', "it is no JSON"),
        (b'{"\\udc00": 1}', "it is no JSON"),
        (b'{"a": "\xff"}', "it is no UTF-8 at byte 7"),
        (b'{"\xff": 1}', "it is no UTF-8 at byte 2"),
        (b'{"a": "\xed\xa0\x80"}', "it is no UTF-8 at byte 7"),
        (b'\xef\xbb\xbf{"a": 1}', "it begins with a byte order mark"),
        ('{"a": 1}'.encode("utf-16"), "it begins with a byte order mark"),
        ('{"a": 1}'.encode("utf-16-le"), "it is no JSON"),
        ('{"a": 1}'.encode("utf-32-be"), "it is no JSON"),
    ],
)
def test_what_is_no_object_of_json_in_utf_8_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(BadPost) as told:
        read_body(body)
    assert str(told.value).startswith(f"body: {why}")


@pytest.mark.parametrize(
    "value",
    [
        "[" * 100_000,
        "{" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        "]" * 100_000 + "[" * 100_000,
        "[" * MAX_DEPTH + "]" * MAX_DEPTH,
        '"' + '\\"' * 200_000 + "[" * 100,
        '"' + "[" * 100 + "\\",
    ],
)
def test_100_000_brackets_are_refused_at_once(value: str) -> None:
    """Not by an error of the parser's stack, whose size is none of ours."""
    began_at = time.process_time()
    with pytest.raises(BadPost, match=f"more than {MAX_DEPTH} within each other"):
        read_body(f'{{"a": {value}}}'.encode())
    assert time.process_time() - began_at < 1


@pytest.mark.parametrize(
    "value",
    [
        "[" + ",".join(["[]"] * 10_000) + "]",
        '"' + "[" * 100_000 + '"',
        '"' + '\\"[{' * 50_000 + '"',
        "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1),
        '[{"a": [{}]}, ' + ", ".join(['{"[": "}"}'] * 1000) + "]",
    ],
)
def test_brackets_that_are_not_deep_are_kept(value: str) -> None:
    assert bytes(read_body(f'{{"a": {value}}}'.encode())["a"]) == value.encode()


def test_a_body_is_as_large_as_the_bound_and_no_larger() -> None:
    frame = b'{"a": ""}'
    body = frame.replace(b'""', b'"' + b"x" * (MAX_POST_BYTES - len(frame)) + b'"')
    assert write_body(read_body(body)) == body
    with pytest.raises(BadPost, match=f"body: {MAX_POST_BYTES + 1} bytes, {MAX_POST_BYTES} are allowed"):
        read_body(body + b" ")

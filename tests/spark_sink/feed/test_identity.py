import hashlib
from base64 import b64encode
from typing import Any

import pytest

from spark_sink.feed.errors import BadPost
from spark_sink.feed.identity import (
    METHODS,
    Identity,
    cod_method,
    digest,
    identity_of,
    is_checked,
    read_identity,
    value_of,
)
from tests.spark_sink.feed.vectors import SENT, VECTORS

DATA = b"hello a\n"


@pytest.mark.parametrize("method", METHODS)
def test_values_are_base64_of_the_digest(method: str) -> None:
    made = digest(method)
    made.update(DATA[:3])
    made.update(DATA[3:])
    expected = b64encode(hashlib.new(method, DATA).digest()).decode()
    assert value_of(made) == expected
    assert identity_of(method, DATA) == Identity(method, expected)
    assert read_identity("identity", {"method": method, "value": expected}) == Identity(method, expected)


def test_sr3_computes_the_same() -> None:
    assert identity_of("sha512", DATA).value.encode() in SENT["posts_by_sr3_post: identity sha512"]
    assert identity_of("md5", DATA).value.encode() in SENT["posts_by_sr3_post: identity md5"]
    assert VECTORS["peer"].startswith("metpx-sr3 3.3.1")


def test_only_digests_are_compared_with_bytes() -> None:
    assert [is_checked(Identity(method, "")) for method in ("md5", "sha512", "cod", "random", "blake3")] == [
        *(True, True),
        *(False, False, False),
    ]
    assert not is_checked(None)


@pytest.mark.parametrize(
    ("identity", "method"),
    [
        (Identity("cod", "sha512"), "sha512"),
        (Identity("cod", "md5"), "md5"),
        (Identity("cod", "blake3"), None),
        (Identity("md5", "sha512"), None),
        (None, None),
    ],
)
def test_cod_asks_for_a_digest_that_is_known(identity: Identity | None, method: str | None) -> None:
    assert cod_method(identity) == method


@pytest.mark.parametrize(
    ("method", "value", "kept"),
    [
        ("cod", "sha512", "sha512"),
        ("random", "4711", "4711"),
        ("random", 4711, "4711"),
        ("arbitrary", "any thing", "any thing"),
        ("md5name", "", ""),
        ("blake3", "AAAA", "AAAA"),
        ("md5", "1B2M2Y8AsgTp\ngAmY7PhCfg==\n", "1B2M2Y8AsgTpgAmY7PhCfg=="),
    ],
)
def test_values_of_other_methods_are_kept_as_they_are(method: str, value: object, kept: str) -> None:
    assert read_identity("identity", {"method": method, "value": value}) == Identity(method, kept)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("md5", "identity: 'md5' is no object of method and value"),
        ({}, "identity.method: None is no name of a method"),
        ({"method": ""}, "identity.method: '' is no name of a method"),
        ({"method": ["md5"]}, "identity.method: ['md5'] is no name of a method"),
        ({"method": "md5"}, "identity.value: None is no text"),
        ({"method": "md5", "value": True}, "identity.value: True is no text"),
        ({"method": "md5", "value": "AA=="}, "identity.value: 'AA==' is no base64 of the 16 bytes of md5"),
        ({"method": "md5", "value": "1B2M2Y8AsgTpgAmY7PhCfg"}, "is no base64 of the 16 bytes of md5"),
        ({"method": "md5", "value": "1B2M2Y8AsgTpgAmY7PhCfg==="}, "is no base64 of the 16 bytes of md5"),
        ({"method": "md5", "value": "25d231ec0ae3c569ba27ab7a74dd72ce"}, "is no base64 of the 16 bytes of md5"),
        ({"method": "sha512", "value": "ü" * 88}, "is no base64 of the 64 bytes of sha512"),
        ({"method": "sha512", "value": "é"}, "is no base64 of the 64 bytes of sha512"),
    ],
)
def test_a_value_that_no_digest_has_is_refused(value: Any, text: str) -> None:
    with pytest.raises(BadPost) as told:
        read_identity("identity", value)
    assert text in str(told.value)

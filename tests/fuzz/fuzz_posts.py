"""Long runs of broken posts and topics against what reads them.

    python -m tests.fuzz.fuzz_posts 1000000              # posts; a second number is the seed

Most are posts of which a few headers are lost or other ones, or bytes, so that they come past the first checks. Each is
read, or is a BadPost that names what is wrong. What is read is forwarded as it came, has a place, a URL, topics and a
fingerprint, and is reported. `tests/spark_sink/feed/test_any_posts.py` runs some of them.
"""

import json
import random
import sys
from collections.abc import Sequence
from typing import Any

from spark_sink.feed.bodies import read_body
from spark_sink.feed.consumer.winnow import BASES, HASH_BYTES, fingerprint_of, place_of
from spark_sink.feed.errors import BadPost
from spark_sink.feed.posts import TOPIC, Post, read_post, read_remains
from spark_sink.feed.reports import BAD_MESSAGE, Report, find_report, report_post
from spark_sink.feed.topics import (
    MAX_MQTT_TOPIC_BYTES,
    MAX_TOPIC_BYTES,
    amqp_binding,
    amqp_topic,
    from_amqp,
    from_mqtt,
    matches,
    mqtt_filter,
    mqtt_topic,
)
from tests.spark_sink.feed.vectors import DECODED, FED, SENT

PREFIX = "v03.post"
EXCHANGE = "xpublic"
REPORT = Report(BAD_MESSAGE, "20260102T030405.678", "here", "me", "a reason")
NAMES = [
    *("pubTime", "baseUrl", "relPath", "identity", "integrity", "sum", "fileOp", "size", "blocks", "parts", "rename"),
    *("retrievePath", "retPath", "content", "source", "from_cluster", "to_clusters", "atime", "mtime", "mode", "link"),
    *("oldname", "newname", "report", "message", "topic", "PRINTER", "", "\0", "ü"),
]
KEYS = [
    *("method", "value", "encoding", "size", "count", "remainder", "number", "manifest", "0", "1", "identity"),
    *("link", "hlink", "remove", "rename", "directory", "resultCode", "code", "elapsedTime", "host", "user", "x"),
]
TEXTS = [
    *("", "/", "..", "../x", "a/../../b", "//a//b/", "a\0b", "a b/#?%+*ü", "x" * 300, "ü" * 200, "\ud800", "\n", "~"),
    *("20150813T161959.854", "201506011357.345", "20260230T000000", "20260102T030405Z", "9" * 14, "9999T", "٣" * 14),
    *("md5", "sha512", "cod", "random", "arbitrary", "md5name", "link", "remove", "utf-8", "base64", "inplace"),
    *("partitioned", "d,25d231ec0ae3c569ba27ab7a74dd72ce", "z,d", "L,00", "R,00", "0,1", "1,256,1,0,0", "i,3,4,2,1"),
    *(
        "p,0,2,0,0",
        "t/DFCvY1IvFkGHDVa9VgAg==",
        "1234",
        "=",
        "644",
        "0o644",
        "77777777",
        "http://h/",
        "sftp://u@h",
        "-1",
    ),
]
RAWS = [
    *(b"0", b"-0", b"1", b"-1", b"1.5", b"1e400", b"1e-400", b"9" * 400, b"true", b"false", b"null", b"[]", b"{}"),
    *(b'["a"]', b"[[1]]", b'"\\ud800"', b'"\\u0000"', b"[" * 40 + b"]" * 40, b'{"a": {"b": [1, {"c": null}]}}'),
    *(b"18446744073709551616", b"-9223372036854775809", b"1.00000000000000000000000000000000001", b"NaN", b"Infinity"),
]
LEVELS = ["v03", "post", "report", "*", "#", "", "a", "b", "ü", "%23", "%22", "+", "x" * 300, "a b"]
GOOD = [body for bodies in (SENT, FED, DECODED) for body in bodies.values()]


def broken_post(rng: random.Random) -> bytes:
    """A recorded post whose headers, or bytes, were changed up to three times; or bytes that are none."""
    kind = rng.random()
    body = rng.choice(GOOD)
    if kind < 0.05:
        return rng.randbytes(rng.randrange(60))
    if kind < 0.3:
        raw = bytearray(body)
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(raw) + 1)
            raw[at : at + rng.randrange(4)] = rng.choice([b"", b'"', b"{", b"}", b"[", b",", b"\\", rng.randbytes(2)])
        return bytes(raw)
    try:
        headers: list[tuple[Any, bytes]] = [
            (name, json.dumps(value).encode()) for name, value in json.loads(body).items()
        ]
    except ValueError:  # some of what was recorded is broken by itself
        return body
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(headers) + 1)
        new = [(rng.choice(NAMES), any_value(rng))] if rng.random() < 0.8 else []
        headers[at : at + rng.randrange(2)] = new
    return b"{" + b", ".join(json.dumps(name).encode() + b": " + raw for name, raw in headers) + b"}"


def any_value(rng: random.Random, depth: int = 0) -> bytes:
    """JSON, or nearly."""
    kind = rng.random()
    if kind < 0.45:
        return json.dumps(rng.choice(TEXTS)).encode()
    if kind < 0.65 or depth > 2:
        return rng.choice(RAWS)
    if kind < 0.75:
        return str(rng.randrange(-2, 1 << rng.choice([3, 8, 33, 70]))).encode()
    pairs = [(rng.choice(KEYS), any_value(rng, depth + 1)) for _ in range(rng.randrange(5))]
    return b"{" + b", ".join(json.dumps(key).encode() + b": " + raw for key, raw in pairs) + b"}"


def check_body(body: bytes) -> Post | None:
    """AssertionError: a rule is broken. None: it is no post."""
    reason = "a reason"
    post = None
    try:
        post = read_post(body)
    except BadPost as error:
        reason = str(error)
    assert 0 < len(reason) < 1000, reason
    if post is None:
        check_forwarded(read_remains(body), body)
        return None
    check_forwarded(post, body)
    assert read_post(post.encode()) == post
    assert isinstance(post.url, str)
    assert post.place or post.rename
    assert {len(fingerprint_of(post, basis)) for basis in BASES} == {HASH_BYTES}
    assert len(place_of(post)) in (HASH_BYTES, HASH_BYTES + 4)
    check_topics(post.rel_path)
    check_report(post)
    return post


def check_forwarded(post: Post, body: bytes) -> None:
    """Headers are as they came, in their order, and `topic` is not among them."""
    try:
        headers = read_body(body)
    except BadPost:
        headers = {}
    headers.pop(TOPIC, None)
    assert [(name, bytes(raw)) for name, raw in post.headers.items()] == [(n, bytes(raw)) for n, raw in headers.items()]


def check_report(post: Post) -> None:
    """It is one that can be read, or a BadPost; and a report can be made of any post that leaves room for it."""
    try:
        found = find_report(post)
    except BadPost:
        found = None
    assert found is None or 100 <= found.code <= 999
    report = report_post(post, REPORT)
    assert find_report(report) == REPORT
    assert "content" not in report.headers


def check_topics(rel_path: str) -> None:
    """They are short enough, begin with the prefix, and are taken by its pattern."""
    topic, mqtt = amqp_topic(PREFIX, rel_path), mqtt_topic(EXCHANGE, PREFIX, rel_path)
    assert len(topic.encode("utf-8", "replace")) <= MAX_TOPIC_BYTES
    assert len(mqtt.encode("utf-8", "replace")) <= MAX_MQTT_TOPIC_BYTES
    assert not set("#+") & set(mqtt)
    assert matches(f"{PREFIX}.#", topic)
    assert matches(f"{PREFIX}.#", from_amqp(topic))
    assert matches(f"{PREFIX}.#", from_mqtt(mqtt, EXCHANGE))


def check_pattern(levels: Sequence[str], topic: str) -> None:
    """It is a binding and a filter, or is too long; and it takes the topic, or does not."""
    pattern = ".".join(levels)
    try:
        written = amqp_binding(pattern), mqtt_filter(EXCHANGE, pattern).partition("/")[0]
    except ValueError:
        assert len(pattern.encode()) > MAX_TOPIC_BYTES
    else:
        assert written == (pattern, EXCHANGE)
    assert isinstance(matches(pattern, topic), bool)
    assert matches(topic.replace("*", "a").replace("#", "a"), topic.replace("*", "a").replace("#", "a"))


def run(posts_n: int, seed: int) -> tuple[int, int]:
    """How many were read, and how many refused. AssertionError, or what is raised: a rule is broken."""
    rng = random.Random(seed)
    read_n = 0
    for number in range(posts_n):
        body = broken_post(rng)
        levels = [rng.choice(LEVELS) for _ in range(rng.randrange(1, 9))]
        topic = ".".join(each for each in rng.choices(LEVELS, k=rng.randrange(1, 9)) if len(each) < 300)
        try:
            read_n += check_body(body) is not None
            check_pattern(levels, topic)
        except Exception:
            print(f"seed {seed}, post {number}: {body!r}; pattern {levels}, topic {topic!r}", file=sys.stderr)
            raise
    return read_n, posts_n - read_n


def main(arguments: list[str]) -> int:
    """The exit status."""
    posts_n = int(arguments[1]) if len(arguments) > 1 else 100_000
    seed = int(arguments[2]) if len(arguments) > 2 else random.SystemRandom().randrange(1 << 32)
    read_n, refused_n = run(posts_n, seed)
    print(f"seed {seed}: {read_n} posts were read and {refused_n} refused; no rule was broken")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

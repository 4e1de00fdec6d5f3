from typing import Any

import pytest

from spark_sink.feed.topics import (
    MAX_MQTT_TOPIC_BYTES,
    MAX_PATTERN_LEVELS,
    MAX_TOPIC_BYTES,
    amqp_binding,
    amqp_topic,
    dirs_of,
    from_amqp,
    from_mqtt,
    matches,
    mqtt_filter,
    mqtt_topic,
)
from tests.spark_sink.feed.vectors import VECTORS

POST = "v03.post"


@pytest.mark.parametrize("vector", VECTORS["topics_by_sr3"], ids=lambda each: f"{each['broker']} {each['relPath']}")
def test_d_82_topics_are_those_of_sr3(vector: dict[str, Any]) -> None:
    prefix, path = vector["topicPrefix"], vector["relPath"]
    is_amqp = vector["broker"] == "amqp"
    topic = amqp_topic(prefix, path) if is_amqp else mqtt_topic(vector["exchange"][0], prefix, path)
    assert topic == vector["topic"]


def test_the_topic_of_a_file_is_its_folders() -> None:
    """The example of the document."""
    assert dirs_of("a/b/c/d/foo.txt") == ("a", "b", "c", "d")
    assert amqp_topic(POST, "a/b/c/d/foo.txt") == "v03.post.a.b.c.d"
    assert mqtt_topic("xpublic", POST, "a/b/c/d/foo.txt") == "xpublic/v03/post/a/b/c/d"
    assert amqp_topic("v03.report", "a/foo.txt") == "v03.report.a"
    assert mqtt_topic("", POST, "a/foo.txt") == "v03/post/a"


@pytest.mark.parametrize("letter", ["a", "ü", "€", "😀"])
def test_a_long_topic_is_cut_behind_a_whole_character(letter: str) -> None:
    topic = amqp_topic(POST, f"{letter * 300}/f")
    whole = f"{POST}.{letter * 300}"
    size = len(letter.encode())
    assert whole.startswith(topic)
    assert MAX_TOPIC_BYTES == 255
    assert MAX_TOPIC_BYTES - size < len(topic.encode()) <= MAX_TOPIC_BYTES
    assert len(mqtt_topic("x", POST, f"{letter * 70_000}/f").encode()) in range(
        MAX_MQTT_TOPIC_BYTES - size + 1, MAX_MQTT_TOPIC_BYTES + 1
    )


def test_a_name_that_is_no_unicode_makes_a_topic_all_the_same() -> None:
    assert amqp_topic(POST, "a\udcff/f") == "v03.post.a?"
    assert mqtt_topic("x", POST, "a\udcff/f") == "x/v03/post/a?"


def test_escaped_characters_are_read_back() -> None:
    path = "a/c#d/e*f/g+h/x.txt"
    assert from_amqp(amqp_topic(POST, path)) == "v03.post.a.c#d.e*f.g+h"
    assert from_mqtt(mqtt_topic("x", POST, path), "x") == "v03.post.a.c#d.e*f.g+h"
    assert from_mqtt("v03/post/a", "") == "v03.post.a"


@pytest.mark.parametrize(
    ("pattern", "topic", "is_one"),
    [
        ("v03.post.#", "v03.post", True),
        ("v03.post.#", "v03.post.a.b", True),
        ("v03.post.#", "v03.report.a", False),
        ("v03.post.*", "v03.post.a", True),
        ("v03.post.*", "v03.post", False),
        ("v03.post.*", "v03.post.a.b", False),
        ("v03.post.*.b.#", "v03.post.a.b", True),
        ("v03.post.#.b", "v03.post.a.c.b", True),
        ("v03.post.#.b", "v03.post.b", True),
        ("v03.post.#.b", "v03.post.b.c", False),
        ("#.#.*", "a", True),
        ("#", "", True),
        ("*", "", True),
        ("a", "b", False),
        ("a.#.b.#.c", "a.b.b.c.c", True),
        ("v03.post..a", "v03.post..a", True),
        ("v03.post.*.a", "v03.post..a", True),
    ],
)
def test_patterns_take_topics_as_a_topic_exchange_does(pattern: str, topic: str, is_one: bool) -> None:
    """ "'*' matches a single topic, '#' matches the rest of the topic string"."""
    assert matches(pattern, topic) is is_one


def test_a_pattern_of_many_wildcards_is_decided_at_once() -> None:
    assert not matches("#.a." * 60 + "b", "a." * 200 + "c")
    assert matches(".".join(["#"] * MAX_PATTERN_LEVELS), "a.b")
    assert not matches(".".join(["#"] * (MAX_PATTERN_LEVELS + 1)), "a.b")


@pytest.mark.parametrize(
    ("pattern", "filter"),
    [
        ("v03.post.#", "x/v03/post/#"),
        ("v03.post.*.b.#", "x/v03/post/+/b/#"),
        ("v03.post.#.b", "x/v03/post/#"),  # what MQTT cannot say is left to `matches`
        ("v03.post.a+b", "x/v03/post/a%2Bb"),
    ],
)
def test_patterns_are_filters_of_mqtt(pattern: str, filter: str) -> None:
    assert mqtt_filter("x", pattern) == filter
    assert mqtt_filter("", pattern) == filter.removeprefix("x/")
    assert amqp_binding(pattern) == pattern


def test_a_pattern_that_is_too_long_is_told() -> None:
    assert len(amqp_binding("a" * MAX_TOPIC_BYTES)) == MAX_TOPIC_BYTES
    with pytest.raises(ValueError, match="has more than 255 bytes"):
        amqp_binding("ü" * 128)
    with pytest.raises(ValueError, match="has more than 65535 bytes"):
        mqtt_filter("x", "a" * MAX_MQTT_TOPIC_BYTES)

"""Topics: where a post is to be found, made of the folders of its file.

    relPath  a/b/foo.txt
    AMQP     v03.post.a.b               and RSocket
    MQTT     xpublic/v03/post/a/b       the exchange is the first level

Sections "TOPIC" and "Mapping to MQTT". Characters that mean something in a pattern are written as sr3 writes them
(D-82). A dot in the name of a folder makes a level of AMQP. Topics are for filters: nothing reads a path out of one.

    *    one level
    #    all levels that follow, and none
"""

from typing import Final

MAX_TOPIC_BYTES: Final = 255  # of AMQP, in UTF-8: longer ones are cut behind a whole character
MAX_MQTT_TOPIC_BYTES: Final = 65_535  # the same of MQTT
MAX_PATTERN_LEVELS: Final = 128  # AMQP has no more: 255 bytes, and a dot between two

_AMQP: Final = (("#", "%23"), ("*", "%22"))  # %22 is what sr3 writes for `*`
_MQTT: Final = (("#", "%23"), ("+", "%2B"))


def dirs_of(rel_path: str) -> tuple[str, ...]:
    """The folders of a path, which may be empty texts: `/a/f` has an empty one before `a`."""
    return tuple(rel_path.split("/")[:-1])


def amqp_topic(prefix: str, rel_path: str) -> str:
    """`v03.post.a.b`, at most MAX_TOPIC_BYTES of UTF-8."""
    return _cut(".".join([prefix, *(_escaped(each, _AMQP) for each in dirs_of(rel_path))]), MAX_TOPIC_BYTES)


def mqtt_topic(exchange: str, prefix: str, rel_path: str) -> str:
    """`xpublic/v03/post/a/b`, at most MAX_MQTT_TOPIC_BYTES of UTF-8. An empty exchange is left out."""
    levels = [*_head(exchange, prefix), *(_escaped(each, _MQTT) for each in dirs_of(rel_path))]
    return _cut("/".join(levels), MAX_MQTT_TOPIC_BYTES)


def from_amqp(topic: str) -> str:
    """The topic with the characters that were escaped."""
    return _unescaped(topic, _AMQP)


def from_mqtt(topic: str, exchange: str) -> str:
    """The topic with dots, without the exchange where it begins with it, and with the characters that were escaped."""
    return _unescaped(topic.removeprefix(f"{exchange}/").replace("/", "."), _MQTT)


def amqp_binding(pattern: str) -> str:
    """The pattern as a routing key; ValueError: it is longer than one may be."""
    return _checked(pattern, pattern, MAX_TOPIC_BYTES)


def mqtt_filter(exchange: str, pattern: str) -> str:
    """The pattern as a filter of MQTT; ValueError: it is longer than one may be.

    `#` is the last level there: what follows it in the pattern is left to `matches`, and the filter takes more.
    """
    levels = []
    for level in pattern.split("."):
        levels.append("+" if level == "*" else "#" if level == "#" else _escaped(level, _MQTT))
        if level == "#":
            break
    return _checked("/".join([exchange, *levels] if exchange else levels), pattern, MAX_MQTT_TOPIC_BYTES)


def matches(pattern: str, topic: str) -> bool:
    """Whether a topic with dots is one of those that the pattern takes, as an AMQP exchange decides it."""
    wanted, levels = pattern.split("."), topic.split(".")
    if len(wanted) > MAX_PATTERN_LEVELS:
        return False
    ends = {0}  # so many levels of the topic are taken by the part of the pattern that was looked at
    for each in wanted:
        if each == "#":
            ends = set(range(min(ends), len(levels) + 1)) if ends else ends
        else:
            ends = {end + 1 for end in ends if end < len(levels) and each in ("*", levels[end])}
    return len(levels) in ends


def _head(exchange: str, prefix: str) -> list[str]:
    return [exchange, *prefix.split(".")] if exchange else prefix.split(".")


def _escaped(level: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for character, written in pairs:
        level = level.replace(character, written)
    return level


def _unescaped(topic: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for character, written in pairs:
        topic = topic.replace(written, character)
    return topic


def _cut(topic: str, most: int) -> str:
    """Up to so many bytes of UTF-8, and no part of a character."""
    raw = topic.encode("utf-8", "replace")
    return raw[:most].decode("utf-8", "ignore")


def _checked(written: str, pattern: str, most: int) -> str:
    if len(written.encode("utf-8", "replace")) > most:
        raise ValueError(f"the pattern {pattern[:60]!r} has more than {most} bytes")
    return written

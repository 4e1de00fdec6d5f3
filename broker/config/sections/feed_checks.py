"""What a configuration says about the feed that does not go together."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from broker.config.extras import lack_of_feed
from broker.config.sections.feed import CONTROL_NAME, PostOptions
from broker.config.toml import either, shown_value, toml_key
from broker.config.urls import MAX_UNIX_PATH_BYTES, PeerUrl
from rsocket_wire.errors import BrokerError
from rsocket_wire.ports import SCHEMES

SEGMENTS: Final = "segments"
MESSAGE_SCHEMES: Final = ("amqp", "amqps", "mqtt", "mqtts")
FEED_SCHEMES: Final = (*SCHEMES, *MESSAGE_SCHEMES)
MAX_REQUIRED: Final = 256  # consumers, of one folder: each is asked for in the log every few seconds
MAX_CONSUMER_BYTES: Final = 240  # of the name of one, escaped: a file is named by it
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_CONSUMER: Final = re.compile(r"[^@\s]+@[^@\s]+")
_IDENTITY: Final = re.compile(r"md5|sha512|cod,md5|cod,sha512|random|arbitrary,.+|none")

Mistake = tuple[str, str, str]  # the option, a sentence, and the item of a list or nothing


def feed_mistakes(
    values: Mapping[str, object], tables: Mapping[str, Mapping[str, Mapping[str, object]]], wrong: set[str]
) -> list[Mistake]:
    """As `samwise_mistakes`."""
    found: list[Mistake] = []
    folder, events = str(values["feed.dir"]), str(values["events.dir"])
    size = len(str(Path(folder).absolute() / CONTROL_NAME).encode())
    if folder and size > MAX_UNIX_PATH_BYTES:
        text = f"the path of its {CONTROL_NAME} has {size} bytes; a unix socket can have {MAX_UNIX_PATH_BYTES}"
        found.append(("feed.dir", text, ""))
    brokers, posts, mirrors = tables["feed.broker"], tables["feed.post"], tables["feed.subscribe"]
    for name, own in brokers.items():
        found += _of_table(f"feed.broker.{name}", name, own)
        found += _broker_mistakes(f"feed.broker.{name}", own)
    for name, own in posts.items():
        found += _of_table(f"feed.post.{name}", name, own)
        found += _post_mistakes(f"feed.post.{name}", own, events, has_admin=values["admin.listen"] is not None)
        found += _unknown_brokers(f"feed.post.{name}.to", own.get("to", ()), brokers)
        if own.get("what", PostOptions.what) != SEGMENTS and _is_below(folder, own.get("folder")):
            found.append(("feed.dir", f"is in the folder of feed.post.{name}, and would be announced", ""))
    for name, own in mirrors.items():
        found += _of_table(f"feed.subscribe.{name}", name, own)
        found += _unknown_brokers(f"feed.subscribe.{name}.brokers", own.get("brokers", ()), brokers)
        found += _passed_mistakes(f"feed.subscribe.{name}", own, brokers)
        if own.get("to") and not own.get("base_url"):
            found.append((f"feed.subscribe.{name}", "needs a base_url, where others find what it passes on", ""))
        if not own.get("into"):
            found.append((f"feed.subscribe.{name}", "needs into, a folder for the files", ""))
        if _is_below(folder, own.get("into")):
            found.append(("feed.dir", f"is in the folder of feed.subscribe.{name}, and posts could write to it", ""))
        if name in posts:
            found.append((f"feed.subscribe.{name}", "has the name of a posted folder; give it another one", ""))
    for name, own in tables["feed.winnow"].items():
        found += _of_table(f"feed.winnow.{name}", name, own)
        found += _winnow_mistakes(f"feed.winnow.{name}", own, brokers)
        if name in posts or name in mirrors:
            found.append((f"feed.winnow.{name}", "has the name of something else in the feed; give it another one", ""))
    if not folder:
        needs = [*(f"feed.post.{name}" for name in posts), *(f"feed.subscribe.{name}" for name in mirrors)]
        needs += [f"feed.winnow.{name}" for name in tables["feed.winnow"]]
        found += [(place, "needs feed.dir, where the feed keeps what it has to remember", "") for place in needs[:1]]
    return [mistake for mistake in found if mistake[0] not in wrong]


def _is_below(folder: str, other: object) -> bool:
    """Whether a folder is another one, or in it; links are not followed. False where one is not given."""
    return bool(folder and other) and Path(os.path.abspath(folder)).is_relative_to(os.path.abspath(str(other)))


def fault_of_base_url(url: str) -> str:
    """Why nobody can fetch files from there, in a sentence without its subject; empty: one can."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_good = False
    if not is_good or not url.isprintable() or " " in url:
        return "is no URL of http or https"
    if parts.query or parts.fragment or "@" in parts.netloc:
        return "has more than a scheme, a host, a port and a path"
    return ""


def fault_of_pattern(pattern: str) -> str:
    """Likewise of a regular expression."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression: {error}"
    return ""


def _of_table(place: str, name: str, own: Mapping[str, object]) -> list[Mistake]:
    """What is checked of each table of the feed."""
    found: list[Mistake] = []
    if not _NAME.fullmatch(name):
        text = f"the name {toml_key(name)} must be letters, digits, - _ and dots: files and URLs are named by it"
        found.append((place, text, ""))
    for key in ("accept", "reject"):
        patterns: Any = own.get(key, ())
        for pattern in patterns:
            if fault := fault_of_pattern(pattern):
                found.append((f"{place}.{key}", f"{shown_value(pattern)} {fault}", pattern))
    url = str(own.get("base_url", ""))
    if url and (fault := fault_of_base_url(url)):
        found.append((f"{place}.base_url", f"{shown_value(url)} {fault}", ""))
    return found


def _winnow_mistakes(
    place: str, own: Mapping[str, object], brokers: Mapping[str, Mapping[str, object]]
) -> list[Mistake]:
    found = _unknown_brokers(f"{place}.brokers", own.get("brokers", ()), brokers)
    if not own.get("to"):
        found.append((place, "needs to, brokers of messages that get the posts", ""))
    return found + _passed_mistakes(place, own, brokers)


def _passed_mistakes(
    place: str, own: Mapping[str, object], brokers: Mapping[str, Mapping[str, object]]
) -> list[Mistake]:
    """Of those that posts are passed on to."""
    to: Any = own.get("to", ())
    found = _unknown_brokers(f"{place}.to", to, brokers)
    for each in to:
        if str(brokers.get(each, {}).get("url", "")).partition("://")[0] in SCHEMES:
            text = f"{shown_value(each)} is a broker of RSocket, at which posts are offered by who has made them only"
            found.append((f"{place}.to", text, each))
    return found


def _unknown_brokers(place: str, names: Any, brokers: Mapping[str, object]) -> list[Mistake]:
    return [
        (place, f"{shown_value(each)} is not configured; add [feed.broker.{toml_key(each)}]", each)
        for each in names
        if each not in brokers
    ]


def _broker_mistakes(place: str, own: Mapping[str, object]) -> list[Mistake]:
    """The URL, which may hold a password, is not shown."""
    url = str(own.get("url", ""))
    if not url:
        return [(place, "needs a url", "")]
    try:
        parts = urlsplit(url)
        if parts.scheme in SCHEMES:
            PeerUrl.parse(url)
            return []
        is_good = parts.scheme in MESSAGE_SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except (ValueError, BrokerError):
        is_good = False
    if not is_good:
        return [(f"{place}.url", f"is no URL of {either(FEED_SCHEMES)} with a host", "")]
    if lack := lack_of_feed(parts.scheme.removesuffix("s")):
        return [(f"{place}.url", lack, "")]
    return []


def _post_mistakes(place: str, own: Mapping[str, object], events: str, *, has_admin: bool) -> list[Mistake]:
    found: list[Mistake] = []
    is_segments = own.get("what", PostOptions.what) == SEGMENTS
    if not own.get("folder") and not (is_segments and events):
        text = "needs events.dir, or a folder of its own" if is_segments else "needs a folder whose files are announced"
        found.append((place, text, ""))
    identity = str(own.get("identity", PostOptions.identity))
    if not _IDENTITY.fullmatch(identity):
        forms = "md5, sha512, cod,md5, cod,sha512, random, arbitrary,VALUE or none"
        found.append((f"{place}.identity", f"must be {forms}, not {shown_value(identity)}", ""))
    if not own.get("base_url") and not has_admin:
        found.append((place, "needs a base_url, because admin.listen is off and serves no files", ""))
    consumers: Any = own.get("required", ())
    if consumers and not is_segments:
        text = 'is for what = "segments" only: nothing is removed of other folders'
        found.append((f"{place}.required", text, ""))
    if len(consumers) > MAX_REQUIRED:
        text = f"names {len(consumers)} consumers; {MAX_REQUIRED} can be waited for"
        found.append((f"{place}.required", text, ""))
    named: set[str] = set()
    for consumer in consumers:
        name, _, pattern = consumer.partition(" ")
        if not _CONSUMER.fullmatch(name):
            found.append((f"{place}.required", f"{shown_value(consumer)} is not USER@HOST", consumer))
        elif (size := len(quote(name, safe="@"))) > MAX_CONSUMER_BYTES:
            text = f"{shown_value(consumer)}: its name has {size} bytes, escaped; {MAX_CONSUMER_BYTES} are possible"
            found.append((f"{place}.required", text, consumer))
        elif name in named:
            text = f"{shown_value(consumer)}: {name} is named twice; join the patterns with |"
            found.append((f"{place}.required", text, consumer))
        elif fault := fault_of_pattern(pattern):
            found.append((f"{place}.required", f"{shown_value(consumer)}: the pattern {fault}", consumer))
        named.add(name)
    return found

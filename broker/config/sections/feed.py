"""The options of the feed: section [feed] and the tables in it. See `broker.config.options`."""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from broker.config.option import MAX_NAME_BYTES, option
from broker.config.quantities import SIZE, TIME

CONTROL_NAME: Final = "control.sock"  # in feed.dir
Basis = Literal["path", "data"]
Posted = Literal["files", "segments"]
MqttVersion = Literal["5", "3.1.1"]


@dataclass(frozen=True)
class PostOptions:
    """A folder, NAME, whose files are announced to others, and served at /feed/NAME/ of the admin API."""

    what: Posted = option(
        "files",
        "files: all files, links and folders below folder but those whose names begin with a dot; segments: the sealed "
        "event files of an events folder, also those that were moved into the archive.",
        '"segments"',
    )
    folder: str = option(
        "",
        "The folder. Empty: events.dir, where what is segments.",
        '"/srv/data"',
        form="directory",
    )
    base_url: str = option(
        "",
        "URL that others fetch the files from, in front of their paths; http or https. Empty: that of the admin API, "
        "http://ADDRESS/feed/NAME/.",
        '"http://data.example:8080/feed/NAME/"',
    )
    prefix: str = option("v03.post", "First words of the topics, with dots.", '"v03.post.wis"', within=(1, 100))
    identity: str = option(
        "sha512",
        "How a file is identified: sha512 or md5 of its bytes; cod,sha512 or cod,md5: whoever fetches it computes "
        "that; random; arbitrary,VALUE; none.",
        '"md5"',
        within=(1, MAX_NAME_BYTES),
    )
    inline_bytes: int = option(
        0,
        "Files up to this size are in their posts and need not be fetched, 256 KiB at most. 0: none are.",
        '"4K"',
        "bytes",
        within=(0, 256 << 10),
        form=SIZE,
    )
    block_bytes: int = option(
        0,
        "Larger files are announced in blocks of this size, 1,000 at most of one file. 0: as a whole.",
        '"64M"',
        "bytes",
        within=(0, 1 << 50),
        form=SIZE,
    )
    accept: tuple[str, ...] = option(
        (),
        "Regular expressions, of which one must be found in the path of a file below folder. Empty: all are announced.",
        '["\\\\.grib2$"]',
        form="text",
    )
    reject: tuple[str, ...] = option(
        (),
        "Regular expressions of paths that are not announced, whatever accept says.",
        '["\\\\.tmp$", "^private/"]',
        form="text",
    )
    to: tuple[str, ...] = option(
        (),
        "Names of brokers, [feed.broker.NAME]. One of messages gets all posts, and those that it has missed when it "
        "comes back; at one of RSocket they are offered, and whoever asks gets them from where he was. Empty: they are "
        "offered at this broker.",
        '["rabbit-1", "rabbit-2"]',
        form="text",
    )
    reports: bool = option(
        True,
        "Whether what consumers report is taken from brokers of messages: topics v03.report.#, by a queue that is made "
        "there and named after the user, this machine and NAME. Over RSocket reports always come.",
        "false",
    )
    removals: bool = option(True, "Whether others are told that a file is gone.", "false")
    interval: float = option(
        1.0,
        "Interval between two looks at the folder, at least; of a large one it is longer, so that looking takes a "
        "tenth of a core at most. Segments are found within 0.1 s, whatever stands here.",
        '"10s"',
        "seconds",
        within=(0.05, 86_400),
        form=TIME,
    )
    settle: float = option(
        1.0,
        "How long a file must not have changed before it is announced. Segments never change.",
        '"200ms"',
        "seconds",
        within=(0, 86_400),
        form=TIME,
    )
    required: tuple[str, ...] = option(
        (),
        "Consumers, USER@HOST as their reports say, that must have reported a segment before events.keep_s or "
        "events.keep_bytes removes it. One that does not take all of them has a regular expression behind it, after a "
        "blank: only segments in whose paths that is found wait for it. Only where what is segments.",
        '["feed@mirror.example", "feed@lab.example ^flows/"]',
        form="text",
    )
    source: str = option("", "Header source: who has made the files.", '"lab-7"', within=(0, MAX_NAME_BYTES))
    from_cluster: str = option("", "Header from_cluster.", '"eu"', within=(0, MAX_NAME_BYTES))
    to_clusters: str = option("", "Header to_clusters.", '"us,jp"', within=(0, MAX_NAME_BYTES))

    def root(self, events_dir: str) -> Path:
        """The folder, which of segments may be that of the broker's event files."""
        return Path(self.folder or events_dir)


@dataclass(frozen=True)
class MessageBrokerOptions:
    """A broker, NAME, by which posts and reports go: of RSocket, or of messages."""

    url: str = option(
        "",
        "Where it is: tcp, tls, ws, wss or unix, a broker of RSocket; amqp or amqps, RabbitMQ; mqtt or mqtts. With "
        "user and password where it wants them, and the virtual host of AMQP as the path.",
        '"amqp://feed:secret@rabbit.example/"',
        is_secret=True,
    )
    exchange: str = option(
        "xpublic",
        "The topic exchange, which is made if it is missing; the first level of topics of MQTT; a tag of the service "
        "feed of RSocket.",
        '"xdata"',
        within=(1, 127),
    )
    ca: str = option(
        "",
        "CA certificates, PEM, that sign that of an encrypted broker. Empty: those of the system.",
        '"/etc/rsocket-broker/ca.pem"',
        form="file",
    )
    mqtt_version: MqttVersion = option(
        "5", "Version of MQTT. With 3.1.1 a message does not say that it is JSON.", '"3.1.1"'
    )
    prefetch: int = option(
        0,
        "Messages that this process may have and not have dealt with. 0 is 25, as in sr3, and 128 with RSocket.",
        "100",
        "messages",
        within=(0, 10_000),
    )


# What a mirror and a winnower have in common.


def _brokers() -> tuple[str, ...]:
    return option(
        (),
        "Names of brokers, [feed.broker.NAME], that posts come from. Empty: this broker.",
        '["rabbit-1", "rabbit-2"]',
        form="text",
    )


def _topics() -> tuple[str, ...]:
    return option(
        ("v03.post.#",),
        "Topics of posts that are wanted, with the wildcards * and # of AMQP.",
        '["v03.post.flows.#"]',
        form="text",
    )


def _queue(example: str) -> str:
    return option(
        "",
        "Queue of AMQP and session of MQTT, which several processes may share. Empty: q_USER.HOST.NAME.",
        example,
        within=(0, MAX_NAME_BYTES),
    )


def _accept() -> tuple[str, ...]:
    return option(
        (),
        "Regular expressions, of which one must be found in the path of a file. Empty: all files are wanted.",
        '["\\\\.grib2$"]',
        form="text",
    )


def _reject() -> tuple[str, ...]:
    return option(
        (),
        "Regular expressions of paths that are not wanted, whatever accept says.",
        '["\\\\.tmp$", "^private/"]',
        form="text",
    )


def _remember() -> float:
    return option(
        3_600.0,
        "How long it is remembered what has come, at most for a million posts.",
        '"1d"',
        "seconds",
        within=(1, 31_536_000),
        form=TIME,
    )


@dataclass(frozen=True)
class SubscribeOptions:
    """A mirror, NAME: files that others announce are fetched into a folder, compared with their digests, once each."""

    into: str = option("", "The folder, made if it is missing.", '"/srv/mirror"', form="directory")
    brokers: tuple[str, ...] = _brokers()
    topics: tuple[str, ...] = _topics()
    queue: str = _queue('"q_feed.mirror"')
    accept: tuple[str, ...] = _accept()
    reject: tuple[str, ...] = _reject()
    basis: Basis = option(
        "path",
        "What is a repeat, which is not fetched again: path, the same data under the same path; data, the same data "
        "under any path.",
        '"data"',
    )
    remember: float = _remember()
    removals: bool = option(False, "Whether files are removed that are removed elsewhere.", "true")
    strip: str = option(
        "",
        "Folder of the poster that is taken away from names in its posts: sr3 watch announces renamed files by their "
        "whole paths there.",
        '"/srv/data"',
    )
    ca: str = option(
        "",
        "CA certificates, PEM, that sign those of servers of files over https. Empty: those of the system.",
        '"/etc/rsocket-broker/ca.pem"',
        form="file",
    )
    tries: int = option(
        10,
        "How often a file is tried to be fetched. A host that cannot be reached uses up none of them.",
        "100",
        "tries",
        within=(1, 1_000_000),
    )
    to: tuple[str, ...] = option(
        (),
        "Names of brokers of messages that are told what has been fetched, and is to be had at base_url.",
        '["rabbit-3"]',
        form="text",
    )
    base_url: str = option(
        "",
        "URL that others fetch the files from, in front of their paths; http or https. Required by to.",
        '"http://mirror.example/data/"',
    )
    reports: bool = option(True, "Whether posters are told what became of their posts.", "false")
    user: str = option("", "Who reports. Empty: who runs the process.", '"feed"', within=(0, 100))


@dataclass(frozen=True)
class WinnowOptions:
    """Posts that are passed on, NAME, without fetching anything: the first of each to all brokers of to."""

    brokers: tuple[str, ...] = _brokers()
    to: tuple[str, ...] = option(
        (),
        "Names of brokers of messages that get the posts. What one has missed it gets when it is back.",
        '["rabbit-3"]',
        form="text",
    )
    topics: tuple[str, ...] = _topics()
    queue: str = _queue('"q_feed.winnow"')
    accept: tuple[str, ...] = _accept()
    reject: tuple[str, ...] = _reject()
    basis: Basis = option(
        "path",
        "What is a repeat, which is not passed on: path, the same data under the same path; data, the same data under "
        "any path.",
        '"data"',
    )
    remember: float = _remember()


@dataclass(frozen=True)
class FeedOptions:
    """The feed, a process of its own that announces files by posts of Sarracenia v03, and mirrors what others do."""

    dir: str = option(
        "",
        "Directory of what the feed has to remember: logs of posts, what has come. Created if missing; only one feed "
        "uses it. Required where there is something to do.",
        '"/var/lib/rsocket-broker/feed"',
        form="directory",
    )
    keep_posts: int = option(
        100_000,
        "Posts of files that are gone or have changed since, which are kept in a log; then the oldest go.",
        "10000",
        "posts",
        within=(0, 100_000_000),
    )
    keep: float = option(
        30 * 86_400.0,
        "How long these are kept at most.",
        '"7d"',
        "seconds",
        within=(1, 3_153_600_000),
        form=TIME,
    )
    broker: Mapping[str, MessageBrokerOptions] = field(default_factory=dict)  # by name
    post: Mapping[str, PostOptions] = field(default_factory=dict)  # by name
    subscribe: Mapping[str, SubscribeOptions] = field(default_factory=dict)  # by name
    winnow: Mapping[str, WinnowOptions] = field(default_factory=dict)  # by name

    @property
    def is_used(self) -> bool:
        """There is something to do."""
        return bool(self.post or self.subscribe or self.winnow)

    @property
    def control_path(self) -> Path:
        """Of the socket at which operators ask the feed."""
        return Path(self.dir) / CONTROL_NAME

    def log_path(self, name: str) -> Path:
        """Of the log of posts of one folder."""
        return Path(self.dir) / f"{name}.posts"

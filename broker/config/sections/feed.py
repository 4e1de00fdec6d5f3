"""The options of the feed: section [feed] and the tables in it. See `broker.config.options`."""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from broker.config.option import MAX_NAME_BYTES, option
from broker.config.quantities import SIZE, TIME

CONTROL_NAME: Final = "control.sock"  # in feed.dir
Posted = Literal["files", "segments"]


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
        "Regular expressions, of which one must match the whole path of a file below folder. Empty: all files do.",
        '[".*\\\\.grib2"]',
        form="text",
    )
    reject: tuple[str, ...] = option(
        (),
        "Regular expressions of paths that are not announced, whatever accept says.",
        '[".*\\\\.tmp", "private/.*"]',
        form="text",
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
        '"0.2s"',
        "seconds",
        within=(0, 86_400),
        form=TIME,
    )
    required: tuple[str, ...] = option(
        (),
        "Consumers, USER@HOST as their reports say, that must have reported a segment before events.keep_s or "
        "events.keep_bytes removes it. Only where what is segments.",
        '["feed@mirror.example"]',
        form="text",
    )
    source: str = option("", "Header source: who has made the files.", '"lab-7"', within=(0, MAX_NAME_BYTES))
    from_cluster: str = option("", "Header from_cluster.", '"eu"', within=(0, MAX_NAME_BYTES))
    to_clusters: str = option("", "Header to_clusters.", '"us,jp"', within=(0, MAX_NAME_BYTES))

    def root(self, events_dir: str) -> Path:
        """The folder, which of segments may be that of the broker's event files."""
        return Path(self.folder or events_dir)


@dataclass(frozen=True)
class FeedOptions:
    """The feed, a process of its own that announces files by posts of Sarracenia v03."""

    dir: str = option(
        "",
        "Directory of what the feed has to remember: logs of posts. Created if missing; only one feed uses it. "
        "Required by [feed.post.NAME].",
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
    post: Mapping[str, PostOptions] = field(default_factory=dict)  # by name

    @property
    def is_used(self) -> bool:
        """There is something to do."""
        return bool(self.post)

    @property
    def control_path(self) -> Path:
        """Of the socket at which operators ask the feed."""
        return Path(self.dir) / CONTROL_NAME

    def log_path(self, name: str) -> Path:
        """Of the log of posts of one folder."""
        return Path(self.dir) / f"{name}.posts"

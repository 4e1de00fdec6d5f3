"""The options of event files: section [events]. See `broker.config.options`."""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

from dataclasses import dataclass
from typing import Literal

from broker.config.option import CORE, option

Sync = Literal["none", "second"]
SilentReaders = Literal["keep", "ignore"]


@dataclass(frozen=True)
class EventOptions:
    """What happened, as files."""

    dir: str = option(
        "",
        "Where event files go; made when it is not there. Empty: no event files.",
        '"/var/lib/rsocket-broker/events"',
        flag="--events",
        form="directory",
    )
    roll_s: float = option(
        1.0,
        "A file is sealed, and readers see it, when it is this old. Longer means fewer files, later seen.",
        "60.0",
        "seconds",
        within=(0.1, 3600),
    )
    flow_interval_s: float = option(
        CORE.flow_interval_s,
        "Requests are counted per caller, route and outcome for this long, then the counts are one record.",
        "10.0",
        "seconds",
        within=(0.1, 3600),
    )
    requests: str = option(
        "flows",
        "What is written of requests. flows: the counts alone; all: each request that ended as a row of its own, too, "
        "some 1.3 ms of the broker's CPU for a thousand, files included; 1/N: one of N of them, each as likely as any "
        "other.",
        '"1/100"',
        form="requests",
    )
    snapshot_s: float = option(
        60.0,
        "So often all routes of the table are written, with a digest of it: whoever wants to know a table of the past "
        "begins with one of these. 0: never.",
        "600.0",
        "seconds",
        within=(0, 86_400),
    )
    min_free_bytes: int = option(
        64 << 20,
        "As much of the file system of events.dir is left to others: Spark's checkpoint may share it. Records then "
        "wait in memory, and beyond a bound they are dropped and counted.",
        "1073741824",
        "bytes",
        within=(0, 1 << 50),
    )
    sync: Sync = option(
        "none",
        "How often the log that records go to first is synced to the disk: none, when the kernel likes; second, each "
        "second. Only a power failure makes a difference; killed processes lose nothing either way.",
        '"second"',
    )
    keep_s: float = option(
        0.0,
        "How long a file is kept after it was sealed, unless a declared reader has not read it. 0: for ever.",
        "604800.0",
        "seconds",
        within=(0, 3_153_600_000),
    )
    keep_bytes: int = option(
        0,
        "While all files are larger together the oldest is removed, unless a declared reader has not read it. 0: no "
        "bound.",
        "10737418240",
        "bytes",
        within=(0, 1 << 50),
    )
    reader_timeout_s: float = option(
        86_400.0,
        "A declared reader that says nothing for so long is told of in the log and counted.",
        "3600.0",
        "seconds",
        within=(1, 31_536_000),
    )
    silent_readers: SilentReaders = option(
        "keep",
        "What such a reader has not read: keep, which may fill the disk up to min_free_bytes; ignore, it is removed "
        "like everything else.",
        '"ignore"',
    )

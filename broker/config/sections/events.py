"""The options of event files: section [events]. See `broker.config.options`."""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

from dataclasses import dataclass
from typing import Literal

from broker.config.option import CORE, option

Sync = Literal["none", "second"]
SilentReaders = Literal["keep", "ignore"]


@dataclass(frozen=True)
class EventOptions:
    """Event files."""

    dir: str = option(
        "",
        "Directory of the event files; created if missing. Empty: no event files are written.",
        '"/var/lib/rsocket-broker/events"',
        flag="--events",
        form="directory",
    )
    roll_s: float = option(
        1.0,
        "Age at which a file is sealed and becomes visible to readers. Longer: fewer files, later visible.",
        "60.0",
        within=(0.1, 3600),
    )
    flow_interval_s: float = option(
        CORE.flow_interval_s,
        "Interval for which requests are counted per caller, route and outcome before the counts become one record.",
        "10.0",
        within=(0.1, 3600),
    )
    requests: str = option(
        "flows",
        "What is recorded about requests. flows: only the counts; all: also one row per request, which costs the "
        "broker about 1.3 ms of CPU per thousand, files included; 1/N: a row for one of N requests, chosen at "
        "random.",
        '"1/100"',
        form="requests",
    )
    snapshot_s: float = option(
        60.0,
        "Interval between snapshots of the routing table, each with a digest; the table at a past time is rebuilt "
        "from the last snapshot before it. 0: no snapshots.",
        "600.0",
        within=(0, 86_400),
    )
    min_free_bytes: int = option(
        64 << 20,
        "Space that event files leave free on the file system of events.dir, which Spark's checkpoint may share. "
        "Below it, records wait in memory; beyond a bound they are dropped and counted.",
        "1073741824",
        within=(0, 1 << 50),
    )
    sync: Sync = option(
        "none",
        "When the event log is synced to disk: none, when the kernel decides; second, once a second. It only "
        "matters for power failures; killed processes lose nothing either way.",
        '"second"',
    )
    keep_s: float = option(
        0.0,
        "Age at which a sealed file is removed, unless a declared reader has not read it yet. 0: never.",
        "604800.0",
        within=(0, 3_153_600_000),
    )
    keep_bytes: int = option(
        0,
        "Total size of the event files above which the oldest is removed, unless a declared reader has not read "
        "it yet. 0: no limit.",
        "10737418240",
        within=(0, 1 << 50),
    )
    reader_timeout_s: float = option(
        86_400.0,
        "Time without a sign of life after which a declared reader is logged and counted as silent.",
        "3600.0",
        within=(1, 31_536_000),
    )
    silent_readers: SilentReaders = option(
        "keep",
        "Whether files that a silent reader has not read are kept: keep, they are, which may fill the disk up to "
        "min_free_bytes; ignore, they are removed like the others.",
        '"ignore"',
    )

"""The logs of an events folder as a reader sees them: each is a number with at most one file of each source, or the log
itself while no segments have been made of it.

    numbers    1 … 41  42  43 … 86 402
    at         12:00 … … … … … 13:00        of lifecycle and flows, from the footers; requests are written with them

Opens files, names those that it has to pass over, and keeps what it has read within bounds: segments never change.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from broker.events import EVENTS_DROPPED, GATEWAYS, ROUTE_SEEN, TABLE_DIGEST
from rsocket_wire.files import system_reason
from spark_sink.errors import BadFile, BadFolder
from spark_sink.event_files.folder import LOG, EventFile, list_folder
from spark_sink.event_files.layout import LOG_SUFFIX, SUFFIX, find_segment, origin_of
from spark_sink.event_files.store import LogFile, SegmentFile, micros, range_of, read_file
from spark_sink.history.records import RECORD_COLUMNS, Record, Run, ranges_of, records_of
from spark_sink.schema import ARROW_SCHEMAS, COLUMNS, FLOWS, LIFECYCLES

T = TypeVar("T")

MAX_KEPT: Final = 100_000  # records and places that are kept for the next question; all go when they are more

# Told behind younger events, under numbers and (but for gaps) times of before.
LATE: Final = frozenset((EVENTS_DROPPED, TABLE_DIGEST, ROUTE_SEEN))


class Logs:
    """Those of one events folder, as it was when this was made."""

    def __init__(self, events: Path) -> None:
        """BadFolder: there is nothing."""
        self.opened = 0  # files, ever
        self._events: Final = events
        try:
            self._listing: Final = list_folder(events)
        except OSError as error:
            why = system_reason(error)
            raise BadFolder(f"the events folder {events} cannot be read: {why}") from error
        if not self._listing.streams():
            raise BadFolder(f"the events folder {events} holds no events yet: is a broker writing to it?")
        self._logs: Final[dict[tuple[str, int], LogFile]] = {}  # stream and number
        self._known: Final[dict[str, Any]] = {}  # by stream
        self._times: Final[dict[tuple[str, int], tuple[int, int] | None]] = {}
        self._kinds: Final[dict[tuple[str, int], tuple[int, int] | None]] = {}
        self._lists: Final[dict[tuple[str, str, int], list[Any]]] = {}  # records and places of logs
        self._kept_n = 0  # that these hold
        self._seqs: Final[dict[tuple[str, str, int], tuple[Any, Any]]] = {}
        self._bad: Final[set[EventFile]] = set()
        # Whatever else lies there is no lost record.
        self.problems: Final = self._listing.problems(events, (SUFFIX, LOG_SUFFIX))
        for file in self._listing.files(LOG):
            try:
                self._logs[file.stream, file.number] = LogFile(read_file(events / file.place), file)
            except FileNotFoundError:
                continue  # it is segments by now, which were listed later
            except (BadFile, OSError) as error:
                self.tell_bad(file, f"{error}")

    def runs(self) -> list[Run]:
        """Those of brokers of which a file can be read, by broker and epoch."""
        streams = (stream for stream in self._listing.streams() if not stream.startswith(GATEWAYS))
        found = [run for run in map(self._find_run, streams) if run is not None]
        return sorted(found, key=lambda run: (run.broker_id, run.epoch))

    def sealed_at(self, run: Run) -> tuple[Any, Any]:
        """Numbers of the logs with lifecycle or flows, ascending, and when a segment of each was sealed; two arrays."""
        sealed: dict[int, float] = {}
        for source in (FLOWS, LIFECYCLES):
            for number in self._listing.numbers(run.stream, source):
                file = self._listing.find(run.stream, source, number)
                assert file is not None  # it was listed
                with contextlib.suppress(OSError):  # moved meanwhile; its neighbours tell enough
                    sealed[number] = os.stat(self._events / file.place).st_mtime
        numbers = sorted(sealed)
        return np.array(numbers, np.int64), np.array([sealed[number] for number in numbers])

    def open_numbers(self, run: Run) -> list[int]:
        """Of the logs that no segments have been made of, or not all, when this began; ascending."""
        return sorted(number for stream, number in self._logs if stream == run.stream)

    def log_rows(self, run: Run, source: str) -> pa.Table | None:
        """What these hold of a source; None: nothing."""
        logs = [self._logs[run.stream, number].tables for number in self.open_numbers(run)]
        rows = [tables[source].cast(ARROW_SCHEMAS[source]) for tables in logs if source in tables]
        return pa.concat_tables(rows) if rows else None

    def folders(self, source: str) -> list[Path]:
        """That hold segments of the source."""
        return [(self._events / folder).absolute() for folder in self._listing.folders(source)]

    def sealed_between(self, run: Run, source: str, first: int, last: int) -> list[EventFile]:
        """Segments with these numbers, both included, but those of `open_numbers`."""
        numbers = np.array(self._listing.numbers(run.stream, source), np.int64)
        numbers = np.setdiff1d(numbers[(numbers >= first) & (numbers <= last)], self.open_numbers(run))
        found = [self._listing.find(run.stream, source, number) for number in numbers.tolist()]
        return [file for file in found if file is not None]

    def _find_run(self, stream: str) -> Run | None:
        """The broker's name is in any file of the run."""
        broker_id, epoch = origin_of(stream)
        for (of, _), log in self._logs.items():
            if of == stream:
                return Run(broker_id, log.broker_name, epoch)
        for source in COLUMNS:
            for number in reversed(self._listing.numbers(stream, source)):
                found = self._segment(stream, source, number)
                if found is not None:
                    with contextlib.closing(found):
                        return Run(broker_id, found.broker_name, epoch)
        return None

    def numbers(self, source: str, run: Run) -> Any:
        """Numbers of the logs that have this source, ascending."""
        logs = [number for number in self.open_numbers(run) if source in self._logs[run.stream, number].tables]
        return np.union1d(np.array(self._listing.numbers(run.stream, source), np.int64), np.array(logs, np.int64))

    def known(self, run: Run) -> Any:
        """Numbers of the logs that have records of which the times go on: lifecycle or flows."""
        if run.stream not in self._known:
            self._known[run.stream] = np.union1d(self.numbers(LIFECYCLES, run), self.numbers(FLOWS, run))
        return self._known[run.stream]

    def _segment(self, stream: str, source: str, number: int) -> SegmentFile | None:
        """None: there is none, or it cannot be read, which is said."""
        file = self._listing.find(stream, source, number)
        if file is None or file in self._bad:
            return None
        self.opened += 1
        try:
            try:
                return SegmentFile(self._events / file.place, file)
            except FileNotFoundError:
                moved = find_segment(self._events, source, file.name)  # its reader may have
                if moved is None:
                    raise BadFile("it was removed meanwhile") from None
                return SegmentFile(moved, file)
        except (BadFile, OSError) as error:
            self.tell_bad(file, f"{error}")
            return None

    def read(self, run: Run, source: str, number: int, names: Sequence[str]) -> pa.Table:
        """These columns of one file; no rows: it is not there, or it cannot be read, which is said."""
        log = self._logs.get((run.stream, number))
        if log is not None and source in log.tables:  # while it is there its segments may not all be
            return log.tables[source].select(list(names))
        segment = self._segment(run.stream, source, number) if log is None else None
        if segment is not None:
            with contextlib.closing(segment):
                try:
                    return segment.read(names)
                except BadFile as error:
                    self.tell_bad(segment.file, f"{error}")
        return ARROW_SCHEMAS[source].empty_table().select(list(names))

    def range_of(self, run: Run, source: str, number: int, name: str) -> tuple[int, int] | None:
        """Of a column of one file; None: it is not there, or cannot be read."""
        if (run.stream, number) in self._logs:
            return range_of(self.read(run, source, number, [name])[name])
        segment = self._segment(run.stream, source, number)
        if segment is not None:
            with contextlib.closing(segment), contextlib.suppress(BadFile):  # whoever reads its rows says so
                return segment.range_of(name)
        return None

    def tell_bad(self, file: EventFile, why: str) -> None:
        """A file cannot be read; it is named once."""
        if file not in self._bad:
            self._bad.add(file)
            self.problems.append(f"{self._events / file.place} is passed over: {why}")

    def records(self, run: Run, number: int) -> list[Record]:
        """Lifecycle events of a log, by their numbers."""
        return self._kept(run, number, lambda: records_of(self.read(run, LIFECYCLES, number, RECORD_COLUMNS)))

    def places(self, run: Run, number: int) -> list[tuple[int, int]]:
        """Number and time of all lifecycle events and flows of a log, by their numbers; without RouteSeen events, for
        which their TableDigest stands."""

        def read() -> list[tuple[int, int]]:
            flows = self.read(run, FLOWS, number, ["seq", "event_time"])
            told = [(each.seq, each.at_us) for each in self.records(run, number) if each.kind != ROUTE_SEEN]
            return sorted([*told, *zip(flows["seq"].to_pylist(), micros(flows["event_time"]).tolist(), strict=True)])

        return self._kept(run, number, read, "places")

    def _kept(self, run: Run, number: int, read: Callable[[], list[T]], what: str = "records") -> list[T]:
        """Of a log, read once."""
        key = (what, run.stream, number)
        if key not in self._lists:
            found = read()
            self._kept_n += len(found)
            if self._kept_n > MAX_KEPT:
                self._lists.clear()
                self._kept_n = len(found)
            self._lists[key] = found
        return self._lists[key]

    def kinds(self, run: Run, number: int) -> tuple[int, int] | None:
        """The smallest and the largest kind of its lifecycle events; None: it has none, or they cannot be read."""
        key = (run.stream, number)
        if key not in self._kinds:
            self._kinds[key] = self.range_of(run, LIFECYCLES, number, "kind")
        return self._kinds[key]

    def ranges(self, run: Run, source: str, number: int) -> tuple[Any, Any]:
        """The numbers of all records of a file, as first and last ones of ranges: two int64 arrays."""
        key = (run.stream, source, number)
        if key not in self._seqs:
            if len(self._seqs) >= MAX_KEPT:
                self._seqs.clear()
            self._seqs[key] = ranges_of(self.read(run, source, number, ["seq"])["seq"].to_numpy())
        return self._seqs[key]

    def times(self, run: Run, number: int) -> tuple[int, int] | None:
        """The smallest and the largest time of a log, microseconds, without what is told late; None: nothing else can
        be read of it."""
        key = (run.stream, number)
        if key not in self._times:
            found = [self.range_of(run, FLOWS, number, "event_time")]
            kinds = self.kinds(run, number)
            if kinds is not None and any(kinds[0] <= kind <= kinds[1] for kind in LATE):
                found += [(each.at_us,) * 2 for each in self.records(run, number) if each.kind not in LATE]
            else:
                found.append(self.range_of(run, LIFECYCLES, number, "event_time"))
            known = [each for each in found if each is not None]
            self._times[key] = (min(low for low, _ in known), max(high for _, high in known)) if known else None
        return self._times[key]

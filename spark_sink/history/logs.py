"""The logs of an events folder as a reader sees them: each is a number with at most one file of each source, or the log
itself while no segments have been made of it.

    numbers    1 … 41  42  43 … 86 402
    at         12:00 … … … … … 13:00        of lifecycle and flows, from the footers; requests are written with them

Opens files, names those that it has to pass over, and keeps what it has read within bounds: segments never change.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from broker.events import EVENTS_DROPPED, ROUTE_SEEN, TABLE_DIGEST
from spark_sink.errors import BadFile
from spark_sink.event_files.layout import origin_of, why_foreign
from spark_sink.event_files.listing import MAX_NAMED, Listing
from spark_sink.event_files.store import LogContent, LogRecords, ParquetRecords, RecordFile
from spark_sink.history.records import RECORD_COLUMNS, Record, Run, micros, ranges_of, records_of
from spark_sink.schema import ARROW_SCHEMAS, COLUMNS, FLOWS, LIFECYCLES

MAX_KEPT: Final = 100_000  # records and places that are kept for the next question; all go when they are more

# Told behind younger events, under numbers and (but for gaps) times of before.
LATE: Final = frozenset((EVENTS_DROPPED, TABLE_DIGEST, ROUTE_SEEN))


class Logs:
    """Those of one events folder, as it was when this was made."""

    def __init__(self, events: Path) -> None:
        """BadFolder: there is nothing."""
        self.problems: Final[list[str]] = []
        self.opened = 0  # files, ever
        self._listing: Final = Listing(events)
        self._logs: Final[dict[tuple[str, int], LogContent]] = {}  # stream and number
        self._known: Final[dict[str, Any]] = {}  # by stream
        self._times: Final[dict[tuple[str, int], tuple[int, int] | None]] = {}
        self._last_seqs: Final[dict[tuple[str, int], int | None]] = {}
        self._kinds: Final[dict[tuple[str, int], tuple[int, int] | None]] = {}
        self._records: Final[dict[tuple[str, int], list[Record]]] = {}
        self._places: Final[dict[tuple[str, int], list[tuple[int, int]]]] = {}
        self._kept_n = 0  # records and places in these two
        self._seqs: Final[dict[tuple[str, str, int], tuple[Any, Any]]] = {}
        self._bad: Final[set[Path]] = set()
        self._read_logs()
        for path in self._listing.foreign:
            self.problems.append(f"{path} is passed over: {why_foreign(path)}")
        if self._listing.foreign_n > MAX_NAMED:
            self.problems.append(f"{self._listing.foreign_n - MAX_NAMED} more files are not named like segments")

    def _read_logs(self) -> None:
        for stream, logs in self._listing.logs.items():
            for number, path in logs.items():
                try:
                    self._logs[stream, number] = LogContent(path, stream)
                except FileNotFoundError:
                    continue  # it is segments by now, which were listed later
                except (BadFile, OSError) as error:
                    self.tell_bad(path, f"{error}")

    def runs(self) -> list[Run]:
        """Those of which a file can be read, by broker and epoch."""
        found = [run for run in map(self._find_run, self._listing.streams()) if run is not None]
        return sorted(found, key=lambda run: (run.broker_id, run.epoch))

    def sealed_at(self, run: Run) -> tuple[Any, Any]:
        """Numbers of the logs with lifecycle or flows, ascending, and when a segment of each was sealed; two arrays."""
        found = [self._listing.sealed_at(source, run.stream) for source in (LIFECYCLES, FLOWS)]
        numbers, firsts = np.unique(np.concatenate([some for some, _ in found]), return_index=True)
        return numbers, np.concatenate([times for _, times in found])[firsts]

    def open_numbers(self, run: Run) -> list[int]:
        """Of the logs that no segments have been made of, or not all, when this began; ascending."""
        return sorted(number for stream, number in self._logs if stream == run.stream)

    def log_rows(self, run: Run, source: str) -> pa.Table | None:
        """What these hold of a source; None: nothing."""
        logs = [self._logs[run.stream, number].sources for number in self.open_numbers(run)]
        rows = [sources[source].cast(ARROW_SCHEMAS[source]) for sources in logs if source in sources]
        return pa.concat_tables(rows) if rows else None

    def folders(self, source: str) -> list[Path]:
        """That hold segments of the source."""
        return [folder.absolute() for folder in self._listing.folders(source)]

    def sealed_between(self, run: Run, source: str, first: int, last: int) -> list[Path]:
        """Segments with these numbers, both included, but those of `open_numbers`."""
        numbers = self._listing.numbers(source, run.stream)
        numbers = np.setdiff1d(numbers[(numbers >= first) & (numbers <= last)], self.open_numbers(run))
        found = [self._listing.find(source, run.stream, number) for number in numbers.tolist()]
        return [path for path in found if path is not None]

    def _find_run(self, stream: str) -> Run | None:
        """The broker's name is in any file of the run."""
        broker_id, epoch = origin_of(stream)
        for (of, _), content in self._logs.items():
            if of == stream:
                return Run(broker_id, content.broker_name, epoch)
        for source in COLUMNS:
            for number in self._listing.numbers(source, stream)[::-1].tolist():
                found = self._open(Run(broker_id, "", epoch), source, number)
                if isinstance(found, ParquetRecords):
                    found.close()
                    return Run(broker_id, found.broker_name, epoch)
        return None

    def numbers(self, source: str, run: Run) -> Any:
        """Numbers of the logs that have this source, ascending."""
        logs = [
            number for (stream, number), log in self._logs.items() if stream == run.stream and source in log.sources
        ]
        return np.union1d(self._listing.numbers(source, run.stream), np.array(logs, np.int64))

    def known(self, run: Run) -> Any:
        """Numbers of the logs that have records of which the times go on: lifecycle or flows."""
        if run.stream not in self._known:
            self._known[run.stream] = np.union1d(self.numbers(LIFECYCLES, run), self.numbers(FLOWS, run))
        return self._known[run.stream]

    def _open(self, run: Run, source: str, number: int) -> RecordFile | None:
        """None: this log has nothing of this source, or it cannot be read, which is said."""
        log = self._logs.get((run.stream, number))
        if log is not None:  # while it is there its segments may not all be
            return LogRecords(log.sources[source]) if source in log.sources else None
        path = self._listing.find(source, run.stream, number)
        if path is None or path in self._bad:
            return None
        says = {"source": source, "broker_id": run.broker_id, "epoch": str(run.epoch)}
        try:
            self.opened += 1
            try:
                return ParquetRecords(path, says, number)
            except FileNotFoundError:
                moved = self._listing.find_again(source, path.name)
                if moved is None:
                    raise BadFile("it was removed meanwhile") from None
                return ParquetRecords(moved, says, number)
        except (BadFile, OSError) as error:
            self.tell_bad(path, f"{error}")
            return None

    def read(self, run: Run, source: str, number: int, names: Sequence[str]) -> pa.Table | None:
        """These columns of one file; None: it is not there, or it cannot be read, which is said."""
        found = self._open(run, source, number)
        if found is None:
            return None
        try:
            return found.read(names)
        except BadFile as error:
            path = self._listing.find(source, run.stream, number)
            assert path is not None  # only files are bad, and this one was listed
            self.tell_bad(path, f"{error}")
            return None
        finally:
            found.close()

    def tell_bad(self, path: Path, why: str) -> None:
        """A file cannot be read; it is named once."""
        if path not in self._bad:
            self._bad.add(path)
            self.problems.append(f"{path} is passed over: {why}")

    def records(self, run: Run, number: int) -> list[Record]:
        """Lifecycle events of a log, by their numbers."""
        key = (run.stream, number)
        if key not in self._records:
            rows = self.read(run, LIFECYCLES, number, RECORD_COLUMNS)
            found = records_of(rows) if rows is not None else []
            self._make_room(len(found))
            self._records[key] = found
        return self._records[key]

    def places(self, run: Run, number: int) -> list[tuple[int, int]]:
        """Number and time of all lifecycle events and flows of a log, by their numbers; without RouteSeen events, for
        which their TableDigest stands."""
        key = (run.stream, number)
        if key not in self._places:
            records = self.records(run, number)
            places = [(record.seq, record.at_us) for record in records if record.kind != ROUTE_SEEN]
            flows = self.read(run, FLOWS, number, ["seq", "at"])
            if flows is not None:
                places += zip(flows["seq"].to_pylist(), micros(flows["at"]).tolist(), strict=True)
            self._make_room(len(places))
            self._places[key] = sorted(places)
        return self._places[key]

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
            rows = self.read(run, source, number, ["seq"])
            if len(self._seqs) >= MAX_KEPT:
                self._seqs.clear()
            self._seqs[key] = ranges_of(rows["seq"].to_numpy() if rows is not None else np.empty(0, np.int64))
        return self._seqs[key]

    def times(self, run: Run, number: int) -> tuple[int, int] | None:
        """The smallest and the largest time of a log, microseconds, without what is told late; None: nothing else can
        be read of it."""
        key = (run.stream, number)
        if key not in self._times:
            found = [self.range_of(run, FLOWS, number, "at")]
            if self._has_late(run, number):
                found += [(place.at_us, place.at_us) for place in self.records(run, number) if place.kind not in LATE]
            else:
                found.append(self.range_of(run, LIFECYCLES, number, "at"))
            known = [each for each in found if each is not None]
            self._times[key] = (min(low for low, _ in known), max(high for _, high in known)) if known else None
        return self._times[key]

    def range_of(self, run: Run, source: str, number: int, name: str) -> tuple[int, int] | None:
        """Of a column of one file; None: it is not there, or cannot be read."""
        found = self._open(run, source, number)
        if found is None:
            return None
        try:
            return found.range_of(name)
        except BadFile:
            return None  # whoever reads its rows says so
        finally:
            found.close()

    def last_seq(self, run: Run, number: int) -> int | None:
        """The highest number in a log, without what is told late; None: nothing else can be read of it."""
        key = (run.stream, number)
        if key not in self._last_seqs:
            found = [self.range_of(run, FLOWS, number, "seq")]
            if self._has_late(run, number):
                found += [(place.seq, place.seq) for place in self.records(run, number) if place.kind not in LATE]
            else:
                found.append(self.range_of(run, LIFECYCLES, number, "seq"))
            self._last_seqs[key] = max((each[1] for each in found if each is not None), default=None)
        return self._last_seqs[key]

    def _has_late(self, run: Run, number: int) -> bool:
        """May there be events that are told under an earlier number?"""
        kinds = self.kinds(run, number)
        return kinds is not None and any(kinds[0] <= kind <= kinds[1] for kind in LATE)

    def _make_room(self, more: int) -> None:
        """For so many records or places more."""
        self._kept_n += more
        if self._kept_n > MAX_KEPT:
            self._records.clear()
            self._places.clear()
            self._kept_n = more

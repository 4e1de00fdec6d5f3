"""Records of an events folder, read with pyarrow: only the logs that an instant needs are opened.

Which log the instant lies in is found by halving, which is right while the broker's clock goes on. Where it was put
back, the sealing times of the files go back, too: the run is cut there, and the last piece that has the instant is
taken. Files whose sealing times say nothing any more, because they were copied, are all looked at.

    numbers     1 … 41  42  43 … 86 402 │ 86 403 … 90 000
    smallest    12:00 … … … … … … 13:00 │ 12:30 … … 14:00      the clock was put back: two pieces
                  ▲ start   ▲ no instant: the last time that it was 12:45 is ▲ here
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from broker.events import BROKER_STARTED, ROUTE_SEEN, TABLE_DIGEST
from spark_sink.history import records as history
from spark_sink.history.logs import LATE, Logs
from spark_sink.schema import COLUMNS, LIFECYCLES

# Records of one moment come to the log within so long, and a clock that is put back by less is not seen in the files.
NEAR_US: Final = 10_000_000
LATE_US: Final = (
    60_000_000  # a snapshot of 100,000 routes is told in ten seconds; as long as a broker waits for the next
)
NEVER_US: Final = 1 << 62
MAX_PIECES: Final = 64  # of a run whose clock was put back; more: sealing times say nothing
MAX_LAG_US: Final = 3_600_000_000  # by which the times between a record and its sealing differ; more: the same
NEAR_LOGS: Final = 2  # records that were told at one moment can stand in neighbouring logs


class SegmentReader:
    """One events folder, as it was when this was made."""

    def __init__(self, events: Path) -> None:
        """BadFolder: there is nothing."""
        self.logs: Final = Logs(events)
        self.problems: Final = self.logs.problems  # sentences: files that were passed over, each once
        self._runs: Final = self.logs.runs()
        self._firsts: Final[dict[history.Run, history.Position | None]] = {}
        self._pieces_of: Final[dict[history.Run, list[tuple[int, int]]]] = {}

    def runs(self) -> list[history.Run]:
        """All that there are, by broker and epoch."""
        return self._runs

    def first(self, run: history.Run) -> history.Position | None:
        """The earliest record, of the first log that can be read; None: none can."""
        if run not in self._firsts:
            found = (self.logs.places(run, number) for number in self.logs.known(run).tolist())
            self._firsts[run] = next((history.Position(*places[0]) for places in found if places), None)
        return self._firsts[run]

    def spot(self, run: history.Run, at_us: int) -> history.Spot | None:
        """Where the instant lies, by halving, in each piece of the run in which its clock went on; None: all records
        are later."""
        known = self.logs.known(run)
        for begin, end in reversed(self._pieces(run)):
            place = self._last_not_later(run, known, begin, end, at_us)
            if place < begin:
                continue
            near = known[max(begin, place - NEAR_LOGS) : place + 1].tolist()
            places = [each for number in near for each in self.logs.places(run, number)]
            places += [(digest.seq, digest.at_us) for digest in self._digests(run, known[place + 1 :], at_us)]
            last = max((each for each in places if each[1] <= at_us), default=None)
            if last is not None:
                return self._spot(run, max(begin, place - NEAR_LOGS), place, history.Position(*last), at_us)
        return None

    def _spot(self, run: history.Run, low: int, place: int, last: history.Position, at_us: int) -> history.Spot:
        """`last`: the record that the instant is behind, in the logs from `low` to `place` of those that are known."""
        known = self.logs.known(run)
        digests = self._digests(run, known[low:], at_us + history.NEAR_US)
        digest = next((each for each in digests if each.seq > last.seq), None)
        after, high = None, place
        for number in known[place:].tolist():
            behind = [each for each in self.logs.places(run, number) if each[0] > last.seq]
            if behind:
                after = history.Position(*behind[0])
                high = int(np.searchsorted(known, number)) + NEAR_LOGS
                break
        told = max(self._told_until(run, known[place:], (after or last).at_us), default=0)
        high = max(int(known[min(high, len(known) - 1)]), told)
        start, begins = self._start(run, last.seq, high)
        low = int(np.searchsorted(known, begins))
        while low and max(self.logs.places(run, int(known[low - 1])), default=(0, 0))[0] > start.seq:
            low -= 1
        return history.Spot(last, after, start, digest, (int(known[max(0, low - NEAR_LOGS)]), high))

    def _start(self, run: history.Run, seq: int, high: int) -> tuple[history.Start, int]:
        """Backwards from the log `high` to a snapshot that is whole, or to the broker's start; and in which log that
        begins."""
        numbers = self.logs.numbers(LIFECYCLES, run)
        digest, left = None, 0  # the latest of which some routes are still to be found
        for number in reversed(numbers[numbers <= high].tolist()):
            kinds = self.logs.kinds(run, number)
            if kinds is None or (kinds[0] > BROKER_STARTED and kinds[1] < TABLE_DIGEST):
                continue
            for record in reversed(self.logs.records(run, number)):
                if record.kind == BROKER_STARTED and record.seq <= seq:
                    return history.start_without_snapshot(history.Position(*record[:2]), None), number
                if record.kind == TABLE_DIGEST and record.seq <= seq:
                    digest, left = record, len(record.snapshot)
                elif record.kind == ROUTE_SEEN and digest is not None and record.seq in digest.snapshot:
                    left -= 1
                if digest is not None and not left:
                    return history.Start(digest.snapshot.start, digest.at_us, True, digest), number
        return history.start_without_snapshot(None, self.first(run)), 0

    def records(self, run: history.Run, spot: history.Spot) -> Iterator[history.Record]:
        """What the tables of `stops` are made of, by number. Once through the logs; the snapshot, which is told late,
        first."""
        numbers = self.logs.numbers(LIFECYCLES, run)
        numbers = numbers[numbers >= spot.logs[0]].tolist()
        seen = [
            record
            for number in numbers
            if spot.start.seq <= spot.seen_until and number <= spot.logs[1] and self._has_seen(run, number)
            for record in self.logs.records(run, number)
            if record.kind == ROUTE_SEEN and spot.start.seq <= record.seq <= spot.seen_until
        ]
        others = (record for number in numbers for record in self.logs.records(run, number))
        others = (record for record in others if record.kind not in LATE and record.seq >= spot.start.seq)
        return heapq.merge(sorted(seen), others)

    def missing(self, run: history.Run, spot: history.Spot) -> history.Missing:
        """From the start to the end of the spot, by the numbers in all files of its logs."""
        low, high = spot.logs
        there = []
        told: list[history.Record] = []
        for source in COLUMNS:
            numbers = self.logs.numbers(source, run)
            for number in numbers[(numbers >= low) & (numbers <= high)].tolist():
                there.append(self.logs.ranges(run, source, number))
                if source == LIFECYCLES:
                    told += history.told_of(self.logs.records(run, number), spot)
        return history.Missing(history.gaps_between(there, spot.start.seq, spot.end), told, True)

    def _digests(self, run: history.Run, numbers: Any, until_us: int) -> Iterator[history.Record]:
        """The TableDigests up to this moment that these logs tell."""
        for number in self._told_until(run, numbers, until_us):
            for record in self.logs.records(run, number):
                if record.kind == TABLE_DIGEST and record.at_us <= until_us:
                    yield record

    def _told_until(self, run: history.Run, numbers: Any, at_us: int) -> Iterator[int]:
        """Of these logs those in which something of this moment may still be told."""
        for number in numbers.tolist():
            times = self.logs.times(run, number)
            if times is not None and times[0] > at_us + LATE_US:
                return
            if self._has_seen(run, number):
                yield number

    def _has_seen(self, run: history.Run, number: int) -> bool:
        """May there be some of a snapshot?"""
        kinds = self.logs.kinds(run, number)
        return kinds is not None and kinds[1] >= TABLE_DIGEST

    def _last_not_later(self, run: history.Run, numbers: Any, begin: int, end: int, at_us: int) -> int:
        """Place of the last log between these places whose smallest time is not later; `begin` - 1: none is."""

        def first_us(place: int) -> int:
            """Where nothing can be read of a log the next one decides."""
            times = (self.logs.times(run, number) for number in numbers[place:end].tolist())
            return next((each[0] for each in times if each is not None), NEVER_US)

        low = begin + bisect_right(range(begin, end), at_us, key=first_us)
        found = low - 1
        for place in range(low, end):  # small steps of the clock cannot be seen in the files
            times = self.logs.times(run, int(numbers[place]))
            if times is not None and times[0] > at_us + NEAR_US:
                break
            if times is not None and times[0] <= at_us:
                found = place
        return found

    def _pieces(self, run: history.Run) -> list[tuple[int, int]]:
        """Places among the known logs between which the clock went on, as far as sealing times say."""
        if run not in self._pieces_of:
            known = self.logs.known(run)
            numbers, changed = self.logs.sealed_at(run)
            back = np.searchsorted(known, numbers[1:][np.diff(changed) < 0])
            open_logs = np.searchsorted(known, self.logs.open_numbers(run))  # nothing is known of their times yet
            cuts = sorted({*back.tolist(), *open_logs.tolist()} - {0, len(known)})
            if len(cuts) > MAX_PIECES or not self._are_sealing_times(run, numbers, changed):
                self._pieces_of[run] = [(place, place + 1) for place in range(len(known))]
            else:
                self._pieces_of[run] = list(zip([0, *cuts], [*cuts, len(known)], strict=True))
        return self._pieces_of[run]

    def _are_sealing_times(self, run: history.Run, numbers: Any, changed: Any) -> bool:
        """Of a few files: they were last changed at about the time of their records, or all as much later."""
        lags = []
        for place in np.unique(np.linspace(0, len(numbers) - 1, 9).astype(int)).tolist() if len(numbers) else []:
            times = self.logs.times(run, int(numbers[place]))
            if times is not None:
                lags.append(changed[place] * 1e6 - times[1])
        return not lags or max(lags) - min(lags) <= MAX_LAG_US

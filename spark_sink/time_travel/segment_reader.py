"""Records of an events folder, read with pyarrow: only the logs that an instant needs are opened.

Which log the instant lies in is found by halving, which is right while the broker's clock goes on. Where it was put
back, the sealing times of the files go back, too: the run is cut there, and the last piece that has the instant is
taken. Files whose sealing times say nothing any more, because they were copied, are all looked at.

    numbers     1 … 41  42  43 … 86 402 │ 86 403 … 90 000
    smallest    12:00 … … … … … … 13:00 │ 12:30 … … 14:00      the clock was put back: two pieces
                  ▲ start   ▲ no instant: the last time that it was 12:45 is ▲ here
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from broker.events import BROKER_STARTED, EVENTS_DROPPED, ROUTE_SEEN, TABLE_DIGEST
from spark_sink.history import records as history
from spark_sink.history.logs import LATE, Logs
from spark_sink.schema import COLUMNS, LIFECYCLES

# Records of one moment come to the log within so long, and a clock that is put back by less is not seen in the files.
NEAR_US: Final = 10_000_000
LATE_US: Final = (
    60_000_000  # a snapshot of 100,000 routes is told in ten seconds; as long as a broker waits for the next
)
MAX_PIECES: Final = 64  # of a run whose clock was put back; more: sealing times say nothing
MAX_LAG_US: Final = 3_600_000_000  # by which the times between a record and its sealing differ; more: the same
NEAR_LOGS: Final = 2  # records that were told at one moment can stand in neighbouring logs

T = TypeVar("T")


class SegmentReader(history.RecordReader):
    """One events folder, as it was when this was made."""

    def __init__(self, events: Path) -> None:
        """BadFolder: there is nothing."""
        self.logs: Final = Logs(events)
        super().__init__(self.logs.problems)
        self._runs: Final = self.logs.runs()
        self._firsts: Final[dict[history.Run, history.Position | None]] = {}
        self._pieces_of: Final[dict[history.Run, list[tuple[int, int]]]] = {}

    def runs(self) -> list[history.Run]:
        """By broker and epoch."""
        return self._runs

    def first(self, run: history.Run) -> history.Position | None:
        """Of the first log that can be read."""
        if run not in self._firsts:
            found = (self.logs.places(run, number) for number in self.logs.known(run).tolist())
            self._firsts[run] = next((history.Position(*places[0]) for places in found if places), None)
        return self._firsts[run]

    def ended(self, run: history.Run, kind: int) -> history.Position | None:
        """The last lifecycle event is of no other kind, once it is there."""
        for number in reversed(self.logs.numbers(LIFECYCLES, run)[-NEAR_LOGS:].tolist()):
            for record in reversed(self.logs.records(run, number)):
                if record.kind == kind:
                    return history.Position(record.seq, record.at_us)
        return None

    def window(self, run: history.Run, at_us: int) -> history.Window:
        """By halving, in each piece of the run in which its clock went on."""
        numbers = self.logs.known(run)
        for begin, end in reversed(self._pieces(run)):
            place = self._last_not_later(run, numbers, begin, end, at_us)
            if place < begin:
                continue
            near = numbers[max(begin, place - NEAR_LOGS) : place + 1].tolist()
            places = [each for number in near for each in self.logs.places(run, number) if each[1] <= at_us]
            for number in self._told_until(run, numbers[place + 1 :], at_us):
                digests = (each for each in self.logs.records(run, number) if each.kind == TABLE_DIGEST)
                places += [(digest.seq, digest.at_us) for digest in digests if digest.at_us <= at_us]
            if places:
                last = history.Position(*max(places))
                return history.Window(last, self._first_behind(run, numbers[place:], last.seq))
        return history.Window(None, self.first(run))

    def start(self, run: history.Run, seq: int) -> history.Start:
        """Backwards from there to a snapshot that is whole, or to the broker's start."""
        numbers = self._logs_behind(run, seq)
        for place in range(len(numbers) - 1, -1, -1):
            kinds = self.logs.kinds(run, int(numbers[place]))
            if kinds is None or (kinds[0] > BROKER_STARTED and kinds[1] < TABLE_DIGEST):
                continue
            for record in reversed(self.logs.records(run, int(numbers[place]))):
                if record.seq > seq:
                    continue
                if record.kind == BROKER_STARTED:
                    return self.start_without_snapshot(run, history.Position(record.seq, record.at_us))
                if record.kind == TABLE_DIGEST:
                    first = self._snapshot_first(run, numbers, place, record)
                    if first is not None:
                        return history.Start(first, record.at_us, True, record)
        return self.start_without_snapshot(run, None)

    def states(self, run: history.Run, first: int, seen_until: int, stops: Sequence[int]) -> Iterator[history.State]:
        """Once through the logs; the snapshot, which is told late, first."""
        seen = self._seen(run, first, seen_until)
        others = (record for record in self._from(run, first) if record.kind not in LATE)
        return history.states_of(heapq.merge(seen, others, key=lambda record: record.seq), stops)

    def digest_after(self, run: history.Run, seq: int, until_us: int) -> history.Record | None:
        """In the logs behind, as far as they are not too late."""
        numbers = self.logs.known(run)
        place = int(np.searchsorted(numbers, self._log_of(run, seq)))
        for number in self._told_until(run, numbers[place:], until_us):
            for record in self.logs.records(run, number):
                if record.kind == TABLE_DIGEST and record.seq > seq and record.at_us <= until_us:
                    return record
        return None

    def missing(self, run: history.Run, first: int, last: int) -> history.Missing:
        """The numbers in all files of these logs and their neighbours."""
        low, high = self.logs_between(run, first, last)
        seen, told = history.Numbers(), []
        for source in COLUMNS:
            numbers = self.logs.numbers(source, run)
            for number in numbers[(numbers >= low) & (numbers <= high)].tolist():
                seen.add(*self.logs.ranges(run, source, number))
        for number in self.logs.numbers(LIFECYCLES, run).tolist():
            if low <= number <= high:
                dropped = [each for each in self.logs.records(run, number) if each.kind == EVENTS_DROPPED]
                told += [record for record in dropped if history.overlaps(record, first, last)]
        return history.Missing(seen.missing(first, last), told, True)

    def logs_between(self, run: history.Run, first: int, last: int) -> tuple[int, int]:
        """Numbers of the first and the last log that records with these numbers may be in."""
        known = self.logs.known(run)
        low = int(np.searchsorted(known, self._log_of(run, first))) - NEAR_LOGS
        behind = self._logs_behind(run, last)
        high = int(np.searchsorted(known, self._log_of(run, last))) + NEAR_LOGS
        high_number = int(known[min(high, len(known) - 1)])
        return int(known[max(0, low)]), max(high_number, int(behind[-1]) if len(behind) else 0)

    def _told_until(self, run: history.Run, numbers: Any, at_us: int) -> Iterator[int]:
        """Of these logs those in which something of this moment may still be told."""
        for number in numbers.tolist():
            times = self.logs.times(run, number)
            if times is not None and times[0] > at_us + LATE_US:
                return
            if self._has_seen(run, number):
                yield number

    def _logs_behind(self, run: history.Run, seq: int) -> Any:
        """Logs with lifecycle events up to the last in which something of before this record is told."""
        known, number = self.logs.known(run), self._log_of(run, seq)
        times = self.logs.times(run, number)
        place = int(np.searchsorted(known, number))
        told = self._told_until(run, known[place:], times[1] if times is not None else 0)
        last = max(told, default=number)
        numbers = self.logs.numbers(LIFECYCLES, run)
        return numbers[: int(np.searchsorted(numbers, last, side="right"))]

    def _seen(self, run: history.Run, first: int, last: int) -> list[history.Record]:
        """RouteSeen events with these numbers, in their order."""
        if last < first:
            return []
        numbers = self._logs_behind(run, last)
        place = int(np.searchsorted(numbers, self._log_of(run, first)))
        found = [
            record
            for number in numbers[max(0, place - NEAR_LOGS) :].tolist()
            for record in (self.logs.records(run, number) if self._has_seen(run, number) else ())
            if record.kind == ROUTE_SEEN and first <= record.seq <= last
        ]
        return sorted(found, key=lambda record: record.seq)

    def _has_seen(self, run: history.Run, number: int) -> bool:
        """May there be some of a snapshot?"""
        kinds = self.logs.kinds(run, number)
        return kinds is not None and kinds[1] >= TABLE_DIGEST

    def _from(self, run: history.Run, first: int) -> Iterator[history.Record]:
        numbers = self.logs.numbers(LIFECYCLES, run)
        place = int(np.searchsorted(numbers, self._log_of(run, first)))
        for number in numbers[max(0, place - NEAR_LOGS) :].tolist():
            for record in self.logs.records(run, number):
                if record.seq >= first:
                    yield record

    def _snapshot_first(self, run: history.Run, numbers: Any, place: int, digest: history.Record) -> int | None:
        """Number of the first RouteSeen of the snapshot that the digest ends; None: not all of them are there."""
        wanted = digest.snapshot
        seen = 0
        while place >= 0 and seen < len(wanted):
            records = self.logs.records(run, int(numbers[place]))
            seen += sum(record.kind == ROUTE_SEEN and record.seq in wanted for record in records)
            if any(record.seq < wanted.start and record.kind != EVENTS_DROPPED for record in records):
                break
            place -= 1
        return wanted.start if seen == len(wanted) else None

    def _first_behind(self, run: history.Run, numbers: Any, seq: int) -> history.Position | None:
        for number in numbers.tolist():
            behind = [each for each in self.logs.places(run, number) if each[0] > seq]
            if behind:
                return history.Position(*behind[0])
        return None

    def _last_not_later(self, run: history.Run, numbers: Any, begin: int, end: int, at_us: int) -> int:
        """Place of the last log between these places whose smallest time is not later; `begin` - 1: none is."""
        later = _halved(begin, end, lambda place: self.logs.times(run, int(numbers[place])), lambda it: it[0] <= at_us)
        found = later - 1
        for place in range(later, end):  # small steps of the clock cannot be seen in the files
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

    def _log_of(self, run: history.Run, seq: int) -> int:
        """Number of the first log whose records go up to this one; of the last log, if none does."""
        known = self.logs.known(run)
        found = _halved(0, len(known), lambda at: self.logs.last_seq(run, int(known[at])), lambda last: last < seq)
        return int(known[min(found, len(known) - 1)])


def _halved(low: int, high: int, ask: Callable[[int], T | None], is_before: Callable[[T], bool]) -> int:
    """The first place whose answer is not before what is looked for; where there is none the next one decides."""
    while low < high:
        middle = (low + high) // 2
        answers = ((place, answer) for place in range(middle, high) if (answer := ask(place)) is not None)
        place, answer = next(answers, (middle, None))
        if answer is not None and is_before(answer):
            low = place + 1
        else:
            high = middle
    return low

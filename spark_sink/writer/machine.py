"""Frames in, segments out: what the writer process does, as a machine without a clock.

    frame ──> checked ──> waiting ──append──> log (open) ──roll──> logs (closed) ──seal──> segments, one of each source
                          memory, bounded     <events>/_tmp                               then the log is removed

A frame is safe when it is in the log. A log is closed when it is `roll_s` old, `roll_bytes` large or the wall clock's
hour changes; it becomes at most one segment per source, of its number. It is removed only after the next log is
there, whose head says what came before: so a writer that was killed at any point leaves on disk what it had taken and
nothing twice, and the next writer, which begins with the logs that it finds, knows which frames it need not take again.

Of other brokers, several of which may share the folder, a writer takes only logs that nobody has had for a while.

What cannot be written waits and is tried again at growing pauses: frames in memory (`held`), closed logs on the disk
(`closed`).
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from broker.events import BROKER_DIED, BROKER_STOPPED, LifecycleEvent, WriterState
from spark_sink.event_files.batches import FrameRows
from spark_sink.event_files.folder import LOG, SOURCES, list_written
from spark_sink.event_files.frames import Header, decode_rows
from spark_sink.event_files.layout import LOG_FOLDER, Disk, recover, wal_name
from spark_sink.event_files.wal import Ledger, WalHead, encode_wal_frame, ledger_of
from spark_sink.schema import COLUMNS
from spark_sink.writer.buffer import BufferedFrame, FrameBuffer, frame_of
from spark_sink.writer.logs import Log, foreign_logs, found_logs
from spark_sink.writer.retention import Retention
from spark_sink.writer.settings import MAX_ERROR_TEXT, Settings

FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 10.0  # the pause between tries doubles up to this
MAX_DEFINITIONS: Final = 200_000  # of flows; three times what a broker has in use, the longest unused are forgotten
ADOPT_S: Final = 300.0  # between looks for logs of others; ten tries of a broker to start a new writer
NEXT_ORPHAN_S: Final = 1.0
LOOK_S: Final = 30.0  # between looks at what need not be kept
MAX_NAMED: Final = 5  # files that are named in one sentence
NEVER: Final = float("inf")


class _Retry:
    """Pauses between tries of one thing that fails."""

    def __init__(self) -> None:
        self.at = NEVER  # monotonic; inf: it does not fail
        self.pause_s = 0.0


class Writer:
    """Time comes in as parameters (`now` monotonic, `wall_s` since the epoch, seconds)."""

    def __init__(
        self,
        events: Path,
        header: Header,
        *,
        disk: Disk,
        say: Callable[[str], None],
        settings: Settings,
        say_well: Callable[[str], None] | None = None,
    ) -> None:
        """`say` takes sentences for people, `say_well` those of what is well again (None: `say`). Call `begin` before
        the first frame."""
        self._events: Final = events
        self._header: Final = header
        self._disk: Final = disk
        self._say: Final = say
        self._say_well: Final = say_well or say
        self._settings: Final = settings
        self._came = header.first_frame - 1  # number of the last frame that came
        self._known: Final[dict[int, Any]] = {}  # definitions by flow number, the longest unused first
        self._forget_above = 2 * MAX_DEFINITIONS  # of them, where no log can be closed
        self._held: Final = FrameBuffer(settings.max_held_bytes)
        self._has_stopped = False  # the broker has said BrokerStopped
        self._ended_at_s: float | None = None  # when the input ended without it, wall clock; None: it has not
        self._wal: Log | None = None  # None: there is no open log
        self._hour = 0  # of the first frame in the open log
        self._roll_at = NEVER  # when the first frame in the open log is roll_s old
        self._sync_at = NEVER  # monotonic; inf: the log has nothing that is not on the disk
        self._closed: Final[deque[Log]] = deque()
        self._foreign: dict[Path, int] = {}  # logs of other runs at the last look, and when they were changed, ns
        self._orphans: list[Path] = []  # those that nobody comes for; a living writer may have them all the same
        self._adopt_at = NEVER  # monotonic; inf: `begin` was not called
        self._total = Ledger()  # of the epoch, up to the end of the open log
        self._retention: Final = Retention(events, settings, disk, say, self._say_well)
        self._look_at = 0.0 if settings.is_bounded else NEVER  # monotonic
        self._appending: Final = _Retry()
        self._sealing: Final = _Retry()
        self._dropped = 0  # told since the failure began
        self._failing_since = 0.0  # monotonic, meaningful while state.error says something
        self._state: Final = WriterState(next_number=header.first_number)

    @property
    def state(self) -> WriterState:
        """As it is when it is asked for; the same object each time."""
        logs = self._logs()
        sealed = next((log.before for log in logs if self._is_own(log)), self._total)
        state, total, gap = self._state, self._total, self._held.gap
        state.held_bytes = self._held.bytes
        state.frames = total.frames
        state.sealed, state.sealed_requests = sealed.records, sealed.requests
        state.dropped = total.dropped + gap.records
        state.dropped_requests = total.dropped_requests + gap.requests
        state.wal_bytes = sum(log.bytes for log in logs)
        return state

    # In

    def begin(self, now: float, wall_s: float) -> None:
        """Find what writers that were killed left behind, and make segments of it."""
        for source in COLUMNS:
            recover(self._events / source, f"{self._header.broker_id}-", wall_s, self._disk)
        listing = list_written(self._events)
        # Never a number that an earlier writer of this epoch used, even when its files went to an archive.
        used = listing.numbers(self._header.stream, *SOURCES)
        self._state.next_number = max(self._header.first_number, used[-1] + 1 if used else 1)
        logs = [file for file in listing.files(LOG) if file.origin[0] == self._header.broker_id]  # of all its runs
        self._find(self._events / file.place for file in logs)
        self._adopt_at = now + ADOPT_S
        self._total += Ledger(frames=self._came)
        self._seal_closed(now)
        if listing.foreign:
            more = f" and {listing.foreign_n - MAX_NAMED} more" if listing.foreign_n > MAX_NAMED else ""
            names = ", ".join(sorted(listing.foreign)[:MAX_NAMED])
            self._say(f"{self._events} holds foreign files: {names}{more}")

    def take(self, frame: bytes, now: float, wall_s: float) -> None:
        """A frame of rows. BadFrame: it is none; nothing of it is kept. One that an earlier writer took is passed over,
        one of definitions alone has no number."""
        rows = FrameRows(decode_rows(frame), self._known)
        if len(self._known) > self._forget_above:  # else they are forgotten with the next log
            self._forget_unused(rows.flow_numbers)
        if rows.records == 0:
            return
        if any(row.kind == BROKER_STOPPED for row in rows.lifecycles):
            self._has_stopped = True
        self._came += 1
        if self._came <= self._total.frames:
            return
        self._held.add(BufferedFrame(self._came, frame, rows.records, rows, wall_s))
        if self._appending.at == NEVER:
            self._append_all(now, wall_s)

    def tick(self, now: float, wall_s: float) -> None:
        """Time passed: do what is due."""
        if now >= self._appending.at:
            self._append_all(now, wall_s)
        if now >= self._roll_at and self._sealing.at == NEVER:
            self._roll()
            self._seal_closed(now)
        elif now >= self._sealing.at:
            self._seal_closed(now)
        if now >= self._adopt_at:
            self._adopt(now)
        if now >= self._look_at:
            self._retention.look(wall_s, self._state)
            self._look_at = now + LOOK_S
        if now >= self._sync_at and self._wal is not None:
            self._sync(self._wal)

    def next_deadline(self) -> float:
        """When to tick at the latest, monotonic; inf: nothing waits."""
        roll_at = self._roll_at if self._sealing.at == NEVER else NEVER
        return min(roll_at, self._appending.at, self._sealing.at, self._sync_at, self._look_at, self._adopt_at)

    def seal_all(self, now: float, wall_s: float) -> bool:
        """Make segments of all that came, and tell a gap. False: it cannot be done now."""
        is_done = self._append_all(now, wall_s)
        self._roll()
        return self._seal_closed(now) and is_done

    def tell_died(self, now: float, wall_s: float) -> None:
        """There is no more input. A broker that has not said BrokerStopped by now has died, and that is the last event.
        One that said nothing at all was never there."""
        if not self._has_stopped:
            self._ended_at_s = wall_s
        self._append_all(now, wall_s)

    def end(self) -> None:
        """After `seal_all` said True: remove the log, which has nothing in it."""
        if self._wal is not None:
            wal, self._wal = self._wal, None
            wal.remove()

    # Waiting -> log

    def _append_all(self, now: float, wall_s: float) -> bool:
        """Write what waits into the log, then tell a gap. False: the log cannot be written."""
        try:
            while self._held.frames:
                self._append(self._held.frames[0], now)
                self._held.remove_oldest()
            if self._held.gap.records:
                self._append(self._held.told_gap(wall_s), now)
                self._dropped += self._held.gap.records
                self._held.close_gap()
            if self._ended_at_s is not None and self._total.seq and not self._total.is_over:
                self._append(frame_of(_died(self._total.seq + 1, self._ended_at_s), 0, wall_s), now)
        except OSError as error:
            self._failed(self._appending, error, now)
            return False
        self._succeeded(self._appending, now)
        return True

    def _append(self, frame: BufferedFrame, now: float) -> None:
        wal = self._wal
        if wal is not None and wal.frames and (frame.hour != self._hour or wal.bytes >= self._settings.roll_bytes):
            self._roll()
            if self._sealing.at == NEVER:
                self._seal_closed(now)
        self._leave_room(len(frame.frame))
        wal = self._open_wal()
        defined = {row.flow for row in frame.rows.definitions}
        needed = [self._known[number] for number in frame.rows.flow_numbers.difference(wal.defined, defined)]
        data = encode_wal_frame(frame.number, frame.records, frame.frame)
        if needed:
            data = encode_wal_frame(0, 0, msgspec.msgpack.encode(needed)) + data
        wal.append(data)
        wal.defined.update(defined, (row.flow for row in needed))
        if not wal.frames:
            self._hour = frame.hour
            self._roll_at = now + self._settings.roll_s
        if self._settings.sync_s and self._sync_at == NEVER:
            self._sync_at = now + self._settings.sync_s
        wal.frames.append(frame.rows)
        added = ledger_of(frame.number, frame.records, frame.rows)
        wal.ledger += added
        self._total += added

    def _leave_room(self, size: int) -> None:
        least = self._settings.min_free_bytes
        if least and (free := self._disk.free_bytes(self._events)) < least + size:
            raise OSError(f"{free >> 20} MiB are free, {least >> 20} MiB are left to others")

    def _open_wal(self) -> Log:
        while self._wal is None:
            number = self._state.next_number
            name = wal_name(self._header.broker_id, self._header.epoch, number)
            head = WalHead(self._header, self._total)
            with contextlib.suppress(FileExistsError, BlockingIOError):  # then the number is somebody's
                self._wal = Log.create(self._events / LOG_FOLDER / name, head, self._disk)
            self._state.next_number += 1
        return self._wal

    def _sync(self, wal: Log) -> None:
        try:
            self._disk.sync_data(wal.handle)
        except OSError as error:
            self._say(f"{wal.path} cannot be synced to the disk ({error})")
        self._sync_at = NEVER

    def _roll(self) -> None:
        """Close the log, if anything is in it."""
        if self._wal is None or not self._wal.frames:
            return
        if self._closed:  # they wait before it: it is read again when its turn comes
            self._wal.frames = []
        self._wal.defined.clear()  # or a disk that takes no segments for hours would fill the memory
        self._closed.append(self._wal)
        self._wal = None
        self._roll_at = self._sync_at = NEVER
        self._forget_unused()

    # Log -> segments

    def _seal_closed(self, now: float) -> bool:
        """Make segments of the closed logs. False: one cannot be written now."""
        while self._closed:
            closed = self._closed[0]
            try:
                made = closed.seal(self._events, self._known)
                self._open_wal()  # its head says what came before, which nothing else does once the log is gone
                self._disk.remove(closed.path)
            except OSError as error:
                closed.frames = []  # what waits for a disk waits on it
                self._failed(self._sealing, error, now)
                return False
            self._disk.close(closed.handle)
            self._closed.popleft()
            self._state.segments += made
            if self._is_own(closed):
                self._state.sealed_seq = max(self._state.sealed_seq, closed.ledger.seq)
        self._succeeded(self._sealing, now)
        with contextlib.suppress(OSError):
            self._state.free_bytes = self._disk.free_bytes(self._events)
        return True

    # What others left

    def _adopt(self, now: float) -> None:
        """A log of another run that nobody has touched for a whole pause: no writer of its broker comes for it any
        more. One that came would miss the counts in it, and would take again what is there already. One log at a time,
        so that the pipe has not to wait for long."""
        if not self._orphans:
            found = foreign_logs(self._events, self._header)
            self._orphans = [path for path, changed in found.items() if self._foreign.get(path) == changed]
            self._foreign = found
        if self._orphans:
            self._find([self._orphans.pop(0)])
        self._adopt_at = now + (NEXT_ORPHAN_S if self._orphans else ADOPT_S)
        if self._sealing.at == NEVER:
            self._seal_closed(now)

    def _find(self, paths: Iterable[Path]) -> None:
        for log in found_logs(paths, self._disk, self._say):
            self._closed.append(log)
            self._state.recovered += log.ledger.records
            self._state.torn_bytes += log.torn_bytes
            if self._is_own(log):
                self._total = log.before + log.ledger
                self._state.next_number = max(self._state.next_number, log.number + 1)

    def _logs(self) -> list[Log]:
        """All that are no segments yet, the oldest first."""
        return [*self._closed, *([self._wal] if self._wal is not None else [])]

    def _is_own(self, log: Log) -> bool:
        """Is it of this epoch of this broker?"""
        return log.stream == self._header.stream

    # Counts and sentences

    def _forget_unused(self, coming: Iterable[int] = ()) -> None:
        """`coming`: flows that the frame names that is just being taken."""
        if len(self._known) <= MAX_DEFINITIONS:
            return
        used = self._held.flow_numbers()
        used.update(coming)
        for log in self._logs():
            used.update(number for frame in log.frames for number in frame.flow_numbers)
        for number in used:
            self._known[number] = self._known.pop(number)
        for number in list(self._known)[: len(self._known) - max(MAX_DEFINITIONS, len(used))]:
            del self._known[number]
        self._forget_above = len(self._known) + MAX_DEFINITIONS

    def _failed(self, what: _Retry, error: OSError, now: float) -> None:
        what.pause_s = min(max(FIRST_RETRY_S, what.pause_s * 2), LAST_RETRY_S)
        what.at = now + what.pause_s
        is_new = not self._state.error
        self._state.error = str(error)[:MAX_ERROR_TEXT]
        if is_new:  # said once per failure, not per try
            self._failing_since = now
            held = f"at most {self._settings.max_held_bytes >> 20} MiB of records wait in memory"
            self._say(f"{self._events} cannot be written ({error}); {held} and it is tried again")

    def _succeeded(self, what: _Retry, now: float) -> None:
        what.at, what.pause_s = NEVER, 0.0
        if self._state.error and self._appending.at == NEVER and self._sealing.at == NEVER:
            self._state.error = ""
            lost = f"{self._dropped} records were dropped" if self._dropped else "nothing was lost"
            self._say_well(f"{self._events} can be written again after {now - self._failing_since:.1f} s, {lost}")
            self._dropped = 0


def _died(seq: int, at_s: float) -> LifecycleEvent:
    """BrokerDied, which a broker that ended without saying so leaves to its writer: without it one that was
    killed and gets another id at its next start would look as if it still ran. Only its own writer tells it, at the end
    of its input: to another one a broker whose writer was killed looks the same. `seq`: one more than the highest
    number that came; `at_s`: when the input ended, seconds since the epoch."""
    detail = "the broker ended without BrokerStopped; records that the writer had not received are missing"
    return LifecycleEvent(BROKER_DIED, seq, int(at_s * 1000), detail=detail)

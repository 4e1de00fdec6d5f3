"""Frames in, segments out: what the writer process does, as a machine without a clock.

    frame ──> checked ──> waiting ──append──> log (open) ──roll──> logs (closed) ──seal──> segments, one of each source
                          memory, bounded     <events>/_tmp                               then the log is removed

A frame is safe when it is in the log. A log is closed when it is `roll_s` old, `roll_bytes` large or the wall clock's
hour changes; it becomes at most one segment per source, of its number. It is removed only after the next log is
there, whose head says what came before: so a writer that was killed at any point leaves on disk what it had taken and
nothing twice, and the next writer, which begins with the logs that it finds, knows which frames it need not take again.

What cannot be written waits and is tried again at growing pauses. Frames wait in memory, up to `max_held_bytes`; beyond
that the newest are dropped, and when there is room an EventsDropped event tells how many records are missing.
"""

import contextlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from broker.events import EVENTS_DROPPED, LifecycleEvent
from spark_sink.batches import FrameRows, parquet_bytes, segment_metadata, tables_of
from spark_sink.errors import BadFrame
from spark_sink.events import COLUMNS
from spark_sink.frames import Header, decode_rows
from spark_sink.segments import Disk, is_published, is_segment, next_number, recover, seal, segment_name
from spark_sink.writing.retention import Keep, Retention
from spark_sink.writing.state import MAX_ERROR_TEXT, Settings, WriterState
from spark_sink.writing.wal import (
    WAL_FOLDER,
    WAL_SUFFIX,
    Ledger,
    Wal,
    WalContent,
    WalHead,
    encode_wal_frame,
    ledger_of,
    wal_name,
    wal_number,
    wal_stream,
)

FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 10.0  # the pause between tries doubles up to this
MAX_DEFINITIONS: Final = 200_000  # of flows; three times what a broker has in use, the longest unused are forgotten
LOOK_S: Final = 30.0  # between looks at what need not be kept
MAX_NAMED: Final = 5  # files that are named in one sentence
SECONDS_PER_HOUR: Final = 3600
NEVER: Final = float("inf")
KEEP_ALL: Final = Keep()


class _Waiting:
    """A frame that is not in the log yet."""

    __slots__ = ("frame", "hour", "number", "records", "rows")

    def __init__(self, number: int, frame: bytes, records: int, rows: FrameRows, hour: int) -> None:
        self.number: Final = number
        self.frame: Final = frame
        self.records: Final = records  # of the broker; 0: it tells a gap
        self.rows: Final = rows
        self.hour: Final = hour  # wall clock hours since the epoch when it came


class _Closed:
    """A log that is to become segments."""

    __slots__ = ("before", "frames", "handle", "header", "is_found", "is_own", "ledger", "number", "path", "wal_bytes")

    def __init__(self, path: Path, handle: int, number: int, header: Header, ledger: Ledger, wal_bytes: int) -> None:
        self.path: Final = path
        self.handle: Final = handle  # its lock
        self.number: Final = number
        self.header: Final = header
        self.ledger: Final = ledger  # of this log alone
        self.wal_bytes: Final = wal_bytes
        self.before: dict[str, int] = {}  # rows of each source in all logs before it
        self.frames: list[FrameRows] | None = None  # None: to be read from it
        self.is_found = False  # left behind by another process
        self.is_own = True  # of this epoch of this broker


class _Gap:
    """Records that were dropped and not told yet."""

    __slots__ = ("first_seq", "last_number", "last_seq", "records", "requests")

    def __init__(self, first_seq: int) -> None:
        self.records = 0
        self.requests = 0
        self.first_seq: Final = first_seq
        self.last_seq = first_seq
        self.last_number = 0

    def add(self, dropped: _Waiting) -> None:
        self.records += dropped.records
        self.requests += dropped.rows.requests
        self.last_seq = max(self.last_seq, dropped.rows.last_seq)
        self.last_number = dropped.number

    def told(self, wall_s: float) -> _Waiting:
        """One EventsDropped event in a frame; it takes the place, and the number, of the last record that it tells."""
        event = LifecycleEvent(
            EVENTS_DROPPED,
            self.last_seq,
            int(wall_s * 1000),
            tags=[("records", str(self.records)), ("first_seq", str(self.first_seq)), ("last_seq", str(self.last_seq))],
            reason="folder-unwritable",
            detail=f"{self.records} records did not fit into memory while the events folder could not be written",
            requests=self.requests,
        )
        frame = msgspec.msgpack.encode([event.row()])
        rows = FrameRows(decode_rows(frame), {})
        return _Waiting(self.last_number, frame, 0, rows, int(wall_s // SECONDS_PER_HOUR))


class _Retry:
    """Pauses between tries of one thing that fails."""

    __slots__ = ("at", "pause_s")

    def __init__(self) -> None:
        self.at = NEVER  # monotonic; inf: it does not fail
        self.pause_s = 0.0

    def failed(self, now: float) -> None:
        self.pause_s = min(max(FIRST_RETRY_S, self.pause_s * 2), LAST_RETRY_S)
        self.at = now + self.pause_s

    def succeeded(self) -> None:
        self.at, self.pause_s = NEVER, 0.0


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
        keep: Keep = KEEP_ALL,
    ) -> None:
        """`say` takes sentences for people. Call `begin` before the first frame."""
        self._events: Final = events
        self._header: Final = header
        self._disk: Final = disk
        self._say: Final = say
        self._settings: Final = settings
        self._came = header.first_frame - 1  # number of the last frame that came
        self._known: Final[dict[int, Any]] = {}  # definitions by flow number, the longest unused first
        self._waiting: Final[deque[_Waiting]] = deque()
        self._gap: _Gap | None = None  # since the bound was reached, until it is told
        self._wal: Wal | None = None  # None: there is no open log
        self._frames: list[FrameRows] = []  # in the open log
        self._ledger = Ledger()  # of the open log alone
        self._hour = 0  # of the first frame in the open log
        self._roll_at = NEVER  # when the first frame in the open log is roll_s old
        self._sync_at = NEVER  # monotonic; inf: the log has nothing that is not on the disk
        self._closed: Final[deque[_Closed]] = deque()
        self._total = Ledger()  # of the epoch, up to the end of the open log
        self._retention: Final = Retention(events, keep, disk, say)
        self._look_at = 0.0 if keep.is_bounded else NEVER  # monotonic
        self._appending: Final = _Retry()
        self._sealing: Final = _Retry()
        self._dropped = 0  # told since the failure began
        self._failing_since = 0.0  # monotonic, meaningful while state.error says something
        self.state: Final = WriterState(next_number=self._first_number())

    # In

    def begin(self, now: float, wall_s: float) -> None:
        """Find what writers that were killed left behind, and make segments of it."""
        for source in COLUMNS:
            recover(self._events / source, f"{self._header.broker_id}-", wall_s, self._disk)
        self._find_logs()
        self._total.frames = max(self._total.frames, self._came)
        self._seal_closed(now)
        self._tell_foreign_files()
        self._refresh()

    def take(self, frame: bytes, now: float, wall_s: float) -> None:
        """A frame of rows. BadFrame: it is none; nothing of it is kept. One that an earlier writer took is passed over,
        one of definitions alone has no number."""
        rows = FrameRows(decode_rows(frame), self._known)
        if rows.records == 0:
            return
        self._came += 1
        if self._came <= self._total.frames:
            return
        self._wait(_Waiting(self._came, frame, rows.records, rows, int(wall_s // SECONDS_PER_HOUR)))
        if self._appending.at == NEVER:
            self._append_all(now, wall_s)
        self._refresh()

    def tick(self, now: float, wall_s: float) -> None:
        """Time passed: do what is due."""
        if now >= self._appending.at:
            self._append_all(now, wall_s)
        if now >= self._roll_at and self._sealing.at == NEVER:
            self._roll()
            self._seal_closed(now)
        elif now >= self._sealing.at:
            self._seal_closed(now)
        if now >= self._look_at:
            self._retention.look(wall_s, self.state)
            self._look_at = now + LOOK_S
        if now >= self._sync_at and self._wal is not None:
            self._sync(self._wal, now)
        self._refresh()

    def next_deadline(self) -> float:
        """When to tick at the latest, monotonic; inf: nothing waits."""
        roll_at = self._roll_at if self._sealing.at == NEVER else NEVER
        return min(roll_at, self._appending.at, self._sealing.at, self._sync_at, self._look_at)

    def seal_all(self, now: float, wall_s: float) -> bool:
        """Make segments of all that came, and tell a gap. False: it cannot be done now."""
        is_done = self._append_all(now, wall_s)
        self._roll()
        is_done = self._seal_closed(now) and is_done
        self._refresh()
        return is_done

    def end(self) -> None:
        """After `seal_all` said True: remove the log, which has nothing in it."""
        if self._wal is not None:
            try:
                self._disk.remove(self._wal.path)
            finally:
                self._disk.close(self._wal.handle)
                self._wal = None

    # Waiting -> log

    def _wait(self, frame: _Waiting) -> None:
        # While a gap is open everything is dropped, so that one event tells one gap.
        if self._gap is None and self.state.held_bytes + len(frame.frame) <= self._settings.max_held_bytes:
            self._waiting.append(frame)
            self.state.held_bytes += len(frame.frame)
            return
        if self._gap is None:
            self._gap = _Gap(frame.rows.first_seq)
        self._gap.add(frame)

    def _append_all(self, now: float, wall_s: float) -> bool:
        """Write what waits into the log, then tell a gap. False: the log cannot be written."""
        try:
            while self._waiting:
                self._append(self._waiting[0], now)
                self.state.held_bytes -= len(self._waiting.popleft().frame)
            if self._gap is not None:
                self._append(self._gap.told(wall_s), now)
                self._dropped += self._gap.records
                self._gap = None
        except OSError as error:
            self._appending.failed(now)
            self._failed(error, now)
            return False
        self._appending.succeeded()
        self._healed(now)
        return True

    def _append(self, frame: _Waiting, now: float) -> None:
        if self._frames and (frame.hour != self._hour or self._ledger_bytes() >= self._settings.roll_bytes):
            self._roll()
            if self._sealing.at == NEVER:
                self._seal_closed(now)
        self._leave_room(len(frame.frame))
        wal = self._open_wal()
        defined = {row.flow for row in frame.rows.definitions}
        needed = [
            self._known[number]
            for number in frame.rows.flow_numbers
            if number not in wal.defined and number not in defined
        ]
        data = encode_wal_frame(frame.number, frame.records, frame.frame)
        if needed:
            data = encode_wal_frame(0, 0, msgspec.msgpack.encode(needed)) + data
        wal.append(data)
        wal.defined.update(defined, (row.flow for row in needed))
        if not self._frames:
            self._hour = frame.hour
            self._roll_at = now + self._settings.roll_s
        if self._settings.sync_s and self._sync_at == NEVER:
            self._sync_at = now + self._settings.sync_s
        self._frames.append(frame.rows)
        added = ledger_of(frame.number, frame.records, frame.rows)
        self._ledger.add(added)
        self._total.add(added)

    def _leave_room(self, size: int) -> None:
        least = self._settings.min_free_bytes
        if least and (free := self._disk.free_bytes(_existing(self._events))) < least + size:
            raise OSError(f"{free >> 20} MiB are free, {least >> 20} MiB are left to others")

    def _open_wal(self) -> Wal:
        while self._wal is None:
            number = self.state.next_number
            name = wal_name(self._header.broker_id, self._header.epoch, number)
            head = WalHead(self._header, self._total)
            with contextlib.suppress(FileExistsError, BlockingIOError):  # then the number is somebody's
                self._wal = Wal(self._events / WAL_FOLDER / name, head, self._disk)
            self.state.next_number += 1
        return self._wal

    def _sync(self, wal: Wal, now: float) -> None:
        try:
            wal.sync()
        except OSError as error:
            self._say(f"{wal.path} cannot be synced to the disk ({error})")
        self._sync_at = NEVER

    def _ledger_bytes(self) -> int:
        return self._wal.bytes if self._wal is not None else 0

    def _roll(self) -> None:
        """Close the log, if anything is in it."""
        if self._wal is None or not self._frames:
            return
        wal, self._wal = self._wal, None
        number = wal_number(wal.path)
        assert number is not None  # the path is of wal_name
        closed = _Closed(wal.path, wal.handle, number, self._header, self._ledger, wal.bytes)
        closed.frames, self._frames = self._frames, []
        closed.before = wal.before
        if self._closed:
            closed.frames = None  # others wait before it: it is read again when its turn comes
        self._closed.append(closed)
        self._ledger = Ledger()
        self._roll_at = self._sync_at = NEVER
        self._forget_unused()

    # Log -> segments

    def _seal_closed(self, now: float) -> bool:
        """Make segments of the closed logs. False: one cannot be written now."""
        while self._closed:
            closed = self._closed[0]
            try:
                made = self._seal(closed)
                self._open_wal()  # its head says what came before, which nothing else does once the log is gone
                self._disk.remove(closed.path)
            except OSError as error:
                closed.frames = None  # what waits for a disk waits on it
                self._sealing.failed(now)
                self._failed(error, now)
                return False
            self._disk.close(closed.handle)
            self._closed.popleft()
            self.state.segments += made
            if closed.is_own:
                self.state.sealed_seq = max(self.state.sealed_seq, closed.ledger.seq)
        self._sealing.succeeded()
        self._healed(now)
        with contextlib.suppress(OSError):
            self.state.free_bytes = self._disk.free_bytes(_existing(self._events))
        return True

    def _seal(self, closed: _Closed) -> int:
        """Number of segments. Those that are there already, of a writer that was killed just then, are left alone."""
        known, frames = self._known, closed.frames
        if frames is None:
            content = WalContent(closed.path.read_bytes())
            known, frames = content.known, content.frames
        name = segment_name(closed.header.broker_id, closed.header.epoch, closed.number)
        tables = tables_of(closed.header, frames, known)
        for source, table in tables.items():
            if closed.is_found and is_published(self._events, source, name):
                continue
            metadata = segment_metadata(closed.header, source, closed.before.get(source, 0))
            seal(self._events / source, name, parquet_bytes(table, metadata), self._disk)
        return len(tables)

    # What others left

    def _find_logs(self) -> None:
        own = f"{self._header.broker_id}-{self._header.epoch}"
        for path in sorted((self._events / WAL_FOLDER).glob(f"*{WAL_SUFFIX}")):
            number = wal_number(path)
            handle = self._disk.lock(path) if number is not None else None
            if number is None or handle is None:
                continue  # of a living writer, or no log of ours
            try:
                data = path.read_bytes()
                content = WalContent(data)
            except (OSError, BadFrame) as error:
                self._say(f"{path} is left behind and nothing can be made of it: {error}")
                self._discard(path, handle)
                continue
            is_own = wal_stream(path) == own
            self._found(path, handle, number, content, len(data), is_own=is_own)
            if is_own:
                before = content.head.before
                self._total = Ledger()
                self._total.add(before)
                self._total.add(content.ledger)
                self.state.next_number = max(self.state.next_number, number + 1)

    def _found(self, path: Path, handle: int, number: int, content: WalContent, size: int, *, is_own: bool) -> None:
        closed = _Closed(path, handle, number, content.head.header, content.ledger, size)
        closed.is_found, closed.is_own = True, is_own
        closed.before = content.head.before.rows
        self._closed.append(closed)
        self.state.recovered += content.ledger.records
        self.state.torn_bytes += content.torn_bytes
        if content.torn_bytes:
            self._say(f"{path} ends with {content.torn_bytes} bytes that are no whole frame, all before them is kept")

    def _discard(self, path: Path, handle: int) -> None:
        """A log without a whole head was being made when its writer was killed. Any other stays for people to look."""
        try:
            if path.stat().st_size < 1 << 12:
                self._disk.remove(path)
        except OSError as error:
            self._say(f"{path} cannot be removed: {error}")
        self._disk.close(handle)

    def _tell_foreign_files(self) -> None:
        names = [str(path.relative_to(self._events)) for path in foreign_files(self._events)]
        if names:
            more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
            self._say(f"{self._events} holds files that are none of ours: {', '.join(names[:MAX_NAMED])}{more}")

    def _first_number(self) -> int:
        """Never a number that an earlier writer of this epoch used, even when its files went to an archive."""
        in_folder = (next_number(self._events / one, self._header.broker_id, self._header.epoch) for one in COLUMNS)
        return max(self._header.first_number, *in_folder)

    # Counts and sentences

    def _forget_unused(self) -> None:
        if len(self._known) <= MAX_DEFINITIONS:
            return
        used = {number for waiting in self._waiting for number in waiting.rows.flow_numbers}
        for closed in self._closed:
            used.update(number for frame in closed.frames or () for number in frame.flow_numbers)
        for number in used:
            self._known[number] = self._known.pop(number)
        for number in list(self._known)[: len(self._known) - max(MAX_DEFINITIONS, len(used))]:
            del self._known[number]

    def _refresh(self) -> None:
        unsealed = Ledger()
        unsealed.add(self._ledger)
        for closed in self._closed:
            if closed.is_own:
                unsealed.add(closed.ledger)
        state, total, gap = self.state, self._total, self._gap
        state.frames = total.frames
        state.sealed = total.records - unsealed.records
        state.sealed_requests = total.requests - unsealed.requests
        state.dropped = total.dropped + (gap.records if gap is not None else 0)
        state.dropped_requests = total.dropped_requests + (gap.requests if gap is not None else 0)
        state.wal_bytes = self._ledger_bytes() + sum(closed.wal_bytes for closed in self._closed)

    def _failed(self, error: OSError, now: float) -> None:
        if not self.state.error:  # said once per failure, not per try
            self._failing_since = now
            held = f"at most {self._settings.max_held_bytes >> 20} MiB of records wait in memory"
            self._say(f"{self._events} cannot be written ({error}); {held} and it is tried again")
        self.state.error = str(error)[:MAX_ERROR_TEXT]

    def _healed(self, now: float) -> None:
        if self.state.error and self._appending.at == NEVER and self._sealing.at == NEVER:
            self.state.error = ""
            lost = f"{self._dropped} records were dropped" if self._dropped else "nothing was lost"
            self._say(f"{self._events} can be written again after {now - self._failing_since:.1f} s, {lost}")
            self._dropped = 0


def foreign_files(events: Path) -> list[Path]:
    """What lies in the folders and is neither a segment, nor a log, nor hidden; sorted."""
    found = []
    for source in COLUMNS:
        found += [path for path in (events / source).glob("[!.]*") if not is_segment(path.name)]
    found += [path for path in (events / WAL_FOLDER).glob("[!.]*") if wal_number(path) is None]
    return sorted(found)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder

"""The broker's end of the pipe to the writer of event files, a process of its own (`python -m spark_sink.writer`).

    append(events) ── every 20 ms one encode ──> backlog ── non-blocking write ──> pipe (1 MiB) ──> writer ──> files
                                                    ^                                              │
                                                    └── what is sealed: lines of JSON <────────────┘

Nothing here waits for the writer or raises into the loop. What the pipe does not take waits in the backlog; beyond
`MAX_BACKLOG_BYTES` the newest records are dropped, and as soon as there is room an EventsDropped event tells the gap. A
writer that dies is started again, after a pause that doubles; what it had taken and not sealed is told as a gap too.

`Backlog` decides all that and knows neither clock nor file descriptor; `EventPipe` is its hands.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from broker.events import EVENTS_DROPPED, FlowRecord, LifecycleEvent

Event = LifecycleEvent | FlowRecord

FLUSH_S: Final = 0.02  # what a kill -9 of the broker can lose
PIPE_BYTES: Final = 1 << 20  # asked of the kernel, which may give less
MAX_BACKLOG_BYTES: Final = 64 << 20
MAX_FRAME_RECORDS: Final = 10_000  # so many are encoded at once, without waiting: some 2 MiB, 10 ms
MAX_FRAME_BYTES: Final = 8 << 20  # a larger frame is split; the writer takes 64 MiB
FIRST_RESTART_S: Final = 0.5
LAST_RESTART_S: Final = 30.0
REAP_S: Final = 0.01  # a process that closed its pipes is gone a moment later
MAX_REAPS: Final = 200
NUMBERS_SKIPPED: Final = 1000  # by a new writer: more segments than the old one can have sealed without saying so
STATE_READ_BYTES: Final = 1 << 16

# What msgspec raises for a text that is no Unicode, a number beyond 64 bits, a value of a foreign type.
ENCODE_ERRORS: Final = (msgspec.MsgspecError, ValueError, OverflowError, TypeError)

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class PipeState:
    """How the pipe is, for the admin view; counts are of records since the broker started, and only grow."""

    pid: int  # of the writer; 0: none runs
    backlog_bytes: int  # waiting for the pipe
    held_bytes: int  # waiting in the writer
    written: int  # handed to the pipe
    sealed: int  # in files
    dropped: int  # lost: no room here or there, or taken by a writer that died
    segments: int  # files
    restarts: int  # of the writer
    error: str  # why files cannot be written, or the writer not started; empty: all is well


class _WriterState(msgspec.Struct):
    """A line of the writer's standard output; counts of one process, they only grow."""

    sealed: int = 0
    sealed_requests: int = 0
    sealed_seq: int = 0
    dropped: int = 0
    dropped_requests: int = 0
    segments: int = 0
    next_number: int = 0
    held_bytes: int = 0
    error: str = ""


class _Frame:
    """Encoded records and what is in them."""

    __slots__ = ("data", "last_seq", "records", "requests")

    def __init__(self, data: bytes, records: int, requests: int, last_seq: int) -> None:
        self.data: Final = data
        self.records: Final = records
        self.requests: Final = requests
        self.last_seq: Final = last_seq


class _Gap:
    """Records that are lost and not told yet."""

    __slots__ = ("detail", "first_seq", "last_seq", "reason", "records", "requests")

    def __init__(self, reason: str, detail: str, first_seq: int) -> None:
        self.reason: Final = reason
        self.detail: Final = detail
        self.records = 0
        self.requests = 0
        self.first_seq: Final = first_seq
        self.last_seq = first_seq

    def add(self, records: int, requests: int, last_seq: int) -> None:
        self.records += records
        self.requests += requests
        self.last_seq = max(self.last_seq, last_seq)

    def told(self, at_ms: int) -> LifecycleEvent:
        """It takes the place, and the number, of the last record that it tells."""
        return LifecycleEvent(
            EVENTS_DROPPED,
            self.last_seq,
            at_ms,
            tags=[("records", str(self.records)), ("first_seq", str(self.first_seq)), ("last_seq", str(self.last_seq))],
            reason=self.reason,
            detail=f"{self.records} records are missing: {self.detail}",
            requests=self.requests,
        )


class Backlog:
    """Events in, bytes out; bounded. `write(data) -> int` takes some of the bytes or raises BlockingIOError."""

    def __init__(self, max_bytes: int = MAX_BACKLOG_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._pending: list[Event] = []  # until the next encode
        self._frames: Final[deque[_Frame]] = deque()
        self._sent_bytes = 0  # of the first frame
        self._full: _Gap | None = None  # open: everything is dropped until half of the room is free
        self._gaps: Final[list[_Gap]] = []  # closed, to be told with the next encode
        self.bytes = 0  # of the frames
        self.written = 0  # records handed over whole
        self.written_requests = 0
        self.written_seq = 0  # highest sequence number handed over
        self.dropped = 0

    @property
    def is_empty(self) -> bool:
        """Nothing waits, to be encoded or to be written."""
        return not (self._pending or self._frames or self._gaps or self._full)

    def append(self, events: Iterable[Event]) -> bool:
        """Take them. True: so many wait that they should be encoded at once."""
        self._pending.extend(events)
        return len(self._pending) >= MAX_FRAME_RECORDS

    def encode(self, at_ms: int, *, last: bool = False) -> None:
        """Make frames of what was appended, or drop it when there is no room; tell gaps when there is. `last`: tell an
        open gap in any case, for nothing comes after it. `at_ms` is wall time."""
        if self._full is not None and self.bytes <= self._max_bytes // 2:
            self._close_gap(self._full)
        events, self._pending = self._pending, []
        for start in range(0, len(events), MAX_FRAME_RECORDS):
            self._encode_some(events[start : start + MAX_FRAME_RECORDS])
        if self._full is not None and last:
            self._close_gap(self._full)
        if self._gaps:
            told = [gap.told(at_ms) for gap in self._gaps]
            self._gaps.clear()
            self._add(_framed([event.row() for event in told]), told)

    def push(self, write: Callable[[bytes | memoryview], int]) -> bool:
        """Write frames until none is left (True) or the pipe is full (False). OSError of `write` passes through."""
        while self._frames:
            frame = self._frames[0]
            try:
                self._sent_bytes += write(memoryview(frame.data)[self._sent_bytes :])
            except BlockingIOError:
                return False
            if self._sent_bytes == len(frame.data):
                self._frames.popleft()
                self._sent_bytes = 0
                self.bytes -= len(frame.data)
                self.written += frame.records
                self.written_requests += frame.requests
                self.written_seq = max(self.written_seq, frame.last_seq)
        return True

    def rewind(self) -> None:
        """The reader is another one: it gets the frame of which the old one had a part from its beginning."""
        self._sent_bytes = 0

    def lost(self, records: int, requests: int, first_seq: int, detail: str) -> None:
        """Records that were handed over are lost, up to the last one: tell it with the next encode."""
        gap = _Gap("writer-died", detail, first_seq)
        gap.add(records, requests, self.written_seq)
        self._gaps.append(gap)
        self.dropped += records

    def _close_gap(self, gap: _Gap) -> None:
        self._gaps.append(gap)
        self._full = None

    def _encode_some(self, events: Sequence[Event]) -> None:
        try:
            data = _framed([event.row() for event in events])
        except ENCODE_ERRORS:
            events = self._without_strangers(events)
            data = _framed([event.row() for event in events])
        if not events:
            return
        if len(data) > MAX_FRAME_BYTES and len(events) > 1:
            half = len(events) // 2
            self._encode_some(events[:half])
            self._encode_some(events[half:])
            return
        if self._full is None and self.bytes + len(data) > self._max_bytes:
            first_seq = min(event.seq for event in events)
            detail = f"the pipe to the writer is stuck and {self._max_bytes >> 20} MiB wait for it"
            self._full = _Gap("backlog-full", detail, first_seq)
        if self._full is not None:
            self._full.add(len(events), _requests(events), max(event.seq for event in events))
            self.dropped += len(events)
            return
        self._add(data, events)

    def _add(self, data: bytes, events: Sequence[Event]) -> None:
        self._frames.append(_Frame(data, len(events), _requests(events), max(event.seq for event in events)))
        self.bytes += len(data)

    def _without_strangers(self, events: Sequence[Event]) -> Sequence[Event]:
        """Those that can be encoded: one that cannot must not cost the others."""
        kept = []
        for event in events:
            try:
                _framed([event.row()])
            except ENCODE_ERRORS as error:
                gap = _Gap("unencodable", f"a record cannot be encoded ({type(error).__name__})", event.seq)
                gap.add(1, _requests([event]), event.seq)
                self._gaps.append(gap)
                self.dropped += 1
            else:
                kept.append(event)
        return kept


class EventPipe:
    """Keeps a writer running and hands it what happens. All of it on one event loop; nothing raises into it."""

    def __init__(self, command: Sequence[str] = (), backlog: Backlog | None = None) -> None:
        """`command` starts another writer than ours, for tests; `--events DIR --roll-s S` is added to it."""
        self._command: Final = list(command) or [sys.executable, "-m", "spark_sink.writer"]
        self._backlog: Final = backlog if backlog is not None else Backlog()
        self._arguments: list[str] = []
        self._header: dict[str, object] = {}
        self._process: subprocess.Popen[bytes] | None = None  # the writer, until it is reaped
        self._pipe = -1  # our end of its standard input; -1: closed
        self._states = -1  # our end of its standard output
        self._line = b""  # of a state that has not come whole
        self._writer = _WriterState()  # of the running writer
        self._earlier = _WriterState()  # sums over the writers before it
        self._started_at = (0, 0)  # records and requests that were written before this writer
        self._sealed_seq = 0
        self._is_waiting = False  # for room in the pipe
        self._relief: Final = asyncio.Event()  # the backlog is in the pipe, or there is no pipe any more
        self._relief.set()
        self._flush: asyncio.TimerHandle | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._pause_s = FIRST_RESTART_S
        self._restarts = 0
        self._start_error = ""
        self._is_stopping = False
        self._is_left = False  # the wait of `stop` was ended
        self._stop_timeout: asyncio.Timeout | None = None  # None until `stop`
        self._ended = asyncio.Event()  # no writer runs
        self._ended.set()

    async def start(self, events_dir: Path | str, header: dict[str, object], roll_s: float) -> None:
        """Start the writer. `header`: broker_id, broker_name, epoch, version. A writer that cannot be started is
        tried again, and until then events wait in the backlog."""
        self._arguments = ["--events", str(events_dir), "--roll-s", str(roll_s)]
        self._header = header
        self._spawn()

    def append(self, events: Sequence[Event]) -> None:
        """Take events; they are in the pipe 20 ms later. Before `start` and while no writer runs they wait."""
        if self._is_stopping:
            self._backlog.dropped += len(events)
            return
        if not events:
            return
        if self._backlog.append(events):
            self._encode_and_push()
        elif self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_S, self._encode_and_push)

    async def stop(self, timeout_s: float) -> bool:
        """Hand over what waits, close the pipe, wait until the writer has sealed everything and ended.

        False: `timeout_s` was not enough or the writer failed; a line of the log says what is missing. A writer that
        still runs then goes on sealing by itself. Events that are appended from now on are dropped. `leave` ends the
        wait."""
        self._is_stopping = True
        _cancel(self._flush)
        _cancel(self._restart)
        try:
            async with asyncio.timeout(timeout_s) as self._stop_timeout:
                if self._pipe < 0:  # none runs, or one that is dying
                    await self._ended.wait()
                self._backlog.encode(_wall_ms(), last=True)
                if self._process is None and self._arguments and not self._backlog.is_empty:
                    self._spawn()
                process = self._process
                self._push()
                await self._relief.wait()
                self._close_pipe()
                await self._ended.wait()
        except TimeoutError:
            self._close_pipe()
            if self._is_left:
                return False
            _log.warning("event pipe: the writer has not ended after %.1f s: %s", timeout_s, self.state())
            return False
        state = self.state()
        is_whole = self._backlog.is_empty and (process is None or process.returncode == 0)
        if not is_whole:
            _log.warning("event pipe: events are missing in the files: %s", state)
        return is_whole

    def leave(self) -> None:
        """Whoever waits in `stop` wants to wait no longer. What is in the pipe the writer seals by itself."""
        self._is_left = True
        _log.warning("event pipe: not waited for, the writer goes on sealing what it has by itself: %s", self.state())
        if self._stop_timeout is not None and not self._stop_timeout.expired():
            self._stop_timeout.reschedule(asyncio.get_running_loop().time())

    def state(self) -> PipeState:
        """Plain values for the admin view."""
        return PipeState(
            pid=self._process.pid if self._process is not None else 0,
            backlog_bytes=self._backlog.bytes,
            held_bytes=self._writer.held_bytes if self._process is not None else 0,
            written=self._backlog.written,
            sealed=self._earlier.sealed + self._writer.sealed,
            dropped=self._backlog.dropped + self._earlier.dropped + self._writer.dropped,
            segments=self._earlier.segments + self._writer.segments,
            restarts=self._restarts,
            error=self._start_error or self._writer.error,
        )

    def _encode_and_push(self) -> None:
        _cancel(self._flush)
        self._flush = None
        self._backlog.encode(_wall_ms())
        self._push()

    def _push(self) -> None:
        """Write what the pipe takes, and come back when it takes more."""
        if self._pipe < 0 or self._is_waiting:
            return
        try:
            is_done = self._backlog.push(self._write)
        except OSError:  # EPIPE: the writer is gone; the end of its states will tell
            self._close_pipe()
            return
        if is_done:
            self._relief.set()
        else:
            self._relief.clear()
            asyncio.get_running_loop().add_writer(self._pipe, self._relieved)
            self._is_waiting = True

    def _relieved(self) -> None:
        """The pipe takes bytes again."""
        asyncio.get_running_loop().remove_writer(self._pipe)
        self._is_waiting = False
        self._push()
        self._backlog.encode(_wall_ms())  # there may be room to tell a gap
        self._push()

    def _write(self, data: bytes | memoryview) -> int:
        return os.write(self._pipe, data)

    def _spawn(self) -> None:
        """A writer and its two pipes. Popen holds the loop for the milliseconds of a fork, once."""
        self._restart = None
        self._backlog.rewind()
        self._backlog.encode(_wall_ms())  # what was lost with the last writer
        self._started_at = (self._backlog.written, self._backlog.written_requests)
        next_number = self._earlier.next_number
        header = self._header | {"first_number": next_number + NUMBERS_SKIPPED if next_number else 1, "format": 2}
        try:
            header_frame = _framed(header)
            with contextlib.ExitStack() as ends_of_writer:
                read_end, self._pipe = os.pipe()
                ends_of_writer.callback(os.close, read_end)
                self._states, write_end = os.pipe()
                ends_of_writer.callback(os.close, write_end)
                with contextlib.suppress(AttributeError, OSError):  # only Linux has it, and only up to a limit
                    fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
                os.set_blocking(self._pipe, False)
                os.set_blocking(self._states, False)
                # A session of its own: Ctrl-C in the broker's terminal is not for the writer.
                self._process = subprocess.Popen(
                    self._command + self._arguments, stdin=read_end, stdout=write_end, start_new_session=True
                )
            self._ended.clear()
            self._write(header_frame)  # the pipe is empty: it takes it whole
        except (OSError, *ENCODE_ERRORS) as error:
            self._not_started(error)
            return
        self._start_error = ""
        asyncio.get_running_loop().add_reader(self._states, self._read_states)
        self._push()

    def _not_started(self, error: Exception) -> None:
        self._close_pipe()
        if self._states >= 0:
            os.close(self._states)
            self._states = -1
        if not self._start_error:
            _log.error("event pipe: the writer cannot be started: %s", error)
        self._start_error = str(error)
        if self._process is None:
            self._schedule_restart()
        else:  # it runs and has seen the end of its input
            self._reap(MAX_REAPS)

    def _read_states(self) -> None:
        """Lines of the writer; the end of them is the end of it."""
        try:
            data = os.read(self._states, STATE_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._states)
            os.close(self._states)
            self._states = -1
            self._close_pipe()
            self._reap(MAX_REAPS)
            return
        *lines, self._line = (self._line + data).split(b"\n")
        self._line = self._line[-STATE_READ_BYTES:]
        if not lines:
            return
        try:
            self._writer = msgspec.json.decode(lines[-1], type=_WriterState)
        except msgspec.MsgspecError as error:
            _log.warning("event pipe: the writer said what is no state: %s", error)
            return
        self._sealed_seq = max(self._sealed_seq, self._writer.sealed_seq)
        if self._writer.sealed:
            self._pause_s = FIRST_RESTART_S

    def _reap(self, tries: int) -> None:
        """The writer has closed its pipes: take its exit status, then go on without it or start another one."""
        process = self._process
        assert process is not None  # only _read_states and _not_started begin this, once per process
        if process.poll() is None and tries > 0:
            asyncio.get_running_loop().call_later(REAP_S, self._reap, tries - 1)
            return
        self._process = None
        self._ended.set()
        self._account(process.returncode)
        if not self._is_stopping:
            _log.error("event pipe: the writer (pid %d) ended with %s", process.pid, process.returncode)
            self._schedule_restart()

    def _account(self, status: int | None) -> None:
        """What the writer had taken and neither sealed nor counted as dropped is lost."""
        ended, self._writer, self._line = self._writer, _WriterState(), b""
        records = self._backlog.written - self._started_at[0] - ended.sealed - ended.dropped
        requests = self._backlog.written_requests - self._started_at[1] - ended.sealed_requests - ended.dropped_requests
        if records > 0:
            detail = f"the writer ended with status {status} before it had sealed them; some may be in the files"
            self._backlog.lost(records, requests, self._sealed_seq + 1, detail)
        self._earlier = _WriterState(
            sealed=self._earlier.sealed + ended.sealed,
            dropped=self._earlier.dropped + ended.dropped,
            segments=self._earlier.segments + ended.segments,
            next_number=max(self._earlier.next_number, ended.next_number),
        )

    def _schedule_restart(self) -> None:
        if self._is_stopping:
            return
        self._restarts += 1
        self._restart = asyncio.get_running_loop().call_later(self._pause_s, self._spawn)
        self._pause_s = min(self._pause_s * 2, LAST_RESTART_S)

    def _close_pipe(self) -> None:
        if self._pipe < 0:
            return
        if self._is_waiting:
            asyncio.get_running_loop().remove_writer(self._pipe)
            self._is_waiting = False
        os.close(self._pipe)
        self._pipe = -1
        self._relief.set()


def _framed(value: object) -> bytes:
    data = msgspec.msgpack.encode(value)
    return len(data).to_bytes(4, "big") + data


def _requests(events: Iterable[Event]) -> int:
    return sum(event.requests for event in events if isinstance(event, FlowRecord))


def _wall_ms() -> int:
    return int(time.time() * 1000)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()

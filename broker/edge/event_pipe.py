"""Our end of the pipe to the writer of event files, a process of its own (`python -m spark_sink.writer`).

    append(events) ── one encode a turn ──> backlog ── non-blocking write ──> pipe (1 MiB) ──> writer ──> files
                                               ^                                              │
                                               └── what is sealed: lines of JSON <────────────┘

What is appended in one turn of the loop is one frame, written at its end: who appends has gathered it (`edge.shell`),
and what waited here would be lost with a broker that is killed.

Nothing here waits for the writer or raises into the loop. What the pipe does not take waits in the backlog; beyond
`MAX_BACKLOG_BYTES` the newest records are dropped, and as soon as there is room an EventsDropped event tells the gap. A
writer that dies is started again, after a pause that doubles. Frames of records have numbers; what the pipe took is
kept here until the writer says that it is in its log, and given to the next writer if it never says so. That one knows
from the log which frames it need not take again, so that a killed writer costs nothing and doubles nothing.

Single requests come as rows of integers with the number of a flow. Its definition is sent before, is kept here until
the flow is forgotten, and is sent again to a new writer.

`EventBacklog` decides all that and knows neither clock nor file descriptor; `EventPipe` moves bytes and time.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import asdict

from broker import VERSION
from broker.config.folders import make_folder
from broker.config.sections.events import EventOptions
from broker.config.sections.process import LogOptions
from broker.edge.event_backlog import ENCODE_ERRORS, Event, EventBacklog, framed
from broker.events import PIPE_FORMAT, WriterState
from broker.forwarding.traffic.request_log import RequestRows

PIPE_BYTES: Final = 1 << 20  # asked of the kernel, which may give less
FIRST_RESTART_S: Final = 0.5
LAST_RESTART_S: Final = 30.0
REAP_S: Final = 0.01  # a process that closed its pipes is gone a moment later
MAX_REAPS: Final = 200
NUMBERS_SKIPPED: Final = 1000  # by a new writer: more segments than the old one can have sealed without saying so
STATE_READ_BYTES: Final = 1 << 16

_log: Final = logging.getLogger(__name__)


class PipeState(WriterState, kw_only=True):
    """How the pipe is, for the admin view: what its writers say, and this end of it; counts only grow.

    `dropped` here or there, or taken by a writer that died; `error` also why a writer was not started.
    """

    pid: int  # of the writer; 0: none runs
    backlog_bytes: int  # waiting for the pipe
    written: int  # records handed to the pipe
    restarts: int  # of the writer
    single_requests: int  # rows of single requests that came here
    defined_flows: int  # that the latest of them name


class EventPipe:
    """Keeps a writer running and hands it what happens. All of it on one event loop; nothing raises into it."""

    def __init__(self, command: Sequence[str] = (), backlog: EventBacklog | None = None) -> None:
        """`command` starts another writer than ours, for tests; `--events DIR --roll-s S` is added to it."""
        self._command: Final = list(command) or [sys.executable, "-m", "spark_sink.writer"]
        self._backlog: Final = backlog if backlog is not None else EventBacklog()
        self._arguments: list[str] = []
        self._header: dict[str, object] = {}
        self._process: subprocess.Popen[bytes] | None = None  # the writer, until it is reaped
        self._pipe = -1  # our end of its standard input; -1: closed
        self._states = -1  # our end of its standard output
        self._line = b""  # of a state that has not come whole
        self._writer = WriterState()  # of the running writer
        self._earlier = WriterState()  # sums over the writers before it
        self._is_waiting = False  # for room in the pipe
        self._relief: Final = asyncio.Event()  # the backlog is in the pipe, or there is no pipe any more
        self._relief.set()
        self._flush: asyncio.Handle | None = None  # None: nothing was appended in this turn of the loop
        self._restart: asyncio.TimerHandle | None = None
        self._pause_s = FIRST_RESTART_S
        self._restarts = 0
        self._start_error = ""
        self._is_stopping = False
        self._single_requests = 0
        self._is_left = False  # the wait of `stop` was ended
        self._stop_timeout: asyncio.Timeout | None = None  # None until `stop`
        self._ended = asyncio.Event()  # no writer runs
        self._ended.set()

    async def start_as(self, events: EventOptions, log: LogOptions, header: dict[str, object]) -> None:
        """Make the folder and start the writer with these options; `header` as of `start`, without the version.
        BrokerError "bad-config": there can be no such folder, which whoever starts the process should hear at once."""
        make_folder("events.dir", events.dir)
        await self.start(events.dir, header | {"version": VERSION}, events.roll_s, writer_arguments(events, log))

    async def start(
        self, events_dir: Path | str, header: dict[str, object], roll_s: float, arguments: Sequence[str] = ()
    ) -> None:
        """Start the writer. `header`: broker_id, broker_name, epoch, version; weight, where one of so many requests is
        written. `arguments`: more of the writer's command line. A writer that cannot be started is tried again, and
        until then events wait in the backlog."""
        self._arguments = ["--events", str(events_dir), "--roll-s", str(roll_s), *arguments]
        self._header = header
        self._spawn()

    def append(self, events: Sequence[Event]) -> None:
        """Take events; they are in the pipe at the end of this turn, if it takes them. Before `start` and while no
        writer runs they wait."""
        if self._is_stopping:
            self._backlog.dropped += len(events)
            return
        if events:
            self._appended(must_encode=self._backlog.append(events))

    def append_requests(self, requests: RequestRows) -> None:
        """Takes single requests likewise, with the definitions of the flows that they name."""
        self._single_requests += len(requests.rows)
        if self._is_stopping:
            self._backlog.dropped += len(requests.rows)
            return
        for definition in requests.definitions:
            self._backlog.define(definition)
        if requests.rows:
            self._appended(must_encode=self._backlog.append(requests.rows))
        for flow in requests.forgotten:
            self._backlog.forget(flow)

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
                process = await self._hand_over()
                if process is not None and process.returncode is not None and process.returncode < 0:
                    self._spawn()  # it was killed just now; another one finds its log and takes the rest
                    process = await self._hand_over()
        except TimeoutError:
            self._close_pipe()
            if self._is_left:
                return False
            _log.warning("event pipe: the writer has not ended after %.1f s: %s", timeout_s, self.state())
            return False
        state = self.state()
        is_whole = self._backlog.is_done and (process is None or process.returncode == 0)
        if not is_whole:
            _log.warning("event pipe: events are missing in the files: %s", state)
        return is_whole

    async def _hand_over(self) -> subprocess.Popen[bytes] | None:
        """Hands all that waits to the writer that runs, then its end."""
        process = self._process
        self._push()
        await self._relief.wait()
        self._close_pipe()
        await self._ended.wait()
        return process

    def leave(self) -> None:
        """Ends the wait of whoever is in `stop`. What is in the pipe the writer seals by itself."""
        self._is_left = True
        _log.warning("event pipe: the broker stops before the writer, which seals what is left: %s", self.state())
        if self._stop_timeout is not None and not self._stop_timeout.expired():
            self._stop_timeout.reschedule(asyncio.get_running_loop().time())

    def state(self) -> PipeState:
        """Plain values for the admin view."""
        sums = self._sums()
        sums.held_bytes = sums.held_bytes if self._process is not None else 0
        sums.dropped += self._backlog.dropped
        sums.error = self._start_error or sums.error
        return PipeState(
            **asdict(sums),
            pid=self._process.pid if self._process is not None else 0,
            backlog_bytes=self._backlog.bytes,
            written=self._backlog.written,
            restarts=self._restarts,
            single_requests=self._single_requests,
            defined_flows=self._backlog.defined,
        )

    def _appended(self, *, must_encode: bool) -> None:
        if must_encode:
            self._encode_and_push()
        elif self._flush is None:
            self._flush = asyncio.get_running_loop().call_soon(self._encode_and_push)

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
        """Goes on when the pipe takes bytes again."""
        asyncio.get_running_loop().remove_writer(self._pipe)
        self._is_waiting = False
        self._push()
        self._backlog.encode(_wall_ms())  # there may be room to tell a gap
        self._push()

    def _write(self, data: bytes | memoryview) -> int:
        return os.write(self._pipe, data)

    def _spawn(self) -> None:
        """Starts a writer and its two pipes. Popen holds the loop for the milliseconds of a fork, once."""
        self._restart = None
        self._backlog.rewind()
        self._backlog.encode(_wall_ms())  # what was lost with the last writer
        next_number = self._earlier.next_number
        header = self._header | {
            "first_number": next_number + NUMBERS_SKIPPED if next_number else 1,
            "first_frame": self._backlog.first_number,
            "format": PIPE_FORMAT,
        }
        try:
            header_frame = framed(header)
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
            self._writer = msgspec.json.decode(lines[-1], type=WriterState)
        except msgspec.MsgspecError as error:
            _log.warning("event pipe: the writer sent an invalid state: %s", error)
            return
        self._backlog.confirmed(self._writer.frames)
        if self._writer.sealed:
            self._pause_s = FIRST_RESTART_S

    def _reap(self, tries: int) -> None:
        """Takes the exit status of a writer that has closed its pipes, and goes on without it or starts another."""
        process = self._process
        assert process is not None  # only _read_states and _not_started begin this, once per process
        if process.poll() is None and tries > 0:
            asyncio.get_running_loop().call_later(REAP_S, self._reap, tries - 1)
            return
        self._process = None
        self._ended.set()
        self._earlier = self._sums()
        self._writer, self._line = WriterState(), b""
        if not self._is_stopping:
            _log.error("event pipe: the writer (pid %d) ended with %s", process.pid, process.returncode)
            self._schedule_restart()

    def _sums(self) -> WriterState:
        """Returns the state of the running writer, with the counts of all writers until now."""
        earlier, writer = self._earlier, self._writer
        return msgspec.structs.replace(
            writer,
            sealed=max(earlier.sealed, writer.sealed),
            dropped=max(earlier.dropped, writer.dropped),
            segments=earlier.segments + writer.segments,
            next_number=max(earlier.next_number, writer.next_number),
            recovered=earlier.recovered + writer.recovered,
            torn_bytes=earlier.torn_bytes + writer.torn_bytes,
            removed=earlier.removed + writer.removed,
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


def writer_arguments(events: EventOptions, log: LogOptions) -> list[str]:
    """The options of the writer's command line, beside those that every writer gets."""
    arguments = ["--min-free-bytes", str(events.min_free_bytes), "--sync-s", "1" if events.sync == "second" else "0"]
    arguments += ["--keep-s", str(events.keep_s), "--keep-bytes", str(events.keep_bytes)]
    arguments += ["--reader-timeout-s", str(events.reader_timeout_s)]
    arguments += ["--log-level", log.level, "--log-format", log.format]
    return arguments + (["--ignore-silent-readers"] if events.silent_readers == "ignore" else [])


def _wall_ms() -> int:
    return int(time.time() * 1000)


def _cancel(timer: asyncio.Handle | None) -> None:
    if timer is not None:
        timer.cancel()

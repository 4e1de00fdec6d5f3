"""The writer of event files: a process of its own that turns frames from its standard input into sealed segments.

    python -m spark_sink.writer --events DIR [--roll-s 1.0] [--roll-bytes N]

It is a process because encoding holds the interpreter lock for milliseconds, which the broker cannot spare. It ends
when its input ends and never before: signals that end the broker leave it alone, so that it seals what the broker said
last.

Frames are checked when they arrive and held as bytes. A batch of them is sealed when it is `roll_s` old, `roll_bytes`
large, or the wall clock's hour changes: one file per source, each published atomically. What cannot be written is
held, up to `MAX_HELD_BYTES`, and tried again; beyond that the newest frames are dropped, and when the folder works
again an EventsDropped event says how many records and requests are missing.

After each change it writes its state as one line of JSON (`WriterState`) to standard output, for the broker. Exit
status: 0 all sealed; 1 the input was torn or garbage, all before it is sealed; 3 the folder could not be written.
"""

import gc
import os
import select
import signal
import stat
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

import click
import msgspec
import pyarrow as pa

from broker.events import EVENTS_DROPPED, LifecycleEvent
from spark_sink.batches import FrameRows, parquet_bytes, segment_metadata, tables_of, warm_up
from spark_sink.errors import BadFrame
from spark_sink.events import FLOWS, LIFECYCLES
from spark_sink.frames import DefinitionRow, FlowRow, FrameSplitter, Header, decode_header, decode_rows
from spark_sink.segments import Disk, next_number, recover, seal, segment_name

ROLL_S: Final = 1.0  # seconds; how old a record may get before it is in a file
ROLL_BYTES: Final = 16 << 20  # of frames in a batch; a hundred thousand records, sealed in half a second
MAX_HELD_BYTES: Final = 64 << 20  # of frames that wait for a folder that cannot be written
FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 10.0  # the pause between tries doubles up to this
LAST_TRIES_S: Final = 30.0  # at the end of the input: how long to insist on a folder that cannot be written
READ_BYTES: Final = 1 << 20
SECONDS_PER_HOUR: Final = 3600

EXIT_GARBAGE: Final = 1
EXIT_LOST: Final = 3


class WriterState(msgspec.Struct):
    """What the writer has done since it started, for the broker; all counts only grow."""

    sealed: int = 0  # records of the broker that are in segments
    sealed_requests: int = 0  # requests that these records count
    sealed_seq: int = 0  # the highest sequence number among them
    dropped: int = 0  # records that the memory bound cost
    dropped_requests: int = 0
    segments: int = 0  # files sealed
    next_number: int = 0  # of the next file
    held_bytes: int = 0  # of frames that are not sealed yet
    error: str = ""  # why the last try failed; empty: it did not


class _Held:
    """A checked frame and what is in it."""

    __slots__ = ("first_seq", "frame", "hour", "last_seq", "records", "requests")

    def __init__(self, frame: bytes, hour: int, records: int, requests: int, first_seq: int, last_seq: int) -> None:
        self.frame: Final = frame
        self.hour: Final = hour  # wall clock hours since the epoch when it came
        self.records: Final = records
        self.requests: Final = requests  # of the flow records
        self.first_seq: Final = first_seq
        self.last_seq: Final = last_seq


class _Gap:
    """Records that were dropped and not told yet."""

    __slots__ = ("first_seq", "last_seq", "records", "requests")

    def __init__(self, first_seq: int) -> None:
        self.records = 0
        self.requests = 0
        self.first_seq: Final = first_seq
        self.last_seq = first_seq

    def add(self, held: _Held) -> None:
        self.records += held.records
        self.requests += held.requests
        self.last_seq = max(self.last_seq, held.last_seq)

    def told(self, wall_s: float) -> _Held:
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
        return _Held(frame, int(wall_s // SECONDS_PER_HOUR), 0, 0, self.last_seq, self.last_seq)


class Writer:
    """Frames in, segments out; time comes in as parameters (`now` monotonic, `wall_s` since the epoch, seconds)."""

    def __init__(
        self,
        events: Path,
        header: Header,
        *,
        disk: Disk,
        say: Callable[[str], None],
        roll_s: float = ROLL_S,
        roll_bytes: int = ROLL_BYTES,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        """`say` takes sentences for people."""
        self._events: Final = events
        self._header: Final = header
        self._disk: Final = disk
        self._say: Final = say
        self._roll_s: Final = roll_s
        self._roll_bytes: Final = min(roll_bytes, max_held_bytes)
        self._max_held_bytes: Final = max_held_bytes
        self._held: Final[deque[_Held]] = deque()  # not in a batch yet; with the batch at most max_held_bytes
        self._batch: Final[list[_Held]] = []  # being sealed
        self._unsealed: Final[list[tuple[str, str, pa.Table]]] = []  # source, file name, records: the batch's rest
        self._roll_at = float("inf")  # monotonic; when the oldest held frame is due
        self._retry_s = 0.0  # pause until the next try; 0: the last one succeeded
        self._failing_since = 0.0  # monotonic, meaningful while _retry_s > 0
        self._known: Final[dict[int, Any]] = {}  # definitions by flow number
        self._gap: _Gap | None = None  # since the bound was reached, until it is told
        self.state: Final = WriterState(next_number=self._first_number())

    def take(self, frame: bytes, now: float, wall_s: float) -> None:
        """A frame of rows. BadFrame: it is none; nothing of it is kept."""
        held = _checked(frame, int(wall_s // SECONDS_PER_HOUR))
        if held.records == 0:
            return
        is_full = self.state.held_bytes + len(frame) > self._max_held_bytes
        is_next_hour = bool(self._held) and self._held[-1].hour != held.hour
        if (is_full or is_next_hour) and not self._retry_s:
            self.seal_all(now, wall_s)
        # While a gap is open everything is dropped, so that one event tells one gap.
        if self._gap is not None or self.state.held_bytes + len(frame) > self._max_held_bytes:
            self._drop(held, now)
            return
        self._hold(held, now)
        if self.state.held_bytes >= self._roll_bytes and not self._retry_s:
            self.seal_all(now, wall_s)

    def tick(self, now: float, wall_s: float) -> None:
        """Time passed: seal what is due."""
        if now >= self._roll_at:
            self.seal_all(now, wall_s)

    def next_deadline(self) -> float:
        """When to tick at the latest, monotonic; inf: nothing waits."""
        return self._roll_at

    def seal_all(self, now: float, wall_s: float) -> bool:
        """Seal everything that is held, and tell a gap. False: the folder cannot be written, the rest is still held."""
        while self._next_batch(now, wall_s):
            if not self._seal_batch(now):
                return False
        self._roll_at = float("inf")
        return True

    def _first_number(self) -> int:
        """Never a number that an earlier writer of this epoch used, even when its files went to an archive."""
        sources = (FLOWS, LIFECYCLES)
        in_folder = (next_number(self._events / one, self._header.broker_id, self._header.epoch) for one in sources)
        return max(self._header.first_number, *in_folder)

    def _hold(self, held: _Held, now: float) -> None:
        if not self._held and not self._batch:
            self._roll_at = now + self._roll_s
        self._held.append(held)
        self.state.held_bytes += len(held.frame)

    def _drop(self, held: _Held, now: float) -> None:
        self.state.dropped += held.records
        self.state.dropped_requests += held.requests
        if self._gap is None:
            self._gap = _Gap(held.first_seq)
        self._gap.add(held)
        if not self._retry_s:
            self._roll_at = min(self._roll_at, now + self._roll_s)  # a gap must be told even when nothing else is held

    def _next_batch(self, now: float, wall_s: float) -> bool:
        """Make a batch of what is held, unless one is under way. False: nothing is left to seal."""
        if self._batch:
            return True
        if not self._held and self._gap is not None:
            self._hold(self._gap.told(wall_s), now)
            self._gap = None
        batch_bytes = 0
        while (
            self._held
            and batch_bytes < self._roll_bytes
            and (not self._batch or self._batch[0].hour == self._held[0].hour)
        ):
            held = self._held.popleft()
            self._batch.append(held)
            batch_bytes += len(held.frame)
        frames = [FrameRows(decode_rows(held.frame), self._known) for held in self._batch]
        for source, table in tables_of(self._header, frames, self._known).items():
            name = segment_name(self._header.broker_id, self._header.epoch, self.state.next_number)
            self._unsealed.append((source, name, table))
            self.state.next_number += 1
        return bool(self._batch)

    def _seal_batch(self, now: float) -> bool:
        while self._unsealed:
            source, name, table = self._unsealed[0]
            try:
                data = parquet_bytes(table, segment_metadata(self._header, source))
                seal(self._events / source, name, data, self._disk)
            except OSError as error:
                self._failed(error, now)
                return False
            del self._unsealed[0]
            self.state.segments += 1
        for held in self._batch:
            self.state.held_bytes -= len(held.frame)
            self.state.sealed += held.records
            self.state.sealed_requests += held.requests
            self.state.sealed_seq = max(self.state.sealed_seq, held.last_seq)
        self._batch.clear()
        if self._retry_s:
            lost = f"{self._gap.records} records were dropped" if self._gap is not None else "nothing was lost"
            self._say(f"{self._events} can be written again after {now - self._failing_since:.1f} s, {lost}")
            self._retry_s = 0.0
            self.state.error = ""
        return True

    def _failed(self, error: OSError, now: float) -> None:
        if not self._retry_s:  # said once per failure, not per try
            self._failing_since = now
            held = f"at most {self._max_held_bytes >> 20} MiB of records wait in memory"
            self._say(f"{self._events} cannot be written ({error}); {held} and it is tried again")
        self._retry_s = min(max(FIRST_RETRY_S, self._retry_s * 2), LAST_RETRY_S)
        self._roll_at = now + self._retry_s
        self.state.error = str(error)


def _checked(frame: bytes, hour: int) -> _Held:
    rows = decode_rows(frame)
    seqs = [row.seq for row in rows if type(row) is not DefinitionRow and row.seq > 0]
    requests = sum(row.requests for row in rows if type(row) is FlowRow)
    return _Held(frame, hour, len(rows), requests, min(seqs, default=0), max(seqs, default=0))


class StateLines:
    """The states as lines of JSON on a file descriptor; the same state is not told twice.

    A reader that is gone or does not read costs nothing: counts only grow, so the next line says what one passed over.
    """

    def __init__(self, fd: int) -> None:
        self._fd: Final = fd
        self._last = b""
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.set_blocking(fd, False)

    def tell(self, state: WriterState) -> None:
        """Write it if it changed."""
        line = msgspec.json.encode(state) + b"\n"
        if line == self._last:
            return
        try:
            os.write(self._fd, line)  # shorter than PIPE_BUF: all or nothing
        except (BlockingIOError, BrokenPipeError):
            return
        self._last = line


def drain(fd: int, splitter: FrameSplitter, writer: Writer, states: StateLines) -> None:
    """Read frames until the input ends, sealing what is due. BadFrame: the input is garbage from here on."""
    while True:
        while (frame := splitter.pull()) is not None:
            writer.take(frame, time.monotonic(), time.time())
        writer.tick(time.monotonic(), time.time())
        states.tell(writer.state)
        deadline = writer.next_deadline()
        timeout_s = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
        if select.select([fd], [], [], timeout_s)[0]:
            data = os.read(fd, READ_BYTES)
            if not data:
                break
            splitter.add(data)
    if splitter.left_bytes:
        raise BadFrame(f"the input ended in the middle of a frame, {splitter.left_bytes} bytes of it had come")


def finish(writer: Writer, states: StateLines) -> bool:
    """Seal what is left, insisting for `LAST_TRIES_S`. False: records are lost."""
    give_up_at = time.monotonic() + LAST_TRIES_S
    while not writer.seal_all(time.monotonic(), time.time()):
        states.tell(writer.state)
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(FIRST_RETRY_S)
    states.tell(writer.state)
    return True


def first_frame(fd: int, splitter: FrameSplitter) -> bytes | None:
    """The first frame; None: the input ended before its first byte. BadFrame: it ended within the frame."""
    while (frame := splitter.pull()) is None:
        data = os.read(fd, READ_BYTES)
        if not data and splitter.left_bytes:
            raise BadFrame(f"the input ended in the middle of its first frame, after {splitter.left_bytes} bytes")
        if not data:
            return None
        splitter.add(data)
    return frame


def run(fd: int, events: Path, roll_s: float, roll_bytes: int, state_fd: int, errors: TextIO) -> int:
    """The life of the process: exit status."""

    def say(sentence: str) -> None:
        print(f"event writer: {sentence}", file=errors, flush=True)

    splitter = FrameSplitter()
    states = StateLines(state_fd)
    try:
        frame = first_frame(fd, splitter)
        if frame is None:
            return 0
        header = decode_header(frame)
    except BadFrame as error:
        say(f"{error}")
        return EXIT_GARBAGE
    disk = Disk()
    for source in (FLOWS, LIFECYCLES):
        recover(events / source, f"{header.broker_id}-", time.time(), disk)
    writer = Writer(events, header, disk=disk, say=say, roll_s=roll_s, roll_bytes=roll_bytes)
    status = 0
    try:
        drain(fd, splitter, writer, states)
    except BadFrame as error:
        say(f"{error}; all before it is kept")
        status = EXIT_GARBAGE
    if not finish(writer, states):
        say(f"{events} cannot be written ({writer.state.error}); {writer.state.held_bytes} bytes of records are lost")
        status = EXIT_LOST
    return status


@click.command()
@click.option("--events", type=click.Path(path_type=Path), required=True, help="Folder of event files.")
@click.option("--roll-s", type=click.FloatRange(min=0.01), default=ROLL_S, show_default=True, help="Seconds per file.")
@click.option("--roll-bytes", type=click.IntRange(min=1), default=ROLL_BYTES, show_default=True, help="Bytes per file.")
def main(events: Path, roll_s: float, roll_bytes: int) -> None:
    """Write the frames of a broker, from standard input, into event files."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(5)
    gc.disable()  # rows are trees without cycles; walking them costs more than all the encoding (measured: 2x)
    warm_up()
    sys.exit(run(sys.stdin.fileno(), events, roll_s, roll_bytes, sys.stdout.fileno(), sys.stderr))


if __name__ == "__main__":
    main()

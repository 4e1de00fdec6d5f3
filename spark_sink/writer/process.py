"""The writer of event files: a process of its own that turns frames from its standard input into sealed segments.

    python -m spark_sink.writer --events DIR [--roll-s 1.0] [--roll-bytes N] [--min-free-bytes N] [--sync-s S]
                                [--log-level info] [--log-format text]

It is a process because encoding holds the interpreter lock for milliseconds, which the broker cannot spare. It ends
when its input ends and never before: signals that end the broker leave it alone, so that it seals what the broker said
last. What it does with frames `spark_sink.writer.machine` says.

After each change it writes its state as one line of JSON (`WriterState`) to standard output, for the broker. What it
has to say to people are lines of the broker's log (`broker.log`), on the standard error that both have; the state that
belongs to a line is told before it. Exit status: 0 all sealed; 1 the input was torn or garbage, all before it is
sealed; 3 the folder could not be written.
"""

import contextlib
import fcntl
import gc
import logging
import os
import select
import signal
import stat
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from broker.events import WriterState
from broker.log import setup as setup_log
from spark_sink.errors import BadFrame
from spark_sink.event_files.batches import warm_up
from spark_sink.event_files.frames import FrameSplitter, decode_header
from spark_sink.event_files.layout import Disk
from spark_sink.number_types import Count, Number
from spark_sink.writer.machine import FIRST_RETRY_S, NEVER, Writer
from spark_sink.writer.settings import READER_TIMEOUT_S, ROLL_BYTES, ROLL_S, Settings

LAST_TRIES_S: Final = 30.0  # at the end of the input: how long to insist on a folder that cannot be written
READ_BYTES: Final = 1 << 20
MS_PER_S: Final = 1000
PIPE_BYTES: Final = 1 << 16  # where the system does not say how much the pipe holds
LAST_PAUSE_S: Final = 0.25  # between reads; waking for each frame cost a third more CPU (measured)
FILLED: Final = 0.25  # of the pipe, at the pace of the last read, while we look away

EXIT_GARBAGE: Final = 1
EXIT_LOST: Final = 3

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")
SECONDS: Final = Number(min=0)
BYTES: Final = Count(min=0)

_log: Final = logging.getLogger("spark_sink.writer")  # `__name__` is that of the main module


class StateLines:
    """The states as lines of JSON on a file descriptor; the same state is not told twice.

    A reader that is gone or does not read costs nothing: counts only grow, so the next line says what one passed over.
    """

    def __init__(self, fd: int) -> None:
        self._fd: Final = fd
        self._last = b""
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.set_blocking(fd, False)

    def tell(self, state: WriterState) -> bool:
        """Write it if it changed. False: there is no room for it."""
        line = msgspec.json.encode(state) + b"\n"
        if line == self._last:
            return True
        try:
            os.write(self._fd, line)  # shorter than PIPE_BUF: all or nothing
        except BlockingIOError:
            return False
        except BrokenPipeError:  # the broker is gone: nobody will ask for it
            return True
        self._last = line
        return True


def drain(fd: int, splitter: FrameSplitter, writer: Writer, states: StateLines) -> None:
    """Read frames until the input ends, sealing what is due. BadFrame: the input is garbage from here on."""
    pipe_bytes, read_at, rest_s = capacity(fd), time.monotonic(), 0.0
    hang_up = select.poll()
    hang_up.register(fd, 0)  # of no event but the end of the input
    while True:
        while (frame := splitter.pull()) is not None:
            writer.take(frame, time.monotonic(), time.time())
        writer.tick(time.monotonic(), time.time())
        due_at = writer.next_deadline()
        if not states.tell(writer.state):  # or a broker that was held up would not hear it before something happens
            due_at = min(due_at, time.monotonic() + FIRST_RETRY_S)
        hang_up.poll(min(rest_s, _until(due_at)) * MS_PER_S)
        rest_s = 0.0
        if select.select([fd], [], [], None if due_at == NEVER else _until(due_at))[0]:
            data = os.read(fd, READ_BYTES)
            if not data:
                writer.tell_died(time.monotonic(), time.time())
                break
            splitter.add(data)
            now = time.monotonic()
            rest_s, read_at = pause_s(len(data), now - read_at, pipe_bytes), now
    if splitter.left_bytes:
        raise BadFrame(f"the input ended in the middle of a frame, {splitter.left_bytes} bytes of it had come")


def capacity(fd: int) -> int:
    """Bytes that the pipe holds."""
    try:
        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    except (AttributeError, OSError):  # another system, or no pipe
        return PIPE_BYTES


def pause_s(read_bytes: int, since_s: float, pipe_bytes: int) -> float:
    """How long not to look at a pipe in which so many bytes came since the last read, so that it has room for that
    pace: what it does not take a broker that is killed takes with it. 0: it may have been full, and hides the pace."""
    if 2 * read_bytes >= pipe_bytes:
        return 0.0
    return min(LAST_PAUSE_S, FILLED * pipe_bytes * since_s / read_bytes)


def _until(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def finish(writer: Writer, states: StateLines) -> bool:
    """Seal what is left, insisting for `LAST_TRIES_S`. False: records are lost."""
    give_up_at = time.monotonic() + LAST_TRIES_S
    while not writer.seal_all(time.monotonic(), time.time()):
        states.tell(writer.state)
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(FIRST_RETRY_S)
    if states.tell(writer.state):  # or else the log must tell the next writer what the broker does not know
        with contextlib.suppress(OSError):  # the next writer removes it
            writer.end()
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


def run(fd: int, events: Path, settings: Settings, state_fd: int) -> int:
    """The life of the process: exit status."""
    splitter = FrameSplitter()
    states = StateLines(state_fd)
    try:
        frame = first_frame(fd, splitter)
        if frame is None:
            return 0
        header = decode_header(frame)
    except BadFrame as error:
        _log.error("event writer: %s", error)
        return EXIT_GARBAGE

    def say(sentence: str, level: int = logging.WARNING) -> None:
        states.tell(writer.state)
        _log.log(level, "event writer: %s", sentence)

    say_well = partial(say, level=logging.INFO)
    writer = Writer(events, header, disk=Disk(), say=say, say_well=say_well, settings=settings)
    writer.begin(time.monotonic(), time.time())
    status = 0
    try:
        drain(fd, splitter, writer, states)
    except BadFrame as error:
        _log.error("event writer: %s; all before it is kept", error)
        status = EXIT_GARBAGE
    if not finish(writer, states):
        state = writer.state
        _log.error(
            "event writer: %s cannot be written (%s); %d bytes of records are lost, %d wait for the next writer",
            events,
            state.error,
            state.held_bytes,
            state.wal_bytes,
        )
        status = EXIT_LOST
    return status


@click.command()
@click.option("--events", type=click.Path(path_type=Path), required=True, help="Folder of event files.")
@click.option("--roll-s", type=Number(0.01), default=ROLL_S, show_default=True, help="Seconds per file.")
@click.option("--roll-bytes", type=Count(1), default=ROLL_BYTES, show_default=True, help="Bytes per file.")
@click.option("--min-free-bytes", type=BYTES, default=0, help="Bytes left free on the file system.")
@click.option("--sync-s", type=SECONDS, default=0.0, help="Seconds between syncs of the log; 0: never.")
@click.option("--keep-s", type=SECONDS, default=0.0, help="Seconds that files are kept; 0: forever.")
@click.option("--keep-bytes", type=BYTES, default=0, help="Bytes of all files; 0: no bound.")
@click.option("--reader-timeout-s", type=SECONDS, default=READER_TIMEOUT_S, help="Silence that is logged.")
@click.option("--ignore-silent-readers", is_flag=True, help="Keep no files for a silent reader.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", help="As log.level of the broker.")
@click.option("--log-format", type=click.Choice(FORMATS), default="text", help="As log.format of the broker.")
def main(events: Path, log_level: str, log_format: str, **settings: Any) -> None:
    """Write the frames of a broker, from standard input, into event files."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    setup_log(log_level, log_format)
    os.nice(5)
    gc.disable()  # rows are trees without cycles; walking them costs more than all the encoding (measured: 2x)
    warm_up()
    try:
        status = run(sys.stdin.fileno(), events, Settings(**settings), sys.stdout.fileno())
    except Exception:  # the edge of the process: the broker's log gets a line with the stack, and a new writer goes on
        _log.exception("event writer: ended by an error of its own")
        status = EXIT_GARBAGE
    sys.exit(status)

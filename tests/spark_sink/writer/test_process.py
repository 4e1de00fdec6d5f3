"""The writer as the broker meets it: a real process, its pipes, its ends."""

import contextlib
import fcntl
import json
import logging
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, get_args

import pytest

from broker.config.sections.events import EventOptions
from broker.config.sections.process import LogFormat, LogLevel, LogOptions
from broker.edge.event_pipe import writer_arguments
from broker.events import WriterState
from spark_sink.event_files.frames import FrameSplitter
from spark_sink.event_files.layout import Disk
from spark_sink.writer import process as writer_module
from spark_sink.writer.process import (
    EXIT_GARBAGE,
    EXIT_LOST,
    FORMATS,
    LAST_PAUSE_S,
    LEVELS,
    PIPE_BYTES,
    StateLines,
    capacity,
    pause_s,
    run,
)
from spark_sink.writer.settings import Settings
from tests.spark_sink.records import (
    PROJECT,
    events,
    framed,
    header_frame,
    last_state,
    rows_frame,
    sealed,
    sealed_seqs,
    writer_of,
    writer_process,
)


def frames(count: int, records_each: int = 10) -> list[bytes]:
    return [framed(rows_frame(events(n, records_each, first_seq=n * records_each + 1))) for n in range(count)]


def told(process: subprocess.Popen[bytes], data: bytes = b"") -> dict[str, Any]:
    """The next state, after these bytes."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(data)
    process.stdin.flush()
    return last_state(process.stdout.readline())


@pytest.mark.slow
def test_end_of_input_seals_everything_and_ends_well(tmp_path: Path) -> None:
    process = writer_process(tmp_path, "--roll-s", "60")
    output, errors = process.communicate(header_frame() + b"".join(frames(30)), timeout=60)
    assert (process.returncode, errors) == (0, b"")
    assert sealed_seqs(tmp_path) == list(range(1, 301))
    state = last_state(output)
    assert (state["sealed"], state["held_bytes"], state["error"]) == (300, 0, "")


@pytest.mark.slow
def test_signals_that_end_the_broker_leave_the_writer_alone(tmp_path: Path) -> None:
    process = writer_process(tmp_path, "--roll-s", "60")
    told(process, header_frame())  # it has begun
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)
    _, errors = process.communicate(b"".join(frames(3)), timeout=60)
    assert (process.returncode, errors, sealed_seqs(tmp_path)) == (0, b"", list(range(1, 31)))


@pytest.mark.slow
def test_broker_killed_loses_nothing_that_the_pipe_took(tmp_path: Path) -> None:
    """A broker that is gone from one instruction to the next, in the middle of writing a frame."""
    stream = tmp_path / "stream"
    stream.write_bytes(header_frame() + b"".join(frames(20)) + frames(21)[-1][:-7])
    broker = (
        "import os, signal, subprocess, sys\n"
        "writer = subprocess.Popen([sys.executable, '-m', 'spark_sink.writer', '--events', sys.argv[1]],\n"
        "                          stdin=subprocess.PIPE, stderr=open(sys.argv[3], 'w'))\n"
        "print(writer.pid, flush=True)\n"
        "os.write(writer.stdin.fileno(), open(sys.argv[2], 'rb').read())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folder, errors = tmp_path / "events", tmp_path / "errors"
    command = [sys.executable, "-c", broker, str(folder), str(stream), str(errors)]
    # The pipe of our own that the writer inherits closes when it ends: no polling for a process that is not our child.
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        killed.stdout.read()
    assert killed.returncode == -signal.SIGKILL
    assert sealed_seqs(folder) == list(range(1, 201))
    assert "in the middle of a frame" in errors.read_text()


@pytest.mark.slow
def test_file_size_limit_heals_without_loss(tmp_path: Path) -> None:
    """The kernel refuses the writes of a real process, then allows them."""
    process = writer_process(tmp_path, "--roll-s", "0.05")
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    state = told(process, header_frame() + b"".join(frames(5)))
    while "File too large" not in state["error"]:
        state = told(process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, resource.RLIM_INFINITY))
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    failed, healed = errors.decode().splitlines()
    moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.match(rf"{moment} warning event writer: {re.escape(str(tmp_path))} cannot be written \(", failed)
    assert re.match(rf"{moment} info    event writer: .* can be written again after .* s, nothing was lost$", healed)
    assert (sealed_seqs(tmp_path), last_state(output)["error"]) == (list(range(1, 51)), "")


def run_on(stream: bytes, folder: Path) -> int:
    """The process's life inside this one: exit status."""
    read_end, write_end = os.pipe()
    with open(os.devnull, "wb") as states, os.fdopen(read_end, "rb"):
        os.write(write_end, stream)
        os.close(write_end)
        return run(read_end, folder, Settings(roll_s=60.0), states.fileno())


def test_input_without_a_byte_ends_well_and_silently(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert (run_on(b"", tmp_path), caplog.records) == (0, [])


@pytest.mark.parametrize(
    "stream, sentence, kept",
    [
        (b"\x00\x00", "ended in the middle of its first frame, after 2 bytes", 0),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame says that it is 1195725856 bytes long", 0),
        (framed(b"\xc0"), "the first frame is no header", 0),
        (header_frame(format=9), "frames of format 9", 0),
        (header_frame() + frames(2)[0] + frames(2)[1][:-1], "ended in the middle of a frame", 10),
        (header_frame() + frames(1)[0] + framed(b"garbage") + frames(2)[1], "holds no rows", 10),
        (header_frame() + frames(1)[0] + b"\xff" * 9, "a frame says that it is 4294967295 bytes long", 10),
    ],
)
def test_torn_or_garbage_input_is_one_line_and_keeps_what_was_good(
    tmp_path: Path, stream: bytes, sentence: str, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert run_on(stream, tmp_path) == EXIT_GARBAGE
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("spark_sink.writer", logging.ERROR)
    assert record.getMessage().startswith("event writer: ")
    assert sentence in record.getMessage()
    assert len(sealed_seqs(tmp_path)) == kept


def test_folder_that_never_works_ends_with_the_loss_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer_module, "LAST_TRIES_S", 0.0)
    folder = tmp_path / "events"
    folder.write_text("no folder")
    assert run_on(header_frame() + frames(1)[0], folder) == EXIT_LOST
    assert "bytes of records are lost" in caplog.records[-1].getMessage()


@pytest.mark.slow
def test_lines_are_json_and_as_important_as_the_log_is_told_to_be(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.write_text("no folder")
    stream = header_frame() + frames(1)[0] + b"\xff" * 9
    said = {}
    for level in ("warning", "error"):
        process = writer_process(folder, "--log-format", "json", "--log-level", level)
        assert "Not a directory" in told(process, stream)["error"]
        folder.unlink()
        _, errors = process.communicate(timeout=60)
        said[level] = [json.loads(line) for line in errors.splitlines()]
        shutil.rmtree(folder)
        folder.write_text("no folder")
    assert [(line["level"], line["logger"], line["text"].split(" (")[0]) for line in said["warning"]] == [
        ("warning", "spark_sink.writer", f"event writer: {folder} cannot be written"),
        ("error", "spark_sink.writer", said["error"][0]["text"]),
    ]
    assert [line["level"] for line in said["error"]] == ["error"]


@pytest.mark.slow
def test_an_error_of_its_own_is_a_line_with_its_stack(tmp_path: Path) -> None:
    program = (
        "import sys, spark_sink.writer.process as writer\n"
        "writer.Writer = None\n"
        "writer.main(['--events', sys.argv[1], '--log-format', 'json'])\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    ended = subprocess.run(command, input=header_frame(), capture_output=True, cwd=PROJECT, timeout=60, check=False)
    (line,) = ended.stderr.splitlines()
    said = json.loads(line)
    assert (ended.returncode, said["level"]) == (EXIT_GARBAGE, "error")
    assert said["text"] == "event writer: ended by an error of its own"
    assert "TypeError" in said["traceback"]


def test_the_state_that_belongs_to_a_line_is_told_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reads that files can be written again finds no error any more, however much there is to write."""
    caplog.set_level(logging.INFO, "spark_sink.writer")
    folder = tmp_path / "events"
    folder.write_text("no folder")
    read_end, write_end = os.pipe()
    state_read, state_write = os.pipe()
    os.set_blocking(state_read, False)
    errors: list[str] = []

    class Reading(logging.Handler):
        """Takes what was told by the time of each line, and makes room for the folder."""

        def emit(self, record: logging.LogRecord) -> None:
            errors.append(last_state(os.read(state_read, 1 << 16))["error"])
            folder.unlink(missing_ok=True) if folder.is_file() else os.close(write_end)

    handler = Reading()
    logging.getLogger("spark_sink.writer").addHandler(handler)
    monkeypatch.setattr("spark_sink.writer.machine.FIRST_RETRY_S", 0.01)
    os.write(write_end, header_frame() + frames(1)[0])
    try:
        run(read_end, folder, Settings(roll_s=60.0), state_write)
    finally:
        logging.getLogger("spark_sink.writer").removeHandler(handler)
        for descriptor in (read_end, state_read, state_write):
            os.close(descriptor)
    assert [record.getMessage().partition(f"{folder} ")[2][:12] for record in caplog.records] == [
        "cannot be wr",
        "can be writt",
    ]
    assert ["Not a directory" in each for each in errors] == [True, False]


def test_state_that_found_no_room_is_told_as_soon_as_there_is(tmp_path: Path) -> None:
    """The broker was held up, and nothing more happens."""
    read_end, write_end = os.pipe()
    state_read, state_write = os.pipe()
    os.set_blocking(state_write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(state_write, bytes(1 << 12))
    has_tried = threading.Event()

    class Lines(StateLines):
        def tell(self, state: WriterState) -> bool:
            has_room = super().tell(state)
            has_tried.set()
            return has_room

    splitter = FrameSplitter()
    splitter.add(frames(1)[0])
    writer = writer_of(tmp_path, settings=Settings(roll_s=60.0))
    draining = threading.Thread(target=writer_module.drain, args=(read_end, splitter, writer, Lines(state_write)))
    draining.start()
    has_tried.wait()
    found = b""
    while not found.strip(b"\0"):
        found = os.read(state_read, 1 << 16)
    assert last_state(found.strip(b"\0"))["frames"] == 1
    os.close(write_end)
    draining.join()
    for descriptor in (read_end, state_read, state_write):
        os.close(descriptor)


def test_states_that_nobody_reads_cost_nothing() -> None:
    read_end, write_end = os.pipe()
    lines = StateLines(write_end)
    for sealed_count in range(10_000):  # more than a pipe holds
        lines.tell(WriterState(sealed=sealed_count))
    os.close(read_end)
    lines.tell(WriterState(sealed=-1))
    os.close(write_end)


def test_drain_seals_what_is_due_without_new_input(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    state_read, state_write = os.pipe()
    os.write(write_end, frames(1)[0])
    writer = writer_of(tmp_path, disk=ClosingDisk(write_end), settings=Settings(roll_s=0.01))
    writer_module.drain(read_end, FrameSplitter(), writer, StateLines(state_write))
    assert len(sealed(tmp_path, "flows")) == 9
    for descriptor in (read_end, state_read, state_write):
        os.close(descriptor)


class ClosingDisk(Disk):
    """Ends the input once the lifecycle segment, the last of a batch, is there."""

    def __init__(self, write_end: int) -> None:
        self._write_end = write_end

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        if folder.name == "lifecycle":
            os.close(self._write_end)


def test_options_of_the_broker_are_understood() -> None:
    options = EventOptions(
        min_free_bytes=5, sync="second", keep_s=7.5, keep_bytes=11, reader_timeout_s=13.0, silent_readers="ignore"
    )
    log = LogOptions(level="error", format="json")
    context = writer_module.main.make_context("writer", ["--events", "x", *writer_arguments(options, log)])
    assert context.params == {
        "events": Path("x"),
        "roll_s": 1.0,
        "roll_bytes": 16 << 20,
        "min_free_bytes": 5,
        "sync_s": 1.0,
        "keep_s": 7.5,
        "keep_bytes": 11,
        "reader_timeout_s": 13.0,
        "ignore_silent_readers": True,
        "log_level": "error",
        "log_format": "json",
    }
    assert (get_args(LogLevel), get_args(LogFormat)) == (LEVELS, FORMATS)


def test_writer_is_nice_to_the_broker(tmp_path: Path) -> None:
    process = writer_process(tmp_path)
    told(process, header_frame())
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)
    process.communicate(timeout=60)


def test_writer_looks_away_for_as_long_as_the_pipe_has_room() -> None:
    assert pause_s(1, 10.0, 1 << 20) == LAST_PAUSE_S
    assert pause_s(100_000, 0.1, 1 << 20) == LAST_PAUSE_S  # a megabyte a second
    assert pause_s(400_000, 0.1, 1 << 20) == pytest.approx(0.065, abs=0.001)
    assert pause_s(25_000, 0.1, 1 << 16) == pytest.approx(0.065, abs=0.001)
    assert (pause_s(1 << 15, 1.0, 1 << 16), pause_s(1 << 20, 1.0, 1 << 20)) == (0.0, 0.0)


def test_size_of_the_pipe_is_asked_of_the_system(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 1 << 17)
    assert capacity(read_end) == 1 << 17
    os.close(read_end)
    os.close(write_end)
    with open(tmp_path / "file", "w") as file:
        assert capacity(file.fileno()) == PIPE_BYTES

"""The writer is killed at every step that it takes on the disk; whatever it was, each record is in the files once."""

import random
import signal
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from spark_sink.event_files.layout import ARCHIVE, Disk, wal_name
from spark_sink.event_files.wal import Ledger, WalHead, encode_wal_frame
from spark_sink.writer.machine import ADOPT_S, NEXT_ORPHAN_S, Writer
from spark_sink.writer.settings import Settings
from tests.spark_sink.disks import Killed, KillingDisk, QuickDisk
from tests.spark_sink.records import (
    HEADER,
    WALL_S,
    begun,
    deaths,
    definition,
    events,
    framed,
    header_frame,
    header_with,
    last_state,
    request,
    rows_frame,
    sealed,
    sealed_seqs,
    writer_process,
)

FRAME_HEAD = 24  # bytes before the payload of a frame
DEFINED = msgspec.msgpack.encode([definition(1), definition(2)])


def stream() -> list[bytes]:
    """Frames of all three sources, 1 to 60."""
    rng = random.Random(3)
    frames = []
    for first_seq in range(1, 61, 10):
        requests = [request(rng, first_seq + place, rng.choice((1, 2))) for place in range(5)]
        others = [record.row() for record in events(first_seq + 2, 5, first_seq=first_seq + 5)]
        frames.append(msgspec.msgpack.encode([*requests, *others]))
    return frames


class Broker:
    """It knows what the last state that it saw confirmed, and sends everything after that to a new writer."""

    def __init__(self, folder: Path, *, sees_states: bool) -> None:
        self.folder = folder
        self.frames = stream()
        self.said: list[str] = []
        self.confirmed = 0
        self._sees_states = sees_states

    def run(self, disk: Disk) -> Writer:
        """The whole life of a writer, unless it dies. Two frames are a batch."""
        frames = self.frames[self.confirmed :]
        header = header_with(first_frame=self.confirmed + 1)
        writer = begun(self.folder, header, disk=disk, say=self.said.append, settings=Settings(roll_s=1.0))
        now = 0.0
        self._saw(writer)
        writer.take(DEFINED, now, WALL_S)
        for frame in frames:
            now += 0.5
            writer.take(frame, now, WALL_S)
            self._saw(writer)
            writer.tick(now + 0.1, WALL_S)
            self._saw(writer)
        writer.tell_died(now, WALL_S)
        assert writer.seal_all(now, WALL_S)
        self.confirmed = writer.state.frames  # the process ends only when the broker has been told
        writer.end()
        return writer

    def _saw(self, writer: Writer) -> None:
        if self._sees_states:
            self.confirmed = writer.state.frames


def moments(tmp_path: Path) -> int:
    """How many there are in the life of a writer."""
    disk = KillingDisk()
    Broker(tmp_path / "whole", sees_states=True).run(disk)
    return disk.moments


@pytest.mark.parametrize("sees_states", [True, False])
def test_writer_that_dies_at_any_moment_loses_nothing_and_doubles_nothing(tmp_path: Path, sees_states: bool) -> None:
    count = moments(tmp_path)
    assert count > 60
    for moment in range(1, count + 1):
        folder = tmp_path / f"{moment}"
        broker = Broker(folder, sees_states=sees_states)
        with pytest.raises(Killed):
            broker.run(KillingDisk(moment))
        writer = broker.run(QuickDisk())
        assert sealed_seqs(folder) == list(range(1, 61)), (moment, broker.said)
        assert (list(folder.glob("_tmp/*")), list(folder.glob("*/.*"))) == ([], [])
        assert (writer.state.sealed, writer.state.dropped, writer.state.frames) == (60, 0, 6) or broker.confirmed == 6
        assert [seq for seq, _ in deaths(folder)] == [61], (moment, broker.said)


def test_writers_that_die_one_after_the_other_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    count = moments(tmp_path)
    for moment in range(1, count + 1, 2):
        folder = tmp_path / f"{moment}"
        broker = Broker(folder, sees_states=moment % 4 == 1)
        for disk in (KillingDisk(moment), KillingDisk(moment * 7 % count + 1), KillingDisk(moment + 1), QuickDisk()):
            try:
                broker.run(disk)
            except Killed:
                continue
            break
        assert sealed_seqs(folder) == list(range(1, 61)), (moment, broker.said)


def killed_log(folder: Path) -> bytes:
    """The log of a writer that was killed with three frames in it."""
    disk = KillingDisk()
    writer = begun(folder, disk=disk)
    for first_seq in (1, 4, 7):
        writer.take(rows_frame(events(1, 3, first_seq=first_seq)), 0.0, WALL_S)
    [log] = folder.glob("_tmp/*.wal")
    disk.release()
    data = log.read_bytes()
    log.unlink()
    return data


def recovered(folder: Path, log: bytes) -> tuple[Writer, list[str]]:
    """The next writer, of another run of the broker, that finds this log."""
    put_log(folder, log)
    said: list[str] = []
    header = header_with(epoch=HEADER.epoch + 1)
    writer = begun(folder, header, disk=QuickDisk(), say=said.append)
    writer.end()
    return writer, said


def put_log(folder: Path, log: bytes, number: int = 1) -> None:
    path = folder / "_tmp" / wal_name(HEADER.broker_id, HEADER.epoch, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(log)


def frame_ends(log: bytes) -> list[int]:
    ends, place = [], 0
    while place < len(log):
        place += FRAME_HEAD + struct.unpack_from(">4xI", log, place)[0]
        ends.append(place)
    return ends


def test_log_that_is_torn_at_any_byte_gives_all_whole_frames_before_it(tmp_path: Path) -> None:
    log = killed_log(tmp_path)
    ends = frame_ends(log)
    assert len(ends) == 4  # the head and three frames
    near = {end + step for end in (0, FRAME_HEAD, *ends) for step in (-1, 0, 1)}  # and some within each part
    for size in sorted(size for size in {*near, *range(0, len(log), 101)} if 0 <= size <= len(log)):
        folder = tmp_path / str(size)
        writer, said = recovered(folder, log[:size])
        whole = sum(end <= size for end in ends[1:])
        assert sealed_seqs(folder) == list(range(1, whole * 3 + 1))
        assert (writer.state.recovered, list(folder.glob("_tmp/*"))) == (whole * 3, [])
        assert len(said) == (size not in ends)
        assert writer.state.torn_bytes == (0 if size < ends[0] else size - max(end for end in ends if end <= size))


def test_log_with_a_wrong_byte_gives_all_before_it_and_says_what_is_not(tmp_path: Path) -> None:
    log = killed_log(tmp_path)
    ends = frame_ends(log)
    for place in (*range(ends[1], ends[1] + FRAME_HEAD, 2), *range(ends[1] + FRAME_HEAD, ends[2], 67)):
        spoiled = bytearray(log)
        spoiled[place] ^= 0x40
        writer, said = recovered(tmp_path / str(place), bytes(spoiled))
        assert sealed_seqs(tmp_path / str(place)) == [1, 2, 3]
        assert writer.state.torn_bytes == len(log) - ends[1]
        assert f"ends with {len(log) - ends[1]} bytes that are no whole frame" in said[0]


def test_segments_that_a_reader_has_archived_are_not_made_again(tmp_path: Path) -> None:
    log = killed_log(tmp_path)
    name = f"{HEADER.broker_id}-{HEADER.epoch}-0000000001.parquet"
    archived = tmp_path / ARCHIVE / "some" / "where" / "flows" / name
    archived.parent.mkdir(parents=True)
    archived.touch()
    recovered(tmp_path, log)
    assert list(tmp_path.glob("flows/*")) == []


def test_log_of_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    living = begun(tmp_path)
    living.take(rows_frame(events(1, 3)), 0.0, WALL_S)
    other = begun(tmp_path, header_with(epoch=HEADER.epoch + 1))
    assert (sealed_seqs(tmp_path), other.state.recovered) == ([], 0)
    assert living.seal_all(0.0, WALL_S)
    living.end()
    assert sealed_seqs(tmp_path) == [1, 2, 3]


OTHER = header_with(broker_id="8e4b0000-0000-4000-8000-000000000002")


def test_log_of_another_broker_waits_for_that_brokers_next_writer(tmp_path: Path) -> None:
    put_log(tmp_path, killed_log(tmp_path / "log"))
    other = begun(tmp_path, OTHER)
    for looks in range(1, 4):
        other.tick(looks * ADOPT_S, WALL_S)  # nobody has it
        with pytest.raises(Killed):  # as soon as it is to write
            begun(tmp_path, disk=KillingDisk(2))
    again = begun(tmp_path, now=ADOPT_S)  # the broker sends all that it has
    for first_seq in (1, 4, 7, 10):
        again.take(rows_frame(events(1, 3, first_seq=first_seq)), ADOPT_S, WALL_S)
    other.tick(4 * ADOPT_S, WALL_S)
    assert again.seal_all(ADOPT_S, WALL_S)
    assert sealed_seqs(tmp_path) == list(range(1, 13))
    assert other.state.recovered == 0


def test_log_that_nobody_comes_for_is_sealed_by_another_brokers_writer(tmp_path: Path) -> None:
    other = begun(tmp_path, OTHER)
    log = killed_log(tmp_path / "log")
    for number in (1, 2):
        put_log(tmp_path, log, number)
    for now, logs in ((ADOPT_S, 0), (2 * ADOPT_S, 1), (2 * ADOPT_S + NEXT_ORPHAN_S, 2)):  # one after the other
        other.tick(now, WALL_S)
        assert sealed_seqs(tmp_path) == sorted([*range(1, 10)] * logs)
    assert other.next_deadline() == 3 * ADOPT_S + NEXT_ORPHAN_S
    assert (other.state.recovered, other.state.sealed) == (18, 0)
    assert {row["broker_id"] for row in sealed(tmp_path, "flows")} == {HEADER.broker_id}
    assert [path.name for path in tmp_path.glob("_tmp/*")] == [wal_name(OTHER.broker_id, OTHER.epoch, 1)]


def test_foreign_files_are_named_and_left_alone(tmp_path: Path) -> None:
    names = ["_tmp/notes.wal", "flows/copy.parquet", "lifecycle/readme.txt"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("of somebody else")
    said: list[str] = []
    begun(tmp_path, say=said.append)
    assert said == [f"{tmp_path} holds foreign files: {', '.join(names)}"]
    assert all((tmp_path / name).read_text() == "of somebody else" for name in names)


def test_of_a_broker_whose_writer_is_gone_no_other_writer_says_that_it_died(tmp_path: Path) -> None:
    """It may live, and start a new one in a moment."""
    recovered(tmp_path, killed_log(tmp_path / "log"))
    assert (sealed_seqs(tmp_path), deaths(tmp_path)) == (list(range(1, 10)), [])


def test_log_of_an_older_broker_keeps_its_origin(tmp_path: Path) -> None:
    header = header_with(broker_name="old")
    head = encode_wal_frame(0, 0, msgspec.msgpack.encode(WalHead(header, Ledger())))
    recovered(tmp_path, head + encode_wal_frame(1, 3, rows_frame(events(1, 3))))
    assert {row["broker_name"] for row in sealed(tmp_path, "flows")} == {"old"}


@pytest.mark.long
def test_writer_process_that_is_killed_six_times_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """The broker of this test sends, to each new writer, all that the last state it read had not confirmed."""
    rng = random.Random(25)
    frames = [framed(rows_frame(events(n, 10, first_seq=n * 10 + 1))) for n in range(240)]
    confirmed = 0
    for kill in range(7):
        process = writer_process(tmp_path, "--roll-s", "0.02", "--roll-bytes", "30000")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(header_frame(first_frame=confirmed + 1))
        if kill == 6:
            process.stdin.write(b"".join(frames[confirmed:]))
            output, errors = process.communicate(timeout=60)
            assert (process.returncode, last_state(output)["sealed"]) == (0, 2400), errors
            break
        process.stdin.write(b"".join(frames[confirmed : confirmed + 60]))
        process.stdin.flush()
        goal = min(confirmed + rng.randint(1, 55), 239)
        state: dict[str, Any] = {"frames": 0}
        while state["frames"] < goal:
            state = last_state(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
        confirmed = last_state(output)["frames"] if output.endswith(b"\n") and rng.random() < 0.5 else goal // 2
    assert sealed_seqs(tmp_path) == list(range(1, 2401))
    assert list(tmp_path.glob("_tmp/*")) == []

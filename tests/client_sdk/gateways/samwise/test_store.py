import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from client_sdk.gateways.samwise.store import DURABILITIES, FSYNC, OS, Store
from client_sdk.gateways.samwise.tables import (
    MAX_SCANNED,
    SPARE_PART,
    Letter,
    StoreError,
    Tables,
    Totals,
    encode_publish,
)
from client_sdk.gateways.samwise.values import Message, Refused
from tests.client_sdk.gateways.samwise.asking import put
from tests.client_sdk.gateways.samwise.messages import publish
from tests.system.support.waits import until

ROOT = Path(__file__).parents[4]
SMALL = len(encode_publish(publish()))  # bytes of one
# A gateway without sockets: puts what the test's parent kills it at, and says what was answered.
PUTTER = """
import asyncio, sys
from pathlib import Path
from client_sdk.gateways.samwise.store import Store
from tests.client_sdk.gateways.samwise.asking import put
from tests.client_sdk.gateways.samwise.messages import publish

async def caller(store, n):
    while True:
        message = await put(store, publish(b"%d" % n), 1)
        print(message.id, message.uid, flush=True)

async def main():
    store = Store(Path(sys.argv[1]), durability=sys.argv[2])
    await store.open()
    await asyncio.gather(*(caller(store, n) for n in range(8)))

asyncio.run(main())
"""

OPENER = """
import asyncio, sys
from pathlib import Path
from client_sdk.gateways.samwise.store import Store

asyncio.run(Store(Path(sys.argv[1])).open())
"""

# A store on a disk that takes 3 MB of a file, and then more.
FILLER = """
import asyncio, sys
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from client_sdk.gateways.samwise.store import Store
from client_sdk.gateways.samwise.values import Refused
from tests.client_sdk.gateways.samwise.asking import put
from tests.client_sdk.gateways.samwise.messages import publish

async def main():
    store = Store(Path(sys.argv[1]))
    await store.open()
    setrlimit(RLIMIT_FSIZE, (3_000_000, getrlimit(RLIMIT_FSIZE)[1]))
    stored_n = 0
    while True:
        try:
            await put(store, publish(bytes(20_000)), 1)
            stored_n += 1
        except Refused as refused:
            reason = refused.reason
            break
    store.delivered(1)
    setrlimit(RLIMIT_FSIZE, (getrlimit(RLIMIT_FSIZE)[1],) * 2)
    await store.written()
    message = await put(store, publish(bytes(20_000)), 1)
    print(reason, message.id - 1, stored_n, store.totals.waiting_n)
    await store.close()

asyncio.run(main())
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(tmp_path / "store", durability=OS)
    await store.open()
    yield store
    await store.close()


async def reopened(store: Store) -> Store:
    await store.close()
    await store.open()
    return store


async def put_n(store: Store, n: int, *, exchange: str = "orders") -> list[Message]:
    return await asyncio.gather(*(put(store, publish(b"%d" % i, exchange=exchange), 1000 + i) for i in range(n)))


async def limit_pages(store: Store, n: int) -> None:
    """The disk is full when the file has so many pages; 0: it is full as it is."""
    await store._read(lambda tables: tables.connection.execute(f"PRAGMA max_page_count = {n or 1}").fetchall())


async def test_what_was_put_is_read_as_it_was(store: Store) -> None:
    given = publish(
        b"\x00\xff", acks_n=3, options={"type": "ü", "priority": "9"}, headers=(("a", b"\xfe"), ("a", b""), ("", b"1"))
    )
    stored = await put(store, given, 17)
    assert stored == Message(
        id=1, uid=stored.uid, stored_at_ms=17, tries_n=0, acknowledged_by=frozenset(), publish=given
    )
    assert len(bytes.fromhex(stored.uid)) == 16
    assert await (await reopened(store)).read_new(0, 10) == ([stored], 1)


async def test_callers_at_once_have_ids_in_their_order_and_different_uids(store: Store) -> None:
    heard: list[Message] = []
    store.on_stored = heard.append
    messages = await put_n(store, 250)
    assert [message.id for message in messages] == list(range(1, 251))
    assert [message.publish.payload for message in messages] == [b"%d" % i for i in range(250)]
    assert len({message.uid for message in messages}) == 250
    assert heard == messages


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[Totals]:
    """What was stored at each."""
    commits = []
    commit = Tables.commit

    def counted(tables: Tables) -> None:
        commit(tables)
        commits.append(tables.totals)

    monkeypatch.setattr(Tables, "commit", counted)
    return commits


async def test_callers_that_wait_share_a_commit(store: Store, commits: list[Totals]) -> None:
    await asyncio.gather(*(put(store, publish(), 1) for _ in range(64)))
    assert [totals.next_id for totals in commits] == [65]


async def test_ends_of_deliveries_share_the_commit_of_the_next_answer(
    store: Store, commits: list[Totals], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client_sdk.gateways.samwise.store.LINGER_S", 30)
    await put_n(store, 3)
    commits.clear()
    store.delivered(1)
    store.later(2, 7, 1, "")
    await put(store, publish(), 5)
    assert [(totals.next_id, totals.waiting_n) for totals in commits] == [(5, 3)]


async def test_ends_of_deliveries_are_written_though_nobody_asks(store: Store) -> None:
    await put_n(store, 2)
    store.delivered(1)
    await until(lambda: store.totals.waiting_n == 1)
    store.bury(2, 1, "", 1)
    await until(lambda: store.totals.dead_n == 1)


async def test_a_caller_that_left_is_heard_of_all_the_same(store: Store) -> None:
    heard: list[Message] = []
    store.on_stored = heard.append
    gone = asyncio.ensure_future(put(store, publish(b"gone"), 1))
    await asyncio.sleep(0)
    gone.cancel()
    await put(store, publish(b"there"), 2)
    assert [message.publish.payload for message in heard] == [b"gone", b"there"]


async def test_a_full_store_refuses_until_there_is_room(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", max_messages=2)
    await store.open()
    await put_n(store, 2)
    with pytest.raises(Refused, match="buffer full: 2 messages are stored") as refused:
        await put(store, publish(), 1)
    assert refused.value.reason == "full"
    store.delivered(1)
    await store.written()
    assert (await put(store, publish(), 1)).id == 3
    await store.close()


async def test_dead_letters_take_room_as_others_do(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", max_messages=1)
    await store.open()
    await put_n(store, 1)
    store.bury(1, 3, "no", 5)
    with pytest.raises(Refused):
        await put(store, publish(), 1)
    assert await store.remove([1]) == 1
    assert (await put(store, publish(), 1)).id == 2
    await store.close()


async def test_bytes_are_bounded_and_a_smaller_message_of_the_same_commit_still_fits(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", max_bytes=3 * SMALL)
    await store.open()
    big, small = await asyncio.gather(
        put(store, publish(bytes(3 * SMALL)), 1), put(store, publish(), 2), return_exceptions=True
    )
    assert isinstance(big, Refused)
    assert big.reason == "full"
    assert big.text.startswith("buffer full: 0 bytes are stored, ")
    assert isinstance(small, Message)
    assert store.totals == Totals(2, 1, SMALL, 0, 0, oldest_at_ms=2)
    await store.close()


async def test_a_full_disk_refuses_and_takes_messages_again_when_there_is_room(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await put_n(store, 3)
    await limit_pages(store, 0)
    with pytest.raises(Refused, match="not stored: database or disk is full") as refused:
        await put(store, publish(bytes(100_000)), 1)
    assert refused.value.reason == "disk"
    with pytest.raises(Refused):
        await put(store, publish(bytes(100_000)), 1)
    assert store.totals.waiting_n == 3
    assert (await put(store, publish(b"small"), 4)).id == 4  # fits into a page that is there
    await limit_pages(store, 100_000)
    assert (await put(store, publish(bytes(100_000)), 5)).id == 5
    assert len((await store.read_new(0, 10))[0]) == 5
    assert caplog.messages == [f"samwise store {store.path}: not written: database or disk is full"]


async def test_messages_leave_room_on_the_disk_for_their_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare_bytes, free_bytes = 8_000_000, 10_000_000

    def statvfs(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(f_blocks=spare_bytes * SPARE_PART, f_frsize=1, f_bavail=free_bytes)

    monkeypatch.setattr("client_sdk.gateways.samwise.tables.os.statvfs", statvfs)
    store = Store(tmp_path / "store", durability=OS)
    await store.open()
    large = publish(bytes(600_000))
    assert (await put(store, large, 1)).id == 1
    free_bytes = spare_bytes + 1_200_000  # each is written twice, and is a little longer than its payload
    with pytest.raises(Refused, match=r"^not stored: the disk is full but for 8000000 bytes$") as refused:
        await put(store, large, 2)
    assert refused.value.reason == "disk"
    store.park(1, "away", 0, "")
    assert len((await store.take_lane("away", 10))[0]) == 1
    store.delivered(1)
    await store.written()
    assert (await put(store, large, 3)).id == 2  # into the pages of the one that is gone
    await store.close()


async def test_on_a_full_disk_one_large_message_does_not_take_small_ones_with_it(store: Store) -> None:
    await put_n(store, 3)
    await limit_pages(store, 0)
    asked = [put(store, publish(each), 1) for each in (b"a", bytes(100_000), b"b")]
    first, large, second = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(large, Refused)
    assert isinstance(first, Message)
    assert isinstance(second, Message)
    assert (first.id, second.id) == (4, 5)


async def test_a_system_that_takes_no_more_refuses_and_goes_on_when_it_does(tmp_path: Path) -> None:
    path = tmp_path / "store"
    child = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", FILLER, str(path)], capture_output=True, text=True, cwd=ROOT
    )
    assert child.returncode == 0, child.stderr
    reason, before_n, stored_n, waiting_n = child.stdout.split()
    assert reason == "disk"
    assert 50 < int(stored_n) < 200
    assert (int(before_n), int(waiting_n)) == (int(stored_n), int(stored_n))  # one delivered, one more put
    store = Store(path)
    await store.open()
    messages, _ = await store.read_new(0, 1000)
    assert [message.id for message in messages] == list(range(2, int(stored_n) + 2))
    await store.close()


async def test_what_was_undone_is_not_counted(store: Store) -> None:
    await put(store, publish(bytes(100_000)), 1)
    await limit_pages(store, 0)
    asked = asyncio.ensure_future(put(store, publish(), 2))
    store.bury(1, 1, "", 3)  # needs as much room as it has, once more
    assert (await asked).id == 2
    assert (store.totals.next_id, store.totals.waiting_n, store.totals.dead_n) == (3, 2, 0)
    await limit_pages(store, 100_000)
    await store.written()
    assert (store.totals.next_id, store.totals.waiting_n, store.totals.dead_n) == (3, 1, 1)


async def test_what_is_delivered_while_the_disk_takes_nothing_is_written_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client_sdk.gateways.samwise.store.RETRY_S", 0.001)
    await put_n(store, 2)
    await store._read(lambda tables: tables.connection.execute("PRAGMA query_only = 1"))
    store.delivered(1)
    with pytest.raises(Refused):
        await put(store, publish(), 1)
    assert store.unwritten_n == 1
    assert store.totals.waiting_n == 2
    await store._read(lambda tables: tables.connection.execute("PRAGMA query_only = 0"))
    await store.written()
    assert store.unwritten_n == 0
    assert [message.id for message in (await store.read_new(0, 10))[0]] == [2]


async def test_a_store_is_for_one_gateway(store: Store) -> None:
    second = Store(store.path)
    with pytest.raises(StoreError, match="another gateway uses it"):
        await second.open()
    other = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", OPENER, str(store.path)], capture_output=True, text=True, cwd=ROOT
    )
    assert "another gateway uses it" in other.stderr
    await store.close()
    await second.open()
    await second.close()


async def test_files_that_are_not_stores_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no store" * 100)
    with pytest.raises(StoreError, match=r"text: file is not a database"):
        await Store(tmp_path / "text").open()
    with pytest.raises(StoreError, match="No such file or directory"):
        await Store(tmp_path / "nowhere" / "store").open()


async def test_a_store_of_another_version_is_refused(store: Store) -> None:
    await store._read(lambda tables: tables.connection.execute("PRAGMA user_version = 7"))
    await store.close()
    with pytest.raises(StoreError, match="it has schema 7, this version reads 1"):
        await store.open()


async def test_nobody_else_may_read_messages(store: Store) -> None:
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_durabilities_are_two() -> None:
    with pytest.raises(ValueError, match="durability is 'disk', it must be one of fsync, os"):
        Store(Path("store"), durability="disk")


@pytest.mark.parametrize(("durability", "synchronous"), [(FSYNC, 2), (OS, 1)])
async def test_only_fsync_waits_for_the_disk(tmp_path: Path, durability: str, synchronous: int) -> None:
    store = Store(tmp_path / "store", durability=durability)
    await store.open()
    modes = await store._read(
        lambda tables: [
            tables.connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "auto_vacuum")
        ]
    )
    assert modes == [synchronous, "wal", 2]
    await store.close()


async def test_new_messages_are_read_in_windows(store: Store) -> None:
    messages = await put_n(store, 5)
    assert await store.read_new(0, 2) == (messages[:2], 2)
    assert await store.read_new(2, 2) == (messages[2:4], 4)
    assert await store.read_new(4, 2) == (messages[4:], 5)
    assert await store.read_new(5, 2) == ([], 5)


async def test_windows_are_bounded_by_bytes_and_have_one_message_at_least(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = await put_n(store, 4)
    monkeypatch.setattr("client_sdk.gateways.samwise.store.MAX_READ_BYTES", 2 * SMALL)
    assert await store.read_new(0, 10) == (messages[:2], 2)
    monkeypatch.setattr("client_sdk.gateways.samwise.store.MAX_READ_BYTES", 1)
    assert await store.read_new(0, 10) == (messages[:1], 1)


async def test_a_reading_looks_at_few_rows_however_many_wait_elsewhere(store: Store) -> None:
    n = MAX_SCANNED + 10
    messages = await put_n(store, n)
    for message in messages[:-1]:
        store.park(message.id, "away", 0, "")
    assert await store.read_new(0, 10) == ([], MAX_SCANNED)
    assert await store.read_new(MAX_SCANNED, 10) == ([messages[-1]], n)


async def test_reading_jumps_over_what_is_gone(store: Store) -> None:
    await put_n(store, 2 * MAX_SCANNED)
    for id in range(1, 2 * MAX_SCANNED):
        store.delivered(id)
    await store.written()
    found, up_to = await store.read_new(0, 10)
    assert ([message.id for message in found], up_to) == ([2 * MAX_SCANNED], 2 * MAX_SCANNED)


async def test_ids_are_never_used_again(store: Store) -> None:
    await put_n(store, 3)
    for id in (1, 2, 3):
        store.delivered(id)
    await store.written()
    assert (await put(await reopened(store), publish(), 1)).id == 4


async def test_after_a_crash_messages_are_counted_and_ids_are_not_used_again(store: Store, tmp_path: Path) -> None:
    messages = await put_n(store, 4)
    store.bury(2, 1, "", 1)
    for id in (3, 4):
        store.delivered(id)
    await store.written()
    (tmp_path / "crashed").mkdir()
    for file in tmp_path.glob("store*"):  # as they are while it is open
        shutil.copy(file, tmp_path / "crashed")
    crashed = Store(tmp_path / "crashed" / "store", durability=OS)
    await crashed.open()
    counted = [getattr(crashed.totals, name) for name in ("waiting_n", "waiting_bytes", "dead_n", "dead_bytes")]
    assert counted == [1, SMALL - 4, 1, SMALL - 4]
    assert crashed.totals.oldest_at_ms == messages[0].stored_at_ms
    after = await put(crashed, publish(), 1)
    assert after.id > 4
    assert [found.id for found in (await crashed.read_new(0, 10))[0]] == [1, after.id]
    before = crashed.totals
    assert (await reopened(crashed)).totals == before
    await crashed.close()


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_the_log_has_its_size_from_the_start_and_is_synced_and_moved_whenever_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    monkeypatch.setattr("client_sdk.gateways.samwise.tables.WAL_BYTES", 500_000)
    done: list[str] = []

    def note(name: str) -> None:
        real: Callable[[Tables], None] = getattr(Tables, name)

        def noted(tables: Tables) -> None:
            done.append(name)
            real(tables)

        monkeypatch.setattr(Tables, name, noted)

    note("sync_log")
    note("shorten_log")
    store = Store(tmp_path / "store", durability=durability)
    await store.open()
    assert os.stat(tmp_path / "store-wal").st_size == 500_000
    puts_n = 0
    while done.count("shorten_log") < 3:
        await put(store, publish(bytes(10_000)), 1)
        await until(lambda: store._syncing is None)
        puts_n += 1
    assert done == 3 * ["sync_log", "shorten_log"]
    assert 3 * 25 < puts_n < 3 * 50
    assert os.stat(tmp_path / "store-wal").st_size < 600_000
    await store.close()


async def test_a_disk_that_is_slow_makes_others_wait_and_no_log_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client_sdk.gateways.samwise.tables.WAL_BYTES", 500_000)
    synced = threading.Event()
    monkeypatch.setattr(Tables, "sync_log", lambda tables: synced.wait())
    store = Store(tmp_path / "store", durability=OS)
    await store.open()
    for _ in range(100):
        await put(store, publish(bytes(10_000)), 1)
    assert 600_000 < os.stat(tmp_path / "store-wal").st_size < 700_000
    synced.set()
    await store.close()


async def test_a_log_that_was_left_by_a_crash_keeps_what_it_has(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    await store.open()
    message = await put(store, publish(), 1)
    for suffix in ("", "-wal"):
        shutil.copy(tmp_path / f"store{suffix}", tmp_path / f"crashed{suffix}")
    os.truncate(tmp_path / "crashed-wal", 100_000)  # as an earlier version left it
    crashed = Store(tmp_path / "crashed")
    await crashed.open()
    assert (await crashed.read_new(0, 10))[0] == [message]
    await crashed.close()
    await store.close()


async def test_what_was_planned_waits_while_the_log_is_moved(store: Store) -> None:
    await until(lambda: not (store._has_spare or store._is_busy))
    asked = asyncio.ensure_future(put(store, publish(), 1))
    await asyncio.sleep(0)
    planned = store._next
    assert planned is not None
    store._synced()
    assert (store._is_busy, planned.cancelled()) == (True, True)
    assert (await asked).id == 1


async def test_a_retry_is_taken_once_when_it_is_due(store: Store) -> None:
    await put_n(store, 3)
    store.later(2, 5000, 1, "refused")
    store.later(1, 6000, 2, "late")
    assert await store.take_due(4999, 10) == ([], 5000)
    (message,), next_at_ms = await store.take_due(5999, 10)
    assert (message.id, message.tries_n, next_at_ms) == (2, 1, 6000)
    assert await store.take_due(5999, 10) == ([], 6000)
    assert [found.id for found in (await store.read_new(0, 10))[0]] == [2, 3]  # as a start finds them


async def test_no_retry_is_due_later_than_the_configuration_says(store: Store) -> None:
    await put_n(store, 2)
    store.later(1, 10_000_000, 1, "")
    store.later(2, 7, 1, "")
    assert await store.resume(5000) == ([], 7)
    assert len((await store.take_due(5000, 10))[0]) == 2


async def test_lanes_keep_the_order_of_ids(store: Store) -> None:
    await put_n(store, 4)
    for id, lane in ((4, "b"), (3, "a"), (1, "a"), (2, "a")):
        store.park(id, lane, 0, "")
    assert await store.resume(0) == (["a", "b"], None)
    found, is_all = await store.take_lane("a", 2)
    assert ([message.id for message in found], is_all) == ([1, 2], False)
    found, is_all = await store.take_lane("a", 2)
    assert ([message.id for message in found], is_all) == ([3], True)
    assert await store.resume(0) == (["b"], None)


async def test_acknowledgements_and_tries_survive(store: Store) -> None:
    await put_n(store, 1)
    store.acknowledged(1, {"rabbit-2", "rabbit-1"})
    store.later(1, 1, 2, "no answer")
    await reopened(store)
    (message,), _ = await store.take_due(1, 1)
    assert (message.acknowledged_by, message.tries_n) == (frozenset({"rabbit-1", "rabbit-2"}), 2)


async def test_dead_letters_are_seen_requeued_and_removed(store: Store) -> None:
    first, second, third = await put_n(store, 3)
    store.acknowledged(1, ["rabbit-1"])
    store.bury(1, 3, "refused by rabbit-2", 77)
    store.bury(2, 3, "nonsense", 78)
    dead = await store.list_dead(0, 10)
    assert [(letter.message.id, letter.reason, letter.dead_at_ms, letter.message.tries_n) for letter in dead] == [
        (1, "refused by rabbit-2", 77, 3),
        (2, "nonsense", 78, 3),
    ]
    assert dead[1].message.publish == second.publish
    assert await store.list_dead(1, 10) == dead[1:]
    assert await store.list_waiting(0, 10) == [Letter(third, "", None, None)]
    assert store.totals == Totals(4, 1, SMALL - 4, 2, 2 * (SMALL - 4), oldest_at_ms=1002)
    assert await store.requeue([1, 3, 99], 500) == 1
    (again,), _ = await store.take_due(500, 10)
    assert (again.id, again.uid, again.tries_n, again.acknowledged_by) == (1, first.uid, 0, frozenset({"rabbit-1"}))
    assert await store.remove([2, 3, 99]) == 2
    assert (store.totals.waiting_n, store.totals.dead_n) == (1, 0)


async def test_totals_are_there_after_a_start_without_counting(store: Store) -> None:
    await put_n(store, 3)
    store.delivered(1)
    store.bury(2, 1, "", 1)
    await store.written()
    before = store.totals
    assert before == Totals(4, 1, SMALL - 4, 1, SMALL - 4, oldest_at_ms=1002)
    assert (await reopened(store)).totals == before


async def test_what_is_told_of_messages_that_are_gone_changes_nothing(store: Store) -> None:
    await put_n(store, 1)
    await store.remove([1])
    store.acknowledged(1, ["a"])
    store.later(1, 1, 1, "")
    store.park(1, "a", 1, "")
    store.bury(1, 1, "", 1)
    store.delivered(1)
    await store.written()
    assert store.totals == Totals(2, 0, 0, 0, 0)


async def test_deleted_messages_give_their_space_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client_sdk.gateways.samwise.tables.KEPT_PAGES", 10)
    monkeypatch.setattr("client_sdk.gateways.samwise.tables.FREED_PAGES", 20)
    monkeypatch.setattr("client_sdk.gateways.samwise.store.RETRY_S", 0.001)
    for _ in range(20):
        await put(store, publish(bytes(100_000)), 1)
    for id in range(1, 21):
        store.delivered(id)
    await store.written()
    await until(lambda: not store._has_spare)  # a step whenever there is nothing else to do
    await store.close()
    assert store.path.stat().st_size < 40 * 4096


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    await store.close()
    with pytest.raises(StoreError, match="it is closed"):
        await put(store, publish(), 1)


@pytest.mark.long
def test_a_million_messages_cost_a_start_no_time_and_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "store"
    tables = Tables(path, is_synced=False, max_messages=2_000_000, max_bytes=1 << 40)
    given = publish(bytes(100))
    encoded = encode_publish(given)
    tables.begin()
    tables.connection.execute(  # as `put` and `park` would write them, in a tenth of the time
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000000)"
        " INSERT INTO waiting (id, uid, stored_at_ms, bytes, lane, publish)"
        " SELECT n, printf('%032x', n), n, ?, CASE WHEN n < 500000 THEN 'away' END, ? FROM c",
        (len(encoded), encoded),
    )
    tables.totals = Totals(1_000_001, 1_000_000, 1_000_000 * len(encoded), 0, 0, oldest_at_ms=1)
    tables.write_totals()
    tables.commit()
    tables.close()

    async def use() -> None:
        store = Store(path, durability=OS, max_messages=2_000_000, max_bytes=1 << 40)
        await store.open()
        assert await store.resume(5000) == (["away"], None)
        assert len((await store.take_lane("away", 256))[0]) == 256
        assert (await store.read_new(256, 256))[1] == 256 + MAX_SCANNED
        assert len((await store.read_new(499_999, 256))[0]) == 256
        assert (await put(store, given, 1)).id == 1_000_001
        assert store.totals.waiting_n == 1_000_001
        await store.close()

    tracemalloc.start()
    begin_at = time.monotonic()
    asyncio.run(use())
    assert time.monotonic() - begin_at < 5
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("durability", [OS, FSYNC])
async def test_after_kill_9_all_that_was_answered_is_there(tmp_path: Path, durability: str) -> None:
    path = tmp_path / "store"
    answered = set()
    for _ in range(3):
        with subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", PUTTER, str(path), durability],
            stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for number, line in enumerate(process.stdout):  # many more than 100 may be on their way then
                answered.add(line)
                if number == 100:
                    process.send_signal(signal.SIGKILL)
            # What it said before it died counts, except for a line that was cut.
    answered = {line for line in answered if line.endswith("\n")}
    store = Store(path)
    await store.open()
    found = set()
    after = 0
    while True:
        messages, up_to = await store.read_new(after, 1000)
        found |= {f"{message.id} {message.uid}\n" for message in messages}
        if up_to == after:
            break
        after = up_to
    assert len(answered) >= 300
    assert answered - found == set()
    assert (await put(store, publish(), 1)).id > max(int(line.split()[0]) for line in found)
    found.add("")
    assert store.totals.waiting_n == len(found)
    await store.close()


async def test_a_bug_in_one_answer_keeps_no_other_back(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def fail(result: object) -> None:
        raise RuntimeError("a bug")

    store.put(publish(), 1, fail)
    assert (await put(store, publish(), 1)).id == 2
    assert "a bug" in caplog.text

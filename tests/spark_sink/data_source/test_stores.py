"""The same files from a folder, a file system of pyarrow and a broker's admin API."""

import asyncio
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiohttp import web

from admin_api import event_files
from admin_api.app import make_app, start_admin
from admin_api.listener import AdminListener
from broker.config.options import Config
from broker.config.sections.events import EventOptions
from spark_sink.data_source import http_store, stores
from spark_sink.data_source.http_store import HttpStore
from spark_sink.data_source.options import Options, options_of
from spark_sink.data_source.reader import EventReader
from spark_sink.data_source.stores import ArrowStore, LocalStore
from spark_sink.errors import BadFolder, LostRows
from spark_sink.event_files.folder import LOG
from spark_sink.schema import FLOWS, LIFECYCLES, REQUESTS
from tests.admin_api.fakes import FakeAdmin, shop
from tests.spark_sink.data_source.world import STREAM, archive, names_of, read_part, run, segments


class Served:
    """Applications on a loop in a thread of its own: what reads here waits for its answers."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._runners: list[AdminListener] = []
        self._thread.start()

    def start(self, app: web.Application, port: int = 0) -> int:
        async def start() -> tuple[AdminListener, int]:
            return await start_admin(app, "127.0.0.1", port)

        runner, port = asyncio.run_coroutine_threadsafe(start(), self._loop).result()
        self._runners.append(runner)
        return port

    def broker(self, folder: Path | None, port: int = 0) -> str:
        """The URL of a broker that writes there."""
        admin = FakeAdmin(shop())
        admin.config = Config(events=EventOptions(dir=str(folder or "")))
        return f"http://127.0.0.1:{self.start(make_app(admin), port)}"

    def stop_all(self) -> None:
        while self._runners:
            asyncio.run_coroutine_threadsafe(self._runners.pop().cleanup(), self._loop).result()

    def close(self) -> None:
        self.stop_all()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.close()


@pytest.fixture(params=["folder", "pyarrow", "http"])
def options(
    request: pytest.FixtureRequest, tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Where the events of `tmp_path` are, in three ways."""
    monkeypatch.setattr(event_files, "LOOK_S", 0.0)
    if request.param == "http":
        return {"url": served.broker(tmp_path)}
    return {"path": str(tmp_path) if request.param == "folder" else f"file://{tmp_path}"}


def opened(source: str, options: dict[str, str]) -> EventReader:
    return EventReader(options_of({"source": source, **options}))


@pytest.mark.parametrize("source", [FLOWS, LIFECYCLES, REQUESTS])
def test_all_stores_give_the_same_from_archive_segments_and_log(
    tmp_path: Path, options: dict[str, str], source: str
) -> None:
    one, two = run(tmp_path), run(tmp_path, broker=2)
    for _ in range(3):
        one.seal(20)
    one.take(10)
    two.take(40)
    archive(tmp_path, source, segments(tmp_path, source)[0])
    reader = opened(source, options)
    start = reader.initial_offset()
    middle = reader.latest_offset(start, 30)
    end = reader.latest_offset(middle)
    found = names_of(reader, start, middle) + names_of(reader, middle, end)
    assert sorted(found) == sorted(one.names[source] + two.names[source])
    assert len(names_of(reader, start, middle)) == min(30, len(found))


def test_all_stores_find_what_moves_between_plan_and_reading(tmp_path: Path, options: dict[str, str]) -> None:
    one = run(tmp_path)
    one.seal(20)
    one.take(20)
    reader = opened(FLOWS, options)
    parts = reader.parts(reader.initial_offset(), reader.latest_offset())
    one.roll()
    for path in segments(tmp_path):
        archive(tmp_path, FLOWS, path)
    worker = pickle.loads(pickle.dumps(reader))
    assert [name for part in parts for name in read_part(worker, part)] == one.names[FLOWS]


def test_all_stores_say_what_is_lost(tmp_path: Path, options: dict[str, str]) -> None:
    one = run(tmp_path)
    for _ in range(3):
        one.seal(20)
    reader = opened(FLOWS, options)
    start = reader.initial_offset()
    segments(tmp_path)[0].unlink()
    with pytest.raises(LostRows, match="the 18 rows 0 to 17"):
        reader.parts(start, reader.latest_offset(start))


def test_long_lists_come_in_parts(tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_store, "PAGE", 3)
    runs = [run(tmp_path, broker=number) for number in range(1, 6)]
    for one in runs:
        for _ in range(4):
            one.seal(3)
    reader = opened(FLOWS, {"url": served.broker(tmp_path)})
    found = [name for part in reader.whole() for name in read_part(reader, part)]
    assert sorted(found) == sorted(name for one in runs for name in one.names[FLOWS])


def test_several_brokers_and_a_folder_that_two_of_them_share(tmp_path: Path, served: Served) -> None:
    one, two = run(tmp_path / "a"), run(tmp_path / "b", broker=2)
    one.take(20)
    two.take(20)
    urls = ",".join(served.broker(tmp_path / name) for name in ("a", "b", "a"))
    reader = opened(FLOWS, {"url": urls})
    found = [name for part in reader.whole() for name in read_part(reader, part)]
    assert sorted(found) == sorted(one.names[FLOWS] + two.names[FLOWS])


@pytest.mark.parametrize("what", ["list", "size", "read"])
def test_a_broker_that_starts_again_is_waited_for(
    tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    run(tmp_path).take(20)
    url = served.broker(tmp_path)
    store = HttpStore([url])
    [log] = store.list(FLOWS, has_archive=True).files(LOG)
    size = len(store.read(log))
    served.stop_all()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        served.broker(tmp_path, int(url.rpartition(":")[2]))

    monkeypatch.setattr(http_store, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    if what == "list":
        assert store.list(FLOWS, has_archive=True).streams() == [STREAM]
    else:
        assert (store.size(log) if what == "size" else len(store.read(log))) == size
    assert waits == [http_store.PAUSE_S]


def test_nobody_there_is_one_sentence(served: Served) -> None:
    url = served.broker(None)
    served.stop_all()
    store = HttpStore([url], retry_s=0.0)
    with pytest.raises(OSError, match=rf"{url}.* did not answer within 0 s: no broker answers at .*refused"):
        store.list(FLOWS, has_archive=True)


def test_a_broker_without_event_files_and_what_is_no_broker_say_so(served: Served) -> None:
    with pytest.raises(BadFolder, match="writes no event files: start it with --events DIR"):
        HttpStore([served.broker(None)]).list(FLOWS, has_archive=True)
    stranger = web.Application()
    for_stranger = f"http://127.0.0.1:{served.start(stranger)}"
    with pytest.raises(BadFolder, match=r"says 404 Not Found; is it a broker of this version"):
        HttpStore([for_stranger]).list(FLOWS, has_archive=True)

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    other = web.Application()
    other.router.add_get("/api/v1/events", hello)
    with pytest.raises(BadFolder, match="is not the admin API of a broker"):
        HttpStore([f"http://127.0.0.1:{served.start(other)}"]).list(FLOWS, has_archive=True)


def test_a_token_is_for_whoever_stands_before_the_broker(served: Served) -> None:
    seen: list[str] = []

    async def guarded(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        if seen[-1] != "Bearer secret":
            raise web.HTTPUnauthorized
        return web.json_response({"is_written": True, "items": [], "total": 0, "foreign": []})

    app = web.Application()
    app.router.add_get("/api/v1/events", guarded)
    url = f"http://127.0.0.1:{served.start(app)}"
    assert HttpStore([url], "secret").list(FLOWS, has_archive=True).streams() == []
    with pytest.raises(PermissionError, match="says 401"):
        HttpStore([url]).list(FLOWS, has_archive=True)
    assert seen == ["Bearer secret", ""]


def test_a_token_does_not_show_when_options_are_printed() -> None:
    assert "secret" not in repr(Options("flows", urls=("http://h",), token="secret"))


def test_a_file_that_is_too_large_to_be_read_whole_is_refused(
    tmp_path: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path).seal(20)
    for module in (stores, http_store):
        monkeypatch.setattr(module, "MAX_FILE_BYTES", 1000)
    reader = opened(FLOWS, options)
    [part] = reader.whole()
    with pytest.raises(OSError, match="1000"):
        read_part(reader, part)


def test_a_folder_of_pyarrow_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFolder, match="is no folder of events"):
        ArrowStore(f"file://{tmp_path}/none").list(FLOWS, has_archive=True)


def test_stores_have_names_for_sentences(tmp_path: Path) -> None:
    assert LocalStore(tmp_path).name == str(tmp_path)
    assert HttpStore(["http://a/", "http://b"]).name == "http://a, http://b"

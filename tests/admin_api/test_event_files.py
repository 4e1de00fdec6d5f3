"""Event files over HTTP: what is listed, what is sent, and what cannot be reached."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin_api import event_files
from admin_api.app import make_app, make_workers_app
from admin_api.endpoints import EVENTS
from admin_api.event_files import CHUNK_BYTES, MAX_SENDS
from broker.config.options import Config
from broker.config.sections.events import EventOptions
from spark_sink.event_files.layout import segment_name
from tests.admin_api.asking import Api, api_of, get, problem
from tests.admin_api.backends.test_workers import FakeSupervisor
from tests.admin_api.fakes import FakeAdmin, shop

BROKER = "7f3a0000-0000-4000-8000-000000000001"
ONE, TWO = f"{BROKER}-1700000000000", f"{BROKER}-1700000000001"


def place(folder: Path, where: str, epoch: int, number: int, data: bytes = b"segment") -> Path:
    name = segment_name(BROKER, epoch, number)
    path = folder / where / (name.replace(".parquet", ".wal") if where == "_tmp" else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs of a broker; the first one's first segment is archived, the second one's latest records are in a log."""
    events = tmp_path / "events"
    place(events, "_archive/x/flows", 1_700_000_000_000, 1)
    place(events, "flows", 1_700_000_000_000, 2)
    place(events, "lifecycle", 1_700_000_000_000, 2)
    place(events, "flows", 1_700_000_000_001, 1)
    place(events, "_tmp", 1_700_000_000_001, 2, b"log")
    (events / "flows" / "notes.txt").write_text("none of ours")
    (tmp_path / "secret").write_text("not for everybody")
    return events


@pytest.fixture(params=["one process", "workers"])
async def client(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> AsyncIterator[Api]:
    """Of a broker, and of the supervisor of several workers."""
    config = Config(events=EventOptions(dir=str(folder)))
    if request.param == "workers":
        supervisor = FakeSupervisor(tmp_path)
        supervisor.config = config
        app = make_workers_app(supervisor)
    else:
        admin = FakeAdmin(shop())
        admin.config = config
        app = make_app(admin)
    async with api_of(app) as client:
        yield client


async def test_streams_are_listed_by_epoch_with_what_is_foreign(client: Api) -> None:
    body = await get(client, EVENTS)
    assert body == {
        "is_written": True,
        "items": [
            {
                "stream": ONE,
                "broker_id": BROKER,
                "epoch": 1_700_000_000_000,
                "files": 3,
                "first_number": 1,
                "last_number": 2,
            },
            {
                "stream": TWO,
                "broker_id": BROKER,
                "epoch": 1_700_000_000_001,
                "files": 2,
                "first_number": 1,
                "last_number": 2,
            },
        ],
        "total": 2,
        "offset": 0,
        "limit": 100,
        "foreign": ["flows/notes.txt"],
    }
    assert [item["stream"] for item in (await get(client, f"{EVENTS}?limit=1&offset=1"))["items"]] == [TWO]


@pytest.mark.parametrize(
    "query, found",
    [
        ("", [("flows", 1, 7, True), ("flows", 2, 7, False), ("lifecycle", 2, 7, False)]),
        ("?source=flows", [("flows", 1, 7, True), ("flows", 2, 7, False)]),
        ("?source=flows&archived=false", [("flows", 2, 7, False)]),
        ("?source=flows&after=1", [("flows", 2, 7, False)]),
        ("?source=requests", []),
        ("?limit=1&offset=1", [("flows", 2, 7, False)]),
    ],
)
async def test_files_of_a_stream_are_listed(client: Api, query: str, found: list[tuple[str, int, int, bool]]) -> None:
    body = await get(client, f"{EVENTS}/{ONE}{query}")
    keys = ("source", "number", "size_bytes", "is_archived")
    assert [tuple(item[key] for key in keys) for item in body["items"]] == found


async def test_parts_of_a_long_list_are_in_order_and_count_all(client: Api, folder: Path) -> None:
    """Longer than a pile, and in the order of the numbers though no folder keeps one."""
    numbers = [*range(3, 40), *range(1020, 1030), 5000]
    for number in numbers:
        place(folder, "requests", 1_700_000_000_001, number, b"")
    for offset in range(0, 50, 7):
        body = await get(client, f"{EVENTS}/{TWO}?source=requests&after=2&limit=7&offset={offset}")
        assert [item["number"] for item in body["items"]] == numbers[offset : offset + 7]
        assert body["total"] == len(numbers)
    body = await get(client, f"{EVENTS}/{TWO}?source=requests&after=1025")
    assert [item["number"] for item in body["items"]] == [1026, 1027, 1028, 1029, 5000]


async def test_logs_are_listed_with_each_source(client: Api) -> None:
    body = await get(client, f"{EVENTS}/{TWO}?source=requests")
    assert body["items"] == [{"source": "log", "number": 2, "size_bytes": 3, "is_archived": False}]


@pytest.mark.parametrize("name", [f"{ONE}/flows/1", f"{ONE}/flows/2", f"{TWO}/log/2"])
async def test_bytes_of_a_file_or_a_part_of_them(client: Api, name: str) -> None:
    async with client.get(f"{EVENTS}/{name}") as answer:
        data = await answer.read()
        assert (answer.status, answer.content_type) == (200, "application/octet-stream")
        assert answer.headers["Cache-Control"] == "no-store"
    assert data in (b"segment", b"log")
    async with client.get(f"{EVENTS}/{name}", headers={"Range": "bytes=-2"}) as answer:
        assert (answer.status, await answer.read()) == (206, data[-2:])
    async with client.head(f"{EVENTS}/{name}") as answer:
        assert (answer.status, answer.content_length, await answer.read()) == (200, len(data), b"")


async def test_a_file_that_is_archived_after_it_was_listed_is_found(client: Api, folder: Path) -> None:
    await get(client, f"{EVENTS}/{ONE}")
    archive = folder / "_archive" / "x" / "flows"
    path = folder / "flows" / segment_name(BROKER, 1_700_000_000_000, 2)
    path.rename(archive / path.name)
    async with client.get(f"{EVENTS}/{ONE}/flows/2") as answer:
        assert (answer.status, await answer.read()) == (200, b"segment")


@pytest.mark.parametrize(
    "name",
    [
        f"{ONE}/flows/3",
        f"{ONE}/flows/-1",
        f"{ONE}/flows/٢",
        f"{ONE}/flows/99999999999999999999",
        f"{ONE}/secret/1",
        f"{ONE}/log/1",
        "nobody-1/flows/1",
        f"%2e%2e%2f{ONE}/flows/2",
        "..%2f..%2fsecret/flows/2",
        f"{ONE}/..%2f..%2fsecret/1",
        f"{ONE}/flows/..%2f..%2f..%2fsecret",
        f"{ONE}%00/flows/2",
    ],
)
async def test_nothing_else_can_be_reached(client: Api, name: str) -> None:
    body = await problem(client, f"{EVENTS}/{name}")
    assert (body["status"], body["code"]) == (404, "no-such-event-file")


async def test_links_lead_nowhere(client: Api, folder: Path, tmp_path: Path) -> None:
    (folder / "flows" / segment_name(BROKER, 1_700_000_000_000, 7)).symlink_to(tmp_path / "secret")
    body = await problem(client, f"{EVENTS}/{ONE}/flows/7")
    assert body["code"] == "no-such-event-file"


@pytest.mark.parametrize("query", ["source=log", "after=-1", "archived=perhaps", "source=flows&source=flows"])
async def test_bad_parameters_are_refused(client: Api, query: str) -> None:
    assert (await problem(client, f"{EVENTS}/{ONE}?{query}"))["code"] == "bad-parameter"


async def test_a_broker_that_writes_none_says_so() -> None:
    async with api_of(FakeAdmin(shop())) as client:
        assert (await get(client, EVENTS))["is_written"] is False
        assert (await problem(client, f"{EVENTS}/{ONE}"))["code"] == "no-event-files"


async def test_a_folder_that_is_not_there_yet_is_not_ready(client: Api, folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    body = await problem(client, EVENTS)
    assert (body["status"], body["code"]) == (503, "not-ready")


async def test_so_many_files_are_sent_at_a_time_and_a_reader_that_takes_too_long_is_cut_off(
    client: Api, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More stuck readers than there are places; whoever comes then gets its file when they are cut off."""
    monkeypatch.setattr(event_files, "SEND_S", 0.3)
    place(folder, "requests", 1_700_000_000_001, 1, bytes(64 << 20))
    host, port = client.server.host, client.server.port
    stuck = []
    for _ in range(MAX_SENDS + 2):
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 10)
        writer.write(f"GET {EVENTS}/{TWO}/requests/1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        stuck.append((reader, writer))
    await stuck[0][0].readexactly(15)  # it is being sent
    async with client.get(f"{EVENTS}/{ONE}/flows/2") as answer:
        assert await answer.read() == b"segment"
    cut_off = 0
    for reader, writer in stuck:
        try:
            await reader.readexactly(64 << 20)
        except (ConnectionError, asyncio.IncompleteReadError):
            cut_off += 1
        writer.close()
    assert cut_off >= MAX_SENDS  # the last two may have got their places just now, and are read


async def test_a_file_that_is_removed_while_it_is_sent_comes_whole(client: Api, folder: Path) -> None:
    data = bytes(range(256)) * (CHUNK_BYTES // 16)
    path = place(folder, "requests", 1_700_000_000_001, 1, data)
    async with client.get(f"{EVENTS}/{TWO}/requests/1") as answer:
        begin = await answer.content.readexactly(100)
        path.unlink()
        assert begin + await answer.read() == data
    assert (await problem(client, f"{EVENTS}/{TWO}/requests/1"))["code"] == "no-such-event-file"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_file_that_is_removed_when_it_is_to_be_opened_is_not_there_any_more(
    client: Api, folder: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Between the look and the opening: too late for a body that says so."""
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    await get(client, f"{EVENTS}/{ONE}")
    (folder / "flows" / segment_name(BROKER, 1_700_000_000_000, 2)).unlink()
    monkeypatch.setattr(event_files, "LOOK_S", 60.0)
    async with client.request(method, f"{EVENTS}/{ONE}/flows/2") as answer:
        assert (answer.status, await answer.read()) == (404, b"")


@pytest.mark.parametrize(
    "said, status, found",
    [
        ("bytes=0-2", 206, b"seg"),
        ("bytes=5-", 206, b"nt"),
        ("bytes=-100", 206, b"segment"),
        ("bytes=7-", 416, b""),
        ("bytes=4-2", 416, b""),
        ("lines=1-2", 416, b""),
    ],
)
async def test_ranges_of_a_file(client: Api, said: str, status: int, found: bytes) -> None:
    async with client.get(f"{EVENTS}/{ONE}/flows/2", headers={"Range": said}) as answer:
        assert answer.status == status
        if status == 206:
            assert await answer.read() == found
        else:
            assert answer.headers["Content-Range"] == "bytes */7"

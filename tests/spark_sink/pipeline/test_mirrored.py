"""The whole way: brokers under load, their event folders in one mirror elsewhere, and Spark on the mirror."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.config.options import Config
from broker.config.sections.feed import FeedOptions, MessageBrokerOptions, PostOptions, SubscribeOptions
from broker.config.urls import Listen
from client_sdk.testing import local_broker
from spark_sink.event_files.folder import SOURCES, list_written
from spark_sink.feed.program.assignment import Assignment
from spark_sink.feed.program.program import serve
from spark_sink.feed.program.serving import FilesListener
from spark_sink.tables import GAPS, REQUESTS, TRAFFIC, read_table
from tests.conftest import StartBroker
from tests.spark_sink.pipeline.folders import run_once
from tests.system.events.test_events_truth import OPTIONS, counted, kill_the_writer
from tests.system.support.counted_load import CountedLoad
from tests.system.support.waits import until


@asynccontextmanager
async def mirroring(folder: Path, broker_url: str, posted: dict[str, Path]) -> AsyncIterator[Path]:
    """The folder into which a feed mirrors what another one posts of these, over RSocket and HTTP."""
    broker = {"b": MessageBrokerOptions(url=broker_url)}
    mirror = folder / "mirror"
    async with AsyncExitStack() as at_end:
        tables: dict[str, PostOptions] = {}
        for name, events in posted.items():
            files = FilesListener(events, is_segments=True)
            port = await files.start(Listen("http", "127.0.0.1", 0))
            at_end.push_async_callback(files.close)
            url = f"http://127.0.0.1:{port}/"
            tables[name] = PostOptions(what="segments", folder=str(events), base_url=url, to=("b",))
        feeds = {
            "poster": FeedOptions(dir=str(folder / "p"), broker=broker, post=tables),
            "mirror": FeedOptions(
                dir=str(folder / "m"),
                broker=broker,
                subscribe={"m": SubscribeOptions(into=str(mirror), brokers=("b",))},
            ),
        }
        config = Config()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as running:
            for name, options in feeds.items():
                assignment = Assignment(
                    options=options, name=name, events=config.events, admin_url="", broker_url="", log=config.log
                )
                running.create_task(serve(assignment, stop))
            yield mirror
            stop.set()


def segments(*folders: Path) -> set[tuple[str, str]]:
    """Source and name of those that lie in these folders of events, or in their archives."""
    listings = [list_written(folder, has_archive=True) for folder in folders]
    return {(file.source, file.name) for each in listings for file in each.places(*SOURCES)}


@pytest.mark.spark
async def test_spark_on_a_mirror_of_two_event_folders_tells_what_their_loads_counted(
    start_broker: StartBroker, socket_folder: Path, spark: Any, tmp_path: Path
) -> None:
    """A writer is killed, and the pipeline runs, while segments are made, posted and fetched."""
    folders = {name: tmp_path / name for name in ("east", "west")}
    tables = tmp_path / "tables"
    brokers = [start_broker("--events", str(each), "--admin", "127.0.0.1:0", **OPTIONS) for each in folders.values()]
    async with local_broker() as url, mirroring(socket_folder, url, folders) as mirror:
        east, west = (CountedLoad(broker.url("tcp")) for broker in brokers)
        async with east, west:
            await asyncio.gather(east.run(2), west.run_while(kill_the_writer(brokers[1])))
            await until(lambda: segments(mirror))
            await east.run_while(asyncio.to_thread(run_once, spark, mirror, tables))
            await east.lose_a_service()
            await west.lose_a_caller()
        for broker in brokers:
            broker.signal()
            assert await asyncio.to_thread(broker.wait) == 0
        await until(lambda: segments(mirror) == segments(*folders.values()))
    await asyncio.to_thread(run_once, spark, mirror, tables)
    for table in (TRAFFIC, REQUESTS):
        assert counted(read_table(tables, table).to_pylist()) == east.counts + west.counts, table
    assert len({row["broker_id"] for row in read_table(tables, TRAFFIC).to_pylist()}) == len(folders)
    assert read_table(tables, GAPS).num_rows == 0

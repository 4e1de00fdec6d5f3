"""`rsocket-broker demo`: the main job from nothing, once through.

A real broker process, services and callers over TCP and WebSocket, all interaction models, unicast, shard, multicast, a
service that leaves and comes back, the REST API, the event files, the Spark job and its report. At the end the demo's
own count is held against the report's.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from client_sdk import Client, NoRoute, Payload, RouteLost, Service, address, connect, multicast, shard
from client_sdk.broker_process import BrokerProcess
from rsocket_wire.errors import BrokerError
from spark_sink.tables import read_table

START_S = 30.0
STOP_S = 30.0
SPARK_S = 150.0
MARKER = ".rsocket-broker-demo"  # in a folder that the demo has made, and may so empty
EXIT_FAILED = 1
EXIT_BAD_FOLDER = 2
# Of few seconds as much as there is: each request as a row, and the table every second.
RECORDED = {"events.requests": "all", "events.snapshot_s": 1}
NOT_INSTALLED = 3  # what `pipeline` ends with when pyspark or Java is missing

Counts = Counter[str]  # interaction model -> requests sent


@click.command()
@click.option("--dir", "folder", default="demo-data", show_default=True, help="New, empty, or of an earlier demo.")
@click.option("--seconds", default=4.0, show_default=True, type=click.FloatRange(0.5, 60), help="Of traffic.")
def demo(folder: str, seconds: float) -> None:
    """Broker, services, traffic, REST API and a Spark report in one go; ends by itself."""
    data = Path(folder)
    try:
        clear(data)
    except BrokerError as error:
        click.echo(f"rsocket-broker demo: {error.text}", err=True)
        sys.exit(EXIT_BAD_FOLDER)
    console = Console(width=None if sys.stdout.isatty() else 120)
    sent = asyncio.run(_traffic(console, data, seconds))
    sys.exit(_report(console, data, sent))


def clear(data: Path) -> None:
    """Makes the folder, or removes what an earlier demo left in it. BrokerError when it cannot be a demo's."""
    try:
        if not (data / MARKER).exists() and data.exists() and any(data.iterdir()):
            text = (
                f"{data} holds files that no demo wrote; --dir takes a new or empty folder, or one of an earlier demo"
            )
            raise BrokerError("bad-folder", text)
        data.mkdir(parents=True, exist_ok=True)
        (data / MARKER).touch()
        for name in ("events", "tables"):
            if (data / name).exists():
                shutil.rmtree(data / name)
        for name in ("report.md", "report.html"):
            (data / name).unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BrokerError("bad-folder", f"{data} cannot be the folder of a demo: {reason}") from None


def order_service(region: str) -> Service:
    """A service with a handler for each interaction model."""
    orders = Service("orders", tags={"region": region})

    @orders.request_response("create")
    async def create(data: bytes) -> bytes:
        return b"order of " + data + b" taken in " + region.encode()

    @orders.request_stream("watch")
    async def watch(data: bytes) -> AsyncIterator[bytes]:
        for state in (b"taken", b"packed", b"sent"):
            yield data + b" " + state

    @orders.request_channel("prices")
    async def prices(items: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
        async for item in items:
            yield (item.data or b"") + b" costs 3"

    @orders.fire_and_forget("seen")
    async def seen(data: bytes) -> None:
        pass

    @orders.metadata_push()
    async def reload(data: bytes) -> None:
        pass

    return orders


def cart_service(number: int) -> Service:
    """A service that keeps what belongs to a user: the same user always finds the same one."""
    carts = Service("carts", tags={"instance_name": f"carts-{number}"})

    @carts.request_response("add")
    async def add(data: bytes) -> bytes:
        return f"in carts-{number}".encode()

    return carts


async def _traffic(console: Console, data: Path, seconds: float) -> Counts:
    """Runs the broker and everything that talks to it; what was sent, by model."""
    async with broker_process(data / "events") as urls, contextlib.AsyncExitStack() as stack:
        tcp, ws, admin = urls["tcp"], urls["ws"], urls["http"]
        console.print(f"[bold]1[/]  a broker runs: {tcp}  {ws}  {admin}")
        leaving = connect(tcp, service=order_service("eu"))
        await leaving.__aenter__()
        for url, service in (
            (tcp, order_service("eu")),
            (ws, order_service("us")),
            (tcp, cart_service(1)),
            (tcp, cart_service(2)),
            (ws, cart_service(3)),
        ):
            await stack.enter_async_context(connect(url, service=service))
        console.print("[bold]2[/]  six services registered, over TCP and WebSocket")
        shop = await stack.enter_async_context(connect(tcp, service="shop"))
        kiosk = await stack.enter_async_context(connect(ws, service="kiosk"))
        await _until_all_are_there(admin, 8)
        await _show_answers(console, shop)
        counts: Counts = Counter({"request_response": 3, "request_stream": 1})
        until = time.monotonic() + seconds
        loads = [asyncio.create_task(_load(client, until, counts)) for client in (shop, kiosk) for _ in range(4)]
        await asyncio.sleep(seconds / 2)
        await _show_routes(console, admin)
        await leaving.__aexit__(None, None, None)
        await stack.enter_async_context(connect(tcp, service=order_service("eu")))
        await asyncio.gather(*loads)
        story = (
            f"{sum(counts.values()):,} requests of all interaction models; meanwhile a service left and another came"
        )
        console.print(f"[bold]5[/]  {story}")
    console.print("[bold]6[/]  the broker stopped; its event files are sealed")
    return counts


async def _show_answers(console: Console, client: Client) -> None:
    one = await client.request_response(address("orders", region="eu"), b"a book", route="create")
    first = await client.request_response(multicast("orders"), b"a lamp", route="create")
    owner = await client.request_response(shard("carts", key="user", user="ada"), b"a book", route="add")
    merged = [item async for item in client.request_stream(multicast("orders"), b"a book", route="watch")]
    table = Table(title="3  what came back", title_justify="left", show_header=False)
    table.add_row("unicast, region eu", (one.data or b"").decode())
    table.add_row("multicast, first answer", (first.data or b"").decode())
    table.add_row("shard by user ada", (owner.data or b"").decode())
    table.add_row("multicast stream", f"{len(merged)} items of three services, merged")
    console.print(table)


async def _load(client: Client, until: float, counts: Counts) -> None:
    """Requests of every kind, one after another."""
    users = [f"user-{n}" for n in range(100)]
    number = 0
    everybody = multicast("orders")
    while time.monotonic() < until:
        number += 1
        counts["request_response"] += 1
        with contextlib.suppress(NoRoute):
            region = "mars" if number % 20 == 0 else "us"
            await client.request_response(address("orders", region=region), b"tea", route="create", timeout_s=5.0)
        user = users[number % len(users)]
        counts["request_response"] += 1
        await client.request_response(shard("carts", key="user", user=user), b"tea", route="add", timeout_s=5.0)
        counts["fire_and_forget"] += 1
        await client.fire_and_forget(everybody, b"tea", route="seen")
        if number % 4 == 0:
            counts["request_stream"] += 1
            with contextlib.suppress(RouteLost):  # it may be just the service that leaves
                async for _ in client.request_stream(address("orders"), b"tea", route="watch", initial_n=2):
                    pass
            counts["request_channel"] += 1
            async for _ in client.request_channel(
                address("orders", region="us"), _goods(), route="prices", timeout_s=5.0
            ):
                pass
            counts["metadata_push"] += 1
            await client.metadata_push(everybody, b"reload")


async def _goods() -> AsyncIterator[bytes]:
    for item in (b"tea", b"milk", b"sugar"):
        yield item


async def _until_all_are_there(admin: str, routes: int) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(START_S):
        while True:
            async with session.get(f"{admin}/api/v1/routes") as answer:
                if (await answer.json())["total"] >= routes:
                    return
            await asyncio.sleep(0.02)


async def _show_routes(console: Console, admin: str) -> None:
    query = "/api/v1/routes?service=orders&tag.region=eu"
    async with aiohttp.ClientSession() as session, session.get(admin + query) as answer:
        body = await answer.json()
    table = Table(title=f"4  GET {query}", title_justify="left")
    for column in ("route", "service", "region", "peer", "requests", "in flight"):
        table.add_column(column)
    for route in body["items"]:
        region = next(tag["value"] for tag in route["tags"] if tag["name"] == "region")  # they were asked for by it
        values = (route["route_id"][:8], route["service"], region, route["peer"], route["requests"], route["in_flight"])
        table.add_row(*map(str, values))
    console.print(table)


@contextlib.asynccontextmanager
async def broker_process(events: Path) -> AsyncIterator[dict[str, str]]:
    """A broker process; its URLs by scheme. At the end it is told to stop, and seals its files.

    RSB_ variables are not for it: they say how somebody's own broker is to be, and the demo's has RECORDED alone.
    """
    listen, options = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0"], {"events.dir": events, **RECORDED}
    process = BrokerProcess(listen, options, admin="127.0.0.1:0", stop_s=STOP_S)
    try:
        try:
            await process.start()
        except RuntimeError as error:
            raise SystemExit(str(error)) from None
        yield {url.partition("://")[0]: url for url in process.urls}
    finally:
        if not await process.stop():
            text = f"the broker did not stop within {STOP_S:g} s and was killed: its last events may be missing"
            print(text, file=sys.stderr)


def _report(console: Console, data: Path, sent: Counts) -> int:
    """Spark makes the tables, the report reads them; the exit status of the demo."""
    tables = data / "tables"
    began = time.monotonic()
    console.print("[bold]7[/]  Spark reads the event files …")
    command = [sys.executable, "-m", "broker.commands.main", "pipeline", "run", "--once"]
    command += ["--events", str(data / "events"), "--tables", str(tables)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=SPARK_S, check=False)
    if result.returncode == NOT_INSTALLED:
        console.print(f"   no report: {result.stderr.strip()}", markup=False)
        return 0
    if result.returncode != 0:
        console.print(f"   the Spark job failed ({result.returncode}): {result.stderr.strip()[-2000:]}", markup=False)
        return EXIT_FAILED
    console.print(f"   … and made tables of them in {time.monotonic() - began:.0f} s")
    command = [sys.executable, "-m", "broker.commands.main", "report", str(tables), "--out", str(data / "report.md")]
    if find_spec("plotly") is not None:
        command += ["--html", str(data / "report.html")]
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        return 0 if status == NOT_INSTALLED else EXIT_FAILED
    if find_spec("plotly") is not None:
        console.print(f"   the same with plots: {(data / 'report.html').absolute().as_uri()}", markup=False)
    else:
        console.print('   for a page with plots: pip install "rsocket-broker[report]"', markup=False)
    counted: Counts = Counter()
    for row in read_table(tables, "traffic").select(["model", "requests"]).to_pylist():
        counted[row["model"]] += row["requests"]
    for model in sorted(sent):
        console.print(f"   {model:17} {sent[model]:>9,} sent {counted[model]:>9,} in the report")
    rows = read_table(tables, "requests", ["seq"]).num_rows
    console.print(f"   {'each as a row':17} {sum(sent.values()):>9,} sent {rows:>9,} in the table requests")
    if counted != sent or rows != sum(sent.values()):
        console.print("[bold red]   the counts differ[/]")
        return EXIT_FAILED
    console.print(f"[bold green]   every request is in the report.[/] Look around in {data}/")
    return 0

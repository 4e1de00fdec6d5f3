"""What `rsocket-broker demo` does: the main job from nothing, once through.

A real broker process, services and callers over TCP and WebSocket (`traffic`), the REST API, the event files, the
pipeline and its report. At the end the demo's own count is held against the report's.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from broker import exit_status
from broker.commands.demo.traffic import ERRORS_PART, Traffic
from client_sdk import address, multicast, shard
from client_sdk.broker_process import BrokerProcess
from rsocket_wire.errors import BrokerError
from rsocket_wire.files import system_reason
from spark_sink.tables import read_table

START_S = 30.0
STOP_S = 30.0
COMMAND_S = 150.0  # for the pipeline, for the report
MARKER = ".rsocket-broker-demo"  # in a folder that the demo has made, and may so empty
# Of a short time as much as there is: each request as a row, and the routing table every second.
RECORDED = {"events.requests": "all", "events.snapshot_s": 1}

Counts = Counter[str]  # interaction model -> requests sent


def run(folder: str, seconds: float) -> NoReturn:
    """Runs the demo to its end, which is that of the process."""
    data = Path(folder)
    try:
        clear(data)
    except BrokerError as error:
        click.echo(f"rsocket-broker demo: {error.text}", err=True)
        sys.exit(exit_status.USAGE)
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        sent = asyncio.run(_traffic(console, data, seconds))
        made = _make_tables(console, data / "events", data / "tables")
        status = _report(console, data, sent) if made else exit_status.FAILED
    except KeyboardInterrupt:
        status = exit_status.INTERRUPTED
    sys.exit(status)


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
        reason = system_reason(error)
        raise BrokerError("bad-folder", f"{data} cannot be the folder of a demo: {reason}") from None


async def _traffic(console: Console, data: Path, seconds: float) -> Counts:
    """Runs the broker and everything that talks to it; what was sent, by model."""
    # A route that fails is ejected for 30 s else, which is half of the traffic.
    options = {**RECORDED, "protection.eject_s": ERRORS_PART * seconds}
    async with broker_process(data / "events", options) as urls, contextlib.AsyncExitStack() as stack:
        tcp, ws, admin = urls["tcp"], urls["ws"], urls["http"]
        status = await _get(admin, "/api/v1/status")
        console.print(f"[bold]1[/]  a broker runs, core: {status['core']}, {tcp}  {ws}  {admin}")
        traffic = Traffic((tcp, ws), stack, functools.partial(console.print, end="", markup=False, soft_wrap=True))
        instances_n = await traffic.connect()
        await _until_all_are_there(admin, instances_n + len(traffic.callers))
        console.print(f"[bold]2[/]  {instances_n} instances of four services registered, over TCP and WebSocket")
        await _show_answers(console, traffic)
        console.print(f"[bold]4[/]  {seconds:g} s of traffic, all interaction models")
        await traffic.run(seconds)
        await _show_routes(console, admin)
        ejected = (await _get(admin, "/api/v1/status"))["protection"]["ejected"]
        failed = ", ".join(f"{number:,} {word}" for word, number in traffic.failed.most_common())
        console.print(
            f"[bold]6[/]  {traffic.sent.total():,} requests; failed: {failed or 'none'}; routes ejected: {ejected}"
        )
    console.print("[bold]7[/]  the broker stopped; its event files are sealed")
    return traffic.sent


async def _show_answers(console: Console, traffic: Traffic) -> None:
    client = traffic.callers[0]
    one = await client.request_response(address("orders", region="eu"), b"a book", route="create")
    first = await client.request_response(multicast("orders"), b"a lamp", route="create")
    owner = await client.request_response(shard("carts", key="user", user="ada"), b"a book", route="add")
    merged = [item async for item in client.request_stream(multicast("orders"), b"a book", route="watch")]
    traffic.sent.update(request_response=3, request_stream=1)
    table = Table(title="3  what came back", title_justify="left", show_header=False)
    table.add_row("unicast, region eu", (one.data or b"").decode())
    table.add_row("multicast, first answer", (first.data or b"").decode())
    table.add_row("shard by user ada", (owner.data or b"").decode())
    table.add_row("multicast stream", f"{len(merged)} items of four instances, merged")
    console.print(table)


async def _get(admin: str, query: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(admin + query) as answer:
        return await answer.json()


async def _until_all_are_there(admin: str, routes: int) -> None:
    async with asyncio.timeout(START_S):
        while (await _get(admin, "/api/v1/routes"))["total"] < routes:
            await asyncio.sleep(0.02)


async def _show_routes(console: Console, admin: str) -> None:
    table = Table(title="5  GET /api/v1/routes: how many requests each instance got", title_justify="left")
    for column in ("service", "instance", "route", "peer", "requests"):
        table.add_column(column)
    rows = []
    for route in (await _get(admin, "/api/v1/routes"))["items"]:
        instance = next((tag["value"] for tag in route["tags"] if tag["name"] == "instance_name"), None)
        if instance is not None:  # None: a caller
            rows.append((route["service"], instance, route["route_id"][:8], route["peer"], f"{route['requests']:,}"))
    for row in sorted(rows):
        table.add_row(*row)
    console.print(table)


@contextlib.asynccontextmanager
async def broker_process(events: Path, options: Mapping[str, object]) -> AsyncIterator[dict[str, str]]:
    """A broker process; its URLs by scheme. At the end it is told to stop, and seals its files.

    RSB_ variables are not for it: they say how somebody's own broker is to be, and the demo's has `options` alone.
    """
    listen = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0"]
    process = BrokerProcess(listen, {"events.dir": events, **options}, admin="127.0.0.1:0", stop_s=STOP_S)
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


def _make_tables(console: Console, events: Path, tables: Path) -> bool:
    """With Spark, or without where it is not installed. False: that failed, which was said."""
    began = time.monotonic()
    console.print("[bold]8[/]  the pipeline makes tables of the event files, with Spark …")
    arguments = ("pipeline", "run", "--once", "--events", str(events), "--tables", str(tables))
    status, said = _run(*arguments, is_shown=False)
    if status == exit_status.NOT_INSTALLED:
        console.print(f"   no Spark: {said.strip()}; the engine local makes the tables", markup=False)
        status, said = _run(*arguments, "--engine", "local", is_shown=False)
    if status != 0:
        console.print(f"   the pipeline failed ({status}): {said.strip()[-2000:]}", markup=False)
        return False
    console.print(f"   … done in {time.monotonic() - began:.0f} s")
    return True


def _report(console: Console, data: Path, sent: Counts) -> int:
    """Prints and writes the report, and holds the demo's counts against the tables; the exit status."""
    tables = data / "tables"
    arguments = ["report", str(tables), "--out", str(data / "report.md")]
    if find_spec("plotly") is not None:
        arguments += ["--html", str(data / "report.html")]
    status, _ = _run(*arguments, is_shown=True)
    if status != 0:
        return 0 if status == exit_status.NOT_INSTALLED else exit_status.FAILED
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
    console.print(f"   {'each as a row':17} {sent.total():>9,} sent {rows:>9,} in the table requests")
    if counted != sent or rows != sent.total():
        console.print("[bold red]   the counts differ[/]")
        return exit_status.FAILED
    console.print(f"[bold green]   every request is in the report.[/] Look around in {data}/")
    return 0


def _run(*arguments: str, is_shown: bool) -> tuple[int, str]:
    """Another command in a process of its own: its exit status, and what it said on standard error unless that is
    shown. When it is interrupted, or lasts too long, it ends first."""
    command = [sys.executable, "-m", "broker.commands.main", *arguments]
    pipe = None if is_shown else subprocess.PIPE
    # In a session of its own, so that Ctrl-C is told to it once: told twice, it would not wait for Spark's Java to end.
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            _, said = process.communicate(timeout=COMMAND_S)
        except subprocess.TimeoutExpired:
            return exit_status.FAILED, f"it did not end within {COMMAND_S:g} s"
        finally:
            _end(process)
    return process.returncode, said or ""


def _end(process: subprocess.Popen[str]) -> None:
    """SIGTERM, and SIGKILL for its whole session when it does not heed that; nothing when it has ended."""
    if process.poll() is None:
        click.echo("   … which is told to end")  # Spark may have to start first
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)

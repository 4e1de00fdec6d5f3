"""A gateway as a process: starts its parts, says where it listens, and stops them in order.

    start   folder, endpoints (Server.bind), store and backend (Gateway), event files, the socket of operators, callers
    stop    endpoints, when all requests have answers; deliveries that are under way; the store; event files

Stops by a signal, when a caller asks for it, or when the broker that has started it ends. A restart that a caller asks
for is a stop and a start in the same process.
"""

import asyncio
import contextlib
import gc
import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.config.folders import make_folder
from broker.events import SAMWISE_ID
from client_sdk.gateways.running import EXIT_CANNOT_START
from client_sdk.gateways.running import run as run_in_process
from client_sdk.gateways.samwise.assignment import Assignment
from client_sdk.gateways.samwise.control import ControlListener
from client_sdk.gateways.samwise.endpoint.server import Server
from client_sdk.gateways.samwise.gateway import Gateway
from client_sdk.gateways.samwise.settings import (
    backend_of,
    retry_of,
    server_settings_of,
    store_of,
)
from client_sdk.gateways.samwise.tables import StoreError
from client_sdk.gateways.samwise.values import RESTART, STOP
from rsocket_wire.errors import BrokerError

if TYPE_CHECKING:
    from client_sdk.gateways.event_files import EventFiles

SWITCH_S: Final = 0.0005  # after which a busy loop gives up the GIL, which the store's thread wants at each step
# Objects more before Python looks for cycles, of which messages make none; what the start made is never looked at. With
# Python's 700 a single caller's message took a sixth more CPU.
COLLECT_N: Final = 20_000
EVENT_FILES: Final = "client_sdk.gateways.event_files"  # imported where they are written: the others pay nothing


def run(assignment: Assignment, *, stops_at_eof: bool = False) -> int:
    """Runs a gateway to its end; the exit status. `stops_at_eof`: it ends with its standard input, too."""
    sys.setswitchinterval(SWITCH_S)
    return run_in_process(partial(_main, assignment), assignment.log, stops_at_eof=stops_at_eof)


async def _main(assignment: Assignment, stop: asyncio.Event) -> int:
    try:
        while await serve(assignment, stop, _started) == RESTART:
            pass
    except (BrokerError, StoreError) as error:
        text = error.text if isinstance(error, BrokerError) else str(error)
        print(f"rsocket-broker: samwise: {text}", file=sys.stderr)
        return EXIT_CANNOT_START
    return 0


async def serve(assignment: Assignment, stop: asyncio.Event, on_listening: Callable[[list[str]], None]) -> str:
    """One gateway, until it is to stop; STOP or RESTART. BrokerError, StoreError: it could not start, and nothing of it
    is left."""
    options = assignment.options
    make_folder("samwise.dir", options.dir)
    event_files = _event_files_of(assignment)
    gateway = Gateway(
        store_of(options),
        backend_of(assignment),
        retry=retry_of(options),
        strict_redundancy=options.strict_redundancy,
        records=event_files,
    )
    gateway.callers = server = Server(gateway, server_settings_of(options))
    control = ControlListener(gateway, assignment.control_path)
    async with contextlib.AsyncExitStack() as at_end:
        server.bind()
        at_end.push_async_callback(server.close)
        await gateway.start()
        at_end.pop_all()  # callers first, then deliveries, then what is told of them
        if event_files is not None:
            at_end.push_async_callback(event_files.stop)
        at_end.push_async_callback(gateway.stop)
        at_end.push_async_callback(control.close)
        at_end.push_async_callback(server.close)
        if event_files is not None:
            await event_files.start(Path(options.dir), assignment.events, assignment.log)
        try:
            await control.start()
        except OSError as error:
            raise BrokerError("cannot-listen", f"{assignment.control_path}: {error.strerror or error}") from None
        server.start()
        on_listening(server.endpoints)
        return await _wish(gateway, stop)


def _event_files_of(assignment: Assignment) -> "EventFiles | None":
    """None: none are to be written."""
    if not assignment.events.dir:
        return None
    files: EventFiles = importlib.import_module(EVENT_FILES).EventFiles(assignment.name, SAMWISE_ID)
    return files


async def _wish(gateway: Gateway, stop: asyncio.Event) -> str:
    """What somebody wants."""
    asked = asyncio.create_task(gateway.asked())
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((asked, stopped), return_when=asyncio.FIRST_COMPLETED)
        return STOP if stopped.done() else asked.result()
    finally:
        asked.cancel()
        stopped.cancel()
        await asyncio.gather(asked, stopped, return_exceptions=True)


def _started(endpoints: list[str]) -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_N)
    for endpoint in endpoints:
        print(f"listening {endpoint}", flush=True)

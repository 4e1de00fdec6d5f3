"""A feed as a process: starts its parts and stops them in order.

start   folder, its lock, event files, posters, mirrors, winnowers, the socket of operators
stop    the same the other way round
"""

import asyncio
import contextlib
import fcntl
import gc
import importlib
import logging
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.config.folders import FOLDER_MODE, make_folder
from broker.config.urls import Listen
from broker.events import FEED_ID
from client_sdk.gateways.running import EXIT_CANNOT_START
from client_sdk.gateways.running import run as run_in_process
from rsocket_wire.errors import BrokerError
from spark_sink.errors import SinkError
from spark_sink.feed.program.assignment import Assignment
from spark_sink.feed.program.control import ControlListener
from spark_sink.feed.program.links import sinks_of
from spark_sink.feed.program.mirrors import Mirrors
from spark_sink.feed.program.posters import Posters, make_poster
from spark_sink.feed.program.serving import FilesListener
from spark_sink.feed.program.winnowers import Winnowers

if TYPE_CHECKING:
    from client_sdk.gateways.event_files import EventFiles

EXIT_FAILED: Final = 1
EVENT_FILES: Final = "client_sdk.gateways.event_files"  # imported where they are written: the others pay nothing
LOCK_NAME: Final = "feed.lock"  # in feed.dir
COLLECT_N: Final = 20_000  # objects more than before: then Python looks for cycles, which took 5 % of the CPU with 700

_log: Final = logging.getLogger("spark_sink.feed")


def run(
    assignment: Assignment, *, files: tuple[FilesListener, Listen] | None = None, stops_at_eof: bool = False
) -> int:
    """Runs a feed to its end; the exit status. `files`: served beside it, and where. `stops_at_eof`: it ends with its
    standard input, too."""
    return run_in_process(partial(_main, assignment, files), assignment.log, stops_at_eof=stops_at_eof)


def post_once(assignment: Assignment, name: str, timeout_s: float | None = None) -> int:
    """Announces what one folder holds now; the exit status, when each sink has it. `timeout_s`: None: as long as that
    takes."""
    return run_in_process(partial(_post_once, assignment, name, timeout_s), assignment.log)


async def _post_once(assignment: Assignment, name: str, timeout_s: float | None, stop: asyncio.Event) -> int:
    stopped = asyncio.create_task(stop.wait())
    try:
        folder = Path(assignment.options.dir)
        make_folder("feed.dir", assignment.options.dir)
        event_files = _event_files_of(assignment)
        tell = None if event_files is None else event_files.append
        async with contextlib.AsyncExitStack() as at_end:
            at_end.callback(os.close, _locked(folder))
            poster = make_poster(assignment, name, sinks_of(assignment, name), tell=tell)
            if event_files is not None:
                at_end.push_async_callback(event_files.stop)
                await event_files.start(folder, assignment.events, assignment.log)
            at_end.push_async_callback(poster.stop)
            await poster.start(follows=False)
            before = poster.log.last_seq
            finished = asyncio.create_task(poster.finish())
            done, _ = await asyncio.wait((finished, stopped), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            finished.cancel()
            await asyncio.gather(finished, return_exceptions=True)
            print(f"{poster.log.last_seq - before} posts, {poster.files_n} files and folders are announced")
            if finished in done and not poster.problem:
                return 0
            if finished in done:
                why = poster.problem
            else:
                states = [each.trouble or f"{each.sink.name}: {each.sink.state()}" for each in poster.sendings]
                why = f"some posts are not sent yet: {'; '.join(states)}"
            print(f"rsocket-broker: feed: {why}", file=sys.stderr)
            return EXIT_FAILED
    except (BrokerError, SinkError, OSError) as error:
        return _cannot_start(error)
    finally:
        stopped.cancel()


async def _main(assignment: Assignment, files: tuple[FilesListener, Listen] | None, stop: asyncio.Event) -> int:
    try:
        await serve(assignment, stop, files)
    except (BrokerError, SinkError, OSError) as error:
        return _cannot_start(error)
    return 0


async def serve(assignment: Assignment, stop: asyncio.Event, files: tuple[FilesListener, Listen] | None = None) -> None:
    """One feed, until it is to stop. BrokerError, SinkError, OSError: it could not start, and nothing of it is left."""
    options = assignment.options
    make_folder("feed.dir", options.dir)
    event_files = _event_files_of(assignment)
    tell = None if event_files is None else event_files.append
    posters = Posters(assignment, tell)
    mirrors = Mirrors(assignment, tell)
    winnowers = Winnowers(assignment, tell)
    control = ControlListener(
        posters,
        mirrors,
        winnowers,
        assignment.control_path,
        started_at_ms=time.time_ns() // 1_000_000,
        dropped_n=lambda: 0 if event_files is None else event_files.dropped_n,
    )
    async with contextlib.AsyncExitStack() as at_end:
        at_end.callback(os.close, _locked(Path(options.dir)))
        if event_files is not None:
            at_end.push_async_callback(event_files.stop)
            await event_files.start(Path(options.dir), assignment.events, assignment.log)
        if files is not None:
            listener, place = files
            port = await listener.start(place)
            at_end.push_async_callback(listener.close)
            _log.info("feed: serves files at %s/", Listen(place.scheme, place.host, port))
        at_end.push_async_callback(posters.stop)
        await posters.start()
        at_end.push_async_callback(mirrors.stop)
        await mirrors.start()
        at_end.push_async_callback(winnowers.stop)
        await winnowers.start()
        at_end.push_async_callback(control.close)
        try:
            await control.start()
        except OSError as error:
            raise BrokerError("cannot-listen", f"{assignment.control_path}: {error.strerror or error}") from None
        for name in options.post:
            _log.info("feed: posts %s as %s", assignment.root(name), assignment.base_url(name))
        for name, mirrored in options.subscribe.items():
            _log.info("feed: mirrors into %s (%s)", mirrored.into, name)
        for name, winnowed in options.winnow.items():
            _log.info("feed: passes posts on to %s (%s)", " ".join(winnowed.to), name)
        gc.freeze()  # what there is now stays
        gc.set_threshold(COLLECT_N)
        await stop.wait()
    _log.info("feed: has stopped")


def _event_files_of(assignment: Assignment) -> "EventFiles | None":
    """None: none are to be written."""
    if not assignment.events.dir:
        return None
    files: EventFiles = importlib.import_module(EVENT_FILES).EventFiles(assignment.name, FEED_ID)
    return files


def _cannot_start(error: BrokerError | SinkError | OSError) -> int:
    text = error.text if isinstance(error, BrokerError) else str(error)
    print(f"rsocket-broker: feed: {text}", file=sys.stderr)
    return EXIT_CANNOT_START


def _locked(folder: Path) -> int:
    """A descriptor that holds the lock of a folder until it is closed, or the process ends. BrokerError."""
    path = folder / LOCK_NAME
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FOLDER_MODE & 0o666)
    except OSError as error:
        raise BrokerError("bad-config", f"feed.dir: {path}: {error.strerror or error}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise BrokerError("bad-config", f"feed.dir: {folder} is used by another feed that runs") from None
    return lock

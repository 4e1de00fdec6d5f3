"""One worker: a broker that accepts on ports that others accept on, too. The supervisor starts it:
`python -m broker.commands.workers`.

Its standard input is a pipe from the supervisor: what it is told, then nothing, and at its end the supervisor is gone.
A worker without a supervisor would go on with ports that nobody could take, so it stops then, as after SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Final

from aiohttp import web

from admin_api.app import make_worker_app, start_unix
from broker.commands.process import Collector, heed_signals, prepare, run, stop_at_eof
from broker.commands.workers.messages import BEAT, BEAT_S, StartReport
from broker.commands.workers.plan import Assignment
from broker.log import setup as setup_log
from broker.server import Server
from rsocket_wire.errors import BrokerError

EXIT_CANNOT_START: Final = 1


def main() -> int:
    """To its end; the exit status."""
    assignment = Assignment.read(sys.stdin.buffer.read)
    if assignment is None:
        return EXIT_CANNOT_START
    log = assignment.config.log
    setup_log(log.level, log.format)
    return run(_serve(assignment))


async def _serve(assignment: Assignment) -> int:
    prepare()
    server = Server(assignment.config, assignment.link_path, assignment.mates, assignment.sources)
    loop = asyncio.get_running_loop()
    heed_signals(server.wish_stop, server.reload)
    stop_at_eof(server.wish_stop)
    admin: web.AppRunner | None = None
    try:
        await server.start()
        if assignment.admin_path:
            admin = await start_unix(make_worker_app(server), assignment.admin_path)
    except BrokerError as error:
        _say(StartReport(error=error.text))
        if server.is_ready:
            await server.stop()
        return EXIT_CANNOT_START
    with Collector(loop):
        _say(StartReport(name=server.core.cluster.name))
        _beat(loop)
        await server.wait_for_wish()
        await server.stop()
    if admin is not None:
        await admin.cleanup()
        Path(assignment.admin_path).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(assignment.link_path))  # the last one does it when the supervisor was killed
    return 0


def _say(report: StartReport) -> None:
    with contextlib.suppress(BrokenPipeError):  # then standard input says it, too
        os.write(sys.stdout.fileno(), report.encode())


def _beat(loop: asyncio.AbstractEventLoop) -> None:
    """Says that the loop turns, now and from now on."""
    output = sys.stdout.fileno()
    os.set_blocking(output, False)  # a supervisor that does not read must not stop its workers
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(output, BEAT)
    loop.call_later(BEAT_S, _beat, loop)

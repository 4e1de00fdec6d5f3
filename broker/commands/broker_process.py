"""The process of `rsocket-broker serve`: one broker, or workers behind one port, with its REST API and its gateways."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

import click

from broker import exit_status
from broker.commands.gateway_process import GatewayProcesses
from broker.commands.process import (
    Collector,
    heed_signals,
    prepare,
    say_core,
    say_shortage,
    stop_at_eof,
    take_descriptors,
)
from broker.commands.process import run as run_in_process
from broker.commands.workers.plan import usable_cores
from broker.commands.workers.supervisor import Supervisor
from broker.config.load import ConfigErrors, Sources
from broker.config.options import OPTIONS, Config
from broker.config.urls import Listen, cannot_listen
from broker.log import setup as setup_log
from broker.server import Server
from rsocket_wire.errors import BrokerError

if TYPE_CHECKING:  # see `_admin_of`
    from aiohttp import web

    from admin_api.listener import AdminListener

_log = logging.getLogger("broker")


def run_broker(config_path: str | None, stops_at_eof: bool, given: Mapping[str, object]) -> NoReturn:
    """Runs it until it is told to stop, and ends the process. `given`: options of the command line, by their names."""
    flags = {doc.name: given[doc.option.flag[2:].replace("-", "_")] for doc in OPTIONS.values() if doc.option.flag}
    sources = Sources(config_path, dict(os.environ), flags)
    try:
        loaded = sources.load()
    except ConfigErrors as error:
        click.echo(str(error), err=True)
        sys.exit(exit_status.NOT_INSTALLED if error.is_lack else exit_status.USAGE)
    config = loaded.config
    setup_log(config.log.level, config.log.format)
    for warning in loaded.warnings:
        _log.warning("configuration: %s", warning)
    workers_n = config.server.workers or usable_cores()
    if workers_n == 1:
        sys.exit(run_in_process(_serve(config, sources, stops_at_eof)))
    sys.exit(run_in_process(_serve_workers(config, sources, workers_n, stops_at_eof)))


async def _serve(config: Config, sources: Sources, stops_at_eof: bool) -> int:
    prepare()
    say_shortage(config.limits.max_connections)
    server = Server(config, sources=sources)
    gateways = GatewayProcesses(config)
    _heed_stop(server, gateways, stops_at_eof)
    app = _admin_of(server, gateways) if config.admin.listen is not None else None
    admin: AdminListener | None = None
    url = ""
    try:
        await server.start()
        if app is not None and config.admin.listen is not None:
            admin, url = await _start_admin(app, config.admin.listen)
            server.listeners.append(url)
    except BrokerError as error:
        click.echo(f"rsocket-broker: {error.text}", err=True)
        if server.is_ready:
            await server.stop()
        return exit_status.FAILED
    with Collector(asyncio.get_running_loop()):
        _say_listening(server.listeners)
        gateways.start(server.listeners, url)
        await server.wait_for_wish()
        await asyncio.gather(server.stop(), gateways.stop())
    if admin is not None:
        await admin.cleanup()
    return 0


async def _serve_workers(config: Config, sources: Sources, workers_n: int, stops_at_eof: bool) -> int:
    take_descriptors()
    say_shortage(config.limits.max_connections)
    supervisor = Supervisor(config, workers_n, sources=sources)
    gateways = GatewayProcesses(config)
    _heed_stop(supervisor, gateways, stops_at_eof)
    app = _admin_of(supervisor, gateways) if config.admin.listen is not None else None
    admin: AdminListener | None = None
    url = ""
    try:
        await supervisor.start()
        if app is not None and config.admin.listen is not None:
            admin, url = await _start_admin(app, config.admin.listen)
            supervisor.listeners.append(url)
        _say_listening(supervisor.listeners)
        gateways.start(supervisor.listeners, url)
        await supervisor.wait_for_wish()
    except BrokerError as error:
        if not supervisor.is_stopping:
            click.echo(f"rsocket-broker: {error.text}", err=True)
            await supervisor.stop()
            return exit_status.FAILED
    is_orderly, _ = await asyncio.gather(supervisor.stop(), gateways.stop())
    if admin is not None:
        await admin.cleanup()
    return exit_status.DONE if is_orderly else exit_status.FAILED  # a worker did not end in order


def _heed_stop(broker: Server | Supervisor, gateways: GatewayProcesses, stops_at_eof: bool) -> None:
    """Whoever wants the broker to stop wants its gateways to."""

    def wish_stop() -> None:
        broker.wish_stop()
        gateways.wish_stop()

    heed_signals(wish_stop, broker.reload)
    if stops_at_eof:
        stop_at_eof(wish_stop)


def _say_listening(urls: list[str]) -> None:
    say_core()
    for url in urls:
        click.echo(f"listening {url}")
    sys.stdout.flush()


def _admin_of(broker: Server | Supervisor, gateways: GatewayProcesses) -> web.Application:
    """The REST API of this process, before anybody can connect: what it imports keeps the loop from all else."""
    from admin_api.access.gate import Gate
    from admin_api.access.identities import Identities, make_verifier
    from admin_api.access.local_token import LocalToken
    from admin_api.app import make_app, make_workers_app  # late: aiohttp is a third of a start that can do without

    broker.operators = verifier = make_verifier(broker.config)
    identities = Identities(verifier, lambda: broker.config.admin) if verifier is not None else None
    admin = broker.config.admin
    gate = Gate(lambda: broker.tokens, LocalToken(admin.token_file), identities, admin.max_requests_per_s)
    if isinstance(broker, Server):
        return make_app(broker, gateways.samwise, gateways.feed, gate)
    return make_workers_app(broker, gateways.samwise, gateways.feed, gate)


async def _start_admin(app: web.Application, listen: Listen) -> tuple[AdminListener, str]:
    from admin_api.app import start_admin

    try:
        admin, port = await start_admin(app, listen.host, listen.port)
    except OSError as error:
        raise cannot_listen(f"admin {listen}", error) from None
    return admin, str(Listen("http", listen.host, port))

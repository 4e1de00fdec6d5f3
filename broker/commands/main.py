"""The command `rsocket-broker` and its sub-commands."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import sys
from typing import TYPE_CHECKING

import click

from broker import VERSION
from broker.commands.gateway_process import GatewayProcesses
from broker.commands.process import Collector, heed_signals, prepare, say_shortage, stop_at_eof, take_descriptors
from broker.commands.process import run as run_in_process
from broker.commands.workers.plan import usable_cores
from broker.commands.workers.supervisor import Supervisor
from broker.config.auth import is_user_line
from broker.config.extras import EVENTS_MODULES, lack_of_auth, lack_of_events
from broker.config.load import ConfigErrors, Loaded, Sources
from broker.config.options import OPTIONS, Config
from broker.config.reference import options_toml
from broker.config.urls import Listen, cannot_listen
from broker.log import setup as setup_log
from broker.server import Server
from rsocket_wire.errors import BrokerError

if TYPE_CHECKING:  # see `_admin_of`
    from aiohttp import web

    from admin_api.listener import AdminListener

EXIT_BAD_CONFIG = 2
EXIT_CANNOT_START = 1
EXIT_NOT_INSTALLED = 3
EXIT_WORKER_FAILED = 1  # it did not end in order when all were told to stop

_log = logging.getLogger("broker")


# Commands of other packages, imported when they are asked for: a broker must not carry pyarrow about (69 MiB), and not
# every installation has it.
ELSEWHERE = {
    "access": "broker.commands.access",
    "bench": "broker.commands.bench",
    "call": "broker.commands.call",
    "ctl": "admin_api.ctl.commands",
    "demo": "broker.commands.demo",
    "feed": "broker.commands.feed",
    "offer": "broker.commands.offer",
    "pipeline": "spark_sink.cli",
    "report": "spark_sink.cli",
    "samwise": "broker.commands.samwise",
    "shard-plan": "broker.commands.shard_plan",
    "token": "admin_api.access.command",
    "table": "spark_sink.time_travel.command",
    "simulate": "spark_sink.what_if.command",
}


class NotInstalled(click.Command):
    """Stands in for a command that needs an extra, where that is not installed."""

    def __init__(self, name: str, lack: str) -> None:
        """`lack`: what is missing, and the line that installs it."""
        super().__init__(name, short_help=lack, add_help_option=False)
        self._lack = lack

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes whatever was asked: the answer is the same."""
        return []

    def invoke(self, ctx: click.Context) -> None:
        """One sentence and the exit status of a part that is not installed."""
        click.echo(f"{ctx.command_path} {self._lack}", err=True)
        sys.exit(EXIT_NOT_INSTALLED)


class Commands(click.Group):
    """The commands of this file and those elsewhere."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        try:
            module = importlib.import_module(ELSEWHERE[cmd_name])
        except ModuleNotFoundError as error:
            if error.name not in EVENTS_MODULES:
                raise
            return NotInstalled(cmd_name, lack_of_events())
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Commands)
@click.version_option(VERSION, prog_name="rsocket-broker")
def main() -> None:
    """An RSocket broker: routes requests by tags, and records them in tables."""


@main.command()
@click.option(
    "--listen",
    multiple=True,
    metavar="URL",
    help="Address to listen on: tcp://, tls://, ws://, wss:// or unix://; repeatable.",
)
@click.option("--admin", metavar="HOST:PORT", help='Address of the REST API; "off" for none.')
@click.option("--events", metavar="DIR", help="Directory for event files, which Spark reads.")
@click.option("--workers", metavar="N", help="Worker processes that share the ports; 0: one per core.")
@click.option(
    "--log-frames", multiple=True, metavar="NAME", help="Log the frames of this service or connection; repeatable."
)
@click.option(
    "--config", "config_path", metavar="FILE", type=click.Path(dir_okay=False), help="Configuration file, TOML."
)
@click.option("--stop-at-eof", "stops_at_eof", is_flag=True, hidden=True)  # for programs that start one for themselves
def serve(config_path: str | None, stops_at_eof: bool, **given: object) -> None:
    """Run a broker until SIGTERM or SIGINT."""
    flags = {doc.name: given[doc.option.flag[2:].replace("-", "_")] for doc in OPTIONS.values() if doc.option.flag}
    sources = Sources(config_path, dict(os.environ), flags)
    loaded = _load(sources)
    config = loaded.config
    setup_log(config.log.level, config.log.format)
    for warning in loaded.warnings:
        _log.warning("configuration: %s", warning)
    workers_n = config.server.workers or usable_cores()
    if workers_n == 1:
        sys.exit(run_in_process(_serve(config, sources, stops_at_eof)))
    sys.exit(run_in_process(_serve_workers(config, sources, workers_n, stops_at_eof)))


@main.command()
@click.argument("path", required=False, metavar="[FILE]")
@click.option("--options", is_flag=True, help="Print all options with their defaults, as TOML.")
def check(path: str | None, options: bool) -> None:
    """Check a configuration: the file and the RSB_ variables of the environment. All mistakes are reported together.

    Warnings go to standard error and do not change the exit status.
    """
    if options:
        click.echo(options_toml(), nl=False)
        return
    loaded = _load(Sources(path, os.environ, {}))
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{path or 'environment'}: ok")


@main.command()
@click.argument("name")
def password(name: str) -> None:
    """Make the line of user NAME for the file auth.users.

    Asks for the password, or reads it from standard input when that is no terminal.
    """
    lack = lack_of_auth()
    if lack:
        click.echo(f"rsocket-broker password {lack}", err=True)
        sys.exit(EXIT_NOT_INSTALLED)
    from argon2 import PasswordHasher

    is_asked = sys.stdin.isatty()
    given = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True) if is_asked else None
    secret = given if given is not None else sys.stdin.readline().rstrip("\r\n")
    line = f"{name}:{PasswordHasher().hash(secret)}"
    if not secret or not is_user_line(line):
        click.echo("a user has a printable name without a colon, and a password", err=True)
        sys.exit(EXIT_BAD_CONFIG)
    click.echo(line)


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
        return EXIT_CANNOT_START
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
            return EXIT_CANNOT_START
    is_orderly, _ = await asyncio.gather(supervisor.stop(), gateways.stop())
    if admin is not None:
        await admin.cleanup()
    return 0 if is_orderly else EXIT_WORKER_FAILED


def _heed_stop(broker: Server | Supervisor, gateways: GatewayProcesses, stops_at_eof: bool) -> None:
    """Whoever wants the broker to stop wants its gateways to."""

    def wish_stop() -> None:
        broker.wish_stop()
        gateways.wish_stop()

    heed_signals(wish_stop, broker.reload)
    if stops_at_eof:
        stop_at_eof(wish_stop)


def _say_listening(urls: list[str]) -> None:
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


def _load(sources: Sources) -> Loaded:
    try:
        return sources.load()
    except ConfigErrors as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_BAD_CONFIG)


if __name__ == "__main__":
    main(prog_name="rsocket-broker")

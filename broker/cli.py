"""The command `rsocket-broker` and its sub-commands."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import os
import resource
import signal
import sys
from typing import Any

import click
from aiohttp import web

from admin_api.app import make_app, start_admin
from broker import VERSION
from broker.config import ConfigErrors, load
from broker.errors import BrokerError
from broker.listen import Listen
from broker.log import setup as setup_log
from broker.options import Config, options_toml
from broker.server import Server

EXIT_BAD_CONFIG = 2
EXIT_CANNOT_START = 1
GC_THRESHOLDS = (20_000, 50, 100)  # of objects more than before, and of collections; Python's are 700, 10, 10
LARGE_BLOCK_BYTES = 1 << 20  # of memory that the system gets back at once
_M_MMAP_THRESHOLD = -3  # of mallopt(3)


# Commands of other rooms, imported when they are asked for: a broker must not carry pyarrow about (69 MiB).
ELSEWHERE = {
    "bench": "broker.bench",
    "call": "broker.call",
    "ctl": "admin_api.ctl",
    "demo": "broker.demo",
    "pipeline": "spark_sink.cli",
    "report": "spark_sink.cli",
    "shard-plan": "broker.shard_plan",
}


class Commands(click.Group):
    """The commands of this file and those elsewhere."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        command = getattr(importlib.import_module(ELSEWHERE[cmd_name]), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Commands)
@click.version_option(VERSION, prog_name="rsocket-broker")
def main() -> None:
    """An RSocket broker: tags in, frames forwarded, every request in a table."""


@main.command()
@click.option(
    "--listen", multiple=True, metavar="URL", help="Listen on tcp://, tls://, ws://, wss:// or unix://; again for more."
)
@click.option("--admin", metavar="HOST:PORT", help='The REST API; "off" for none.')
@click.option("--events", metavar="DIR", help="Write event files for Spark into this folder.")
@click.option("--config", "config_path", metavar="FILE", type=click.Path(dir_okay=False), help="A TOML file.")
def serve(listen: tuple[str, ...], admin: str | None, events: str | None, config_path: str | None) -> None:
    """Run a broker until SIGTERM or SIGINT."""
    flags: dict[str, object] = {"server.listen": listen or None, "admin.listen": admin, "events.dir": events}
    config = _load(config_path, flags)
    setup_log(config.log.level, config.log.format)
    sys.exit(run(config))


@main.command()
@click.argument("path", required=False, metavar="[FILE]")
@click.option("--options", is_flag=True, help="Print every option with its default instead, as TOML.")
def check(path: str | None, options: bool) -> None:
    """Check a configuration: the file, and RSB_ variables of the environment. All mistakes are told at once."""
    if options:
        click.echo(options_toml(), nl=False)
        return
    _load(path, {})
    click.echo(f"{path or 'environment'}: ok")


def run(config: Config) -> int:
    """Runs a broker to its end; the exit status."""
    try:
        import uvloop  # optional: not on every system
    except ImportError:
        return asyncio.run(_serve(config))
    return uvloop.run(_serve(config))


async def _serve(config: Config) -> int:
    _take_descriptors()
    _give_back_memory()
    server = Server(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.wish_stop)
    admin: web.AppRunner | None = None
    try:
        await server.start()
        if config.admin.listen is not None:
            admin, url = await _start_admin(server, config.admin.listen)
            server.listeners.append(url)
    except BrokerError as error:
        click.echo(f"rsocket-broker: {error.text}", err=True)
        if server.is_ready:
            await server.stop()
        return EXIT_CANNOT_START
    # What start-up made stays for ever, and requests come and go without cycles: looking through them again and again
    # finds nothing. Saves 7 % of the CPU per request at 1 x 64 and 14 % at 16 x 64 in flight, compiled.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    for url in server.listeners:
        click.echo(f"listening {url}")
    sys.stdout.flush()
    await server.wait_for_wish()
    await server.stop()
    if admin is not None:
        await admin.cleanup()
    return 0


def _take_descriptors() -> None:
    """Each connection needs a file descriptor; systems give few until they are asked for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _give_back_memory() -> None:
    """Lets the C library give back large blocks as soon as they are free, where it knows how.

    Else glibc raises its threshold to the largest block that it has seen, and what a slow peer had waiting stays with
    the process: 18 MB after 20 peers with 10 MB each, one after another, and with this nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


async def _start_admin(server: Server, listen: Listen) -> tuple[web.AppRunner, str]:
    try:
        runner, port = await start_admin(make_app(server), listen.host, listen.port)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise BrokerError("cannot-listen", f"admin {listen}: {reason.lower()}") from None
    return runner, str(Listen("http", listen.host, port))


def _load(path: str | None, flags: dict[str, Any]) -> Config:
    try:
        return load(path, os.environ, flags)
    except ConfigErrors as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_BAD_CONFIG)


if __name__ == "__main__":
    main(prog_name="rsocket-broker")

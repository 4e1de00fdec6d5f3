"""`rsocket-broker samwise`: run a gateway, ask one or samd, and look after its messages."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from broker import exit_status
from broker.commands.config_file import with_config
from broker.config.extras import lack_of_zeromq
from client_sdk.gateways.samwise.layouts import CLIENT_VERSION, VERSION_1_2, VERSIONS
from client_sdk.gateways.samwise.values import (
    DECLARE,
    DEFAULT_TIMEOUT_S,
    DELETE,
    OPTIONS,
    REDUNDANT,
    RESTART,
    ROUND_ROBIN,
    STOP,
    Control,
    Ping,
    Publish,
    Refused,
    Request,
    Rpc,
    Status,
)
from spark_sink.number_types import Count, Number

if TYPE_CHECKING:  # what takes long to import is imported by the command that needs it
    from broker.views.samwise import MessageView
    from client_sdk.gateways.samwise.control import ControlClient, StoppedGateway
    from client_sdk.gateways.samwise.endpoint.client import SamwiseClient

CLIENT: Final = "client_sdk.gateways.samwise.endpoint.client"  # imported where it is used: it needs pyzmq
ENDPOINT_VARIABLE: Final = "SAMWISE_ENDPOINT"
PAGE_N: Final = 500  # messages asked for at once
COLUMNS: Final = (">id", "stored", "exchange", "routing key", ">bytes", "acknowledged", ">tries", "reason")

Operated: TypeAlias = "ControlClient | StoppedGateway"


_JSON: Final = click.option("--json", "is_json", is_flag=True, help="Print JSON.")


@click.group()
def samwise() -> None:
    """The Samwise gateway: messages by ZeroMQ, stored and delivered. ENDPOINT may be that of samd, too."""


@samwise.command()
@click.option("--endpoint", "endpoints", multiple=True, metavar="ENDPOINT", help="Instead of samwise.endpoints.")
@click.option("--dir", "folder", metavar="DIR", type=click.Path(file_okay=False), help="Instead of samwise.dir.")
@with_config
def serve(path: str | None, endpoints: tuple[str, ...], folder: str | None) -> None:
    """Run a gateway until SIGTERM or SIGINT. `rsocket-broker serve` does so itself where endpoints are configured."""
    from broker.config.load import ConfigErrors, load
    from client_sdk.gateways.samwise.assignment import assignment_of
    from client_sdk.gateways.samwise.program import run
    from rsocket_wire.errors import BrokerError

    try:
        config = load(path, os.environ, {"samwise.endpoints": endpoints, "samwise.dir": folder})
        if not config.samwise.endpoints:
            raise click.UsageError(
                "samwise.endpoints is empty: there is nothing to listen on; write --endpoint tcp://127.0.0.1:5555"
            )
        assignment = assignment_of(config, [str(listen) for listen in config.server.listen])
    except (ConfigErrors, BrokerError) as error:
        click.echo(error.text, err=True)
        is_lack = isinstance(error, ConfigErrors) and error.is_lack
        sys.exit(exit_status.NOT_INSTALLED if is_lack else exit_status.USAGE)
    sys.exit(run(assignment))


_speaking: Final = click.option(
    "--protocol",
    "version",
    type=click.Choice([str(version) for version in VERSIONS]),
    default=str(CLIENT_VERSION),
    show_default=True,
    help="Version of the protocol; samd knows 120 only.",
)


_KEY: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def _asking(command: Callable[..., None]) -> Callable[..., None]:
    """Where a gateway is, and how to ask it."""
    for option in (
        click.option("--key", type=_KEY, metavar="FILE", help="Own secret key of CURVE."),
        click.option("--server-key", type=_KEY, metavar="FILE", help="Public key of the gateway."),
        click.option(
            "--timeout",
            "timeout_s",
            type=Number(0, min_open=True),
            default=DEFAULT_TIMEOUT_S,
            show_default=True,
            help="Seconds to wait for the answer.",
        ),
        click.option(
            "-e",
            "--endpoint",
            envvar=ENDPOINT_VARIABLE,
            required=True,
            help=f"ipc://PATH or tcp://HOST:PORT; or the variable {ENDPOINT_VARIABLE}.",
        ),
    ):
        command = option(command)
    return command


@samwise.command(epilog=exit_status.EPILOG)
@_asking
@_speaking
@_JSON
def ping(
    endpoint: str, timeout_s: float, server_key: Path | None, key: Path | None, version: str, is_json: bool
) -> None:
    """Ask whether a gateway is there and speaks the protocol."""
    took_ms = _timed(Ping(int(version)), endpoint, timeout_s, server_key, key)
    click.echo(_timing(endpoint, took_ms) if is_json else f"{endpoint} answered after {took_ms:.1f} ms")


@samwise.command(epilog=exit_status.EPILOG)
@_asking
@_speaking
@click.option("--exchange", "-x", default="", help="The exchange: a service, or an exchange of RabbitMQ.")
@click.option("--routing-key", "-k", default="", help="The routing key: the route in the service.")
@click.option("--redundant", "acks_n", type=Count(1), metavar="N", help="N destinations acknowledge.")
@click.option("--mandatory", is_flag=True, help="Refuse, or try again, what no one would get.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help=f"One of {', '.join(OPTIONS)}.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header, VALUE as --data; repeatable.")
@click.option("--data", "-d", default="", help="The payload: TEXT, @FILE or - for standard input.")
@_JSON
def publish(
    endpoint: str,
    timeout_s: float,
    server_key: Path | None,
    key: Path | None,
    version: str,
    exchange: str,
    routing_key: str,
    acks_n: int | None,
    mandatory: bool,
    options: tuple[str, ...],
    headers: tuple[str, ...],
    data: str,
    is_json: bool,
) -> None:
    """Hand a message over. Done means that it is stored; it arrives when somebody can take it."""
    from broker.commands.terminal import read_text, split_pair

    given = dict(split_pair("--option", each) for each in options)
    if unknown := [name for name in given if name not in OPTIONS]:
        raise click.UsageError(f"--option {unknown[0]!r} is not one of {', '.join(OPTIONS)}")
    pairs = [split_pair("--header", each) for each in headers]
    message = Publish(
        version=int(version),
        distribution=ROUND_ROBIN if acks_n is None else REDUNDANT,
        acks_n=acks_n or 1,
        exchange=exchange,
        routing_key=routing_key,
        mandatory=mandatory,
        options={name: value for name, value in given.items() if value},
        headers=tuple((name, read_text("--header", text)) for name, text in pairs),
        payload=read_text("--data", data),
    )
    took_ms = _timed(message, endpoint, timeout_s, server_key, key)
    if is_json:
        click.echo(_timing(endpoint, took_ms))


@samwise.command(epilog=exit_status.EPILOG)
@_asking
@_speaking
@click.option("--broker", default="", help="The RabbitMQ broker, by its name in the configuration; default all.")
@_JSON
@click.argument("action", type=click.Choice([DECLARE, DELETE]))
@click.argument("name")
@click.argument("type", required=False, default="")
def rpc(
    endpoint: str,
    timeout_s: float,
    server_key: Path | None,
    key: Path | None,
    version: str,
    broker: str,
    action: str,
    name: str,
    type: str,
    is_json: bool,
) -> None:
    """Declare an exchange NAME of a TYPE, or delete it."""
    if bool(type) != (action == DECLARE):
        raise click.UsageError(f"{action} needs {'a' if action == DECLARE else 'no'} TYPE")
    request = Rpc(version=int(version), broker=broker, action=action, name=name, type=type)
    took_ms = _timed(request, endpoint, timeout_s, server_key, key)
    if is_json:
        click.echo(_timing(endpoint, took_ms))


@samwise.command(epilog=exit_status.EPILOG)
@_asking
@click.option("--stop", "action", flag_value=STOP, help="Tell it to stop instead, where samwise.controls allows it.")
@click.option("--restart", "action", flag_value=RESTART, help="Tell it to restart, likewise.")
@_JSON
def status(
    endpoint: str, timeout_s: float, server_key: Path | None, key: Path | None, action: str | None, is_json: bool
) -> None:
    """Show what a gateway has done and what waits there. It is asked in protocol 1.2, which alone knows this."""
    request = Status(VERSION_1_2) if action is None else Control(VERSION_1_2, action)
    text = _ask(request, endpoint, timeout_s, server_key, key)
    from broker.log import one_line

    if is_json:
        click.echo(json.dumps({"text": text.splitlines()}))
        return
    for line in text.splitlines():  # of samd, perhaps
        click.echo(one_line(line))


@samwise.group()
def messages() -> None:
    """List, requeue and remove stored messages. Their gateway is on this machine, and may run or not."""


def _storing(command: Callable[..., None]) -> Callable[..., None]:
    """Which gateway."""
    for option in (
        click.option(
            "--dir",
            "folder",
            metavar="DIR",
            type=click.Path(file_okay=False),
            help="Directory of the messages, instead of samwise.dir.",
        ),
        with_config,
    ):
        command = option(command)
    return command


@messages.command("list", epilog=exit_status.EPILOG)
@_storing
@click.option("--dead", "is_dead", is_flag=True, help="Dead letters, instead of messages that wait.")
@click.option("--limit", "max_n", type=Count(1), default=100, show_default=True, help="At most so many.")
@click.option("--json", "is_json", is_flag=True, help="A JSON object a line.")
def list_messages(path: str | None, folder: str | None, is_dead: bool, max_n: int, is_json: bool) -> None:
    """List messages, those first that came first."""
    import msgspec

    from admin_api.ctl.terminal import print_table
    from broker.commands.terminal import put_line
    from broker.views.samwise import DEAD, WAITING

    async def main(gateway: Operated) -> int:
        found: list[MessageView] = []
        while len(found) < max_n:
            after_id = found[-1].id if found else 0
            page = await gateway.page(DEAD if is_dead else WAITING, after_id, min(PAGE_N, max_n - len(found)))
            found += page.items
            if not page.items:
                break
        if is_json:
            for each in found:
                put_line(msgspec.json.encode(each))
        else:
            print_table(COLUMNS, [_row(each) for each in found], "none")
        return 0

    _operate(path, folder, main)


@messages.command(epilog=exit_status.EPILOG)
@_storing
@click.option("--all", "is_all", is_flag=True, help="All dead letters.")
@click.argument("ids", nargs=-1, type=int, metavar="[ID]...")
@_JSON
def requeue(path: str | None, folder: str | None, is_all: bool, ids: tuple[int, ...], is_json: bool) -> None:
    """Try dead letters again."""
    if is_all == bool(ids):
        raise click.UsageError("name dead letters by their ids, or all by --all")

    async def main(gateway: Operated) -> int:
        if not is_all:
            return _say_changed("requeued", await gateway.requeue(list(ids)), is_json, len(ids), "dead letter")
        changed_n = await _change_dead(gateway, gateway.requeue)
        return _say_changed("requeued", changed_n, is_json)

    _operate(path, folder, main)


@messages.command(epilog=exit_status.EPILOG)
@_storing
@click.option("--dead", "is_dead", is_flag=True, help="All dead letters.")
@click.argument("ids", nargs=-1, type=int, metavar="[ID]...")
@_JSON
def remove(path: str | None, folder: str | None, is_dead: bool, ids: tuple[int, ...], is_json: bool) -> None:
    """Remove messages and dead letters.

    What is under way may still arrive.
    """
    if is_dead == bool(ids):
        raise click.UsageError("name messages by their ids, or all dead letters by --dead")

    async def main(gateway: Operated) -> int:
        if not is_dead:
            return _say_changed("removed", await gateway.remove(list(ids)), is_json, len(ids), "message")
        return _say_changed("removed", await _change_dead(gateway, gateway.remove), is_json)

    _operate(path, folder, main)


async def _change_dead(gateway: Operated, change: Callable[[list[int]], Awaitable[int]]) -> int:
    """Changes all dead letters, once each: one that is requeued may be dead again meanwhile. How many were changed."""
    from broker.views.samwise import DEAD

    changed_n = after_id = 0
    while letters := (await gateway.page(DEAD, after_id, PAGE_N)).items:
        changed_n += await change([each.id for each in letters])
        after_id = letters[-1].id
    return changed_n


def _operate(path: str | None, folder: str | None, main: Callable[[Operated], Coroutine[Any, Any, int]]) -> None:
    """Asks the gateway of that folder; where none runs, opens what it has stored."""
    import asyncio

    from broker.commands.terminal import complain
    from broker.config.load import ConfigErrors, load
    from client_sdk.gateways.control import NotRunning
    from client_sdk.gateways.samwise.assignment import control_path
    from client_sdk.gateways.samwise.control import ControlClient, StoppedGateway
    from client_sdk.gateways.samwise.settings import STORE_NAME, store_of
    from client_sdk.gateways.samwise.tables import StoreError

    try:
        options = load(path, os.environ, {"samwise.dir": folder}).samwise
    except ConfigErrors as error:
        click.echo(error.text, err=True)
        sys.exit(exit_status.NOT_INSTALLED if error.is_lack else exit_status.USAGE)
    if not options.dir:
        raise click.UsageError("where are the messages? Give --dir, --config or RSB_SAMWISE__DIR")
    if not (Path(options.dir) / STORE_NAME).exists():
        raise click.UsageError(f"{options.dir} holds no messages: there is no {STORE_NAME} in it")

    async def run_either() -> int:
        try:
            async with ControlClient(control_path(options)) as running:
                return await main(running)
        except NotRunning:
            async with StoppedGateway(store_of(options)) as stopped:
                return await main(stopped)

    try:
        sys.exit(asyncio.run(run_either()))
    except StoreError as error:
        complain(str(error))
        sys.exit(exit_status.FAILED)


def _say_changed(what: str, changed_n: int, is_json: bool, wanted_n: int = 0, kind: str = "") -> int:
    """The exit status. `wanted_n`: ids of messages of this `kind` that were named."""
    from broker.commands.terminal import complain

    click.echo(json.dumps({what: changed_n}) if is_json else f"{what} {changed_n}")
    if changed_n < wanted_n:
        complain(f"{wanted_n - changed_n} of {wanted_n} ids are of no {kind}")
        return exit_status.FAILED
    return 0


def _row(letter: MessageView) -> tuple[str, ...]:
    from admin_api.ctl.tables import moment
    from broker.log import one_line

    acknowledged = f"{len(letter.acknowledged_by)} of {letter.acknowledgements}"
    size, tries = str(letter.payload_bytes), str(letter.tries)
    names = (one_line(letter.exchange), one_line(letter.routing_key))
    return (str(letter.id), moment(letter.stored_at_ms), *names, size, acknowledged, tries, one_line(letter.reason))


def _timed(request: Request, endpoint: str, timeout_s: float, server_key: Path | None, key: Path | None) -> float:
    """After how many milliseconds the gateway agreed."""
    began_at = time.monotonic()
    _ask(request, endpoint, timeout_s, server_key, key)
    return (time.monotonic() - began_at) * 1000


def _timing(endpoint: str, took_ms: float) -> str:
    """The same as JSON."""
    return json.dumps({"endpoint": endpoint, "took_ms": round(took_ms, 1)})


def _ask(request: Request, endpoint: str, timeout_s: float, server_key: Path | None, key: Path | None) -> str:
    """The text of the answer; ends the process where there is none, or it is -1."""
    if key is not None and server_key is None:
        raise click.UsageError("--key needs --server-key: without the gateway's public key nothing is encrypted")
    if lack := lack_of_zeromq():
        click.echo(f"{click.get_current_context().command_path} {lack}", err=True)
        sys.exit(exit_status.NOT_INSTALLED)
    from broker.commands.terminal import complain

    connect: type[SamwiseClient] = importlib.import_module(CLIENT).SamwiseClient
    try:
        with connect(endpoint, timeout_s=timeout_s, server_key=server_key, key=key) as client:
            reply = client.ask(request)
    except TimeoutError as error:  # NoAnswer
        complain(str(error))
        sys.exit(exit_status.TOO_LATE)
    except (ValueError, OSError, Refused) as error:
        raise click.UsageError(str(error)) from None
    if not reply.is_ok:
        complain(reply.text)
        sys.exit(exit_status.REFUSED)
    return reply.text

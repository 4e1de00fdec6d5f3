"""`rsocket-broker feed`: announce the files of folders, serve and mirror them, and ask a feed that runs."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker import exit_status
from broker.commands.config_file import with_config
from broker.config.urls import WILDCARDS, Listen
from rsocket_wire.errors import BrokerError
from spark_sink.number_types import Number

if TYPE_CHECKING:  # what takes long to import is imported by the command that needs it
    import asyncio
    import ssl

    from broker.config.options import Config
    from broker.views.feed import FeedStateView
    from spark_sink.feed.program.assignment import Assignment

WATCHED: Final = "folder"  # the name of a posted folder, where a command line is about one
MIRROR: Final = "mirror"  # likewise
WINNOWER: Final = "winnow"


@click.group()
def feed() -> None:
    """Announce files by posts of Sarracenia v03, serve and mirror them."""


def _configured(command: Callable[..., None]) -> Callable[..., None]:
    """Where the options come from that no flag says."""
    for option in reversed(
        (
            click.option(
                "--dir",
                "folder",
                metavar="DIR",
                type=click.Path(file_okay=False),
                help="What the feed has to remember, instead of feed.dir.",
            ),
            with_config,
        )
    ):
        command = option(command)
    return command


def _posting(command: Callable[..., None]) -> Callable[..., None]:
    """Which files are announced, and how."""
    for option in reversed(
        (
            click.option(
                "--segments", "is_segments", is_flag=True, help="It is an events folder: its sealed segments."
            ),
            click.option("--base-url", default="", metavar="URL", help="Where others fetch the files from."),
            click.option("--to", "urls", multiple=True, metavar="URL", help="Brokers: tcp://, amqp://, mqtt:// …"),
            click.option("--exchange", metavar="NAME", help="Of these brokers, instead of xpublic."),
            click.option(
                "--ca",
                metavar="FILE",
                type=click.Path(),
                help="CA certificates of these, PEM, instead of the system's.",
            ),
            click.option("--accept", multiple=True, metavar="REGEX", help="Paths that are announced; repeatable."),
            click.option("--reject", multiple=True, metavar="REGEX", help="Paths that are not; repeatable."),
            click.option("--identity", metavar="METHOD", help="sha512, md5, cod,sha512, cod,md5, random, none …"),
            click.option(
                "--inline", "inline_bytes", metavar="SIZE", help="Files up to this size are in their posts: 4K."
            ),
            click.option("--blocks", "block_bytes", metavar="SIZE", help="Larger files are announced in blocks: 64M."),
            click.option("--settle", metavar="TIME", help="How long a file must not have changed: 500ms."),
            click.option("--no-removals", is_flag=True, help="Nobody is told that a file is gone."),
        )
    ):
        command = option(command)
    return command


def _encrypted(command: Callable[..., None]) -> Callable[..., None]:
    """Whether files are served over https."""
    key = click.option(
        "--key", metavar="FILE", type=click.Path(), help="Private key of the certificate, PEM, without a password."
    )
    return click.option(
        "--certificate", metavar="FILE", type=click.Path(), help="Certificate chain, PEM: files are served over https."
    )(key(command))


@feed.command(epilog=exit_status.EPILOG)
@_configured
@_posting
@click.option("--interval", metavar="TIME", help="Between two looks at the folder, at least: 1s.")
@click.option("--listen", metavar="HOST:PORT", help="Serve the files here, too; port 0: any free one.")
@_encrypted
@click.argument("root", required=False, metavar="[FOLDER]", type=click.Path(file_okay=False))
def watch(
    path: str | None,
    folder: str | None,
    root: str | None,
    listen: str | None,
    certificate: str | None,
    key: str | None,
    **given: Any,
) -> None:
    """Announce what is in FOLDER, and what changes there.

    Until SIGTERM or SIGINT.

    Without FOLDER it does all that section [feed] of the configuration says, as `rsocket-broker serve` does.
    """
    from spark_sink.feed.program.program import run
    from spark_sink.feed.program.serving import FilesListener

    if root is None:
        if listen or certificate or key or any(given.values()):
            raise click.UsageError("without FOLDER only --config and --dir may be given: the rest is configured")
        config = _load(path, folder)
        if not config.feed.is_used:
            raise click.UsageError("nothing is configured: give FOLDER, or a table [feed.post.NAME] in --config")
        admin = config.admin.listen
        listeners = [str(listen) for listen in config.server.listen]
        sys.exit(run(_assignment_of(config, listeners, "" if admin is None else str(admin))))
    tls = _tls(certificate, key)
    place = None if listen is None else _place(listen, tls)
    table = _table(root, place, **given)
    config = _load(path, folder, _tables(table, **given))
    files = None
    if place is not None:
        log = config.feed.log_path(WATCHED)
        files = FilesListener(Path(root), is_segments=given["is_segments"], log=log, tls=tls), place
    sys.exit(run(_assignment_of(config), files=files))


@feed.command(epilog=exit_status.EPILOG)
@_configured
@_posting
@click.option("--timeout", "timeout_s", type=Number(0, min_open=True), metavar="S", help="End after so long.")
@click.argument("root", metavar="FOLDER", type=click.Path(exists=True, file_okay=False))
def post(path: str | None, folder: str | None, root: str, timeout_s: float | None, **given: Any) -> None:
    """Announce what is in FOLDER now, and end.

    That is when each broker has all posts.

    What was announced before from the same --dir, and has not changed, is not announced again.
    """
    from rsocket_wire.ports import SCHEMES
    from spark_sink.feed.program.program import post_once

    if not given["urls"]:
        raise click.UsageError("give --to, a broker of messages that gets the posts")
    if offered := [url for url in given["urls"] if url.partition("://")[0] in SCHEMES]:
        raise click.UsageError(f"--to {offered[0]}: posts are offered there as long as `feed watch` runs; use that")
    config = _load(path, folder, _tables(_table(root, None, **given), **given))
    sys.exit(post_once(_assignment_of(config), WATCHED, timeout_s))


@feed.command(epilog=exit_status.EPILOG)
@_configured
@click.option("--from", "urls", multiple=True, required=True, metavar="URL", help="Brokers: tcp://, amqp://, mqtt:// …")
@click.option("--exchange", metavar="NAME", help="Of these brokers, instead of xpublic.")
@click.option("--topic", "topics", multiple=True, metavar="PATTERN", help="Instead of v03.post.#; repeatable.")
@click.option("--queue", metavar="NAME", help="Of AMQP and MQTT, instead of q_USER.HOST.mirror.")
@click.option("--accept", multiple=True, metavar="REGEX", help="Paths that are wanted; repeatable.")
@click.option("--reject", multiple=True, metavar="REGEX", help="Paths that are not; repeatable.")
@click.option("--basis", type=click.Choice(["path", "data"]), help="What is a repeat: see feed.subscribe.basis.")
@click.option("--removals", "has_removals", is_flag=True, help="Remove what is removed elsewhere.")
@click.option("--strip", metavar="FOLDER", help="Of the poster, in whole paths of sr3 watch.")
@click.option(
    "--ca",
    metavar="FILE",
    type=click.Path(),
    help="CA certificates of brokers and servers, PEM, instead of the system's.",
)
@click.option("--no-reports", is_flag=True, help="Posters are not told what became of their posts.")
@click.argument("into", metavar="FOLDER", type=click.Path(file_okay=False))
def subscribe(
    path: str | None, folder: str | None, into: str, has_removals: bool, no_reports: bool, **given: Any
) -> None:
    """Fetch into FOLDER what others announce.

    Until SIGTERM or SIGINT.
    """
    from spark_sink.feed.program.program import run

    names = [f"from-{number}" for number in range(1, len(given["urls"]) + 1)]
    table: dict[str, object] = {"into": into, "brokers": names, "removals": has_removals, "reports": not no_reports}
    table |= {key: given[key] for key in ("queue", "basis", "strip", "ca") if given[key]}
    table |= {key: list(given[key]) for key in ("topics", "accept", "reject") if given[key]}
    tables: dict[str, dict[str, object]] = {
        "feed.broker": _brokers(names, **given),
        "feed.subscribe": {MIRROR: table},
    }
    sys.exit(run(_assignment_of(_load(path, folder, tables))))


@feed.command(epilog=exit_status.EPILOG)
@_configured
@click.option("--from", "urls", multiple=True, required=True, metavar="URL", help="Brokers: tcp://, amqp://, mqtt:// …")
@click.option("--to", "to_urls", multiple=True, required=True, metavar="URL", help="Brokers: amqp://, mqtt://.")
@click.option("--exchange", metavar="NAME", help="That posts come from, instead of xpublic.")
@click.option("--to-exchange", metavar="NAME", help="That they go to, likewise.")
@click.option("--topic", "topics", multiple=True, metavar="PATTERN", help="Instead of v03.post.#; repeatable.")
@click.option("--queue", metavar="NAME", help="Of AMQP and MQTT, instead of q_USER.HOST.winnow.")
@click.option("--accept", multiple=True, metavar="REGEX", help="Paths that are wanted; repeatable.")
@click.option("--reject", multiple=True, metavar="REGEX", help="Paths that are not; repeatable.")
@click.option("--basis", type=click.Choice(["path", "data"]), help="What is a repeat: see feed.winnow.basis.")
@click.option(
    "--ca", metavar="FILE", type=click.Path(), help="CA certificates of all brokers, PEM, instead of the system's."
)
def winnow(
    path: str | None,
    folder: str | None,
    urls: tuple[str, ...],
    to_urls: tuple[str, ...],
    exchange: str | None,
    to_exchange: str | None,
    **given: Any,
) -> None:
    """Pass on the first of each post, and fetch nothing.

    Until SIGTERM or SIGINT.
    """
    from spark_sink.feed.program.program import run

    names = [f"from-{number}" for number in range(1, len(urls) + 1)]
    to = [f"to-{number}" for number in range(1, len(to_urls) + 1)]
    table: dict[str, object] = {"brokers": names, "to": to}
    table |= {key: given[key] for key in ("queue", "basis") if given[key]}
    table |= {key: list(given[key]) for key in ("topics", "accept", "reject") if given[key]}
    ca = given["ca"]
    brokers = _brokers(names, urls=urls, exchange=exchange, ca=ca)
    brokers |= _brokers(to, urls=to_urls, exchange=to_exchange, ca=ca)
    tables: dict[str, dict[str, object]] = {"feed.broker": brokers, "feed.winnow": {WINNOWER: table}}
    sys.exit(run(_assignment_of(_load(path, folder, tables))))


@feed.command(epilog=exit_status.EPILOG)
@click.option(
    "--listen", default="127.0.0.1:8080", metavar="HOST:PORT", show_default=True, help="Port 0: any free one."
)
@click.option("--segments", "is_segments", is_flag=True, help="It is an events folder: only its sealed segments.")
@click.option(
    "--log", type=click.Path(path_type=Path), metavar="FILE", help="Log of its posts: ETags are digests then."
)
@_encrypted
@click.argument("root", metavar="FOLDER", type=click.Path(exists=True, file_okay=False, path_type=Path))
def serve(
    root: Path, listen: str, is_segments: bool, log: Path | None, certificate: str | None, key: str | None
) -> None:
    """Serve the files of FOLDER over HTTP.

    With ranges, until SIGTERM or SIGINT.
    """
    from broker.commands.terminal import complain
    from broker.config.options import Config
    from client_sdk.gateways.running import run
    from spark_sink.feed.program.serving import FilesListener

    tls = _tls(certificate, key)
    files, place = FilesListener(root, is_segments=is_segments, log=log, tls=tls), _place(listen, tls)

    async def main(stop: asyncio.Event) -> int:
        try:
            port = await files.start(place)
        except BrokerError as error:
            complain(error.text)
            return exit_status.FAILED
        click.echo(f"listening {Listen(place.scheme, place.host, port)}/")
        await stop.wait()
        await files.close()
        return 0

    sys.exit(run(main, Config().log))


@feed.command(epilog=exit_status.EPILOG)
@_configured
@click.option("--json", "is_json", is_flag=True, help="As JSON.")
def status(path: str | None, folder: str | None, is_json: bool) -> None:
    """Show what a feed announces, and who has the files.

    It runs on this machine.
    """
    import asyncio

    import msgspec

    from admin_api.ctl.commands import show_feed
    from broker.commands.terminal import complain, put_line
    from client_sdk.gateways.control import NotRunning, Refusal
    from spark_sink.feed.program.control import ControlClient

    options = _load(path, folder).feed
    if not options.dir:
        raise click.UsageError("feed.dir is not set; give --dir or --config")

    async def ask() -> FeedStateView:
        async with ControlClient(options.control_path) as client:
            return await client.state()

    try:
        state = asyncio.run(ask())
    except NotRunning:
        complain(f"no feed runs in {options.dir}")
        sys.exit(exit_status.NO_ANSWER)
    except Refusal as error:
        complain(f"the feed refuses: {error}")
        sys.exit(exit_status.REFUSED)
    if is_json:
        put_line(msgspec.json.encode(state))
    else:
        show_feed(msgspec.to_builtins(state))


def _table(root: str, place: Listen | None, **given: Any) -> dict[str, object]:
    """The options of one posted folder, as a file would have them. `place`: where this process serves it."""
    table: dict[str, object] = {"folder": root, "what": "segments" if given["is_segments"] else "files"}
    table |= {key: given[key] for key in ("base_url", "identity", "inline_bytes", "block_bytes") if given[key]}
    table |= {key: given[key] for key in ("settle", "interval") if given.get(key)}
    table |= {key: list(given[key]) for key in ("accept", "reject") if given[key]}
    if given["no_removals"]:
        table["removals"] = False
    if not given["base_url"]:
        if place is None or not place.port:
            raise click.UsageError("give --base-url, where others fetch the files from, or --listen with a port")
        host = socket.gethostname() if place.host in WILDCARDS else place.host
        table["base_url"] = f"{Listen(place.scheme, host, place.port)}/"
    return table


def _tables(posted: dict[str, object], **given: Any) -> dict[str, dict[str, object]]:
    """That of the posted folder, with those of the brokers that get its posts."""
    names = [f"to-{number}" for number in range(1, len(given["urls"]) + 1)]
    return {"feed.broker": _brokers(names, **given), "feed.post": {WATCHED: {**posted, "to": names}}}


def _brokers(names: Sequence[str], **given: Any) -> dict[str, object]:
    """The tables of brokers that a command line names by their URLs."""
    own = {key: given[key] for key in ("exchange", "ca") if given[key]}
    return {name: {"url": url, **own} for name, url in zip(names, given["urls"], strict=True)}


def _place(text: str, tls: ssl.SSLContext | None) -> Listen:
    try:
        place = Listen.parse_host_port(text)
    except BrokerError as error:
        raise click.UsageError(f"--listen: {error.text}") from None
    return place if tls is None else Listen("https", place.host, place.port)


def _tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """None: without."""
    if not certificate and not key:
        return None
    if not certificate or not key:
        raise click.UsageError("--certificate and --key go together")
    from broker.config.certificates import server_context

    try:
        return server_context(certificate, key)
    except BrokerError as error:
        raise click.UsageError(error.text) from None


def _load(path: str | None, folder: str | None, tables: Mapping[str, Mapping[str, object]] | None = None) -> Config:
    from broker.config.load import ConfigErrors, load

    try:
        return load(path, os.environ, {"feed.dir": folder}, tables)
    except ConfigErrors as error:
        click.echo(error.text, err=True)
        sys.exit(exit_status.NOT_INSTALLED if error.is_lack else exit_status.USAGE)


def _assignment_of(config: Config, listeners: Sequence[str] = (), admin_url: str = "") -> Assignment:
    from spark_sink.feed.program.assignment import assignment_of

    try:
        return assignment_of(config, listeners, admin_url)
    except BrokerError as error:
        raise click.UsageError(error.text) from None

"""`rsocket-broker call`: one request from a terminal, through the client SDK."""

from __future__ import annotations

import contextlib
import difflib
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from admin_api.ctl.completion import complete_services
from admin_api.ctl.tag import split_tag
from broker import exit_status
from broker.commands import terminal
from rsocket_wire.models import (
    FIRE_AND_FORGET,
    METADATA_PUSH,
    MODELS,
    REQUEST_CHANNEL,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    STREAMS,
)
from spark_sink.number_types import Count, Number

if TYPE_CHECKING:  # what takes long to import is imported where it is needed
    from client_sdk import Address, Client, Connecting, Flow, Payload

DEFAULT_TIMEOUT_S = 30.0  # for what has one answer or none; a stream may go on as long as it likes


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    target: Address
    route: str | None
    model: str
    data: str
    metadata: dict[str, bytes]
    is_gather: bool
    is_json: bool
    is_verbose: bool
    initial_n: int
    take_n: int | None
    timeout_s: float | None

    @property
    def terms(self) -> dict[str, Any]:
        """What a request takes by name."""
        return {"route": self.route, "metadata": self.metadata, "timeout_s": self.timeout_s}


@click.command(epilog=exit_status.EPILOG)
@terminal.with_connection_options
@click.option("--service", shell_complete=complete_services, help="The ServiceName tag.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="A tag to route by; repeatable.")
@click.option("--all", "to_all", is_flag=True, help="Multicast: to all routes that match.")
@click.option("--gather", is_flag=True, help="Multicast; print each answer with its route.")
@click.option("--shard-key", "keys", multiple=True, metavar="NAME", help="Shard by the value of this tag.")
@click.option("--lb", metavar="METHOD", help='Load-balancing policy: "round_robin", "random" ...')
@click.option("--route", help="The handler within the service (routing metadata).")
@click.option(
    "--model",
    type=click.Choice(MODELS),
    metavar="MODEL",
    default=REQUEST_RESPONSE,
    show_default=True,
    help=f"One of {', '.join(MODELS)}.",
)
@click.option("--stream", "model", flag_value=REQUEST_STREAM, help="Short for --model request_stream.")
@click.option("--channel", "model", flag_value=REQUEST_CHANNEL, help="Short for --model request_channel.")
@click.option("--data", default="", help="The payload: TEXT, @FILE or - for standard input; a channel: an item a line.")
@click.option("--json", "is_json", is_flag=True, help="Data must be JSON; answers are printed as JSON.")
@click.option("--meta", "metas", multiple=True, metavar="MIME=VALUE", help="An entry of the metadata, VALUE as --data.")
@click.option("--n", "initial_n", type=Count(1), default=32, show_default=True, help="Initial REQUEST_N of streams.")
@click.option("--take", "take_n", type=Count(1), metavar="N", help="Cancel after N items.")
@click.option(
    "--timeout",
    "--deadline",
    "timeout_s",
    type=Number(0, min_open=True),
    help="Deadline in seconds; default 30, for streams and channels none.",
)
@click.option("--verbose", "-v", "is_verbose", is_flag=True, help="Print connection and metadata on stderr.")
def call(
    place: terminal.Place,
    /,
    service: str | None,
    tags: tuple[str, ...],
    to_all: bool,
    gather: bool,
    keys: tuple[str, ...],
    lb: str | None,
    route: str | None,
    model: str,
    data: str,
    is_json: bool,
    metas: tuple[str, ...],
    initial_n: int,
    take_n: int | None,
    timeout_s: float | None,
    is_verbose: bool,
) -> None:
    """Send one request and print what comes back, one item a line, as it comes.

    URL: the broker; tcp://, tls://, ws://, wss:// or unix://. Without it RSB_URL, the context in use, or this machine.
    """
    if service is not None:
        terminal.check_name("the service", service, "call {url} --service NAME")
    if service is None and not tags:
        raise click.UsageError(f"name what to call: {terminal.named_by(place.url)}")
    if (to_all or gather) and keys:
        raise click.UsageError("--all and --gather exclude --shard-key")
    for key in keys:
        name, sign, _ = key.partition("=")
        if sign:
            raise click.UsageError(f"--shard-key is the name of a tag: write --shard-key {name} --tag {key}")
    if lb is not None and (to_all or gather or keys):
        raise click.UsageError("--lb chooses one of several routes: leave it out with --all, --gather and --shard-key")
    if gather and model != REQUEST_RESPONSE:
        raise click.UsageError(f"--gather asks handlers of {REQUEST_RESPONSE}, not of {model}: leave out one of both")
    if metas and model == METADATA_PUSH:
        raise click.UsageError("--meta is for requests; a metadata_push has its --data as metadata")
    if timeout_s is None and model not in STREAMS:
        timeout_s = DEFAULT_TIMEOUT_S

    def main() -> Coroutine[Any, Any, int]:
        from client_sdk import connect

        target = _target(service, dict(split_tag("--tag", each) for each in tags), to_all or gather, keys, lb)
        pairs = [
            terminal.split_pair("--meta", each, "MIME", f"{each}=VALUE" if "/" in each else f"text/plain={each}")
            for each in metas
        ]
        metadata = {mime: terminal.read_text("--meta", text) for mime, text in pairs}
        wanted = Wanted(target, route, model, data, metadata, gather, is_json, is_verbose, initial_n, take_n, timeout_s)
        body = _body(wanted)
        return _connected(connect(place.url, ssl=place.ssl, credentials=place.credentials), wanted, body)

    terminal.run(main)


async def _connected(connecting: Connecting, wanted: Wanted, body: bytes) -> int:
    async with connecting as client:
        _say(wanted, f"connected to {client.broker} as {client.route_id}")
        began_at = time.monotonic()
        try:
            return await _call(client, wanted, body)
        finally:
            _say(wanted, f"ended after {(time.monotonic() - began_at) * 1000:.1f} ms")


def _target(
    service: str | None, tags: dict[str, str | None], to_all: bool, keys: tuple[str, ...], lb: str | None
) -> Address:
    from client_sdk import BadAddress, address, multicast, shard

    if to_all:
        return multicast(service, tags=tags)
    for key in keys:
        try:
            shard(service, key=key, tags=tags)
        except BadAddress as error:
            if error.word != "bad-shard-key":
                raise
            raise click.UsageError(f"--shard-key {key} is the name of a tag: add --tag {key}=VALUE") from None
    if keys:
        return shard(service, key=keys, tags=tags)
    if lb is not None:
        _check_method(lb)
    return address(service, tags=tags, lb=lb)


def _check_method(name: str) -> None:
    """Warns of a name that no broker of this version knows; it is sent all the same, another broker may know it."""
    from broker.config.toml import either
    from broker.routing.choosers.registry import ROUND_ROBIN, Methods
    from client_sdk.mistakes.methods import looked_at
    from rsocket_wire.methods import CHOOSERS, WRAPPERS

    looked_at.add(("lb", name))  # it is told of here, and not in the log, too
    if Methods().find(name, ROUND_ROBIN) is None:
        known = (*CHOOSERS, *WRAPPERS)
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"write {either(known)}"
        terminal.complain(f"--lb {name}: a broker that knows no such method takes that of the service; {hint}")


def _body(wanted: Wanted) -> bytes:
    """The payload; a channel has items instead."""
    if wanted.model == REQUEST_CHANNEL:
        return b""
    body = terminal.read_text("--data", wanted.data)
    return terminal.checked_json("--data", body) if wanted.is_json and body else body


def _items(wanted: Wanted) -> Iterator[bytes]:
    for line in terminal.read_lines("--data", wanted.data):
        yield terminal.checked_json("a line of --data", line) if wanted.is_json else line


async def _call(client: Client, wanted: Wanted, body: bytes) -> int:
    """Makes the call and prints; the exit status."""
    if wanted.is_gather:
        return await _gather(client, wanted, body)
    if wanted.model == REQUEST_RESPONSE:
        answer = await client.request_response(wanted.target, body, **wanted.terms)
        _print(wanted, answer, is_pretty=True)
    elif wanted.model == FIRE_AND_FORGET:
        await client.fire_and_forget(wanted.target, body, **wanted.terms)
    elif wanted.model == METADATA_PUSH:
        await client.metadata_push(wanted.target, body, route=wanted.route, timeout_s=wanted.timeout_s)
    else:
        await _print_all(client, wanted, body)
    return 0


async def _print_all(client: Client, wanted: Wanted, body: bytes) -> None:
    from client_sdk.sync.iterable_bridge import IterableBridge

    flow: Flow
    if wanted.model == REQUEST_CHANNEL:
        items = IterableBridge(_items(wanted))
        flow = client.request_channel(wanted.target, items, initial_n=wanted.initial_n, **wanted.terms)
    else:
        initial_n = min(wanted.initial_n, wanted.take_n or wanted.initial_n)
        flow = client.request_stream(wanted.target, body, initial_n=initial_n, **wanted.terms)
    left_n = wanted.take_n
    async with contextlib.aclosing(flow):
        async for payload in flow:
            _print(wanted, payload, is_pretty=False)
            if left_n is not None:
                left_n -= 1
                if not left_n:
                    return


async def _gather(client: Client, wanted: Wanted, body: bytes) -> int:
    """One line for each that answers."""
    import msgspec

    from broker.log import one_line

    gathering = client.gather(wanted.target, body, enough_n=wanted.take_n, **wanted.terms)
    statuses: set[int] = set()  # of the answers
    async for answer in gathering:
        who = {"service": answer.service, "route_id": answer.route_id}
        statuses.add(exit_status.DONE if answer.error is None else terminal.status_of(answer.error))
        if wanted.is_json:
            said: dict[str, object] = {**who}
            if answer.error is None:
                said["answer"] = msgspec.Raw(terminal.shown_json(answer.data, is_pretty=False) or b"null")
            else:
                said["error"] = {"word": answer.error.word, "text": answer.error.text}
            terminal.put_line(msgspec.json.encode(said))
        elif answer.error is not None:
            terminal.complain(f"{answer.service} {answer.route_id}: {terminal.said_of(answer.error)}")
        else:
            terminal.put_line(f"{one_line(answer.service)} {answer.route_id}: ".encode() + answer.data)
    status = exit_status.HANDLER_FAILED if len(statuses) > 1 else max(statuses, default=exit_status.DONE)
    if not gathering.is_complete and wanted.take_n is None:
        terminal.complain(f"not all have answered within {wanted.timeout_s:g} s")
        status = status or exit_status.TOO_LATE
    return status


def _print(wanted: Wanted, payload: Payload, is_pretty: bool) -> None:
    if payload.metadata is not None:
        _say(wanted, f"metadata {payload.metadata!r}")
    data = payload.data or b""
    terminal.put_line(terminal.shown_json(data, is_pretty) if wanted.is_json else data)


def _say(wanted: Wanted, text: str) -> None:
    if wanted.is_verbose:
        click.echo(f"* {text}", err=True)

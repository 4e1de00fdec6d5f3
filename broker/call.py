"""`rsocket-broker call`: one request from a terminal, through the client SDK."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import click

from client_sdk import Address, Client, ClientError, Payload, address, connect, multicast, shard

EXIT_FAILED = 1
MODELS = ("request_response", "fire_and_forget", "request_stream", "request_channel", "metadata_push")


@click.command()
@click.argument("url", default="tcp://127.0.0.1:7000", metavar="[URL]")
@click.option("--service", help="The ServiceName tag.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="A tag to route by; again for more.")
@click.option("--all", "to_all", is_flag=True, help="Multicast: to all routes that match.")
@click.option("--shard-key", "keys", multiple=True, metavar="NAME", help="Shard by the value of this tag.")
@click.option("--lb", metavar="METHOD", help='How to choose among the routes: "round_robin" or "random".')
@click.option("--route", help="The handler within the service (routing metadata).")
@click.option("--model", type=click.Choice(MODELS), default="request_response", show_default=True)
@click.option("--data", default="", help='The payload; "-" reads it from standard input (a channel: one item a line).')
@click.option("--n", "initial_n", default=32, show_default=True, help="Items that may be under way, for streams.")
@click.option("--timeout", "timeout_s", default=30.0, show_default=True, help="Seconds for all of it.")
def call(
    url: str,
    service: str | None,
    tags: tuple[str, ...],
    to_all: bool,
    keys: tuple[str, ...],
    lb: str | None,
    route: str | None,
    model: str,
    data: str,
    initial_n: int,
    timeout_s: float,
) -> None:
    """Send one request through the broker at URL and print what comes back, one item a line."""
    if service is None and not tags:
        raise click.UsageError("name what to call: --service NAME or --tag NAME=VALUE")
    if to_all and keys:
        raise click.UsageError("--all and --shard-key exclude each other")
    if initial_n < 1:
        raise click.UsageError(f"--n is {initial_n}, it must be at least 1")
    try:
        target = _target(service, dict(map(_split, tags)), to_all, keys, lb)
        asyncio.run(_call(url, target, route, model, data, initial_n, timeout_s))
    except ClientError as error:
        click.echo(f"rsocket-broker: {error}", err=True)
        sys.exit(EXIT_FAILED)


def _split(tag: str) -> tuple[str, str | None]:
    name, equals, value = tag.partition("=")
    if not name:
        raise click.UsageError(f"--tag {tag!r} has no name; write NAME=VALUE")
    return name, value if equals else None


def _target(
    service: str | None, tags: dict[str, str | None], to_all: bool, keys: tuple[str, ...], lb: str | None
) -> Address:
    if to_all:
        return multicast(service, tags=tags)
    if keys:
        return shard(service, key=keys, tags=tags)
    return address(service, tags=tags, lb=lb)


async def _call(
    url: str, target: Address, route: str | None, model: str, data: str, initial_n: int, timeout_s: float
) -> None:
    async with connect(url) as client:
        if model == "request_channel":
            items = _lines() if data == "-" else _one(data.encode())
            flow = client.request_channel(target, items, route=route, initial_n=initial_n, timeout_s=timeout_s)
            async for payload in flow:
                _print(payload)
            return
        body = sys.stdin.buffer.read() if data == "-" else data.encode()
        if model == "request_stream":
            async for payload in client.request_stream(
                target, body, route=route, initial_n=initial_n, timeout_s=timeout_s
            ):
                _print(payload)
        else:
            await _once(client, target, route, model, body, timeout_s)


async def _once(client: Client, target: Address, route: str | None, model: str, body: bytes, timeout_s: float) -> None:
    if model == "request_response":
        _print(await client.request_response(target, body, route=route, timeout_s=timeout_s))
    elif model == "fire_and_forget":
        await client.fire_and_forget(target, body, route=route, timeout_s=timeout_s)
    else:
        await client.metadata_push(target, body, route=route, timeout_s=timeout_s)


async def _lines() -> AsyncIterator[bytes]:
    """Items of a channel: the lines of standard input, read as the service asks for them."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        yield line.rstrip(b"\r\n")


async def _one(item: bytes) -> AsyncIterator[bytes]:
    yield item


def _print(payload: Payload) -> None:
    sys.stdout.buffer.write((payload.data or b"") + b"\n")
    sys.stdout.buffer.flush()

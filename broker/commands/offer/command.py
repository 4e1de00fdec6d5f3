"""`rsocket-broker offer`: its options. What it does stands in `service`."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import click

from admin_api.ctl.tag import split_tag
from broker import exit_status
from broker.commands import terminal
from spark_sink.number_types import Count


@click.command(epilog=exit_status.EPILOG)
@click.argument("name")
@terminal.with_connection_options
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="A tag of the route; repeatable.")
@click.option("--instance", help="A name that gives the route the same id each time, for shards.")
@click.option("--answer", help="The answer: TEXT, @FILE or -; by default requests are echoed.")
@click.option("--items", "items_n", default=1, show_default=True, type=Count(0), help="Items that answer a stream.")
@click.option("--take", "take_n", type=Count(1), metavar="N", help="End after N requests or items.")
@click.option("--json", "is_json", is_flag=True, help="Show requests as JSON; --answer must be JSON.")
def offer(
    place: terminal.Place,
    /,
    name: str,
    tags: tuple[str, ...],
    instance: str | None,
    answer: str | None,
    items_n: int,
    take_n: int | None,
    is_json: bool,
) -> None:
    """Offer a service NAME until Ctrl-C, show what is asked, and answer.

    To try callers, routes and tags. URL: the broker, as of `call`.
    """
    own_tags = dict(split_tag("--tag", each) for each in tags)

    def main() -> Coroutine[Any, Any, int]:
        from broker.commands.offer.service import OfferedService, serve_until_done  # late: the client
        from client_sdk import connect

        text = None if answer is None else terminal.read_text("--answer", answer)
        if is_json and text is not None:
            terminal.checked_json("--answer", text)
        offered = OfferedService(text, items_n, take_n, is_json)
        service = offered.service(name, own_tags)
        connecting = connect(
            place.url, service=service, instance=instance, ssl=place.ssl, credentials=place.credentials
        )
        return serve_until_done(connecting, offered, service)

    terminal.run(main)

"""The command `rsocket-broker table`: the routing table of a broker at a moment, and what changed between two.

Every expected failure is one sentence on standard error and an exit status, see `spark_sink.errors`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_sink.errors import SinkError
from spark_sink.java import NEAR_MASTER
from spark_sink.terminal import console_of, end, moment_option

if TYPE_CHECKING:
    from spark_sink.time_travel.rebuild import Reader
    from spark_sink.time_travel.segment_reader import SegmentReader
    from spark_sink.time_travel.table_reader import TableReader
    from spark_sink.time_travel.values import SeenRoute, TableAt


def _pairs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, str]]:
    for text in values:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not a tag: write it as name=value, for example zone=b")
    return [(name, value) for name, _, value in (text.partition("=") for text in values)]


@click.command()
@click.option(
    "--at",
    default="now",
    show_default=True,
    callback=moment_option,
    help='The time: ISO (UTC without a zone), "10 minutes ago" or "now".',
)
@click.option(
    "--broker",
    metavar="NAME-OR-ID",
    help="The broker: its name, id or the beginning of its id. Required if there are several.",
)
@click.option("--epoch", type=int, metavar="N", help="The run of the broker; default: the one that includes the time.")
@click.option(
    "--diff", "other", metavar="TIME2", callback=moment_option, help="Show what changed from --at to this time instead."
)
@click.option("--service", metavar="NAME", help="Show only routes of this service.")
@click.option(
    "--tag", "tags", multiple=True, metavar="K=V", callback=_pairs, help="Show only routes with this tag; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--events", type=click.Path(path_type=Path), help="Folder that the broker writes events to.")
@click.option("--tables", type=click.Path(path_type=Path), help="Folder of tables that the pipeline made.")
@click.option("--spark", "with_spark", is_flag=True, help="Read with Spark: for long time spans and large folders.")
@click.option("--master", help=f"Where Spark runs; implies --spark. Default: {NEAR_MASTER}.")
def table(
    at: datetime,
    broker: str | None,
    epoch: int | None,
    other: datetime | None,
    service: str | None,
    tags: list[tuple[str, str]],
    as_json: bool,
    events: Path | None,
    tables: Path | None,
    with_spark: bool,
    master: str | None,
) -> None:
    """Show the routing table of a broker at a given time, rebuilt from its events."""
    from spark_sink.time_travel.rebuild import table_at  # late, here and below: pyarrow
    from spark_sink.time_travel.segment_reader import SegmentReader
    from spark_sink.time_travel.show import filtered
    from spark_sink.time_travel.table_reader import TableReader

    try:
        near: SegmentReader | TableReader
        if events is not None and tables is None:
            near = SegmentReader(events)
        elif tables is not None and events is None:
            near = TableReader(tables)
        else:
            raise click.UsageError("give either --events DIR or --tables DIR")
        with _reader(near, master or NEAR_MASTER, with_spark or master is not None) as reader:
            found = [table_at(reader, moment, broker, epoch) for moment in (at, other) if moment is not None]
    except SinkError as error:
        end(error)
    if other is None:
        _show(found[0], filtered(found[0].routes, service, tags), as_json)
    else:
        _show_difference(found[0], found[1], service, tags, as_json)


@contextlib.contextmanager
def _reader(near: SegmentReader | TableReader, master: str, with_spark: bool) -> Iterator[Reader]:
    if not with_spark:
        yield near
        return
    from spark_sink.session import open_session
    from spark_sink.time_travel.spark_reader import SparkReader

    session = open_session(master, name="rsocket-broker table")
    try:
        yield SparkReader(session, near)
    finally:
        session.stop()


def _show(found: TableAt, routes: list[SeenRoute], as_json: bool) -> None:
    from spark_sink.time_travel.show import print_table_at
    from spark_sink.time_travel.values import route_json

    if as_json:
        click.echo(json.dumps(found.to_json() | {"routes": [route_json(route) for route in routes]}, indent=2))
        return
    print_table_at(found, routes, console_of())


def _show_difference(
    before: TableAt, after: TableAt, service: str | None, tags: list[tuple[str, str]], as_json: bool
) -> None:
    from spark_sink.time_travel.show import filtered, print_difference
    from spark_sink.time_travel.values import Difference, diff

    joined, left, *changes = diff(before, after)
    # Of two sides one is enough to be shown.
    replaced, changed = ([change for change in of if filtered(change, service, tags)] for of in changes)
    shown = Difference(filtered(joined, service, tags), filtered(left, service, tags), replaced, changed)
    if as_json:
        sides = {"before": before.to_json(), "after": after.to_json()}
        for side in sides.values():
            del side["routes"]
        click.echo(json.dumps(sides | shown.to_json(), indent=2))
        return
    print_difference(before, after, shown, console_of())

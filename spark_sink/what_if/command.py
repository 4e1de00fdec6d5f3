"""The command `rsocket-broker simulate`: options into a question, the answer to the terminal, as JSON, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from spark_sink.errors import SinkError
from spark_sink.java import NEAR_MASTER
from spark_sink.number_types import Count
from spark_sink.progress_line import ProgressLine
from spark_sink.terminal import console_of, end, moment_option, write_text
from spark_sink.timestamps import micros_of

if TYPE_CHECKING:
    from spark_sink.what_if.question import Question
    from spark_sink.what_if.simulation import Simulation

MAX_COPIES: Final = 100  # of each route; more say nothing that a hundred do not


def _micros(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    moment = moment_option(context, parameter, value)
    return micros_of(moment) if moment is not None else None


@click.command()
@click.option("--events", default="", metavar="DIR", help="Folder that brokers write events to, or a URI for Spark.")
@click.option("--tables", default="", metavar="DIR", help="Folder of tables, or a URI; instead of --events.")
@click.option(
    "--chooser", help="Choose the routes of unicast requests by this method: round_robin, p2c, random, least_busy, …"
)
@click.option(
    "--shard", help="Choose the routes of shard requests by this method: rendezvous, maglev, ring, jump, modulo."
)
@click.option("--without", multiple=True, metavar="TAG=VALUE", help="Remove the routes with this tag; repeatable.")
@click.option(
    "--with-copies-of",
    "copies_of",
    multiple=True,
    metavar="TAG=VALUE",
    help="Add copies of the routes with this tag; repeatable.",
)
@click.option("--copies", type=Count(1, MAX_COPIES), default=1, show_default=True, help="Copies of each such route.")
@click.option("--seed", type=int, help="Seed of random choices: another one shows how much is chance.")
@click.option(
    "--since",
    "since_us",
    metavar="TIME",
    callback=_micros,
    help='Count only requests that began then or later: ISO (UTC without a zone), "10 minutes ago".',
)
@click.option(
    "--until", "until_us", metavar="TIME", callback=_micros, help="Read only requests that began before this time."
)
@click.option("--broker", default="", help="Replay only this broker: its id or name.")
@click.option("--service", default="", help="Count only the requests of this service.")
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with plots.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--master", default=NEAR_MASTER, show_default=True, help="Where Spark runs.")
@click.option("--no-spark", is_flag=True, help="Replay in this process, without Java: for small folders.")
def simulate(
    *, events: str, tables: str, page: Path | None, is_json: bool, master: str, no_spark: bool, **asked: Any
) -> None:
    """Replay recorded requests with another load balancer, and compare.

    Without a change the replay shows how many of the real choices it reproduces.
    """
    if bool(events) == bool(tables):
        raise click.UsageError("give either --events or --tables")
    import msgspec  # late, as what follows: pyarrow, and the broker's routing

    from spark_sink.what_if.local import LocalEngine
    from spark_sink.what_if.output import as_json, print_simulation
    from spark_sink.what_if.page import page_of
    from spark_sink.what_if.question import question_of
    from spark_sink.what_if.simulation import simulate as ask

    try:
        question = question_of(**asked)
        with ProgressLine("replaying the requests"):
            if no_spark:
                simulation = ask(LocalEngine(events=_path(events), tables=_path(tables), question=question), question)
            else:
                simulation = _on_spark(events, tables, question, master)
        if is_json:
            click.echo(msgspec.json.encode(as_json(simulation)).decode())
        else:
            print_simulation(simulation, console_of())
        if page is not None:
            write_text(page, page_of(simulation))
            click.echo(f"written to {page}", err=is_json)
    except SinkError as error:
        end(error)


def _on_spark(events: str, tables: str, question: Question, master: str) -> Simulation:
    from spark_sink.session import open_session
    from spark_sink.what_if.local import check_folder
    from spark_sink.what_if.simulation import simulate as ask
    from spark_sink.what_if.spark import SparkEngine

    if "://" not in events + tables:
        check_folder(_path(events), _path(tables))
    session = open_session(master, name="rsocket-broker simulate")
    try:
        return ask(SparkEngine(session, events=events, tables=tables, question=question), question)
    finally:
        session.stop()


def _path(text: str) -> Path | None:
    return Path(text) if text else None

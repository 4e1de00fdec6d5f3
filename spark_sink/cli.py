"""The commands of this package, for `rsocket-broker` to mount: `pipeline run`, `pipeline compact` and `report`.

Every expected failure is one sentence on standard error and an exit status, see `broker.exit_status`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from spark_sink.errors import SinkError
from spark_sink.pipeline import DELTA, ENGINES, FORMATS, LOCAL, SPARK
from spark_sink.progress_line import ProgressLine
from spark_sink.report import DEFAULT_TAG
from spark_sink.terminal import console_of, end, end_now, heeding_interruptions, moment_option, write_text

if TYPE_CHECKING:
    from spark_sink.pipeline.keeping import Keeping

DEFAULT_MASTER: Final = "local[*]"
DEFAULT_EVERY: Final = "5 seconds"


def _interval(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from spark_sink.pipeline.pipeline import is_every  # late, here and below: pyarrow, and the whole pipeline

    if not is_every(value):
        raise click.BadParameter(f'{value!r} is not an interval; write one like "5 seconds" or "1 minute"')
    return value


def _date(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else f"{datetime.strptime(value, '%Y-%m-%d'):%Y-%m-%d}"
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a date; write one like 2026-11-20") from error


def _keeping(_context: click.Context, _parameter: click.Parameter, value: str) -> Keeping:
    from spark_sink.pipeline.keeping import keeping_of

    try:
        return keeping_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.group()
def pipeline() -> None:
    """Turn event files into tables."""


@pipeline.command()
@click.option("--events", required=True, help="Folder that the broker writes events to; a path, or a URI of Hadoop.")
@click.option("--tables", required=True, help="Folder of the tables, made if missing; a path, or a URI of Hadoop.")
@click.option(
    "--master", help=f"Where Spark runs: {DEFAULT_MASTER} (default), spark://host:7077, sc://host … or of spark-submit."
)
@click.option("--once", is_flag=True, help="Process the files that exist now, then exit.")
@click.option("--every", callback=_interval, help=f'Process new files at this interval; default: "{DEFAULT_EVERY}".')
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default=SPARK,
    show_default=True,
    help="What does the sums; local: this process, without Java, for folders of this machine.",
)
@click.option(
    "--keep",
    callback=_keeping,
    default="",
    help='Remove old days of tables: "minute=7d, hour=90d, day=forever, requests=30d"; default: keep everything.',
)
@click.option(
    "--format",
    "table_format",
    type=click.Choice(FORMATS),
    help=f"What new tables are: files of Parquet (default), or tables of {DELTA}, which need the extra {DELTA}.",
)
def run(
    events: str,
    tables: str,
    master: str | None,
    once: bool,
    every: str | None,
    engine: str,
    keep: Keeping,
    table_format: str | None,
) -> None:
    """Process new event files into tables, once or continuously."""
    if once and every is not None:
        raise click.UsageError("--once and --every exclude each other")
    if engine == LOCAL and master is not None:
        raise click.UsageError(f"--engine {LOCAL} has no master")
    from spark_sink.pipeline.pipeline import Pipeline
    from spark_sink.session import is_submitted

    if master is None and not is_submitted():
        master = DEFAULT_MASTER
    when = None if once else every or DEFAULT_EVERY
    job = Pipeline(events, tables, master, when, engine=engine, keeping=keep, table_format=table_format)
    try:
        with ProgressLine("making tables" if once else "making tables, at intervals"):
            job.run()
    except SinkError as error:
        end(error, is_hanging=job.is_hanging)
    if job.is_hanging:
        end_now(0)


@pipeline.command()
@click.option("--tables", required=True, help="Folder of the tables.")
@click.option("--before", callback=_date, help="Only days before this date, 2026-11-20; default: today, UTC.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def compact(tables: str, before: str | None, is_json: bool) -> None:
    """Merge the small files of finished days into few large ones. A pipeline may run meanwhile.

    A local folder needs no Java.
    """
    from spark_sink.pipeline.pipeline import compact_tables

    try:
        with ProgressLine("compacting the tables"):
            did = compact_tables(tables, before or f"{datetime.now(UTC):%Y-%m-%d}")
        if is_json:
            counts = {"days": did.days, "files_before": did.files_before, "files_after": did.files_after}
            click.echo(json.dumps(counts))
            return
        click.echo(f"{did.days} folders of days compacted: {did.files_before} files before, {did.files_after} after")
    except SinkError as error:
        end(error)


@pipeline.command()
@click.option("--tables", required=True, help="Folder of the tables.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def upgrade(tables: str, is_json: bool) -> None:
    """Make tables of an older version into tables of this one.

    With new names of columns, and roll-ups.
    """
    from spark_sink.pipeline.pipeline import upgrade_tables

    try:
        with ProgressLine("upgrading the tables"):
            did = upgrade_tables(tables)
    except SinkError as error:
        end(error)
    if is_json:
        click.echo(json.dumps(did._asdict()))
        return
    click.echo(f"{did.renamed_files} files have the new names of columns")
    click.echo(f"{did.days} days have roll-ups, and {did.archived_segments} segments that were read were moved")


@click.command()
@click.argument("tables", type=click.Path(path_type=Path))
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Also write an HTML page with plots.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Also write Markdown to this file.")
@click.option("--since", callback=moment_option, help='Only from this time on: "2 hours ago" or an ISO time (UTC).')
@click.option("--by", default=DEFAULT_TAG, help=f"Put requests together by this tag of routes; default: {DEFAULT_TAG}.")
@click.option("--json", "is_json", is_flag=True, help="Print all numbers as JSON instead.")
def report(tables: Path, html: Path | None, out: Path | None, since: datetime | None, by: str, is_json: bool) -> None:
    """Report traffic, routes and brokers from the tables that the pipeline made. Needs no Java."""
    from spark_sink.report.as_json import json_report
    from spark_sink.report.facts import read_facts
    from spark_sink.report.page import html_report
    from spark_sink.report.printers import WIDTH, markdown_report, print_report

    try:
        with ProgressLine("reading the tables"), heeding_interruptions():
            facts = read_facts(tables, since, by)
        # Files first: whoever reads the beginning of the terminal's form, `| head`, ends this process.
        if html is not None:
            write_text(html, html_report(facts, datetime.now(UTC)))
        if out is not None:
            write_text(out, markdown_report(facts))
        if is_json:
            click.echo(json_report(facts), nl=False)
            return
        print_report(facts, console_of(WIDTH))
        for path in filter(None, (out, html)):
            click.echo(f"written to {path}")
    except SinkError as error:
        end(error)

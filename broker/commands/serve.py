"""`rsocket-broker serve`: runs a broker. What it does stands in `broker_process`, which takes a while to import."""

from __future__ import annotations

import click

from broker.commands.config_file import with_config


@click.command()
@click.option(
    "--listen",
    multiple=True,
    metavar="URL",
    help="Address to listen on: tcp://, tls://, ws://, wss:// or unix://; repeatable.",
)
@click.option("--admin", metavar="HOST:PORT", help='Address of the REST API; "off" for none.')
@click.option(
    "--events", metavar="DIR", type=click.Path(file_okay=False), help="Directory for event files, which Spark reads."
)
@click.option("--workers", metavar="N", help="Worker processes that share the ports; 0: one per core.")
@click.option(
    "--log-frames", multiple=True, metavar="NAME", help="Log the frames of this service or connection; repeatable."
)
@with_config
@click.option("--stop-at-eof", "stops_at_eof", is_flag=True, hidden=True)  # for programs that start one for themselves
def serve(path: str | None, stops_at_eof: bool, **given: object) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Its log is JSON with log.format = "json" (RSB_LOG__FORMAT).
    """
    from broker.commands.broker_process import run_broker  # late: all that a broker is made of

    run_broker(path, stops_at_eof, given)

"""`rsocket-broker demo`: its options. What it does stands in `run`."""

import click

from spark_sink.number_types import Number


@click.command()
@click.option("--dir", "folder", default="demo-data", show_default=True, help="New, empty, or of an earlier demo.")
@click.option("--seconds", default=60.0, show_default=True, type=Number(0.5, 600), help="Of traffic.")
def demo(folder: str, seconds: float) -> None:
    """Broker, services, traffic, REST API and a Spark report in one go; ends by itself."""
    from broker.commands.demo.run import run  # late: broker, client and pyarrow

    run(folder, seconds)

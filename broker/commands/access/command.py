"""`rsocket-broker access`: why an identity may announce or address a route, and which roles recorded calls need."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from broker.commands.config_file import with_config


@click.group()
def access() -> None:
    """Roles: why an identity may announce or address a route."""


@access.command()
@click.option("--as", "principal", required=True, metavar="IDENTITY", help="jwt:NAME, user:NAME, ... or anonymous.")
@click.option("--announce", multiple=True, metavar="TAGS", help="Tags of the route: service=orders,region=eu.")
@click.option("--address", multiple=True, metavar="TAGS", help="Tags of the route that a request is to reach.")
@with_config
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(principal: str, announce: tuple[str, ...], address: tuple[str, ...], path: str | None, as_json: bool) -> None:
    """Tell why an identity may announce a route or reach it, or not.

    No broker is asked. The exit status is 0 for allowed and 4 for denied.
    """
    if bool(announce) == bool(address):
        raise click.UsageError("one of --announce TAGS, --address TAGS is required")
    from broker.commands.access.verdict import tell  # late: all options

    sys.exit(tell(principal, announce, address, path, as_json))


@access.command()
@click.option("--tables", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Folder of the tables.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def suggest(tables: Path, as_json: bool) -> None:
    """Print roles, as TOML, that allow what was recorded.

    That is what identities have announced and called, and little else.

    Look at them before you use them: what was recorded may have been an attack.
    """
    from broker.commands.access import suggestion  # late: all options, and pyarrow, which is optional

    suggestion.suggest(tables, as_json)

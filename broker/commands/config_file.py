"""`--config FILE` of each command that reads a configuration. Imports nothing but click, for a quick start."""

from __future__ import annotations

from typing import Final

import click

with_config: Final = click.option(
    "--config",
    "path",
    metavar="FILE",
    type=click.Path(dir_okay=False, readable=False),
    help="Configuration file, TOML.",
)

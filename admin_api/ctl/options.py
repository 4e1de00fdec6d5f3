"""Options that every command of `ctl` has, before its name or behind it, and whom they mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from admin_api.ctl.place import Command, admin_options, place_of

if TYPE_CHECKING:
    from admin_api.ctl.client import AdminClient


class Options(NamedTuple):
    """Options that stand before a command; its own win over them."""

    admin: str | None
    as_json: bool
    token_file: Path | None = None
    context: str | None = None


def options(command: Command) -> Command:
    """--admin, --token-file, --context and --json, which every command has."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API gives it.")(command)
    return admin_options(command)


def client_of(
    before: Options, admin: str | None, as_json: bool, token_file: Path | None = None, context: str | None = None
) -> tuple[AdminClient, bool]:
    """Whom to ask, and whether to print JSON."""
    from admin_api.ctl.client import AdminClient  # late: help and completion ask nobody

    url, token = place_of(admin or before.admin, token_file or before.token_file, context or before.context)
    return AdminClient(url, token=token), as_json or before.as_json

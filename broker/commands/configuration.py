"""`rsocket-broker check` and `password`: what is wrong with a configuration, and the line of a user for one."""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

import click

from broker import exit_status


@click.command()
@click.argument("path", required=False, metavar="[FILE]", type=click.Path(readable=False))
@click.option("--options", is_flag=True, help="Print all options with their defaults, as TOML.")
@click.option("--json", "is_json", is_flag=True, help="Print mistakes and warnings as JSON.")
def check(path: str | None, options: bool, is_json: bool) -> None:
    """Check a configuration: the file and the RSB_ variables of the environment. All mistakes are reported together.

    Warnings go to standard error and do not change the exit status.
    """
    from broker.config.load import ConfigErrors, Sources  # late: all options
    from broker.config.reference import options_toml

    if options:
        click.echo(options_toml(), nl=False)
        return
    status = exit_status.DONE
    mistakes: list[str] = []
    warnings: list[str] = []
    try:
        warnings = [str(each) for each in Sources(path, os.environ, {}).load().warnings]
    except ConfigErrors as error:
        mistakes = str(error).splitlines()
        status = exit_status.NOT_INSTALLED if error.is_lack else exit_status.USAGE
    if is_json:
        click.echo(json.dumps({"is_well": not mistakes, "mistakes": mistakes, "warnings": warnings}, indent=2))
    elif mistakes:
        click.echo("\n".join(mistakes), err=True)
    else:
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
        click.echo(f"{path or 'environment'}: ok")
    if mistakes:
        sys.exit(status)


@click.command()
@click.argument("name")
@click.option("--json", "is_json", is_flag=True, help="Print the line as JSON.")
def password(name: str, is_json: bool) -> None:
    """Make the line of user NAME for the file auth.users.

    Asks for the password, or reads it from standard input when that is no terminal.
    """
    from broker.config.auth import is_user_line  # late: all options
    from broker.config.extras import lack_of_auth

    lack = lack_of_auth()
    if lack:
        click.echo(f"rsocket-broker password {lack}", err=True)
        sys.exit(exit_status.NOT_INSTALLED)
    from argon2 import PasswordHasher

    if ":" in name:
        _end(f"{name!r} has a colon, which ends a name in the file: take a name without one")
    is_asked = sys.stdin.isatty()
    given = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True) if is_asked else None
    secret = given if given is not None else sys.stdin.readline().rstrip("\r\n")
    if not secret:
        _end("no password came: type it, or give it on standard input, as one line")
    line = f"{name}:{PasswordHasher().hash(secret)}"
    if not is_user_line(line):
        _end(f"{name!r} is no name of a user: that is printable, does not begin with a space, and has 1 to 255 bytes")
    click.echo(json.dumps({"user": name, "line": line}) if is_json else line)


def _end(text: str) -> NoReturn:
    click.echo(f"rsocket-broker password: {text}", err=True)
    sys.exit(exit_status.USAGE)

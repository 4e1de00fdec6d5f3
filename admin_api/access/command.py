"""`rsocket-broker token`: makes, lists and revokes tokens for the REST API, in the file that `admin.tokens` names.

Decides what stands in the file; a broker that runs reads it again on SIGHUP.
"""

import difflib
import json
import os
import shlex
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn

import click

from admin_api.access.local_token import MODE, new_token
from admin_api.ctl.terminal import print_json, print_table
from broker import exit_status
from broker.config.sections.admin_checks import (
    MAX_TOKENS,
    ROLES,
    AdminToken,
    digest_of,
    is_token_name,
    read_tokens,
)
from rsocket_wire.files import system_reason
from spark_sink.number_types import Count

DAY_S: Final = 86_400
MAX_NAMED: Final = 10  # tokens that a text lists
MAX_DAYS: Final = 3660
COLUMNS: Final = ("name", "role", "expires", "state")
FILE = click.option(
    "--file",
    "path",
    envvar="RSB_ADMIN__TOKENS",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that the option admin.tokens names.  [default: RSB_ADMIN__TOKENS]",
)

_JSON: Final = click.option("--json", "is_json", is_flag=True, help="Print JSON.")


@click.group()
def token() -> None:
    """Make, list and revoke tokens for the REST API. A running broker reads the file again on SIGHUP."""


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default=ROLES[0], show_default=True, help="What it may do.")
@click.option("--days", type=Count(1, MAX_DAYS), default=90, show_default=True, help="Until it expires.")
@FILE
@_JSON
def new(name: str, role: str, days: int, path: Path, is_json: bool) -> None:
    """Make a token NAME, and print it once.

    The file gets its SHA-256.
    """
    if not is_token_name(name):
        _end(f"{name!r} is no name of a token: that has 1 to 64 letters, digits and . _ @ -, and is not local")
    tokens = _read(path) if os.path.exists(path) else ()
    if name in [each.name for each in tokens]:
        _end(f"{path} has a token {name}; rsocket-broker token revoke {name} --file {_quoted(path)} removes it")
    if len(tokens) >= MAX_TOKENS:
        _end(f"{path} has {len(tokens)} tokens, which is the most")
    text = new_token()
    made = AdminToken(name, role, time.time() + days * DAY_S, digest_of(text))
    try:
        _append(path, made.line())
    except OSError as error:
        _end(f"{path}: {system_reason(error)}")
    click.echo(json.dumps({"name": name, "role": role, "expires": _time(made), "token": text}) if is_json else text)


@token.command("list")
@FILE
@_JSON
def list_tokens(path: Path, is_json: bool) -> None:
    """List the tokens of the file."""
    now = time.time()
    rows: list[tuple[str, ...]] = [
        (each.name, each.role, _time(each), "holds" if now < each.expires_at_s else "expired") for each in _read(path)
    ]
    if is_json:
        print_json({"items": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})
        return
    print_table(COLUMNS, rows, "no tokens")


@token.command()
@click.argument("name")
@FILE
@_JSON
def revoke(name: str, path: Path, is_json: bool) -> None:
    """Remove the token NAME from the file.

    A running broker accepts it until SIGHUP.
    """
    names = [each.name for each in _read(path)]
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = (
            f"did you mean {near[0]}?" if near else f"it has {', '.join(names[:MAX_NAMED])}" if names else "it has none"
        )
        more = f" and {len(names) - MAX_NAMED} more" if not near and len(names) > MAX_NAMED else ""
        _end(f"{path} has no token {name}; {hint}{more}")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        _replace(path, [line for line in lines if line.split()[:1] != [name]])
    except OSError as error:
        _end(f"{path}: {system_reason(error)}")
    click.echo(json.dumps({"revoked": name}) if is_json else f"{name} is revoked")


def _time(token: AdminToken) -> str:
    return datetime.fromtimestamp(token.expires_at_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _read(path: Path) -> tuple[AdminToken, ...]:
    try:
        return read_tokens(str(path))
    except FileNotFoundError as error:
        _end(f"{path}: {system_reason(error)}; rsocket-broker token new NAME --file {_quoted(path)} makes it")
    except OSError as error:
        _end(f"{path}: {system_reason(error)}")
    except ValueError as error:
        _end(f"{path} {error}")


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _append(path: Path, line: str) -> None:
    """OSError. The file is for its user only, also where it was made before."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, MODE)
    with os.fdopen(handle, "r+b") as file:
        os.fchmod(handle, MODE)
        has_end = not file.seek(0, os.SEEK_END) or os.pread(handle, 1, file.tell() - 1) == b"\n"
        file.write(f"{'' if has_end else chr(10)}{line}\n".encode())


def _replace(path: Path, lines: Iterable[str]) -> None:
    """All at once: a broker that reads it meanwhile has the old one or the new one. OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        part.unlink()
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE), "w") as file:
            file.write("".join(f"{line}\n" for line in lines))
        os.replace(part, path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _end(text: str) -> NoReturn:
    click.echo(f"rsocket-broker token: {text}", err=True)
    sys.exit(exit_status.USAGE)

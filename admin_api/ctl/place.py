"""Where the admin API is that a command asks, and which token it shows: options, variables, the context in use."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from broker.config import ADMIN_TOKEN_VARIABLE, ADMIN_VARIABLE, CONTEXT_VARIABLE
from broker.contexts import ContextError, context_in_use, context_of, read_contexts, source_of
from rsocket_wire.files import missing_advice
from rsocket_wire.ports import ADMIN_PORT, SCHEMES
from spark_sink.event_files.local_token import read_token

PAGE: Final = 1000  # items of one request, the most that the API gives
DEFAULT_ADMIN: Final = "http://127.0.0.1:7070"

SOURCE: Final = "admin_api.url_source"  # in the context of click: what a URL that no option gave is from

Command = TypeVar("Command", bound=Callable[..., Any])


def admin_options(command: Command) -> Command:
    """Where a broker's admin API is, and what it wants to see."""
    command = context_option("context")(command)
    command = click.option(
        "--token-file",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"File with a token of the API.  [default: {ADMIN_TOKEN_VARIABLE}, else that of a broker of this machine]",
    )(command)
    return click.option(
        "--admin",
        metavar="URL",
        callback=url_of,
        help=f"The broker's admin API.  [default: {ADMIN_VARIABLE}, the context, {DEFAULT_ADMIN}]",
    )(command)


def context_option(parameter: str) -> Callable[[Command], Command]:
    """--context, for the parameter of that name."""
    return click.option(
        "--context",
        parameter,
        metavar="NAME",
        shell_complete=complete_contexts,
        help=f"The broker of this context.  [default: {CONTEXT_VARIABLE}, or `context use`]",
    )


def place_of(admin: str | None, token_file: Path | None, context_name: str | None) -> tuple[str, str]:
    """URL and token: what an option says, else a variable, else the context in use, else the default. UsageError.

    The token of a context is for its own API: nobody else is sent it. An empty token: nothing says one.
    """
    try:
        context = context_in_use(context_name, os.environ)
        said = admin or checked_url(os.environ.get(ADMIN_VARIABLE) or None, ADMIN_VARIABLE)
        context = context_of(context, context_name, "admin", said)
    except ContextError as error:
        raise click.UsageError(str(error)) from None
    source = "" if admin else source_of(context, "admin", context_name, ADMIN_VARIABLE, os.environ)
    url = said or checked_url(context.get("admin"), source) or DEFAULT_ADMIN
    if source and (current := click.get_current_context(silent=True)):
        current.meta[SOURCE] = source
    if token_file is not None:
        return url, _token_in(token_file)
    token = os.environ.get(ADMIN_TOKEN_VARIABLE, "").strip() or context.get("admin_token", "")
    if not token and "admin_token_file" in context:
        token = _token_in(Path(context["admin_token_file"]))
    return url, token


def url_of(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """An admin API's URL, for click; a host and a port are one, too."""
    return checked_url(value)


def checked_url(value: str | None, source: str = "--admin") -> str | None:
    """The same for others. BadParameter, which names what the value is from."""
    if value is None:
        return None
    if value.isdecimal():
        raise click.BadParameter(f"{value!r} is a port without a host; write 127.0.0.1:{value}", param_hint=source)
    scheme, sign, _ = value.partition("://")
    url = value if sign else f"http://{value}"
    try:
        parts = urllib.parse.urlsplit(url)
        is_wrong = parts.port == 0 or " " in parts.netloc or parts.netloc in ("http:", "https:")  # http:/HOST
    except ValueError:  # no number of 0..65535, or brackets of which one is missing
        is_wrong = True
    if is_wrong:
        raise click.BadParameter(f"{value!r} has no host and port as in {DEFAULT_ADMIN}", param_hint=source)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        host = parts.netloc.rpartition("@")[2].rpartition(":")[0] or parts.netloc
        meant = f"; write http://{host}:PORT with the port of the REST API, usually {ADMIN_PORT}"
        meant = meant if scheme in SCHEMES and host else ""
        raise click.BadParameter(f"{value!r} is no URL like {DEFAULT_ADMIN}{meant}", param_hint=source)
    return url.rstrip("/")


def complete_contexts(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of contexts, for a shell; none where their file cannot be read."""
    try:
        names = sorted(read_contexts(os.environ).found)
    except ContextError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def _token_in(file: Path) -> str:
    token = read_token(file)
    if not token:
        if not file.exists():
            advice = missing_advice(str(file))
            raise click.BadParameter(f"{file}: no such file or directory{advice}", param_hint="--token-file")
        raise click.BadParameter(f"{file} holds no token, or cannot be read", param_hint="--token-file")
    return token

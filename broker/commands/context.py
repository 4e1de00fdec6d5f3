"""`rsocket-broker context`: names for brokers, so that commands need neither URL nor credentials."""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

import click

from admin_api.ctl.place import complete_contexts, url_of
from admin_api.ctl.terminal import print_table
from broker import exit_status
from broker.commands.terminal import check_name, in_shell
from broker.contexts import (
    FIELDS,
    MAX_CONTEXTS,
    MAX_NAME,
    Context,
    ContextError,
    Contexts,
    read_contexts,
    shown,
)
from spark_sink.terminal import print_facts

COLUMNS = ("in use", "name", "url", "admin", "logs in by")
_NAME = click.argument("name", shell_complete=complete_contexts)
_JSON = click.option("--json", "is_json", is_flag=True, help="Print JSON.")
_FILE = click.Path(exists=True, dir_okay=False, resolve_path=True)


@click.group()
def context() -> None:
    """Name brokers, and say which one commands ask.

    Contexts stand in a file of the user, which nobody else may read. An option wins over a variable (RSB_URL,
    RSB_ADMIN), which wins over the context in use, which wins over the default.
    """


@context.command()
@_NAME
@click.option("--url", help="The broker: tcp://, tls://, ws://, wss:// or unix://.")
@click.option("--admin", metavar="URL", callback=url_of, help="Its admin API.")
@click.option("--ca", type=_FILE, metavar="FILE", help="CA certificates that sign the broker's, PEM.")
@click.option("--cert", type=_FILE, metavar="FILE", help="Client certificate, PEM.")
@click.option("--key", type=_FILE, metavar="FILE", help="Private key of --cert, PEM.")
@click.option("--user", metavar="NAME", help="Log in as this user.")
@click.option("--token-file", type=_FILE, metavar="FILE", help="Log in with the token in FILE.")
@click.option("--admin-token-file", type=_FILE, metavar="FILE", help="File with a token of the API.")
@click.option("--ask-password", is_flag=True, help="Ask for the password of --user, and keep it.")
@click.option("--ask-token", is_flag=True, help="Ask for a token to log in with, and keep it.")
@click.option("--ask-admin-token", is_flag=True, help="Ask for a token of the API, and keep it.")
@click.option("--use", "is_used", is_flag=True, help="Commands ask it from now on.")
@click.option("--replace", "is_replaced", is_flag=True, help="There may be one of this name; it goes.")
@_JSON
def add(
    name: str,
    ask_password: bool,
    ask_token: bool,
    ask_admin_token: bool,
    is_used: bool,
    is_replaced: bool,
    is_json: bool,
    **given: str | None,
) -> None:
    """Add a context NAME.

    What is asked for is a line of standard input each, when that is no terminal.
    """
    made: dict[str, str] = {field: text for field in FIELDS if (text := given.get(field))}
    check_name("NAME", name, "context add NAME --url {url}")
    if not name.isprintable() or not name or len(name) > MAX_NAME:
        raise click.UsageError(f"a name has 1 to {MAX_NAME} printable characters")
    if "url" not in made and "admin" not in made:
        raise click.UsageError("give --url, --admin or both")
    if ask_password and "user" not in made:
        raise click.UsageError("--ask-password needs --user")
    contexts = _read()
    if name in contexts.found and not is_replaced:
        raise click.UsageError(f"there is a context {name} already; --replace makes it anew")
    if len(contexts.found) >= MAX_CONTEXTS:
        raise click.UsageError(f"there are {MAX_CONTEXTS} contexts, which is the most")
    try:
        if "url" in made:
            from client_sdk.io.dial import Target  # late: other commands do without

            Target(made["url"])
    except ValueError as error:
        raise click.UsageError(f"--url: {in_shell(str(error))}") from None
    if "@" in made.get("admin", "").partition("://")[2].partition("/")[0]:
        raise click.UsageError("--admin: a URL holds no password; --ask-admin-token does")
    asked = {"password": ask_password, "token": ask_token, "admin_token": ask_admin_token}
    made |= {field: _secret(field) for field, is_wanted in asked.items() if is_wanted}
    contexts.found[name] = made
    contexts.selected = name if is_used else contexts.selected
    _save(contexts)
    _tell(contexts, name, f"{name} is added" + (", and in use" if is_used else ""), is_json)


@context.command()
@_NAME
@_JSON
def use(name: str, is_json: bool) -> None:
    """Make commands ask the broker of context NAME."""
    contexts = _read()
    _choose(contexts, name)
    contexts.selected = name
    _save(contexts)
    _tell(contexts, name, f"{name} is in use", is_json)


@context.command("list")
@_JSON
def list_contexts(is_json: bool) -> None:
    """List contexts; secrets are not shown."""
    contexts = _read()
    if is_json:
        items = [
            {"name": name, "is_in_use": name == contexts.selected, **shown(each)} for name, each in _sorted(contexts)
        ]
        click.echo(json.dumps({"items": items}, indent=2))
        return
    rows = [
        ("*" if name == contexts.selected else "", name, each.get("url", "-"), each.get("admin", "-"), _login_of(each))
        for name, each in _sorted(contexts)
    ]
    print_table(COLUMNS, rows, "no contexts")


@context.command()
@click.argument("name", required=False, shell_complete=complete_contexts)
@_JSON
def show(name: str | None, is_json: bool) -> None:
    """Show context NAME, or the one in use.

    Of secrets, that they are there.
    """
    contexts = _read()
    wanted = name or contexts.selected
    if not wanted:
        raise click.UsageError("no context is in use; name one")
    found = shown(_choose(contexts, wanted))
    if is_json:
        click.echo(json.dumps({"name": wanted, "is_in_use": wanted == contexts.selected, **found}, indent=2))
        return
    rows = [(field, "(kept)" if text is True else str(text)) for field, text in found.items()]
    print_facts([("name", wanted), *rows])


@context.command()
@_NAME
@_JSON
def remove(name: str, is_json: bool) -> None:
    """Remove context NAME."""
    contexts = _read()
    _choose(contexts, name)
    del contexts.found[name]
    if contexts.selected == name:
        contexts.selected = ""
    _save(contexts)
    _tell(contexts, name, f"{name} is removed", is_json)


def _tell(contexts: Contexts, name: str, sentence: str, is_json: bool) -> None:
    """What was done with a context, as a person or a program reads it."""
    state = {"name": name, "is_kept": name in contexts.found, "is_in_use": name == contexts.selected}
    click.echo(json.dumps(state, indent=2) if is_json else sentence)


def _read() -> Contexts:
    try:
        return read_contexts(os.environ)
    except ContextError as error:
        _end(error)


def _choose(contexts: Contexts, name: str) -> Context:
    try:
        return contexts.choose(name)
    except ContextError as error:
        _end(error)


def _save(contexts: Contexts) -> None:
    try:
        contexts.save()
    except ContextError as error:
        _end(error)


def _secret(field: str) -> str:
    name = field.replace("_", " ")
    if sys.stdin.isatty():
        secret = str(click.prompt(name, hide_input=True, err=True))
    else:
        secret = sys.stdin.readline().rstrip("\r\n")
    if not secret:
        raise click.UsageError(f"the {name} is empty")
    return secret


def _sorted(contexts: Contexts) -> list[tuple[str, Context]]:
    return sorted(contexts.found.items())


def _login_of(each: Context) -> str:
    ways = {"token": "token", "token_file": "token file", "user": "user", "cert": "certificate"}
    return ", ".join(text for field, text in ways.items() if field in each) or "-"


def _end(error: ContextError) -> NoReturn:
    click.echo(f"rsocket-broker context: {error}", err=True)
    sys.exit(exit_status.USAGE)

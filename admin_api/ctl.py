"""`rsocket-broker ctl`: asks a running broker through its admin API and prints tables, drains, closes connections.

Decides columns and sentences. Everything that a peer named is shown without control characters, so that nobody writes
into the operator's terminal. Exit status: 1 the broker refused the question, 2 nobody answered it.
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from http.client import HTTPException
from typing import Any, Final, NoReturn, TypeVar

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from admin_api.page import states_text

DEFAULT_ADMIN: Final = "http://127.0.0.1:7070"
TIMEOUT_S: Final = 10.0
PAGE: Final = 1000  # items of one request, the most that the API gives
PIPE_WIDTH: Final = 200  # columns, where the output is no terminal and says no width
PROGRAM: Final = "rsocket-broker ctl"
EXIT_REFUSED: Final = 1
EXIT_NO_ANSWER: Final = 2

Command = TypeVar("Command", bound=Callable[..., Any])
# Requests go to the broker, never through a proxy of the environment, and never to another place than the one named.
_opener: Final = urllib.request.OpenerDirector()
for _handler in (urllib.request.HTTPHandler, urllib.request.HTTPSHandler, urllib.request.HTTPDefaultErrorHandler):
    _opener.add_handler(_handler())
_opener.add_handler(urllib.request.HTTPErrorProcessor())


class Remote:
    """A running broker's admin API. Every failure is one sentence on standard error and the end of the process."""

    def __init__(self, url: str, program: str = PROGRAM) -> None:
        """`program`: who asks, for the sentence."""
        self._url: Final = url
        self._program: Final = program

    def get(self, path: str, needed: str, parameters: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
        """The answer to GET, a JSON object with a field `needed`; another server on that port has none."""
        query = urllib.parse.urlencode(list(parameters))
        return self._ask(urllib.request.Request(f"{self._url}{path}{'?' if query else ''}{query}"), needed)

    def change(self, method: str, path: str, needed: str, said: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to PUT or DELETE, as above. `said`: the body; None for none."""
        data = None if said is None else json.dumps(said).encode()
        headers = {} if said is None else {"Content-Type": "application/json"}
        return self._ask(urllib.request.Request(f"{self._url}{path}", data, headers, method=method), needed)

    def _ask(self, request: urllib.request.Request, needed: str) -> dict[str, Any]:
        try:
            with _opener.open(request, timeout=TIMEOUT_S) as answer:
                body = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            self._refused(error)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            text = getattr(reason, "strerror", None) or reason
            self._end(
                f"no broker answers at {self._url} ({clean(str(text)).lower()}); --admin says where", EXIT_NO_ANSWER
            )
        if not isinstance(body, dict) or needed not in body:
            self._end(f"what answers at {self._url} is no admin API", EXIT_NO_ANSWER)
        return body

    def get_all(self, path: str, parameters: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
        """The whole of a list, asked for part by part."""
        parameters = list(parameters)
        items: list[Any] = []
        while True:
            part = self.get(path, "items", [*parameters, ("limit", str(PAGE)), ("offset", str(len(items)))])
            items += part["items"]
            if not part["items"] or len(items) >= part["total"]:
                return {"items": items, "total": len(items)}

    def _refused(self, error: urllib.error.HTTPError) -> NoReturn:
        try:
            problem = json.loads(error.read())
            text = f"{problem['code']}: {problem['detail']}"
        except (OSError, HTTPException, ValueError, KeyError, TypeError):
            self._end(f"what answers at {self._url} is no admin API (HTTP {error.code})", EXIT_NO_ANSWER)
        self._end(clean(text), EXIT_REFUSED)

    def _end(self, text: str, exit_status: int) -> NoReturn:
        click.echo(f"{self._program}: {text}", err=True)
        sys.exit(exit_status)


class Asked:
    """What the options that all commands share say; a command's own win over those before it."""

    def __init__(self, admin: str | None = None, as_json: bool = False) -> None:
        self.admin: Final = admin
        self.as_json: Final = as_json


def url_of(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """An admin API's URL, for click; a host and a port are one, too."""
    if value is None:
        return None
    url = value if "://" in value else f"http://{value}"
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise click.BadParameter(f"{value!r} is no URL like {DEFAULT_ADMIN}")
    return url.rstrip("/")


def _shared(command: Command) -> Command:
    """--admin and --json, which every command has."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API gives it.")(command)
    return click.option(
        "--admin", metavar="URL", callback=url_of, help=f"The broker's admin API.  [default: {DEFAULT_ADMIN}]"
    )(command)


@click.group()
@_shared
@click.pass_context
def ctl(context: click.Context, admin: str | None, as_json: bool) -> None:
    """Ask a running broker, and drain it."""
    context.obj = Asked(admin, as_json)


@ctl.command()
@_shared
@click.pass_obj
def status(before: Asked, admin: str | None, as_json: bool) -> None:
    """How the broker is."""
    remote, as_json = _remote(before, admin, as_json)
    body = remote.get("/api/v1/status", "broker_id")
    if as_json:
        _print_json(body)
        return
    files = body["event_files"]
    print_table(
        (),
        [
            ("state", body["state"]),
            ("broker", f"{body['name']} ({body['broker_id']})"),
            ("version", f"{body['version']}, core: {body['core']}"),
            ("listens on", " ".join(body["listeners"]) or "nothing"),
            ("up", age(body["uptime_s"])),
            ("connections", f"{body['connections']:,} now, {body['connections_accepted']:,} ever"),
            ("routes", f"{body['routes']:,} of {body['services']:,} services"),
            ("kept away from", states_text(body["route_states"]) or "none of them"),
            (
                "requests",
                f"{body['streams']:,} in flight, {body['waiting']['requests']:,} wait, {body['requests']:,} ended",
            ),
            ("drained", f"{body['drains']:,}" if body["drains"] else "nothing"),
            ("event files", "off" if files is None else files["error"] or f"{files['sealed']:,} records sealed"),
        ],
    )


@ctl.command()
@click.option("--service", multiple=True, metavar="NAME", help="Routes of this service; again for one of several.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Routes with this tag; again for more tags.")
@_shared
@click.pass_obj
def routes(before: Asked, service: tuple[str, ...], tags: tuple[str, ...], admin: str | None, as_json: bool) -> None:
    """Who offers what."""
    remote, as_json = _remote(before, admin, as_json)
    parameters = [("service", each) for each in service]
    for tag in tags:
        name, _, value = tag.partition("=")
        parameters.append((f"tag.{name}", value))
    body = remote.get_all("/api/v1/routes", parameters)
    if as_json:
        _print_json(body)
        return
    print_table(
        ("service", "route id", "tags", "state", "peer", "age", ">in flight", ">requests"),
        [
            (
                each["service"],
                each["route_id"],
                tags_text(each),
                state_text(each),
                each["peer"],
                age(each["age_s"]),
                f"{each['in_flight']:,}",
                f"{each['requests']:,}",
            )
            for each in body["items"]
        ],
        "no routes",
    )


@ctl.command()
@_shared
@click.pass_obj
def services(before: Asked, admin: str | None, as_json: bool) -> None:
    """Services that have a route."""
    remote, as_json = _remote(before, admin, as_json)
    body = remote.get_all("/api/v1/services")
    if as_json:
        _print_json(body)
        return
    print_table(
        ("service", ">routes", ">ejected", ">in flight", ">requests", ">refused"),
        [
            (each["service"], *(f"{each[key]:,}" for key in ("routes", "ejected", "in_flight", "requests", "refused")))
            for each in body["items"]
        ],
        "no services",
    )


@ctl.command()
@click.option("--closed", is_flag=True, help="Those that ended of late, and why.")
@_shared
@click.pass_obj
def connections(before: Asked, closed: bool, admin: str | None, as_json: bool) -> None:
    """Who is connected, or was."""
    remote, as_json = _remote(before, admin, as_json)
    body = remote.get_all("/api/v1/connections/closed" if closed else "/api/v1/connections")
    if as_json:
        _print_json(body)
    elif closed:
        print_table(
            (">id", "peer", "service", "lasted", "reason", "detail"),
            [
                (
                    str(each["connection_id"]),
                    each["peer"],
                    each["service"],
                    age(each["duration_s"]),
                    each["reason"],
                    each["detail"],
                )
                for each in body["items"]
            ],
            "no closed connections",
        )
    else:
        print_table(
            (">id", "peer", "state", "service", "age", "idle", ">begun", ">served", ">requests"),
            [
                (
                    str(each["connection_id"]),
                    each["peer"],
                    each["state"],
                    each["service"],
                    age(each["age_s"]),
                    age(each["idle_s"]),
                    f"{each['streams_begun']:,}",
                    f"{each['streams_served']:,}",
                    f"{each['requests']:,}",
                )
                for each in body["items"]
            ],
            "no connections",
        )


@ctl.command()
@_shared
@click.pass_obj
def drains(before: Asked, admin: str | None, as_json: bool) -> None:
    """What gets no new requests."""
    remote, as_json = _remote(before, admin, as_json)
    body = remote.get_all("/api/v1/drains")
    if as_json:
        _print_json(body)
        return
    print_table(
        ("what", "name", "age", ">grace", ">spread", ">routes", ">to close"),
        [
            (
                each["kind"],
                each["name"],
                age(each["age_s"]),
                f"{each['grace_s']:g} s",
                f"{each['spread_s']:g} s",
                f"{each['routes']:,}",
                f"{each['connections_left']:,}" if each["close"] else "stay open",
            )
            for each in body["items"]
        ],
        "nothing is drained",
    )


WHAT: Final = click.Choice(["route", "tag", "broker"])


@ctl.command()
@click.argument("what", type=WHAT)
@click.argument("name", required=False, metavar="[ID|KEY=VALUE]")
@click.option("--grace", type=float, metavar="S", help="Seconds for the requests of a connection whose turn it is.")
@click.option("--spread", type=float, metavar="S", help="Seconds over which the turns of connections are spread.")
@click.option("--keep", is_flag=True, help="Close no connections, only send them nothing new.")
@_shared
@click.pass_obj
def drain(
    before: Asked,
    what: str,
    name: str | None,
    grace: float | None,
    spread: float | None,
    keep: bool,
    admin: str | None,
    as_json: bool,
) -> None:
    """Send no new requests to a route, to routes with a tag, or to anybody; then close their connections."""
    remote, as_json = _remote(before, admin, as_json)
    said: dict[str, Any] = {"close": not keep}
    if grace is not None:
        said["grace_s"] = grace
    if spread is not None:
        said["spread_s"] = spread
    body = remote.change("PUT", _drain_path(what, name), "connections_left", said)
    if as_json:
        _print_json(body)
        return
    left = f"{body['connections_left']:,} connections are closed within {body['spread_s'] + body['grace_s']:g} s"
    click.echo(f"{_drained(body)} drained: {body['routes']:,} routes; {left if body['close'] else 'none is closed'}")


@ctl.command()
@click.argument("what", type=WHAT)
@click.argument("name", required=False, metavar="[ID|KEY=VALUE]")
@_shared
@click.pass_obj
def undrain(before: Asked, what: str, name: str | None, admin: str | None, as_json: bool) -> None:
    """Take back a drain; connections that are closed already stay so."""
    remote, as_json = _remote(before, admin, as_json)
    body = remote.change("DELETE", _drain_path(what, name), "connections_left")
    if as_json:
        _print_json(body)
        return
    click.echo(f"{_drained(body)} in service again after {age(body['age_s'])}")


@ctl.command()
@click.argument("connection_id", type=click.IntRange(min=1))
@_shared
@click.pass_obj
def close(before: Asked, connection_id: int, admin: str | None, as_json: bool) -> None:
    """Close a connection; `ctl connections` has the ids."""
    remote, as_json = _remote(before, admin, as_json)
    body = remote.change("DELETE", f"/api/v1/connections/{connection_id}", "connection_id")
    if as_json:
        _print_json(body)
        return
    click.echo(clean(f"connection {connection_id} ({body['peer']}) closed after {age(body['duration_s'])}"))


def clean(text: str) -> str:
    """On one line and without control characters."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def age(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `5 h 2 min`, `4 d 1 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    for size, name, below, below_name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // below} {below_name}"
    raise AssertionError  # 60 and above is at least a minute


def tags_text(route: dict[str, Any]) -> str:
    """`region=eu zone=a`: without the default tags, whose values have columns of their own."""
    own = (("io.rsocket.routing.ServiceName", route["service"]), ("io.rsocket.routing.RouteId", route["route_id"]))
    shown = [tag for tag in route["tags"] if (tag["key"], tag["value"]) not in own]
    return " ".join(tag["name"] if tag["value"] is None else f"{tag['name']}={tag['value']}" for tag in shown)


def state_text(route: dict[str, Any]) -> str:
    """`draining ejected(12 s)`; `ready` when nothing speaks against the route."""
    shown = [f"{state}({age(route['ejected_s'])})" if state == "ejected" else state for state in route["states"]]
    return " ".join(shown) or "ready"


def _drain_path(what: str, name: str | None) -> str:
    """Where the drain is; click.UsageError for a name that does not fit."""
    if what == "broker":
        if name is not None:
            raise click.UsageError("the broker needs no name")
        return "/api/v1/drains/broker"
    if not name:
        raise click.UsageError("a route needs its id" if what == "route" else "a tag needs KEY=VALUE")
    if what == "route":
        return f"/api/v1/routes/{urllib.parse.quote(name, safe='')}/drain"
    key, _, value = name.partition("=")
    return f"/api/v1/drains/tags/{urllib.parse.quote(key, safe='')}/{urllib.parse.quote(value, safe='')}"


def _drained(body: dict[str, Any]) -> str:
    """`the tag region=eu is`."""
    return clean(f"the {body['kind']} {body['name']}".strip()) + " is"


def _remote(before: Asked, admin: str | None, as_json: bool) -> tuple[Remote, bool]:
    return Remote(admin or before.admin or DEFAULT_ADMIN), as_json or before.as_json


def _print_json(body: dict[str, Any]) -> None:
    click.echo(json.dumps(body, indent=2))


def print_table(columns: tuple[str, ...], rows: list[tuple[str, ...]], nothing: str = "") -> None:
    """A table, or the word for an empty one; a column that begins with > is right-aligned."""
    if not rows and nothing:
        click.echo(nothing)
        return
    table = Table(box=box.SIMPLE_HEAD if columns else None, show_header=bool(columns), pad_edge=False)
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=PIPE_WIDTH)
    console.print(table)

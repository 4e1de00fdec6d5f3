"""`rsocket-broker ctl`: asks a running broker through its admin API: prints tables, drains, redirects, closes.

Decides columns and sentences.
"""

import urllib.parse
from typing import Any, Final

import click

from admin_api.ctl.client import Asked, remote_of, shared
from admin_api.ctl.cluster import COMMANDS
from admin_api.ctl.terminal import age, clean, print_json, print_table
from admin_api.page import cluster_text, states_text

SERVICE_NUMBERS: Final = ("routes", "remote", "ejected", "in_flight", "requests", "refused")


@click.group()
@shared
@click.pass_context
def ctl(context: click.Context, admin: str | None, as_json: bool) -> None:
    """Ask a running broker, and drain it."""
    context.obj = Asked(admin, as_json)


for _command in COMMANDS:
    ctl.add_command(_command)


@ctl.command()
@shared
@click.pass_obj
def status(before: Asked, admin: str | None, as_json: bool) -> None:
    """How the broker is."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.get("/api/v1/status", "broker_id")
    if as_json:
        print_json(body)
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
            ("cluster", cluster_text(body["cluster"])),
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
@click.option("--broker", multiple=True, metavar="NAME", help="Routes that this broker has; again for one of several.")
@shared
@click.pass_obj
def routes(
    before: Asked,
    service: tuple[str, ...],
    tags: tuple[str, ...],
    broker: tuple[str, ...],
    admin: str | None,
    as_json: bool,
) -> None:
    """Who offers what."""
    remote, as_json = remote_of(before, admin, as_json)
    parameters = [("service", each) for each in service] + [("broker", each) for each in broker]
    for tag in tags:
        name, _, value = tag.partition("=")
        parameters.append((f"tag.{name}", value))
    body = remote.get_all("/api/v1/routes", parameters)
    if as_json:
        print_json(body)
        return
    print_table(
        ("service", "route id", "tags", "state", "broker", "peer", "age", ">in flight", ">requests"),
        [
            (
                each["service"],
                each["route_id"],
                tags_text(each),
                state_text(each),
                each["broker"],
                each["peer"] or "-",
                age(each["age_s"]),
                f"{each['in_flight']:,}",
                f"{each['requests']:,}",
            )
            for each in body["items"]
        ],
        "no routes",
    )


@ctl.command()
@shared
@click.pass_obj
def services(before: Asked, admin: str | None, as_json: bool) -> None:
    """Services that have a route."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.get_all("/api/v1/services")
    if as_json:
        print_json(body)
        return
    print_table(
        ("service", ">routes", ">remote", ">ejected", ">in flight", ">requests", ">refused"),
        [(each["service"], *(f"{each[key]:,}" for key in SERVICE_NUMBERS)) for each in body["items"]],
        "no services",
    )


@ctl.command()
@click.option("--closed", is_flag=True, help="Those that ended of late, and why.")
@shared
@click.pass_obj
def connections(before: Asked, closed: bool, admin: str | None, as_json: bool) -> None:
    """Who is connected, or was."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.get_all("/api/v1/connections/closed" if closed else "/api/v1/connections")
    if as_json:
        print_json(body)
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
@shared
@click.pass_obj
def drains(before: Asked, admin: str | None, as_json: bool) -> None:
    """What gets no new requests."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.get_all("/api/v1/drains")
    if as_json:
        print_json(body)
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
@shared
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
    remote, as_json = remote_of(before, admin, as_json)
    said: dict[str, Any] = {"close": not keep}
    if grace is not None:
        said["grace_s"] = grace
    if spread is not None:
        said["spread_s"] = spread
    body = remote.change("PUT", _drain_path(what, name), "connections_left", said)
    if as_json:
        print_json(body)
        return
    left = f"{body['connections_left']:,} connections are closed within {body['spread_s'] + body['grace_s']:g} s"
    click.echo(f"{_drained(body)} drained: {body['routes']:,} routes; {left if body['close'] else 'none is closed'}")


@ctl.command()
@click.argument("what", type=WHAT)
@click.argument("name", required=False, metavar="[ID|KEY=VALUE]")
@shared
@click.pass_obj
def undrain(before: Asked, what: str, name: str | None, admin: str | None, as_json: bool) -> None:
    """Take back a drain; connections that are closed already stay so."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.change("DELETE", _drain_path(what, name), "connections_left")
    if as_json:
        print_json(body)
        return
    click.echo(f"{_drained(body)} in service again after {age(body['age_s'])}")


@ctl.command()
@click.argument("connection_id", type=click.IntRange(min=1))
@shared
@click.pass_obj
def close(before: Asked, connection_id: int, admin: str | None, as_json: bool) -> None:
    """Close a connection; `ctl connections` has the ids."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.change("DELETE", f"/api/v1/connections/{connection_id}", "connection_id")
    if as_json:
        print_json(body)
        return
    click.echo(clean(f"connection {connection_id} ({body['peer']}) closed after {age(body['duration_s'])}"))


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

"""`rsocket-broker ctl`: what is between brokers, and redirects. Decides columns and sentences."""

import urllib.parse
from typing import Final

import click

from admin_api.ctl.client import Asked, remote_of, shared
from admin_api.ctl.terminal import age, clean, print_json, print_table


@click.command()
@shared
@click.pass_obj
def brokers(before: Asked, admin: str | None, as_json: bool) -> None:
    """Brokers of the cluster."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.get_all("/api/v1/brokers")
    if as_json:
        print_json(body)
        return
    print_table(
        ("broker", "state", ">hops", ">cost", "next hop", ">routes", "broker id", "urls"),
        [
            (
                each["name"],
                each["state"],
                "-" if each["hops"] is None else str(each["hops"]),
                "-" if each["cost"] is None else f"{each['cost']:,}",
                "this one" if each["is_self"] else each["next_hop"] or "-",
                f"{each['routes']:,}",
                each["broker_id"],
                " ".join(each["urls"]) or "-",
            )
            for each in body["items"]
        ],
    )


@click.command()
@shared
@click.pass_obj
def links(before: Asked, admin: str | None, as_json: bool) -> None:
    """Connections to other brokers, and dials that fail."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.get_all("/api/v1/links")
    if as_json:
        print_json(body)
        return
    print_table(
        (
            ">id",
            "broker",
            "peer",
            "direction",
            "state",
            "since",
            ">lag",
            "agreed",
            ">mismatches",
            ">streams",
            ">pending",
        ),
        [
            (
                str(each["connection_id"]),
                each["name"] or "-",
                each["peer"],
                each["direction"],
                each["state"],
                age(each["since_s"]),
                "-" if each["lag_us"] is None else f"{each['lag_us'] / 1000:.1f} ms",
                "yes" if each["is_agreed"] else "no",
                f"{each['mismatches']:,}",
                f"{each['streams']:,}",
                f"{each['pending_bytes']:,}",
            )
            for each in body["items"]
        ],
        "no links",
    )
    if body["dials"]:
        print_table(
            ("dialled in vain", ">attempts", "next in", "error"),
            [(each["url"], f"{each['attempts']:,}", age(each["next_s"]), each["error"]) for each in body["dials"]],
        )


@click.command()
@shared
@click.pass_obj
def paths(before: Asked, admin: str | None, as_json: bool) -> None:
    """Ways that requests took to get here."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.get_all("/api/v1/paths")
    if as_json:
        print_json(body)
        return
    print_table(
        ("ingress", "way", ">hops", ">requests", "last seen"),
        [
            (
                each["ingress"] or "(other)",
                " > ".join(each["way"]),
                str(each["hops"]) if each["way"] else "-",
                f"{each['requests']:,}",
                f"{age(each['idle_s'])} ago",
            )
            for each in body["items"]
        ],
        "no request came from another broker",
    )


@click.command()
@shared
@click.pass_obj
def redirects(before: Asked, admin: str | None, as_json: bool) -> None:
    """Services whose requests go to another one."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.get_all("/api/v1/redirects")
    if as_json:
        print_json(body)
        return
    print_table(
        ("service", "to", "age", "set at"),
        [
            (each["service"], each["to"], age(each["age_s"]), each["broker"] or each["broker_id"])
            for each in body["items"]
        ],
        "nothing is redirected",
    )


@click.command()
@click.argument("service")
@click.argument("to")
@shared
@click.pass_obj
def redirect(before: Asked, service: str, to: str, admin: str | None, as_json: bool) -> None:
    """Send the requests for SERVICE to the service TO, in the whole cluster."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.change("PUT", _redirect_path(service), "to", {"to": to})
    if as_json:
        print_json(body)
        return
    click.echo(clean(f"requests for {body['service']} go to {body['to']}"))


@click.command()
@click.argument("service")
@shared
@click.pass_obj
def unredirect(before: Asked, service: str, admin: str | None, as_json: bool) -> None:
    """Take back a redirect."""
    remote, as_json = remote_of(before, admin, as_json)
    body = remote.change("DELETE", _redirect_path(service), "to")
    if as_json:
        print_json(body)
        return
    click.echo(clean(f"requests for {body['service']} go there again, after {age(body['age_s'])} to {body['to']}"))


COMMANDS: Final = (brokers, links, paths, redirects, redirect, unredirect)


def _redirect_path(service: str) -> str:
    """Where the redirect is; click.UsageError for a service without a name."""
    if not service:
        raise click.UsageError("a service needs a name")
    return f"/api/v1/redirects/{urllib.parse.quote(service, safe='')}"

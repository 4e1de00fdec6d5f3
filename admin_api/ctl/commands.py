"""`rsocket-broker ctl`: prints what a running broker's admin API answers; drains, redirects, closes, requeues.

Decides commands, options and sentences; columns stand in `tables`.
"""

from __future__ import annotations

import difflib
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from admin_api.answers.sentences import load_texts, samwise_texts
from admin_api.ctl import tables
from admin_api.ctl.completion import complete_routes, complete_services
from admin_api.ctl.options import Options, client_of, options
from admin_api.ctl.place import PAGE
from admin_api.ctl.tables import Item, Table
from admin_api.ctl.tag import split_tag
from admin_api.ctl.terminal import age, print_json, print_table
from broker import exit_status
from spark_sink.number_types import Count, Number
from spark_sink.terminal import moment_option, plain, print_facts

if TYPE_CHECKING:
    from datetime import datetime

    from admin_api.ctl.client import AdminClient

DRAINABLE: Final = click.Choice(["route", "tag", "broker"])
LISTS: Final = {  # command -> table, help
    "services": (tables.SERVICES, "List services that have a route."),
    "drains": (tables.DRAINS, "List drains of routes, tags and brokers."),
    "brokers": (tables.BROKERS, "List the brokers of the cluster."),
    "paths": (tables.PATHS, "List the paths of requests from other brokers."),
    "redirects": (tables.REDIRECTS, "List redirected services."),
    "revocations": (tables.REVOCATIONS, "List identities whose credentials are revoked."),
}


class Output(NamedTuple):
    """What a command prints."""

    body: Item  # as the API gives it, for --json
    show: Callable[[], None]  # prints it for people
    status: int = exit_status.DONE


@click.group()
@options
@click.pass_context
def ctl(
    click_context: click.Context, admin: str | None, token_file: Path | None, context: str | None, as_json: bool
) -> None:
    """Inspect and steer a running broker."""
    click_context.obj = Options(admin, as_json, token_file, context)


def asking(function: Callable[..., Output]) -> Callable[..., None]:
    """Gives a function the options of all and, first of all, the API to ask, and prints what it returns."""

    def command(
        before: Options,
        /,
        admin: str | None,
        token_file: Path | None,
        context: str | None,
        as_json: bool,
        watch_s: float | None = None,
        **arguments: Any,
    ) -> None:
        client, as_json = client_of(before, admin, as_json, token_file, context)
        while True:
            output = function(client, **arguments)
            if watch_s is not None and not as_json and sys.stdout.isatty():
                click.clear()
            if as_json:
                print_json(output.body, is_line=watch_s is not None)
            else:
                output.show()
            if watch_s is None:
                sys.exit(output.status)
            sys.stdout.flush()
            time.sleep(watch_s)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    return options(click.pass_obj(command))


def reading(function: Callable[..., Output]) -> Callable[..., None]:
    """The same of a command that changes nothing: it may ask again and again."""
    watching = click.option(
        "--watch", "watch_s", type=Number(0.1, 86_400), metavar="S", help="Ask again every S seconds, until Ctrl-C."
    )
    return watching(asking(function))


def sentence(body: Item, text: str) -> Output:
    """One line."""
    return Output(body, lambda: click.echo(plain(text)))


def list_of(client: AdminClient, table: Table, parameters: Iterable[tuple[str, str]] = ()) -> Output:
    """The whole of a list."""
    body = client.get_all(table.path, parameters)
    return Output(body, lambda: show_table(table, body["items"]))


def show_table(table: Table, items: list[Item]) -> None:
    """Prints it."""
    heads = tuple(column.head for column in table.columns)
    print_table(heads, [tuple(column.cell(item) for column in table.columns) for item in items], table.empty)


def list_command(name: str, table: Table, help: str) -> click.Command:
    """A command that only prints a list."""
    return click.command(name, help=help)(reading(lambda client: list_of(client, table)))


for _name, (_table, _help) in LISTS.items():
    ctl.add_command(list_command(_name, _table, _help))


@ctl.command()
@click.option("--check", "is_checked", is_flag=True, help="Tell by the exit status: 10 drained, 11 something is wrong.")
@reading
def status(client: AdminClient, is_checked: bool) -> Output:
    """Show the broker's status."""
    body = client.get("/api/v1/status", "broker_id")
    if not is_checked:
        return Output(body, lambda: print_facts(status_rows(body)))
    is_drained = any(each["kind"] == "broker" for each in client.get_all(tables.DRAINS.path)["items"])
    checked, why = check_of(body, is_drained)
    verdict = {"state": body["state"], "is_drained": is_drained, "status": checked, "why": why}
    return Output(verdict, lambda: click.echo(plain("; ".join(why) or body["state"])), checked)


@ctl.command()
@click.option("--service", metavar="NAME", shell_complete=complete_services, help="Of this service only.")
@click.option("--sort", metavar="FIELD", help="By this field of the API, as requests; -requests: the most first.")
@reading
def traffic(client: AdminClient, service: str | None, sort: str | None) -> Output:
    """List ended requests by service, model and outcome."""
    given = (("service", service), ("sort", sort))
    output = list_of(client, tables.TRAFFIC, [(name, value) for name, value in given if value])
    if service and not output.body["items"]:
        explain_nothing(client, (service,))
    return output


@ctl.command()
@reading
def limits(client: AdminClient) -> Output:
    """List limits in use, with their reasons."""
    body = client.get(tables.LIMITS.path, "items")
    return Output(body, lambda: show_table(tables.LIMITS, body["items"]))


@ctl.command()
@click.argument("route_id", metavar="ID", shell_complete=complete_routes)
@reading
def route(client: AdminClient, route_id: str) -> Output:
    """Show the route ID."""
    body = client.get(f"/api/v1/routes/{urllib.parse.quote(route_id, safe='')}", "route_id")
    return Output(body, lambda: print_facts(route_rows(body)))


@ctl.command()
@click.argument("name", shell_complete=complete_services)
@reading
def service(client: AdminClient, name: str) -> Output:
    """Show the service NAME: its policy, its routes, its traffic."""
    body = client.get(f"/api/v1/services/{urllib.parse.quote(name, safe='')}", "policy", [("limit", str(PAGE))])

    def show() -> None:
        show_table(tables.SERVICES, [body["service"]])
        click.echo()
        print_facts([(key, shown_value(value)) for key, value in body["policy"].items()])
        click.echo()
        show_table(tables.ROUTES, body["routes"]["items"])
        if body["routes"]["total"] > len(body["routes"]["items"]):
            click.echo(f"{len(body['routes']['items']):,} of {body['routes']['total']:,} routes; `ctl routes` has all")
        click.echo()
        show_table(tables.TRAFFIC, body["traffic"])

    return Output(body, show)


@ctl.command()
@click.option(
    "--service",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_services,
    help="Routes of this service; repeatable: any of them.",
)
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Routes with this tag; repeatable.")
@click.option("--broker", multiple=True, metavar="NAME", help="Routes of this broker; repeatable: any of them.")
@reading
def routes(client: AdminClient, service: tuple[str, ...], tags: tuple[str, ...], broker: tuple[str, ...]) -> Output:
    """List routes."""
    parameters = [("service", each) for each in service] + [("broker", each) for each in broker]
    for tag in tags:
        name, value = split_tag("--tag", tag)
        parameters.append((f"tag.{name}", value or ""))
    output = list_of(client, tables.ROUTES, parameters)
    if not output.body["items"]:
        explain_nothing(client, service)
        for bare in (tag for tag in tags if "=" not in tag):
            click.echo(plain(f"--tag {bare} is a tag without a value; with one it is --tag NAME={bare}"), err=True)
    return output


@ctl.command()
@click.option("--closed", is_flag=True, help="Recently closed connections, with the reason.")
@reading
def connections(client: AdminClient, closed: bool) -> Output:
    """List connections."""
    return list_of(client, tables.CLOSED if closed else tables.CONNECTIONS)


@ctl.command()
@reading
def links(client: AdminClient) -> Output:
    """List connections to other brokers, and failed dials."""
    body = client.get_all(tables.LINKS.path)

    def show() -> None:
        show_table(tables.LINKS, body["items"])
        if body["dials"]:
            click.echo()
            show_table(tables.DIALS, body["dials"])

    return Output(body, show)


@ctl.command()
@click.argument("what", type=DRAINABLE)
@click.argument("name", required=False, metavar="[ID|KEY=VALUE]")
@click.option("--grace", type=Number(0), metavar="S", help="Seconds that requests in flight may take to end.")
@click.option("--spread", type=Number(0), metavar="S", help="Seconds over which closing the connections is spread.")
@click.option("--keep", is_flag=True, help="Keep connections open; they get no new requests.")
@asking
def drain(
    client: AdminClient, what: str, name: str | None, grace: float | None, spread: float | None, keep: bool
) -> Output:
    """Send no new requests to routes; then close their connections.

    To one route, to those with a tag, or to all of this broker.
    """
    terms: dict[str, Any] = {"close": not keep}
    if grace is not None:
        terms["grace_s"] = grace
    if spread is not None:
        terms["spread_s"] = spread
    body = client.change("PUT", drain_path(what, name), "connections_left", terms)
    left = f"{body['connections_left']:,} connections are closed within {body['spread_s'] + body['grace_s']:g} s"
    if not body["routes"] and what != "broker":
        text = "no route is there now, whichever comes is drained"
        text += "; a tag with a value is NAME=VALUE" if what == "tag" and "=" not in str(name) else ""
        return sentence(body, f"{drained(body)} is drained: {text}; ctl undrain {what} {name} takes it back")
    return sentence(
        body, f"{drained(body)} is drained: {body['routes']:,} routes; {left if body['close'] else 'none is closed'}"
    )


@ctl.command()
@click.argument("what", type=DRAINABLE)
@click.argument("name", required=False, metavar="[ID|KEY=VALUE]")
@asking
def undrain(client: AdminClient, what: str, name: str | None) -> Output:
    """Take back a drain; closed connections stay closed."""
    body = client.change("DELETE", drain_path(what, name), "connections_left")
    return sentence(body, f"{drained(body)} is in service again after {age(body['age_s'])}")


@ctl.command()
@click.argument("service", shell_complete=complete_services)
@click.argument("to", shell_complete=complete_services)
@asking
def redirect(client: AdminClient, service: str, to: str) -> Output:
    """Send requests for SERVICE to the service TO instead.

    In the whole cluster.
    """
    body = client.change("PUT", redirect_path(service), "to", {"to": to})
    return sentence(body, f"requests for {body['service']} go to {body['to']}")


@ctl.command()
@click.argument("service")
@asking
def unredirect(client: AdminClient, service: str) -> Output:
    """Take back a redirect."""
    body = client.change("DELETE", redirect_path(service), "to")
    return sentence(body, f"requests for {body['service']} go there again, after {age(body['age_s'])} to {body['to']}")


@ctl.command()
@click.argument("identity")
@click.option(
    "--before", metavar="TIME", callback=moment_option, help='Issued before: ISO (UTC), "10 minutes ago"; default: now.'
)
@asking
def revoke(client: AdminClient, identity: str, before: datetime | None) -> Output:
    """Revoke the credentials of IDENTITY; its connections end.

    IDENTITY: as jwt:orders-7. In the whole cluster.
    """
    given = {"before_ms": int(before.timestamp() * 1000)} if before is not None else {}
    body = client.change("PUT", revocation_path(identity), "before_ms", given)
    before_text = tables.moment(body["before_ms"])
    return sentence(body, f"credentials of {body['principal']} issued before {before_text} are revoked")


@ctl.command()
@click.argument("identity")
@asking
def unrevoke(client: AdminClient, identity: str) -> Output:
    """Take back a revocation."""
    body = client.change("DELETE", revocation_path(identity), "before_ms")
    return sentence(body, f"credentials of {body['principal']} hold again")


@ctl.command()
@click.argument("connection_id", type=Count(min=1))
@asking
def close(client: AdminClient, connection_id: int) -> Output:
    """Close a connection; `ctl connections` has the ids."""
    body = client.change("DELETE", f"/api/v1/connections/{connection_id}", "connection_id")
    return sentence(body, f"connection {connection_id} ({body['peer']}) closed after {age(body['duration_s'])}")


@ctl.group()
def samwise() -> None:
    """Inspect the Samwise gateway; requeue and remove messages."""


@samwise.command("status")
@reading
def samwise_status(client: AdminClient) -> Output:
    """Show what it has done and what waits."""
    body = client.get(tables.DESTINATIONS.path, "destinations")

    def show() -> None:
        rows = [("process", f"{body['pid']}, {body['restarts']:,} restarts"), *samwise_texts(body).items()]
        print_facts([*rows, ("listens on", " ".join(body["endpoints"]))])
        click.echo()
        show_table(tables.DESTINATIONS, body["destinations"])

    return Output(body, show)


@samwise.command("messages")
@click.option("--dead", "is_dead", is_flag=True, help="Dead letters, instead of messages that wait.")
@click.option("--limit", "max_n", type=Count(1), default=100, show_default=True, help="At most so many.")
@reading
def samwise_messages(client: AdminClient, is_dead: bool, max_n: int) -> Output:
    """List stored messages, oldest first."""
    from broker.views.samwise import DEAD, WAITING

    items = list(islice(stored_messages(client, DEAD if is_dead else WAITING, min(max_n, PAGE)), max_n))
    return Output({"items": items}, lambda: show_table(tables.MESSAGES, items))


@samwise.command("requeue")
@click.option("--all", "is_all", is_flag=True, help="All dead letters.")
@click.argument("ids", nargs=-1, type=Count(0), metavar="[ID]...")
@asking
def samwise_requeue(client: AdminClient, is_all: bool, ids: tuple[int, ...]) -> Output:
    """Try dead letters again.

    In this order, up to the first that is refused.
    """
    if is_all == bool(ids):
        raise click.UsageError("name dead letters by their ids, or all by --all")
    from broker.views.samwise import DEAD

    wanted = [each["id"] for each in stored_messages(client, DEAD)] if is_all else ids
    return change_messages(client, "requeued", [("PUT", f"{tables.MESSAGES.path}/{id}/requeue") for id in wanted])


@samwise.command("remove")
@click.option("--dead", "is_dead", is_flag=True, help="All dead letters.")
@click.argument("ids", nargs=-1, type=Count(0), metavar="[ID]...")
@asking
def samwise_remove(client: AdminClient, is_dead: bool, ids: tuple[int, ...]) -> Output:
    """Remove messages and dead letters.

    In this order, up to the first that is refused.
    """
    if is_dead == bool(ids):
        raise click.UsageError("name messages by their ids, or all dead letters by --dead")
    from broker.views.samwise import DEAD

    wanted = [each["id"] for each in stored_messages(client, DEAD)] if is_dead else ids
    return change_messages(client, "removed", [("DELETE", f"{tables.MESSAGES.path}/{id}") for id in wanted])


@ctl.group()
def feed() -> None:
    """Inspect the feed beside the broker.

    What is announced, who has it, who lags.
    """


@feed.command("status")
@reading
def feed_status(client: AdminClient) -> Output:
    """Show folders, where their posts go, and who reports."""
    body = client.get(tables.POSTED.path, "posted")

    def show() -> None:
        print_facts([("process", f"{body['pid']}, {body['restarts']:,} restarts")])
        click.echo()
        show_feed(body)

    return Output(body, show)


@feed.command("posts")
@click.option("--path", default="", help="Of this file only: who has it?")
@click.option(
    "--without", default="", metavar="USER@HOST", help="Of files that this consumer has not reported to have."
)
@click.option("--after", type=Count(0), default=0, metavar="NUMBER", help="With greater numbers.")
@click.option("--limit", "max_n", type=Count(1), default=100, show_default=True, help="At most so many.")
@click.argument("folder")
@reading
def feed_posts(client: AdminClient, folder: str, path: str, without: str, after: int, max_n: int) -> Output:
    """List the posts of FOLDER, and who has each.

    FOLDER: a name of `feed status`.
    """

    def pages() -> Iterator[Item]:
        last, url = after, tables.POSTS.path.format(folder=urllib.parse.quote(folder, safe=""))
        query = [("path", path), ("without", without), ("limit", str(min(max_n, PAGE)))]
        while items := client.get(url, "items", [*query, ("after", str(last))])["items"]:
            yield from items
            last = items[-1]["number"]

    items = list(islice(pages(), max_n))
    return Output({"items": items}, lambda: show_table(tables.POSTS, items))


def show_feed(body: Item) -> None:
    """The tables of a FeedView; those that are empty are left out."""
    takers = [*body["mirrors"], *body["winnowed"]]
    shown = [(tables.POSTED, body["posted"])] if body["posted"] or not takers else []
    for table, field in ((tables.SINKS, "sinks"), (tables.CONSUMERS, "consumers")):
        shown.append((table, [{"folder": each["name"], **row} for each in body["posted"] for row in each[field]]))
    shown += [(tables.MIRRORS, body["mirrors"]), (tables.WINNOWED, body["winnowed"])]
    shown.append((tables.SOURCES, [{"of": each["name"], **one} for each in takers for one in each["sources"]]))
    for number, (table, rows) in enumerate((table, rows) for table, rows in shown if rows or table is tables.POSTED):
        if number:
            click.echo()
        show_table(table, rows)
    if body["events_dropped"]:
        click.echo(f"\nevents dropped: {body['events_dropped']:,}")


def explain_nothing(client: AdminClient, services: Iterable[str]) -> None:
    """Tells of services that no route offers, on standard error: a list of nothing looks as if all were well."""
    known = [each["service"] for each in client.get_all(tables.SERVICES.path)["items"]] if services else []
    for name in services:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else client.command("services lists all")
            click.echo(plain(f"no route offers the service {name!r}; {hint}"), err=True)


def stored_messages(client: AdminClient, state: str, part_n: int = PAGE) -> Iterator[Item]:
    """All messages in this state, asked for part by part; of large ones a part has fewer."""
    after = 0
    while True:
        parameters = [("state", state), ("after", str(after)), ("limit", str(part_n))]
        items = client.get(tables.MESSAGES.path, "items", parameters)["items"]
        if not items:
            return
        yield from items
        after = items[-1]["id"]


def change_messages(client: AdminClient, what: str, changes: list[tuple[str, str]]) -> Output:
    """Changes one after another."""
    items = [client.change(method, path, "change") for method, path in changes]
    return sentence({"items": items}, f"{len(items):,} messages {what}")


def status_rows(body: Item) -> list[tuple[str, str]]:
    """What `status` prints."""
    files = body["event_files"]
    return [
        ("state", body["state"]),
        ("broker", f"{body['name']} ({body['broker_id']})"),
        ("version", f"{body['version']}, core: {body['core']}"),
        ("listens on", " ".join(body["listeners"]) or "nothing"),
        ("up", age(body["uptime_s"])),
        *load_texts(body).items(),
        ("event files", "off" if files is None else files["error"] or f"{files['sealed']:,} records sealed"),
    ]


def check_of(body: Item, is_drained: bool) -> tuple[int, list[str]]:
    """The exit status that stands for a status, and why; nothing when all is well."""
    cluster, files = body["cluster"], body["event_files"]
    why = []
    if body["state"] == "starting":
        why.append("the broker starts")
    if files is not None and files["error"]:
        why.append(f"event files: {files['error']}")
    if cluster["reachable"] < cluster["brokers"]:
        why.append(f"{cluster['brokers'] - cluster['reachable']:,} of {cluster['brokers']:,} brokers cannot be reached")
    if why:
        return exit_status.UNWELL, why
    if is_drained or body["state"] in ("draining", "stopping"):
        return exit_status.DRAINED, ["the broker is drained" if is_drained else f"the broker is {body['state']}"]
    return exit_status.DONE, []


def route_rows(body: Item) -> list[tuple[str, str]]:
    """What `route` prints."""
    rows = [
        ("route id", body["route_id"]),
        ("service", body["service"]),
        ("tags", tables.tags_text(body) or "-"),
        ("state", tables.state_text(body)),
        ("broker", body["broker"]),
        ("peer", body["peer"] or "-"),
        ("connection", shown_value(body["connection_id"])),
        ("joined at", tables.moment(body["joined_at_ms"])),
        ("age", age(body["age_s"])),
        ("weight", shown_value(body["weight"])),
        ("in flight", f"{body['in_flight']:,}, {body['awaited']:,} await an answer"),
        ("requests", f"{body['requests']:,}"),
        ("errors in a row", f"{body['errors_in_a_row']:,}, ejected {body['ejections']:,} times"),
    ]
    if body["grants"] is not None:
        rows.append(("lease", f"{body['grants']:,} requests"))
    return rows


def shown_value(value: object) -> str:
    """12, 0.5, yes; - for None."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def drain_path(what: str, name: str | None) -> str:
    """Where the drain is; click.UsageError for a name that does not fit."""
    if what == "broker":
        if name is not None:
            raise click.UsageError("the broker needs no name")
        return "/api/v1/drains/broker"
    if not name:
        needed = "a route needs its id; ctl routes lists all" if what == "route" else "a tag needs KEY=VALUE"
        raise click.UsageError(needed)
    if what == "route":
        return f"/api/v1/routes/{urllib.parse.quote(name, safe='')}/drain"
    key, value = split_tag("the tag", name)
    return f"/api/v1/drains/tags/{urllib.parse.quote(key, safe='')}/{urllib.parse.quote(value or '', safe='')}"


def redirect_path(service: str) -> str:
    """Where the redirect is; click.UsageError for a service without a name."""
    if not service:
        raise click.UsageError("a service needs a name")
    return f"/api/v1/redirects/{urllib.parse.quote(service, safe='')}"


def revocation_path(identity: str) -> str:
    """Where the revocation is; click.UsageError for an identity without a name."""
    if not identity:
        raise click.UsageError("an identity needs a name")
    return f"/api/v1/revocations/{urllib.parse.quote(identity, safe='')}"


def drained(body: Item) -> str:
    """`the tag region=eu`."""
    return f"the {body['kind']} {body['name']}".strip()

"""`rsocket-broker access`: why an identity may announce or address a route, and which roles recorded calls need.

`why` asks the roles of a configuration as the broker does, with no broker running. `suggest` reads tables.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from broker.access.identities import ANONYMOUS, CERTIFICATE, KINDS, UID, kind_of
from broker.access.roles import DEFAULT, NAME, Offer, Role, Roles, fits_any, name_of
from broker.config.auth import roles_of
from broker.config.extras import EVENTS_MODULES, lack_of_events
from broker.config.load import ConfigErrors, load_all
from broker.config.options import Config
from broker.config.principal import read_principal
from broker.config.toml import toml_key, toml_text
from broker.routing.table import announced_tags
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.ids import ID_BYTES
from rsocket_wire.wire.keys import ROUTE_ID, SERVICE_NAME, parse_key
from rsocket_wire.wire.tags import Tag
from spark_sink.errors import SinkError

EXIT_DENIED: Final = 1
EXIT_BAD_CONFIG: Final = 2
EXIT_NOT_INSTALLED: Final = 3
MAX_VALUES: Final = 8  # of a tag that was seen with more a suggested role says nothing
# Tags that tell the instances of a service apart: a role with them would not fit the next instance.
_OF_ONE: Final = (SERVICE_NAME.short_name, ROUTE_ID.short_name, "instance_name")
_COMMA: Final = re.compile(r"(?<!\\),")


class Verdict:
    """What a configuration says of one identity and one route."""

    def __init__(self, is_allowed: bool, why: str, role: Role | None = None) -> None:
        self.is_allowed: Final = is_allowed
        self.why: Final = why
        self.role: Final = role  # None: no roles were asked, or none fits


@click.group()
def access() -> None:
    """Roles: why an identity may announce or address a route."""


@access.command()
@click.option("--as", "principal", required=True, metavar="IDENTITY", help="jwt:NAME, user:NAME, ... or anonymous.")
@click.option("--announce", multiple=True, metavar="TAGS", help="Tags of the route: service=orders,region=eu.")
@click.option("--address", multiple=True, metavar="TAGS", help="Tags of the route that a request is to reach.")
@click.option(
    "--config",
    "path",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Configuration file, TOML.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(principal: str, announce: tuple[str, ...], address: tuple[str, ...], path: str | None, as_json: bool) -> None:
    """Tell why an identity may, or may not, announce a route or reach it. No broker is asked.

    Exit status: 0 allowed, 1 denied, 2 a mistake.
    """
    if bool(announce) == bool(address):
        raise click.UsageError("one of --announce TAGS, --address TAGS is required")
    who = _identity(principal)
    option = "--address" if address else "--announce"
    tags = [tag for text in address or announce for tag in _tags(option, text)]
    try:
        config = load_all(path, os.environ, {}).config
    except ConfigErrors as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_BAD_CONFIG)
    route = tags
    if announce:
        service = next((tag.value or "" for tag in tags if tag.key == SERVICE_NAME), "")
        route = announced_tags(bytes(ID_BYTES), service, tags)
    verdict = judged(config, who, route, bool(address))
    if as_json:
        click.echo(json.dumps(_json(verdict, who, route, tags, bool(address)), indent=2))
    else:
        _print(config, verdict, who, route, bool(address))
    sys.exit(0 if verdict.is_allowed else EXIT_DENIED)


@access.command()
@click.option("--tables", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Folder of the tables.")
def suggest(tables: Path) -> None:
    """Print roles, as TOML, that allow what identities have announced and called in the records, and little else.

    Look at them before you use them: what was recorded may have been an attack.
    """
    try:
        from spark_sink.tables import CALLS, LIFECYCLE, ROUTES, check_tables, read_table  # late: pyarrow is optional
    except ModuleNotFoundError as error:
        if error.name not in EVENTS_MODULES:
            raise
        click.echo(f"rsocket-broker access suggest {lack_of_events()}", err=True)
        sys.exit(EXIT_NOT_INSTALLED)
    suggestion = Suggestion()
    try:
        check_tables(tables)
        for table, kinds in ((LIFECYCLE, ("RouteJoined",)), (ROUTES, ())):
            names = ["principal", "service", "tags", *(["event"] if kinds else [])]
            for row in read_table(tables, table, names).to_pylist():
                if not kinds or row["event"] in kinds:
                    suggestion.add(row["principal"] or "", row["service"] or "", dict(row["tags"] or ()), False)
        for row in read_table(tables, CALLS, ["principal", "service", "address", "outcome"]).to_pylist():
            if row["outcome"] != "rejected":
                suggestion.add(row["principal"], row["service"], _tags_of_label(row["address"]), True)
    except SinkError as error:
        click.echo(error, err=True)
        sys.exit(error.exit_status)
    click.echo(suggestion.toml(), nl=False)


class Suggestion:
    """Roles for what was recorded: one for all identities that did the same."""

    def __init__(self) -> None:
        # of an identity, announced or called, by service: the tags of each time
        self._seen: Final[dict[str, dict[tuple[bool, str], list[dict[str, str]]]]] = {}
        self._left_out: Final[set[str]] = set()  # what no role can say exactly

    def add(self, principal: str, service: str, tags: Mapping[str, str], is_address: bool) -> None:
        """Something that an identity has announced, or called. Anonymous callers, and routes of other brokers, have no
        identity and are passed over."""
        if not principal or not service:
            return
        wild = [text for text in (principal, service) if text.endswith("*") or NAME in text]
        if wild:  # as a pattern it would allow more
            self._left_out.update(wild)
            return
        named = {_short_name(name): value or "" for name, value in tags.items()}
        kept = {name: value for name, value in named.items() if name not in _OF_ONE and _is_exact(name, value)}
        self._seen.setdefault(principal, {}).setdefault((is_address, service), []).append(kept)

    def toml(self) -> str:
        """Sections [role.NAME], the least that allows what was added."""
        members: dict[tuple[str, ...], list[str]] = {}
        for principal, seen in sorted(self._seen.items()):
            sides = []
            for is_address in (False, True):
                mine = [(service, times) for (side, service), times in sorted(seen.items()) if side == is_address]
                entries = [_entry(service, times) for service, times in mine]
                sides.append(f"{'address' if is_address else 'announce'} = [{', '.join(entries)}]" if entries else "")
            members.setdefault(tuple(filter(None, sides)), []).append(principal)
        lines = [f"# left out, since it would be a pattern: {_toml(text)}" for text in sorted(self._left_out)]
        taken: set[str] = set()
        for rights, principals in members.items():
            name = _role_name(name_of(principals[0]), taken)
            lines += ["", f"[role.{name}]", f"who = [{', '.join(map(_toml, principals))}]", *rights]
        return "\n".join(lines).strip("\n") + "\n" if lines else "# the tables tell of no identity\n"


def judged(config: Config, who: str, route: list[Tag], is_address: bool) -> Verdict:
    """As the broker judges with `auth.mode = "required"`. `who`: text of the identity; `route`: all tags of a route."""
    if config.auth.mode == "off":
        return Verdict(True, "auth.mode is off, so nobody is judged")
    kind = kind_of(who)
    if kind not in config.auth.accept:
        return Verdict(False, f"{kind} is not in auth.accept, so the connection is refused")
    roles = Roles(list(roles_of(config.role)))
    if not roles.is_on:
        return Verdict(True, "there are no roles, so whoever is let in may announce and address everything")
    principal = "" if who == ANONYMOUS else who
    role = roles.find(principal)
    if role is None:
        return Verdict(False, f"{who} has no role, so the connection is refused")
    obstacle = role.find_obstacle(route, principal, is_address)
    if obstacle is not None:
        return Verdict(False, role.refusal(obstacle, is_address), role)
    fitting = [offer for offer in _entries(role, is_address) if not offer.obstacle(route, name_of(who), is_address)]
    return Verdict(True, f"the role {role.name} allows {fitting[0]}", role)


def _entries(role: Role, is_address: bool) -> list[Offer]:
    return role.address if is_address else role.offers


def _identity(text: str) -> str:
    """As identities are written everywhere; a certificate's subject may be written in several ways."""
    if text == ANONYMOUS:
        return text
    if kind_of(text) not in KINDS or not name_of(text):
        kinds = ", ".join(f"{kind}:" for kind in KINDS if kind != ANONYMOUS)
        raise click.UsageError(f"--as {text!r} is no identity: it begins with one of {kinds} or is {ANONYMOUS}")
    if kind_of(text) not in (CERTIFICATE, UID):
        return text
    try:
        return read_principal(text)
    except BrokerError as error:
        raise click.UsageError(f"--as {error.text}") from None


def _tags(option: str, text: str) -> list[Tag]:
    """Tags of `service=orders,region=eu`; a comma in a value has a backslash in front."""
    found = []
    for each in _COMMA.split(text):
        name, separator, value = each.replace("\\,", ",").partition("=")
        if not separator:
            raise click.UsageError(f"{option} {text!r}: {each!r} is not NAME=VALUE")
        try:
            found.append(Tag.of(parse_key(name.strip()).name, value))
        except BrokerError as error:
            raise click.UsageError(f"{option} {text!r}: {error.text}") from None
    return found


def _tags_of_label(label: str) -> dict[str, str]:
    """Tags of the text `service=orders region=eu`; none where they cannot be told apart."""
    pairs = [each.partition("=") for each in label.split(" ")]
    names = [name for name, _, _ in pairs]
    if label.endswith("…") or not all(separator for _, separator, _ in pairs) or len(set(names)) < len(names):
        return {}
    return {name: value for name, _, value in pairs}


def _is_exact(name: str, value: str) -> bool:
    """A role can say this tag, and no other value fits."""
    is_one = "," not in value  # which tables put between several values of a tag
    return bool(value) and is_one and not value.endswith("*") and NAME not in value and name not in ("", "except")


def _short_name(name: str) -> str:
    """As in a role; empty: it is a hint, or no key that can be written."""
    try:
        key = parse_key(name)
    except BrokerError:
        return ""
    return "" if key.is_hint else key.short_name


def _entry(service: str, times: Sequence[Mapping[str, str]]) -> str:
    """`{ service = "orders", region = ["eu", "us"] }`: the tags that were there each time, of a few values."""
    tags = [f"service = {_toml(service)}"]
    for name in sorted(set.intersection(*(set(each) for each in times))):
        values = sorted({each[name] for each in times})
        if len(values) <= MAX_VALUES:
            told = ", ".join(map(_toml, values))
            tags.append(f"{toml_key(name)} = {f'[{told}]' if len(values) > 1 else told}")
    return f"{{ {', '.join(tags)} }}"


def _role_name(text: str, taken: set[str]) -> str:
    """A key of TOML that looks like the name of an identity, and is not taken."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", text.rpartition("/")[2].rpartition("=")[2]).strip("-") or "role"
    base = f"{base}-1" if base == DEFAULT else base
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name


def _toml(text: str) -> str:
    return toml_text(text).replace("\x7f", "\\u007f")  # which JSON leaves as it is


def _who_fits(role: Role, who: str) -> str | None:
    """The pattern by which the role is this identity's; None: it is the default role."""
    return next((pattern for pattern in role.who if fits_any([pattern], who, "")), None)


def _json(verdict: Verdict, who: str, route: list[Tag], tags: list[Tag], is_address: bool) -> dict[str, object]:
    role = verdict.role
    entries = []
    for offer in _entries(role, is_address) if role is not None else []:
        obstacle = offer.find_obstacle(route, name_of(who), is_address)
        found = {"tag": obstacle.tag, "value": obstacle.value, "text": obstacle.text} if obstacle is not None else None
        entries.append({"entry": str(offer), "obstacle": found})
    return {
        "allowed": verdict.is_allowed,
        "identity": who,
        "asked": "address" if is_address else "announce",
        "tags": [[tag.key.short_name, tag.value] for tag in tags],
        "role": role.name if role is not None else None,
        "who": _who_fits(role, who) if role is not None else None,
        "why": verdict.why,
        "entries": entries,
    }


def _print(config: Config, verdict: Verdict, who: str, route: list[Tag], is_address: bool) -> None:
    click.echo(f"{'allowed' if verdict.is_allowed else 'denied'}: {verdict.why}")
    role = verdict.role
    if role is not None:
        pattern = _who_fits(role, who)
        click.echo(f"{who} has the role {role.name}" + (f": its who has {pattern}" if pattern else ""))
        for offer in _entries(role, is_address):
            obstacle = offer.obstacle(route, name_of(who), is_address)
            click.echo(f"  {offer}: {obstacle or 'fits'}")
        if not _entries(role, is_address):
            click.echo(f"  it has no entry in {'address' if is_address else 'announce'}")
    if config.auth.mode == "observe" and not verdict.is_allowed:
        click.echo("auth.mode is observe: the broker tells it and refuses nobody")

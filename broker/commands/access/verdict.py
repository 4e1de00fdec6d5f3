"""What roles say of one identity and one route, asked as the broker asks them, with no broker running.

Decides nothing itself: `broker.access.roles` does.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Final

import click

from broker import exit_status
from broker.access.identities import ANONYMOUS, CERTIFICATE, KINDS, UID, USER, kind_of
from broker.access.roles import Offer, Role, Roles, fits_any, name_of
from broker.config.auth import roles_of
from broker.config.load import ConfigErrors, load_all
from broker.config.options import Config
from broker.config.principal import read_principal
from broker.routing.table import announced_tags
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.ids import ID_BYTES
from rsocket_wire.wire.keys import SERVICE_NAME, parse_key
from rsocket_wire.wire.tags import Tag

_COMMA: Final = re.compile(r"(?<!\\),")


class Verdict:
    """What a configuration says of one identity and one route."""

    def __init__(self, is_allowed: bool, why: str, role: Role | None = None) -> None:
        self.is_allowed: Final = is_allowed
        self.why: Final = why
        self.role: Final = role  # None: no roles were asked, or none fits


def tell(principal: str, announce: Sequence[str], address: Sequence[str], path: str | None, as_json: bool) -> int:
    """Prints whether an identity may announce a route, or reach it; the exit status. UsageError."""
    who = _identity(principal)
    option = "--address" if address else "--announce"
    tags = [tag for text in address or announce for tag in _tags(option, text)]
    try:
        config = load_all(path, os.environ, {}).config
    except ConfigErrors as error:
        click.echo(str(error), err=True)
        return exit_status.NOT_INSTALLED if error.is_lack else exit_status.USAGE
    route = tags
    if announce:
        service = next((tag.value or "" for tag in tags if tag.key == SERVICE_NAME), "")
        route = announced_tags(bytes(ID_BYTES), service, tags)
    verdict = judged(config, who, route, bool(address))
    if as_json:
        click.echo(json.dumps(_json(verdict, who, route, tags, bool(address)), indent=2))
    else:
        _print(config, verdict, who, route, bool(address))
    return exit_status.DONE if verdict.is_allowed else exit_status.REFUSED


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
        said = f"--as {text!r} is no identity: it begins with one of {kinds} or is {ANONYMOUS}"
        raise click.UsageError(said if ":" in text or not text else f"{said}; write --as {USER}:{text}")
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
            meant = each.replace(":", "=", 1) if ":" in each else f"service={each}"
            raise click.UsageError(f"{option} {text!r}: {each!r} is not NAME=VALUE; write {option} {meant}")
        try:
            found.append(Tag.of(parse_key(name.strip()).name, value))
        except BrokerError as error:
            raise click.UsageError(f"{option} {text!r}: {error.text}") from None
    return found


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

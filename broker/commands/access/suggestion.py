"""Which roles recorded calls need: the least that allows what identities have announced and called."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from broker import exit_status
from broker.access.roles import DEFAULT, NAME, name_of
from broker.config.extras import EVENTS_MODULES, lack_of_events
from broker.config.toml import toml_key, toml_text
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.keys import ROUTE_ID, SERVICE_NAME, parse_key
from spark_sink.errors import SinkError

MAX_VALUES: Final = 8  # of a tag that was seen with more a suggested role says nothing
# Tags that tell the instances of a service apart: a role with them would not fit the next instance.
_OF_ONE: Final = (SERVICE_NAME.short_name, ROUTE_ID.short_name, "instance_name")


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


def suggest(tables: Path, as_json: bool) -> None:
    """Prints roles, as TOML, for what the tables in this folder tell; ends the process where they cannot be read."""
    try:
        from spark_sink.tables import CALLS, LIFECYCLE, ROUTES, check_tables, read_table  # late: pyarrow is optional
    except ModuleNotFoundError as error:
        if error.name not in EVENTS_MODULES:
            raise
        click.echo(f"rsocket-broker access suggest {lack_of_events()}", err=True)
        sys.exit(exit_status.NOT_INSTALLED)
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
    click.echo(json.dumps({"toml": suggestion.toml()}) + "\n" if as_json else suggestion.toml(), nl=False)


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

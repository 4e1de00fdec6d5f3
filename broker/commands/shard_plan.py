"""`rsocket-broker shard-plan`: how many keys get another owner when routes join or leave, by shard method.

It asks the methods that the broker itself uses, key by key, with the routes before and after: nothing is estimated.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import click

from admin_api.ctl.completion import complete_services
from admin_api.ctl.place import admin_options, place_of
from admin_api.ctl.terminal import print_table
from broker import exit_status
from broker.routing.balance import gini, max_over_mean
from broker.routing.sharding.hashes import key_hash
from broker.routing.sharding.methods import ShardMethod, ShardMethods
from broker.routing.sharding.tables import ShardTables
from broker.routing.table import Route
from rsocket_wire.errors import BrokerError
from rsocket_wire.methods import SHARD_METHODS
from rsocket_wire.wire.ids import ID_BYTES, id_text, parse_id
from spark_sink.number_types import Count
from spark_sink.progress_line import ProgressLine

ALL: Final = "all"
KEYS: Final = 100_000  # enough for shares that are right to a third of a percent with ten routes
MAX_KEYS: Final = 10_000_000  # some 400 MB of hashes
MAX_ROUTES: Final = 100_000
MAX_KEY_BYTES: Final = 127  # a longer value fits no tag (D-06)
TELL_N: Final = 1000  # keys between two texts of the line of progress
STDIN: Final = "standard input"
PROGRAM: Final = "rsocket-broker shard-plan"


class Outcome:
    """What one method makes of a change."""

    def __init__(self, method: str, moved_n: int, shares: Sequence[int], fullest: str) -> None:
        """`shares`: how many keys each route has afterwards."""
        keys_n = sum(shares)
        self.method = method
        self.moved_n = moved_n
        self.moved_percent = 100 * moved_n / keys_n
        self.fullest = fullest  # Route Id, as text
        self.fullest_keys = max(shares)
        self.max_over_mean = max_over_mean(shares)
        self.gini = gini(shares)


class Plan:
    """The routes before and after a change, at least one of each."""

    def __init__(self, before: Sequence[bytes], after: Sequence[bytes]) -> None:
        had, has = set(before), set(after)
        self.joined = [each for each in after if each not in had]
        self.left = [each for each in before if each not in has]
        routes = {each: Route(each, "", [], None) for each in (*before, *self.joined)}
        self.before = ShardTables([routes[each] for each in before])
        self.after = ShardTables([routes[each] for each in after])

    @property
    def ideal_percent(self) -> float:
        """The fewest keys that can move so that all routes have the same share, before and afterwards."""
        before_n, after_n = len(self.before.routes), len(self.after.routes)
        stay_n = before_n - len(self.left)
        return 100 * (1 - stay_n / max(before_n, after_n))

    def try_out(self, method: ShardMethod, hashes: Iterable[int]) -> Outcome:
        """Asks for the owner of every key, before and after; at least one key."""
        shares = {route.id: 0 for route in self.after.routes}
        moved_n = 0
        for key in hashes:
            owner = method.choose(self.after, key)
            shares[owner.id] += 1
            if owner is not method.choose(self.before, key):
                moved_n += 1
        fullest = max(sorted(shares), key=lambda each: shares[each])
        return Outcome(method.name, moved_n, list(shares.values()), id_text(fullest))


def made_ids(count: int, taken: Sequence[bytes] = ()) -> list[bytes]:
    """So many Route Ids that look like anybody's, the same ones each time; none of those that are taken."""
    found: list[bytes] = []
    number = 0
    seen = set(taken)
    while len(found) < count:
        number += 1
        made = hashlib.sha256(f"route-{number}".encode()).digest()[:ID_BYTES]
        if made not in seen:
            found.append(made)
    return found


@click.command(name="shard-plan")
@click.option("--routes", "routes_n", metavar="N", type=Count(1, MAX_ROUTES), help="Begin with N made-up routes.")
@click.option(
    "--route-ids",
    metavar="FILE",
    type=click.File("rb"),
    help='Begin with the Route Ids of a file, one a line; "-": standard input.',
)
@click.option(
    "--service",
    metavar="NAME",
    shell_complete=complete_services,
    help="Begin with the routes of a service at a running broker.",
)
@admin_options
@click.option(
    "--join", "joins", multiple=True, metavar="N|ID", help="N made-up routes join, or the route ID; again for more."
)
@click.option(
    "--leave", "leaves", multiple=True, metavar="N|ID", help="The last N routes leave, or the route ID; again for more."
)
@click.option(
    "--method", default=ALL, show_default=True, metavar="NAME", help=f"{', '.join(SHARD_METHODS)}; or all of them."
)
@click.option("--keys", "keys_n", metavar="N", type=Count(1, MAX_KEYS), help=f"Try N made-up keys.  [default: {KEYS}]")
@click.option(
    "--keys-file",
    metavar="FILE",
    type=click.File("rb"),
    help='Try the keys of a file, one a line; "-": standard input.',
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def shard_plan(
    routes_n: int | None,
    route_ids: BinaryIO | None,
    service: str | None,
    admin: str | None,
    token_file: Path | None,
    context: str | None,
    joins: tuple[str, ...],
    leaves: tuple[str, ...],
    method: str,
    keys_n: int | None,
    keys_file: BinaryIO | None,
    as_json: bool,
) -> None:
    """Tell how many shard keys get another owner when routes join or leave."""
    methods = _methods(method)
    if sum(each is not None for each in (routes_n, route_ids, service)) != 1:
        raise click.UsageError("one of --routes N, --route-ids FILE, --service NAME is required")
    if (admin or token_file or context) and service is None:
        raise click.UsageError("--admin needs --service NAME: it is asked for the routes of a service")
    if not joins and not leaves:
        raise click.UsageError("--join N, --leave N or both are required")
    if keys_n is not None and keys_file is not None:
        raise click.UsageError("--keys and --keys-file exclude each other")
    if route_ids is not None and keys_file is not None and _name(route_ids) == _name(keys_file) == STDIN:
        raise click.UsageError("--route-ids and --keys-file cannot both be standard input")
    if routes_n is not None:
        before = made_ids(routes_n)
    elif route_ids is not None:
        before = _read_ids(route_ids)
    else:
        assert service is not None  # one of the three is there
        before = _ask(*place_of(admin, token_file, context), service)
    plan = Plan(before, _changed(before, joins, leaves))
    hashes = _read_keys(keys_file) if keys_file is not None else _made_keys(keys_n if keys_n is not None else KEYS)
    with ProgressLine("making routes") as line:
        # Rendezvous looks at each route for each key: minutes with thousands of routes, interpreted.
        outcomes = [plan.try_out(each, _told(hashes, each.name, line)) for each in methods]
    if as_json:
        click.echo(json.dumps(_json(plan, len(hashes), outcomes), indent=2))
    else:
        _print(plan, len(hashes), outcomes)


def _told(hashes: Sequence[int], name: str, line: ProgressLine) -> Iterator[int]:
    """The same, while the line tells how many are done."""
    for number, each in enumerate(hashes):
        if not number % TELL_N:
            line.say(f"{name}: {100 * number // len(hashes)} % of {len(hashes):,} keys")
        yield each


def _methods(name: str) -> list[ShardMethod]:
    known = ShardMethods()
    names = SHARD_METHODS if name.lower() == ALL else (name,)
    found = [method for method in map(known.find, names) if method is not None]
    if not found:
        raise click.UsageError(f"--method {name!r} is none of {', '.join(SHARD_METHODS)}, {ALL}")
    return found


def _name(file: BinaryIO) -> str:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) and name != "<stdin>" else STDIN


def _made_keys(count: int) -> list[int]:
    return [key_hash([f"key-{number}".encode()]) for number in range(count)]


def _read_keys(file: BinaryIO) -> list[int]:
    """The hashes of a file's keys; a key that stands there twice counts twice."""
    hashes: list[int] = []
    for number, line in enumerate(file, 1):
        key = line.rstrip(b"\r\n")
        if len(key) > MAX_KEY_BYTES:
            text = f"a key of {len(key)} bytes; the value of a tag has at most {MAX_KEY_BYTES}"
            raise click.UsageError(f"{_name(file)}, line {number}: {text}")
        if key:
            hashes.append(key_hash([key]))
        if len(hashes) > MAX_KEYS:
            raise click.UsageError(f"{_name(file)}: more than {MAX_KEYS:,} keys")
    if not hashes:
        raise click.UsageError(f"{_name(file)}: no keys; write one a line")
    return hashes


def _read_ids(file: BinaryIO) -> list[bytes]:
    found: dict[bytes, int] = {}
    for number, line in enumerate(file, 1):
        text = line.decode("utf-8", "replace").strip()
        if not text:
            continue
        try:
            route_id = parse_id(text)
        except BrokerError as error:
            raise click.UsageError(f"{_name(file)}, line {number}: {error.text}") from None
        if route_id in found:
            raise click.UsageError(f"{_name(file)}, line {number}: {id_text(route_id)} is line {found[route_id]}, too")
        found[route_id] = number
        if len(found) > MAX_ROUTES:
            raise click.UsageError(f"{_name(file)}: more than {MAX_ROUTES:,} Route Ids")
    if not found:
        raise click.UsageError(f"{_name(file)}: no Route Ids; write one a line")
    return list(found)


def _ask(url: str, token: str, service: str) -> list[bytes]:
    """The routes of a service that count for shards: a drained one is gone already (D-42)."""
    from admin_api.ctl.client import AdminClient  # late: most ask nobody

    client = AdminClient(url, PROGRAM, token)
    items = client.get_all("/api/v1/routes", [("service", service)])["items"]
    found = [parse_id(each["route_id"]) for each in items if "draining" not in each["states"]]
    if not found:
        lists = client.command(f"routes --service {shlex.quote(service)}" if items else "services")
        text = f"{service!r} that is not drained" if items else repr(service)
        click.echo(f"{PROGRAM}: the broker at {url} has no route of {text}; {lists} lists all", err=True)
        sys.exit(exit_status.FAILED)
    return found


def _changed(before: Sequence[bytes], joins: Sequence[str], leaves: Sequence[str]) -> list[bytes]:
    """The routes afterwards."""
    after = list(before)
    named, last_n = _wished("--leave", leaves)
    for each in named:
        if each not in after:
            raise click.UsageError(f"--leave {id_text(each)}: there is no such route")
        after.remove(each)
    if last_n > len(after):
        raise click.UsageError(f"--leave {last_n}: there are only {len(after)} routes that can leave")
    after = after[: len(after) - last_n]
    named, made_n = _wished("--join", joins)
    for each in named:
        if each in before or each in after:
            raise click.UsageError(f"--join {id_text(each)}: this route is there already")
        after.append(each)
    after += made_ids(made_n, [*before, *after])
    if not after:
        raise click.UsageError("no route would be left; a key needs at least one")
    if len(after) > MAX_ROUTES:
        raise click.UsageError(f"{len(after):,} routes afterwards; at most {MAX_ROUTES:,} are allowed")
    return after


def _wished(option: str, wishes: Sequence[str]) -> tuple[list[bytes], int]:
    """The Route Ids among the wishes, and the sum of the numbers."""
    ids: list[bytes] = []
    count = 0
    for wish in wishes:
        if wish.isascii() and wish.isdigit() and len(wish) <= len(str(MAX_ROUTES)) and 1 <= int(wish) <= MAX_ROUTES:
            count += int(wish)
            continue
        try:
            ids.append(parse_id(wish))
        except BrokerError:
            raise click.UsageError(
                f"{option} {wish!r} is neither a number from 1 to {MAX_ROUTES:,} nor a Route Id"
            ) from None
    return ids, count


def _json(plan: Plan, keys_n: int, outcomes: Sequence[Outcome]) -> dict[str, object]:
    return {
        "keys": keys_n,
        "routes_before": len(plan.before.routes),
        "routes_after": len(plan.after.routes),
        "joined": [id_text(each) for each in plan.joined],
        "left": [id_text(each) for each in plan.left],
        "ideal_percent": round(plan.ideal_percent, 3),
        "methods": [
            {
                "method": each.method,
                "keys_moved": each.moved_n,
                "moved_percent": round(each.moved_percent, 3),
                "fullest_route": each.fullest,
                "fullest_keys": each.fullest_keys,
                "max_over_mean": round(each.max_over_mean, 3),
                "gini": round(each.gini, 4),
            }
            for each in outcomes
        ],
    }


def _print(plan: Plan, keys_n: int, outcomes: Sequence[Outcome]) -> None:
    change = f"{len(plan.joined):,} join, {len(plan.left):,} leave"
    click.echo(f"{keys_n:,} keys; {len(plan.before.routes):,} routes, {change}: {len(plan.after.routes):,} routes\n")
    print_table(
        ("method", ">keys moved", ">%", ">ideal %", ">fullest route", ">max/mean", ">gini"),
        [
            (
                each.method,
                f"{each.moved_n:,}",
                f"{each.moved_percent:.2f}",
                f"{plan.ideal_percent:.2f}",
                f"{each.fullest_keys:,}",
                f"{each.max_over_mean:.3f}",
                f"{each.gini:.4f}",
            )
            for each in outcomes
        ],
    )

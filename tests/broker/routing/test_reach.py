"""What a role may reach: the set is what a look at each route says, however it came about, and sets are bounded."""

from __future__ import annotations

import random

from broker.access.roles import Offer, Role
from broker.routing.reach import MAX_BUILT, MAX_CHANGES, MAX_REACHES
from broker.routing.table import Table
from tests.broker.access.refusals import refusal_of
from tests.broker.routing.made import joined, route_id, table_of

PROD = Offer([("service", ["stock"]), ("environment", ["prod"])])
OPEN = Offer([("service", ["*"])], [Offer([("service", ["bill*", "vault"])]), Offer([("region", ["eu"])])])
OWN = Offer([("service", ["${name}-*", "${name}"])])


def role(*address: Offer, name: str = "some") -> Role:
    return Role(name, ["*"], [], list(address))


def seen(table: Table, of: Role, principal: str) -> list[int]:
    """Slots of the routes that may be addressed, by a look at each of them."""
    return sorted(each.slot for each in table.routes() if not refusal_of(of, each.tags, principal, True))


def test_a_set_follows_the_table_whether_it_catches_up_or_is_made_anew() -> None:
    rng = random.Random(7)
    table = table_of(0)
    roles = [role(PROD), role(OPEN, PROD), role(OWN), role(OWN, OPEN), role()]
    reaches = [table.reaches.find(each, "user:ada") for each in roles]
    for turn in range(60):
        for _ in range(rng.choice((0, 1, 1, 2, 9))):
            number = rng.randrange(1, 12)
            old = table.find(route_id(number))
            if old is not None and rng.random() < 0.4:
                table.leave(old)
                continue
            service = rng.choice(("stock", "billing", "vault", "ada", "ada-7", "eve"))
            environment, region = rng.choice(("prod", "test")), rng.choice(("eu", "us", None))
            joined(table, number, service, environment=environment, region=region)
        for at, reach in enumerate(reaches):
            if turn == 0 or rng.random() < 0.7:  # else it has more to catch up with
                assert reach.slots().to_list() == seen(table, roles[at], "user:ada"), (turn, at)


def test_who_is_behind_too_many_changes_gets_a_new_set() -> None:
    table = table_of(3, "stock", environment="prod")
    every, other = table.reaches.find(role(PROD), ""), table.reaches.find(role(PROD), "")
    assert (every.slots().size(), other.slots().size()) == (3, 3)
    for turn in range(MAX_CHANGES):
        joined(table, 4 + turn % 3, "stock", environment="prod" if turn % 2 else "test")
        if turn % 100 == 0:
            every.slots()
    assert every.slots().to_list() == other.slots().to_list() == seen(table, every.role, "")


def test_the_set_that_was_made_first_gives_way_and_is_made_again() -> None:
    table = table_of(3, "stock", environment="prod")
    reaches = [table.reaches.find(role(PROD), "") for _ in range(MAX_BUILT + 1)]
    for reach in reaches:
        assert reach.slots().to_list() == [0, 1, 2]
    assert (table.reaches.built_n(), reaches[0].slots_or_none) == (MAX_BUILT, None)
    joined(table, 4, "stock", environment="prod")
    assert (reaches[0].slots().to_list(), reaches[2].slots().to_list()) == ([0, 1, 2, 3], [0, 1, 2, 3])
    assert (table.reaches.built_n(), reaches[1].slots_or_none) == (MAX_BUILT, None)


def test_names_have_a_set_each_only_where_they_count_and_are_found_again() -> None:
    table = table_of(1)
    shared, own = role(PROD), role(OWN)
    assert table.reaches.find(shared, "user:ada") is table.reaches.find(shared, "user:eve")
    ada = table.reaches.find(own, "user:ada")
    assert (ada.name, table.reaches.find(own, "jwt:ada") is ada, table.reaches.find(own, "user:eve") is ada) == (
        "ada",
        True,
        False,
    )
    for number in range(MAX_REACHES):
        table.reaches.find(own, f"user:{number}")
    again = table.reaches.find(own, "user:ada")
    assert (again is ada, again.key == ada.key, again.slots().to_list()) == (False, False, ada.slots().to_list())

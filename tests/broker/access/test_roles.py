"""Roles: which routes an entry of announce, of address and of except fits."""

from __future__ import annotations

import pytest

from broker.access.roles import Offer, Role, Roles
from rsocket_wire.wire.tags import Tag
from tests.broker.access.refusals import refusal_of

STOCK = Offer([("service", ["stock"]), ("environment", ["prod", "stage*"])])
OPEN = Offer([("service", ["*"])], [Offer([("service", ["billing", "${name}"])]), Offer([("region", ["eu", "us"])])])


def tags(*texts: str) -> list[Tag]:
    return [Tag.of(key, value) for key, _, value in (text.partition("=") for text in texts)]


@pytest.mark.parametrize(
    ("offer", "route", "announced", "addressed"),
    [
        (STOCK, tags("service=stock", "environment=prod"), "", ""),
        (STOCK, tags("service=stock", "environment=stage-2", "version=7"), "", ""),
        (STOCK, tags("service=stock", "environment=test"), "environment=test", "environment=test"),
        (STOCK, tags("service=stock"), "it has no tag environment", "it has no tag environment"),
        (STOCK, tags("service=stock", "environment=prod", "environment=test"), "environment=test", ""),
        (STOCK, tags("service=stocks", "environment=prod"), "service=stocks", "service=stocks"),
        (OPEN, tags("service=stock", "region=mars"), "", ""),
        (OPEN, tags("service=billing"), *["service=billing|${name} is excepted"] * 2),
        (OPEN, tags("service=ada"), *["service=billing|${name} is excepted"] * 2),
        (
            OPEN,
            tags("service=stock", "region=mars", "region=eu"),
            "region=eu|us is excepted",
            "region=eu|us is excepted",
        ),
    ],
)
def test_an_entry_fits_by_all_values_to_announce_and_by_one_to_address_and_to_except(
    offer: Offer, route: list[Tag], announced: str, addressed: str
) -> None:
    assert (offer.obstacle(route, "ada"), offer.obstacle(route, "ada", True)) == (announced, addressed)


def test_a_role_allows_to_address_what_one_of_its_entries_fits_and_nothing_else() -> None:
    role = Role("orders", ["user:*"], [], [STOCK, Offer([("service", ["billing", "${name}-*"])])])
    assert refusal_of(role, tags("service=ada-cache"), "user:ada", True) == ""
    assert refusal_of(role, tags("service=eve-cache"), "user:ada", True) == (
        "the role orders does not allow to address this route: service=eve-cache"
    )
    only = Role("orders", ["user:*"], [], [STOCK])
    assert refusal_of(only, tags("service=stock", "environment=test"), "user:ada", True) == (
        "the role orders does not allow to address this route: environment=test"
    )
    silent = Role("orders", ["user:*"], [STOCK])
    assert refusal_of(silent, tags("service=stock", "environment=prod"), "user:ada", True) != ""


def test_of_several_entries_the_one_for_the_service_says_what_is_in_the_way() -> None:
    role = Role("own", ["*"], [Offer([("service", ["a"])]), Offer([("region", ["eu"]), ("service", ["b"])])])
    found = [role.find_obstacle(tags(f"service={service}", "region=us"), "", False) for service in ("b", "c")]
    assert [(each.tag, each.value, each.text) for each in found if each] == [
        ("region", "us", "region=us"),
        ("service", "c", "service=c"),
    ]


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("jwt:orders-7", "seventh"),
        ("jwt:orders-8", "orders"),
        ("jwt:orders-", "orders"),
        ("jwt:orders", "tokens"),
        ("jwt:stock-9", "tokens"),  # a later role has it by name
        ("user:ada", "ada"),
        ("user:adam", "default"),
        ("user:a*", "star"),
        ("", "nobody"),
        ("anonymous", "nobody"),
    ],
)
def test_an_identity_has_the_first_role_that_fits_it_by_name_or_by_its_beginning(principal: str, name: str) -> None:
    said = [
        ("seventh", ["jwt:orders-7"]),
        ("orders", ["jwt:orders-*", "jwt:orders-7"]),
        ("ada", ["user:ada"]),
        ("tokens", ["jwt:*"]),
        ("stock", ["jwt:stock-9", "user:ada"]),
        ("star", ["user:a**"]),
        ("nobody", ["anonymous"]),
        ("default", []),
    ]
    role = Roles([Role(each, who, []) for each, who in said]).find(principal)
    assert role is not None
    assert role.name == name
    assert Roles([Role("ada", ["user:ada"], [])]).find("user:bob") is None

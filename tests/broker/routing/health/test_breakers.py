"""When the refusals of a service are worth telling, and how they are counted (D-38)."""

from broker.routing.health.breakers import MAX_SERVICES, BreakerChange, Breakers
from broker.routing.health.loads import ServiceLoad
from broker.routing.policies import Policy
from rsocket_wire.errors import Refusal

FULL = Refusal("over-limit", "2 requests are in flight, the limit is 2")


def told(news: list[BreakerChange]) -> list[tuple[str, bool, str]]:
    return [(each.service, each.is_open, each.detail) for each in news]


def load_of(name: str, awaited_n: int = 0) -> ServiceLoad:
    load = ServiceLoad(name, Policy())
    load.awaited_n = awaited_n
    return load


def test_the_next_refusal_opens_it_again() -> None:
    breakers, orders = Breakers({}), load_of("orders")
    breakers.refuse(orders, FULL, 100.0)
    breakers.close(101.0)
    breakers.refuse(orders, FULL, 102.0)
    assert [each.is_open for each in breakers.changes] == [True, True]
    assert (breakers.opened, breakers.refused) == (2, {"orders": 2})
    assert [each.detail for each in breakers.close(103.0)] == ["requests refused in 0.0 s: 1; in flight now: 0"]


def test_services_have_breakers_of_their_own() -> None:
    breakers = Breakers({})
    breakers.refuse(load_of("orders"), FULL, 100.0)
    breakers.refuse(load_of("billing"), FULL, 100.5)
    assert [each.service for each in breakers.changes] == ["orders", "billing"]
    assert [each.service for each in breakers.close(101.0)] == ["orders"]
    assert breakers.next_at() == 101.5
    assert [each.service for each in breakers.close(101.5)] == ["billing"]


def test_refusals_beyond_the_bound_on_names_are_counted_together() -> None:
    there = {f"service-{number}": load_of(f"service-{number}") for number in range(MAX_SERVICES + 2)}
    breakers = Breakers(there)
    for load in there.values():
        breakers.refuse(load, FULL, 100.0)
    breakers.refuse(load_of("service-7"), FULL, 100.0)
    assert len(breakers.refused) == MAX_SERVICES + 1
    assert (breakers.refused["service-7"], breakers.refused[""]) == (2, 2)


def test_services_that_are_gone_give_their_names_to_those_that_are_there() -> None:
    there: dict[str, ServiceLoad] = {}
    breakers = Breakers(there)
    for number in range(MAX_SERVICES):
        breakers.refuse(load_of(f"service-{number}"), FULL, 100.0)
    there["service-7"] = load_of("service-7")
    for name, moment in (("orders", 100.5), ("orders", 101.0), ("billing", 101.5)):
        there[name] = load_of(name)
        breakers.refuse(there[name], FULL, moment)
    assert breakers.refused == {"service-7": 1, "": MAX_SERVICES - 1, "orders": 2, "billing": 1}


def test_who_is_there_is_looked_at_once_a_second_where_all_are() -> None:
    """Each of these requests is refused: none of them may cost a look at all names."""
    there = {f"service-{number}": load_of(f"service-{number}") for number in range(MAX_SERVICES)}
    breakers = Breakers(there)
    for load in list(there.values()):
        breakers.refuse(load, FULL, 100.0)
    there["orders"] = load_of("orders")
    breakers.refuse(there["orders"], FULL, 100.0)
    del there["service-7"]
    breakers.refuse(there["orders"], FULL, 100.5)
    assert (breakers.refused.get("orders"), breakers.refused[""]) == (None, 2)
    breakers.refuse(there["orders"], FULL, 101.0)
    assert (breakers.refused["orders"], breakers.refused[""]) == (1, 3)

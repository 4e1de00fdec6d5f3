import random
from hashlib import blake2b
from typing import Any

import pytest

from broker.routing.digest import Digest, distinct, route_mark

ID = "00000000-0000-0000-0000-000000000001"
Tags = list[tuple[str, str | None]]


def part(text: str) -> bytes:
    return len(text.encode()).to_bytes(4, "big") + text.encode()


def test_a_mark_is_the_hash_of_the_id_the_service_and_the_sorted_tags_each_with_its_length() -> None:
    encoded = b"".join(part(text) for text in (ID, "größe", "region", "eu,us", "zone", ""))
    expected = int.from_bytes(blake2b(encoded, digest_size=16).digest(), "big")
    assert route_mark(ID, "größe", [("zone", ""), ("region", "eu"), ("region", "us")]) == expected


def test_a_mark_is_the_same_of_tags_and_of_the_map_that_a_file_has_of_them() -> None:
    tags: Tags = [("b", "2"), ("a", "1"), ("b", "3"), ("c", None)]
    assert route_mark(ID, "orders", tags) == route_mark(ID, "orders", list(distinct(tags).items()))
    assert route_mark(ID, "orders", [("c", None)]) == route_mark(ID, "orders", [("c", "")])


OTHERS: list[Any] = [
    (ID[:-1] + "2", "orders", [("a", "1")]),
    (ID, "order", [("a", "1")]),
    (ID, "ordersa", [("", "1")]),
    (ID, "orders", []),
    (ID, "orders", [("a", "2")]),
    (ID, "orders", [("a1", "")]),
    (ID, "orders", [("", "a1")]),
    (ID, "orders", [("a", "1"), ("", "")]),
]


@pytest.mark.parametrize("other", OTHERS)
def test_whatever_differs_has_another_mark(other: tuple[str, str, Tags]) -> None:
    assert route_mark(*other) != route_mark(ID, "orders", [("a", "1")])


def test_values_of_a_repeated_name_stand_together() -> None:
    assert distinct([("region", "eu"), ("zone", "b"), ("region", "us")]) == {"region": "eu,us", "zone": "b"}


def test_an_empty_table_has_zeros() -> None:
    assert Digest().text == "0" * 32


@pytest.mark.parametrize("seed", range(5))
def test_a_digest_knows_what_is_in_it_and_not_how_it_came(seed: int) -> None:
    rng = random.Random(seed)
    digest, there = Digest(), dict[int, int]()
    for number in [rng.randrange(20) for _ in range(300)]:
        if number in there:
            digest.take(there.pop(number))
        else:
            there[number] = route_mark(str(number), "orders", [("n", str(rng.random()))])
            digest.add(there[number])
        expected = Digest()
        for mark in rng.sample(sorted(there.values()), len(there)):
            expected.add(mark)
        assert digest.text == expected.text
        assert digest.text == f"{sum(there.values()) % 2**128:032x}"

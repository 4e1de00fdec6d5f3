"""What roles allow, as a model that looks at each tag of each route: nothing of bitmaps and what is remembered."""

from __future__ import annotations

import random

from broker.access.roles import Offer, Role
from rsocket_wire.rsocket.frames import (
    METADATA_PUSH,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
)

Entry = dict[str, list[str]]
Entries = list[tuple[Entry, list[Entry]]]  # what is wanted, and what is excepted
Tags = set[tuple[str, str]]

SERVICES = ("stock", "billing", "CN=c1", "CN=c1-x", "CN=c2")
VALUES = {"service": SERVICES, "region": ("eu", "us", "mars"), "tier": ("a", "ab", "b")}
PATTERNS = {
    "service": (*SERVICES, "*", "b*", "CN=c*", "${name}", "${name}-*"),
    "region": ("eu", "us", "u*", "*"),
    "tier": ("a", "a*", "b", "${name}"),
}
KINDS = (REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL, METADATA_PUSH)


def entry(rng: random.Random, first: str) -> Entry:
    keys = [first, *[key for key in ("region", "tier") if rng.random() < 0.3 and key != first]]
    return {key: rng.sample(PATTERNS[key], rng.choice((1, 1, 2))) for key in keys}


def entries(rng: random.Random) -> Entries:
    found: Entries = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        excepted = [entry(rng, rng.choice(("service", "region", "tier"))) for _ in range(rng.choice((0, 0, 1, 2)))]
        found.append((entry(rng, "service"), excepted))
    return found


def role_of(name: str, said: Entries) -> Role:
    offers = [
        Offer(list(wanted.items()), [Offer(list(each.items())) for each in excepted]) for wanted, excepted in said
    ]
    return Role(name, [f"certificate:{name}"], [], offers)


# The model


def is_like(pattern: str, value: str, name: str) -> bool:
    pattern = pattern.replace("${name}", name)
    return value.startswith(pattern[:-1]) if pattern[-1:] == "*" else value == pattern


def has(tags: Tags, wanted: Entry, name: str) -> bool:
    return all(any(key == k and any(is_like(p, v, name) for p in wanted[key]) for k, v in tags) for key in wanted)


def may(tags: Tags, said: Entries, name: str) -> bool:
    return any(
        has(tags, wanted, name) and not any(has(tags, each, name) for each in excepted) for wanted, excepted in said
    )

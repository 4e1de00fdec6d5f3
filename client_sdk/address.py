"""Addresses: which routes a request wants, in the words of a person, kept as the bytes of an ADDRESS frame.

    ┌── head, 6 bytes ──┬── origin route id, 16 ──┬── tail ───────────────┐
    │ version kind flags│ the client that sends   │ hints, tags           │     built once, cut around the origin
    └───────────────────┴─────────────────────────┴───────────────────────┘

Keyword names in snake case that the specification knows are its well-known keys (`service`, `region`, `user_id` …); any
other name is a text key. Section "ADDRESS" of the specification; D-03 and D-12 of our decisions: hints go into the
metadata map. Knows nothing of connections.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from broker.errors import BrokerError
from broker.wire.frames import MULTICAST, SHARD, UNICAST
from broker.wire.frames import Address as AddressFrame
from broker.wire.ids import ID_BYTES, id_text
from broker.wire.keys import LB_METHOD, SERVICE_NAME, SHARD_KEY, SHARD_METHOD, Key, parse_key
from broker.wire.tags import Tag
from client_sdk.errors import BadAddress

HEAD_BYTES: Final = 6
NO_ORIGIN: Final = bytes(ID_BYTES)
_ROUTINGS: Final[dict[int, str]] = {UNICAST: "unicast", MULTICAST: "multicast", SHARD: "shard"}


class Address:
    """Which routes a request wants, and how one is chosen; immutable. Made by `address`, `multicast` and `shard`.

    >>> orders = address("orders", region="eu")
    >>> orders.routing, orders.tags
    ('unicast', {'io.rsocket.routing.ServiceName': 'orders', 'io.rsocket.routing.Region': 'eu'})
    """

    __slots__ = ("_head", "_tail", "origin_route_id", "routing", "tags")

    def __init__(self, frame: AddressFrame) -> None:
        """BadAddress when the frame cannot be written."""
        try:
            raw = frame.encode()
        except BrokerError as error:
            raise BadAddress(error.text, word=error.word) from None
        self._head: Final = raw[:HEAD_BYTES]
        self._tail: Final = raw[HEAD_BYTES + ID_BYTES :]
        self.routing: Final = _ROUTINGS.get(frame.flags & (UNICAST | MULTICAST | SHARD), "unicast")
        # Full names and values; a key that is given twice shows its last value.
        self.tags: Final[dict[str, str | None]] = {tag.key.name: tag.value for tag in frame.tags}
        # Who sent it, in an address that a service received; None in one that was built here.
        self.origin_route_id: Final = None if frame.origin_route_id == NO_ORIGIN else id_text(frame.origin_route_id)

    def frame_bytes(self, origin: bytes) -> bytes:
        """The ADDRESS frame with this origin Route Id, 16 bytes."""
        return self._head + origin + self._tail

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and (self._head, self._tail) == (other._head, other._tail)

    def __hash__(self) -> int:
        return hash((self._head, self._tail))

    def __repr__(self) -> str:
        shown = " ".join(f"{parse_key(name).short_name}={value}" for name, value in self.tags.items())
        return f"<{self.routing} {shown}>"


def address(
    service: str | None = None,
    /,
    *,
    tags: Mapping[str, str | None] | None = None,
    lb: str | None = None,
    **named: str | None,
) -> Address:
    """One of the routes that have all these tags; which one, the broker decides, `lb` is a hint ("round_robin").

    `tags` is for names that are no identifiers. BadAddress without any tag, and for names or values over 127 bytes.

    >>> address("orders", region="eu")
    <unicast service=orders region=eu>
    >>> address(service="orders", tags={"io.rsocket.routing.Zone": "a"}, lb="round_robin")
    <unicast service=orders zone=a>
    """
    hints = [] if lb is None else [_tag(LB_METHOD, lb)]
    return _build(service, tags, named, hints, UNICAST)


def multicast(
    service: str | None = None, /, *, tags: Mapping[str, str | None] | None = None, **named: str | None
) -> Address:
    """All routes that have all these tags: the first answer wins, streams are merged.

    >>> multicast("cache", region="eu")
    <multicast service=cache region=eu>
    """
    return _build(service, tags, named, [], MULTICAST)


def shard(
    service: str | None = None,
    /,
    *,
    key: str | Sequence[str],
    method: str | None = None,
    tags: Mapping[str, str | None] | None = None,
    **named: str | None,
) -> Address:
    """The route that owns the value of tag `key` (or of several tags); the same value finds the same route.

    `method` is sent as the hint ShardMethod: rendezvous, maglev, ring, jump or modulo; unless the broker has been told
    otherwise it is rendezvous (docs/sharding.md).

    BadAddress when a key names no tag of this address: the specification has such a request rejected.

    >>> shard("carts", key="user", user="ada")
    <shard service=carts user=ada>
    """
    keys = [parse_key(name) for name in ([key] if isinstance(key, str) else key)]
    hints = [_tag(SHARD_KEY, one.name) for one in keys]
    if method is not None:
        hints.append(_tag(SHARD_METHOD, method))
    if not keys:
        raise BadAddress("a shard address needs at least one key", word="bad-shard-key")
    built = _build(service, tags, named, hints, SHARD)
    for one in keys:
        if one.name not in built.tags:
            raise BadAddress(f"shard key {one.name!r} names no tag of {built!r}", word="bad-shard-key")
    return built


def route_tags(tags: Mapping[str, str | None] | None) -> list[Tag]:
    """The tags of a route or an address, as written by a person; BadAddress for what cannot be sent."""
    return [] if tags is None else [_tag(name, value) for name, value in tags.items()]


def _build(
    service: str | None,
    tags: Mapping[str, str | None] | None,
    named: Mapping[str, str | None],
    hints: list[Tag],
    flag: int,
) -> Address:
    wanted = [] if service is None else [_tag(SERVICE_NAME, service)]
    wanted += route_tags(named) + route_tags(tags)
    if not wanted:
        raise BadAddress("an address needs at least one tag, for example address('orders')")
    return Address(AddressFrame(NO_ORIGIN, wanted, hints, b"", flag))


def _tag(name: str | Key, value: str | None) -> Tag:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"the value of tag {name} is {type(value).__name__}, it must be str or None")
    try:
        return Tag.of(name, value)
    except BrokerError as error:
        raise BadAddress(error.text, word=error.word) from None

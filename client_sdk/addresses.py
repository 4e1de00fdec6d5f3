"""Addresses: which routes a request wants, in the words of a person, kept as the bytes of an ADDRESS frame.

    ┌── head, 6 bytes ──┬── origin route id, 16 ──┬── tail ───────────────┐
    │ version kind flags│ the client that sends   │ hints, tags           │     built once, cut around the origin
    └───────────────────┴─────────────────────────┴───────────────────────┘

Keyword names in snake case that the specification knows are its well-known keys (`service`, `region`, `user_id` …); any
other name is a text key. Section "ADDRESS" of the specification; D-03 and D-12 of our decisions: hints go into the
metadata map. Knows nothing of connections.
"""

import functools
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from client_sdk.errors import BadAddress
from client_sdk.mistakes.arguments import advised
from client_sdk.mistakes.attributes import names_told
from client_sdk.mistakes.kinds import BOOL, check_kind
from client_sdk.mistakes.methods import look_at, looked_at
from rsocket_wire.errors import BrokerError
from rsocket_wire.models import REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.ports import SCHEMES
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST
from rsocket_wire.wire.frames import Address as AddressFrame
from rsocket_wire.wire.ids import ID_BYTES, id_text
from rsocket_wire.wire.keys import (
    DEADLINE,
    EXCLUDE_SELF,
    LB_METHOD,
    ROUTE_ID,
    SERVICE_NAME,
    SHARD_KEY,
    SHARD_METHOD,
    STICKY_ROUTE_KEY,
    Key,
    parse_key,
)
from rsocket_wire.wire.tags import Tag

HEAD_BYTES: Final = 6
NO_ORIGIN: Final = bytes(ID_BYTES)
# Options that an address of this kind, or no address, has, where they look like tags.
ELSEWHERE: Final = {
    "lb": "address('orders', lb='round_robin')",
    "sticky": "address('chat', sticky='session', session='4711')",
    "exclude_self": "multicast('room', exclude_self=True)",
    "key": "shard('carts', key='user', user='ada')",
    **dict.fromkeys(
        ("route", "timeout_s", "returns"),
        "the call, as in request_response(address('orders'), b'', route='create', returns=bytes, timeout_s=5)",
    ),
}
# What people ask an Address for, and what to write.
_ASKED: Final = {
    **dict.fromkeys(("with_lb", "lb", "with_load_balancer"), ELSEWHERE["lb"]),
    **dict.fromkeys(("with_sticky", "sticky"), ELSEWHERE["sticky"]),
    **dict.fromkeys(("with_key", "key", "with_shard_key", "shard_key"), ELSEWHERE["key"]),
    **dict.fromkeys(("with_tags", "with_tag", "add_tag", "set_tag", "with_region"), "address('orders', region='eu')"),
    **dict.fromkeys(
        ("route", "with_route", "with_timeout", "timeout_s", "request_response", "request_stream", "call", "send"),
        "client.request_response(address('orders'), b'...', route='create', timeout_s=5)",
    ),
    "name": "address.service",
    "kind": "address.routing",
}
_URLS: Final = tuple(f"{scheme}://" for scheme in SCHEMES)
_ROUTINGS: Final[dict[int, str]] = {UNICAST: "unicast", MULTICAST: "multicast", SHARD: "shard"}


@names_told("Address", _ASKED)
class Address:
    """Which routes a request wants, and how one is chosen; immutable. Made by `address`, `multicast` and `shard`.

    >>> orders = address("orders", region="eu")
    >>> orders.routing, orders.tags
    ('unicast', {'io.rsocket.routing.ServiceName': 'orders', 'io.rsocket.routing.Region': 'eu'})
    """

    __slots__ = ("_frame", "_hash", "_head", "_tail", "origin_route_id", "routing", "service", "tags")

    def __init__(self, frame: AddressFrame) -> None:
        """BadAddress when the frame cannot be written."""
        try:
            raw = frame.encode()
        except BrokerError as error:
            raise BadAddress(error.text, word=error.word) from None
        self._frame: Final = frame
        self._head: Final = raw[:HEAD_BYTES]
        self._tail: Final = raw[HEAD_BYTES + ID_BYTES :]
        self._hash: Final = hash((self._head, self._tail))  # addresses are keys of what is kept, on each call
        self.routing: Final = _ROUTINGS.get(frame.flags & (UNICAST | MULTICAST | SHARD), "unicast")
        # Full names and values; a key that is given twice shows its last value.
        self.tags: Final[dict[str, str | None]] = {tag.key.name: tag.value for tag in frame.tags}
        self.service: Final = self.tags.get(SERVICE_NAME.name) or ""  # empty when the tags name none
        # Who sent it, in an address that a service received; None in one that was built here.
        self.origin_route_id: Final = None if frame.origin_route_id == NO_ORIGIN else id_text(frame.origin_route_id)

    def frame_bytes(self, origin: bytes, deadline_ms: int | None = None) -> bytes:
        """The ADDRESS frame with this origin Route Id, 16 bytes; `deadline_ms` is added to its hints (D-41).

        >>> len(address("orders").frame_bytes(bytes(16))), len(address("orders").frame_bytes(bytes(16), 1500))
        (30, 47)
        """
        frame = self._frame
        # D-12: hints that a person wrote as tags count only while there is no metadata, so none may be added.
        is_said_by_tags = not frame.metadata and any(tag.key.is_hint for tag in frame.tags)
        if deadline_ms is None or is_said_by_tags:
            return self._head + origin + self._tail
        hints = [*frame.metadata, _tag(DEADLINE, str(deadline_ms))]
        return AddressFrame(origin, frame.tags, hints, frame.wrapped, frame.flags).encode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and (self._head, self._tail) == (other._head, other._tail)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        shown = " ".join(f"{parse_key(name).short_name}={value}" for name, value in self.tags.items())
        return f"<{self.routing} {shown}>"


@advised("address('orders', region='eu')")
def address(
    service: str | None = None,
    /,
    *,
    tags: Mapping[str, str | None] | None = None,
    lb: str | None = None,
    sticky: str | Sequence[str] | None = None,
    **named: str | None,
) -> Address:
    """One of the routes that have all these tags; which one, the broker decides, `lb` is a hint ("round_robin").

    `sticky` names a tag of this address (or several): requests with the same value go to the same route as long as it
    is there; the tag need not be any route's. `tags` is for names that are no identifiers. docs/choosing.md has all.

    BadAddress without any tag, for names or values over 127 bytes, and for a sticky key that names no tag.

    >>> address("orders", region="eu")
    <unicast service=orders region=eu>
    >>> address(service="orders", tags={"io.rsocket.routing.Zone": "a"}, lb="round_robin")
    <unicast service=orders zone=a>
    >>> address("chat", sticky="session", session="4711")
    <unicast service=chat session=4711>
    """
    hints = [] if lb is None else [_method(LB_METHOD, "lb", lb)]
    keys = _keys(sticky)
    hints += [_tag(STICKY_ROUTE_KEY, one.name) for one in keys]
    return _check_keys(_build(service, tags, named, hints, UNICAST), keys, "sticky key", "bad-address")


@advised("multicast('cache', region='eu')")
def multicast(
    service: str | None = None,
    /,
    *,
    tags: Mapping[str, str | None] | None = None,
    exclude_self: bool = False,
    **named: str | None,
) -> Address:
    """All routes that have all these tags: the first answer wins, streams are merged.

    `exclude_self`: all but the service on the caller's own connection (`connect(url, service=…)`). Where nobody else is
    there, it is as if nobody was: NoRoute.

    >>> multicast("cache", region="eu")
    <multicast service=cache region=eu>
    >>> multicast("room", exclude_self=True)
    <multicast service=room>
    """
    if exclude_self:
        check_kind("exclude_self", exclude_self, BOOL)
    return _build(service, tags, named, [_tag(EXCLUDE_SELF, "true")] if exclude_self else [], MULTICAST)


@advised("shard('carts', key='user', user='ada')")
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
    keys = _keys(key)
    hints = [_tag(SHARD_KEY, one.name) for one in keys]
    if method is not None:
        hints.append(_method(SHARD_METHOD, "method", method))
    if not keys:
        raise BadAddress("a shard address needs at least one key", word="bad-shard-key")
    return _check_keys(_build(service, tags, named, hints, SHARD), keys, "shard key", "bad-shard-key")


def check_address(address: object, maker: str = "address") -> None:
    """TypeError for what is none; it says the `maker` of one."""
    if isinstance(address, Address):
        return
    if address is None:
        raise TypeError("the address is missing: it comes first, as address('orders')")
    how = f": write {maker}({address!r})" if isinstance(address, str) else f"; make one with {maker}('orders')"
    subject = re.fullmatch(r"([A-Za-z][\w-]*)[./]([\w.*>/-]+)", address) if isinstance(address, str) else None
    if subject is not None:  # orders.create, as of NATS and gRPC
        name, rest = subject.groups()
        how = f": write {maker}({name!r}), "
        if re.search("[*>]", rest):
            how += "which takes no wildcards"
        else:
            how += f"and route={rest!r} in the call, or {maker}({address!r}) where that is the service's name"
    if isinstance(address, str) and "://" in address:
        how = "; a URL is of connect(url), and the address names the service: address('orders')"
    if isinstance(address, list | tuple | set):
        how = ": make a call for each; multicast('orders') is for all instances of one service"
    if inspect.iscoroutine(address):
        address.close()  # or Python warns of it, too
        how = "; several calls at a time are asyncio.gather(call, call), gather asks each of multicast('orders')"
    method: Any = address.args[-1] if isinstance(address, functools.partial) and address.args else None
    if hasattr(method, "gives"):  # of `client.of(...)`
        call, value = f"orders.{method.name}", "" if method.parameter is None else "value"
        taken = f"({', '.join(filter(None, (call, value)))}) of client_sdk"
        how = f"{call}({value})"
        if method.model == REQUEST_STREAM:
            how += f", or subscribe{taken}"
        elif method.model == REQUEST_RESPONSE and maker == "multicast":
            how = f"gather{taken}"
        raise TypeError(f"the address is a method of a contract: write {how}")
    raise TypeError(f"the address is {type(address).__name__}{how}")


def route_tags(tags: Mapping[str, str | None] | None) -> list[Tag]:
    """The tags of a route or an address, as written by a person; BadAddress for what cannot be sent."""
    if tags is not None and not isinstance(tags, Mapping):
        raise TypeError(f"tags= is {type(tags).__name__}, it must be a dict, such as {{'region': 'eu'}}")
    return [] if tags is None else [_tag(name, value) for name, value in tags.items()]


def check_own_tags(tags: Mapping[str, str | None] | None) -> None:
    """As `route_tags`, of a route whose name and id are told elsewhere; ValueError for one of these among its tags."""
    for tag in route_tags(tags):
        if tag.key == SERVICE_NAME:
            text = "the name is the first argument: Service('orders'), or connect(url, service='orders')"
            raise ValueError(f"tags= has the name of the service, {tag.value!r}; {text}")
        if tag.key == ROUTE_ID:
            raise ValueError("tags= has a Route Id, which is of connect(url, route_id=...); take it out of the tags")


def check_new_tags(tags: Mapping[str, str | None]) -> None:
    """As `check_own_tags`, of tags that take the place of others; TypeError for None."""
    if tags is None:
        raise TypeError("tags= is NoneType, it must be a dict: {} for no tags")
    check_own_tags(tags)


def _build(
    service: str | None,
    tags: Mapping[str, str | None] | None,
    named: Mapping[str, str | None],
    hints: list[Tag],
    flag: int,
) -> Address:
    if not ELSEWHERE.keys().isdisjoint(named):
        name = next(name for name in named if name in ELSEWHERE)
        tag = f"a tag of this name is given by tags={{{name!r}: ...}}"
        raise TypeError(f"{name}= is of {ELSEWHERE[name]}; {tag}")
    if service is not None and not isinstance(service, str):
        raise TypeError(f"the name of a service is {type(service).__name__}, it must be str: address('orders')")
    if service is not None and service.startswith(_URLS):
        raise BadAddress(f"{service!r} is a URL, which connect() takes; an address has a name: address('orders')")
    wanted = [] if service is None else [_tag(SERVICE_NAME, service)]
    wanted += route_tags(named) + route_tags(tags)
    if not wanted:
        raise BadAddress("an address needs at least one tag, for example address('orders')")
    return Address(AddressFrame(NO_ORIGIN, wanted, hints, b"", flag))


def _keys(names: str | Sequence[str] | None) -> list[Key]:
    if names is None:
        return []
    given = [names] if isinstance(names, str) else names
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"{names!r} is no key: it must be the name of a tag of this address, or a list of names")
    return [parse_key(name) for name in given]


def _check_keys(built: Address, keys: list[Key], what: str, word: str) -> Address:
    for one in keys:
        if one.name not in built.tags:
            mend = "give the address that tag, too"
            if what == "shard key":
                mend = "key= is the name of a tag, as in shard('carts', key='user', user='ada')"
            text = f"{what} {one.name!r} names no tag of {built!r}; {mend}"
            raise BadAddress(text, word=word)
    return built


def _method(key: Key, option: str, name: str) -> Tag:
    if not isinstance(name, str):
        raise TypeError(f"{option} is {type(name).__name__}, it must be str: the name of a method (docs/choosing.md)")
    if (option, name) not in looked_at:
        look_at(option, name)
    return _tag(key, name)


def _tag(name: str | Key, value: str | None) -> Tag:
    if not isinstance(name, (str, Key)):
        raise TypeError(f"the name of a tag is {type(name).__name__}, it must be str: write tags={{'region': 'eu'}}")
    if value is not None and not isinstance(value, str):
        text = f"the value of tag {name} is {type(value).__name__}, it must be str or None"
        mend = f"; write str({value!r})" if isinstance(value, int | float) else ""
        if isinstance(value, list | tuple | set) and value:
            each = " and one with ".join(f"{name}={str(one)!r}" for one in [*value][:2])
            mend = f"; a tag has one value: make one address, or service, with {each}"
        raise TypeError(text + mend)
    try:
        return Tag.of(name, value)
    except BrokerError as error:
        raise BadAddress(error.text, word=error.word) from None

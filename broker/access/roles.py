"""Roles: what a connection may announce and which routes it may address, by who it is.

    [role.orders]
    who = ["certificate:spiffe://acme/orders", "jwt:orders-*"]
    announce = [{ service = "orders", region = ["eu", "us"] }]
    address = [{ service = "*", except = [{ service = "admin" }] }, { service = "admin", environment = "test" }]

A connection has one role: the first whose `who` fits its principal, else that named `default`, else none, and then it
is refused. Roles only allow: what no entry says is not allowed (D-98).

    announce   each tag that the entry names is there, and all its values fit: no route is found under a foreign one
    address    each tag that the entry names is there, and one of its values fits: as an ADDRESS finds routes
    except     as address; what fits is left out of this entry, and of no other

A `*` at the end of a text stands for any end, `${name}` for the name of the identity. Decides by texts and tags; who
they are about, and what follows, the callers know.
"""

from hashlib import blake2b
from typing import Final

from broker.access.identities import ANONYMOUS
from broker.access.quotas import NO_QUOTA, Quota
from rsocket_wire.wire.keys import SERVICE_NAME, Key, parse_key
from rsocket_wire.wire.tags import Tag

DEFAULT: Final = "default"  # the role of whoever fits no other one
NAME: Final = "${name}"
MAX_FOUND: Final = 10_000  # principals whose role is remembered; at one more all are forgotten, and found again


class Obstacle:
    """What keeps a route from being one of those that are allowed."""

    def __init__(self, tag: str, value: str, text: str = "") -> None:
        self.tag: Final = tag  # short name of its key
        self.value: Final = value  # which does not fit; empty where the route has no such tag
        self.text: Final = text or f"{tag}={value}"


class Wanted:
    """A tag that an entry names."""

    def __init__(self, key: Key, patterns: list[str]) -> None:
        self.key: Final = key
        self.patterns: Final = patterns  # of the values that it may have
        self.is_open: Final = any(pattern.endswith("*") for pattern in patterns)  # more values fit than there are

    def has_name(self) -> bool:
        """Which values fit depends on the name of the identity."""
        return any(NAME in pattern for pattern in self.patterns)


class Offer:
    """Routes, by tags that they have: one entry of `announce`, `address` or `except`."""

    def __init__(self, wanted: list[tuple[str, list[str]]], excepted: "list[Offer] | None" = None) -> None:
        """`wanted`: names as `parse_key` reads them, and the values that each may have. BrokerError."""
        self.wanted: Final = [Wanted(parse_key(name), patterns) for name, patterns in wanted]
        self.excepted: Final[list[Offer]] = excepted if excepted is not None else []

    def obstacle(self, tags: list[Tag], name: str, is_address: bool = False) -> str:
        """The text of `find_obstacle`; empty: nothing."""
        obstacle = self.find_obstacle(tags, name, is_address)
        return obstacle.text if obstacle is not None else ""

    def find_obstacle(self, tags: list[Tag], name: str, is_address: bool) -> Obstacle | None:
        """What keeps a route with these tags from being one of these, `region=mars`, its service before all else.

        `name`: of the identity. `is_address`: one value of each key is enough, else all must fit.
        """
        nearest: Obstacle | None = None
        for wanted in self.wanted:
            if nearest is not None and wanted.key != SERVICE_NAME:
                continue
            tag = wanted.key.short_name
            found = [each.value or "" for each in tags if each.key == wanted.key]
            misfits = [value for value in found if not fits_any(wanted.patterns, value, name)]
            if not found:
                nearest = Obstacle(tag, "", f"it has no tag {tag}")
            elif misfits and not (is_address and len(misfits) < len(found)):
                nearest = Obstacle(tag, misfits[0])
        if nearest is not None:
            return nearest
        for each in self.excepted:
            if each.find_obstacle(tags, name, True) is None:
                tag = each.wanted[0].key.short_name if each.wanted else ""
                values = [one.value or "" for one in tags if one.key.short_name == tag]
                return Obstacle(tag, values[0] if values else "", f"{each} is excepted")
        return None

    def has_name(self) -> bool:
        """Which routes these are depends on the name of the identity."""
        return any(each.has_name() for each in self.wanted) or any(each.has_name() for each in self.excepted)

    def __str__(self) -> str:
        return " ".join([f"{each.key.short_name}={'|'.join(each.patterns)}" for each in self.wanted])

    def __repr__(self) -> str:
        """All of it, so that two which differ are written differently."""
        return f"{[(each.key.wire, each.patterns) for each in self.wanted]!r}-{self.excepted!r}"


class Role:
    """What connections of some identities may announce and address."""

    def __init__(
        self,
        name: str,
        who: list[str],
        offers: list[Offer],
        address: list[Offer] | None = None,
        quota: Quota = NO_QUOTA,
    ) -> None:
        self.name: Final = name
        self.who: Final = who
        self.address: Final[list[Offer]] = address if address is not None else []
        self.has_name: Final = any(each.has_name() for each in self.address)  # see `Offer.has_name`
        self.offers: Final = offers
        self.quota: Final = quota  # not of its digest: each broker counts for itself

    def __str__(self) -> str:
        """All of it, on one line; two roles that differ are written differently."""
        return repr((self.name, self.who, self.offers, self.address))

    def may_address(self, tags: list[Tag], name: str) -> bool:
        """A route with these tags may be addressed by an identity of this name; as `find_obstacle`."""
        return any(offer.find_obstacle(tags, name, True) is None for offer in self.address)

    def find_obstacle(self, tags: list[Tag], principal: str, is_address: bool) -> Obstacle | None:
        """What keeps a route with these tags, those of its service and id among them, from being announced, or
        addressed; None: nothing.

        Of several entries that of the first one for its service, else its service.
        """
        name = name_of(principal)
        service = SERVICE_NAME.short_name
        nearest: Obstacle | None = None
        for offer in self.address if is_address else self.offers:
            obstacle = offer.find_obstacle(tags, name, is_address)
            if obstacle is None:
                return None
            if nearest is None or (nearest.tag == service and obstacle.tag != service):
                nearest = obstacle
        if nearest is not None:
            return nearest
        services = [tag.value or "" for tag in tags if tag.key == SERVICE_NAME]
        return Obstacle(service, services[0]) if services else Obstacle(service, "", "a route")

    def refusal(self, obstacle: Obstacle | None, is_address: bool) -> str:
        """The sentence about what `find_obstacle` has found, for the identity and for operators; empty for None."""
        what = "address" if is_address else "announce"
        return (
            f"the role {self.name} does not allow to {what} this route: {obstacle.text}" if obstacle is not None else ""
        )


class Roles:
    """All roles, in their order."""

    def __init__(self, roles: list[Role]) -> None:
        self._roles: list[Role] = []
        # By texts of `who`: the first role that has it. Those that end in a star without it, by their lengths.
        self._exact: dict[str, int] = {}
        self._open: dict[int, dict[str, int]] = {}
        self._default: Role | None = None  # None: who fits no role has none
        self._found: Final[dict[str, Role | None]] = {}
        self._by_name: dict[str, Role] = {}
        self.is_on = False  # there are some
        self.digest = b""  # 8 bytes that are equal where the roles and their order are, for other brokers
        self.replace(roles)

    def replace(self, roles: list[Role]) -> None:
        """These are the roles from now on."""
        self._roles = [role for role in roles if role.name != DEFAULT]
        others = [role for role in roles if role.name == DEFAULT]
        self._default = others[0] if others else None
        self._found.clear()
        self._by_name = {role.name: role for role in roles}
        self.is_on = len(roles) > 0
        text = "\n".join([str(role) for role in self._roles + others])
        self.digest = blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
        self._exact = {}
        self._open = {}
        for at, role in enumerate(self._roles):
            for who in role.who:
                if who.endswith("*"):
                    self._open.setdefault(len(who) - 1, {}).setdefault(who[:-1], at)
                else:
                    self._exact.setdefault(who, at)

    def find_named(self, name: str) -> Role | None:
        """The role of this name; None: there is none."""
        return self._by_name.get(name)

    def find(self, principal: str) -> Role | None:
        """The role of this principal, empty for an anonymous one; None: it has none."""
        if principal in self._found:
            return self._found[principal]
        if len(self._found) >= MAX_FOUND:
            self._found.clear()
        text = principal or ANONYMOUS
        first = self._exact.get(text, len(self._roles))
        for size, by_start in self._open.items():
            first = min(first, by_start.get(text[:size], first))
        found = self._roles[first] if first < len(self._roles) else self._default
        self._found[principal] = found
        return found


def name_of(principal: str) -> str:
    """The name in an identity's text."""
    return principal.partition(":")[2]


def meant_by(pattern: str, name: str) -> str:
    """The pattern with the name in place of NAME; an empty name is none."""
    return pattern.replace(NAME, name) if name and NAME in pattern else pattern


def fits_any(patterns: list[str], value: str, name: str) -> bool:
    """One of the patterns fits the value; `name` stands for NAME, and a star in it for nothing but itself."""
    for pattern in patterns:
        is_open = pattern.endswith("*")
        text = meant_by(pattern[:-1] if is_open else pattern, name)
        if value == text or (is_open and value.startswith(text)):
            return True
    return False

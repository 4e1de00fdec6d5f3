"""Roles: what a connection may announce, by who it is.

    [role.orders]
    who = ["certificate:spiffe://acme/orders", "jwt:orders-*"]
    announce = [{ service = "orders", region = ["eu", "us"] }]

A connection has one role: the first whose `who` fits its principal, else that named `default`, else none, and then it
is refused. Roles only allow. A route may be announced when one offer of the role fits all of its tags that the offer
names, and it has each of them. So a tag that is not named is free; where a route has several of a key, all must fit.

A `*` at the end of a text stands for any end, `${name}` for the name of the identity. Decides by texts and tags; who
they are about, and what follows, the callers know.
"""

from typing import Final

from broker.access.identities import ANONYMOUS
from rsocket_wire.wire.keys import SERVICE_NAME, parse_key
from rsocket_wire.wire.tags import Tag

DEFAULT: Final = "default"  # the role of whoever fits no other one
NAME: Final = "${name}"
MAX_FOUND: Final = 10_000  # principals whose role is remembered; at one more all are forgotten, and found again


class Offer:
    """Tags that a route may have."""

    def __init__(self, wanted: list[tuple[str, list[str]]]) -> None:
        """`wanted`: names as `parse_key` reads them, and the values that each may have. BrokerError."""
        self._wanted: Final = [(parse_key(name), patterns) for name, patterns in wanted]

    def obstacle(self, tags: list[Tag], name: str) -> str:
        """What keeps a route with these tags from being this offer, `region=mars`; empty: nothing."""
        for key, patterns in self._wanted:
            found = [tag.value or "" for tag in tags if tag.key == key]
            if not found:
                return f"it has no tag {key.short_name}"
            for value in found:
                if not fits_any(patterns, value, name):
                    return f"{key.short_name}={value}"
        return ""


class Role:
    """What connections of some identities may announce."""

    def __init__(self, name: str, who: list[str], offers: list[Offer]) -> None:
        self.name: Final = name
        self.who: Final = who
        self._offers: Final = offers

    def obstacle(self, tags: list[Tag], principal: str) -> str:
        """Why a route with these tags, those of its service and id among them, may not be announced; empty: it may."""
        name = name_of(principal)
        obstacles = [offer.obstacle(tags, name) for offer in self._offers]
        if "" in obstacles:
            return ""
        services = [tag.value or "" for tag in tags if tag.key == SERVICE_NAME]
        why = obstacles[0] if len(obstacles) == 1 else f"service={services[0]}" if services else "a route"
        return f"the role {self.name} does not allow to announce this route: {why}"


class Roles:
    """All roles, in their order."""

    def __init__(self, roles: list[Role]) -> None:
        self._roles: Final = [role for role in roles if role.name != DEFAULT]
        others = [role for role in roles if role.name == DEFAULT]
        self._default: Final[Role | None] = others[0] if others else None  # None: who fits no role has none
        self._found: Final[dict[str, Role | None]] = {}
        self.is_on: Final = len(roles) > 0

    def find(self, principal: str) -> Role | None:
        """The role of this principal, empty for an anonymous one; None: it has none."""
        if principal in self._found:
            return self._found[principal]
        if len(self._found) >= MAX_FOUND:
            self._found.clear()
        text = principal or ANONYMOUS
        found = self._default
        for role in self._roles:
            if fits_any(role.who, text, ""):
                found = role
                break
        self._found[principal] = found
        return found


def name_of(principal: str) -> str:
    """The name in an identity's text."""
    return principal.partition(":")[2]


def fits_any(patterns: list[str], value: str, name: str) -> bool:
    """One of the patterns fits the value; `name` stands for NAME, and a star in it for nothing but itself."""
    for pattern in patterns:
        is_open = pattern.endswith("*")
        text = pattern[:-1] if is_open else pattern
        if name and NAME in text:
            text = text.replace(NAME, name)
        if value == text or (is_open and value.startswith(text)):
            return True
    return False

"""What a role says of a route, as a sentence."""

from broker.access.roles import Role
from rsocket_wire.wire.tags import Tag


def refusal_of(role: Role, tags: list[Tag], principal: str, is_address: bool = False) -> str:
    """Why the identity may not announce, or address, a route with these tags; empty: it may."""
    return role.refusal(role.find_obstacle(tags, principal, is_address), is_address)

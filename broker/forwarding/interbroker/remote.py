"""Another broker of the cluster, as far as requests go there."""

from typing import Final

from broker.forwarding.peer import Peer
from broker.routing.table import Route


class Remote:
    """The owner of the routes that another broker has."""

    def __init__(self, id: bytes, name: str, via: Peer | None) -> None:
        self.id: Final = id  # 16 bytes
        self.name: Final = name
        self.via = via  # the link to the next hop on the way; None: there is no way now

    @property
    def is_behind(self) -> bool:
        """The next hop says that much waits on the way from there: callers that send more had better wait."""
        link = self.via.link if self.via is not None else None
        return link is not None and self.id in link.behind


def is_behind(route: Route) -> bool:
    """Callers that send more to a route of another broker had better wait: for the route, or for the way there."""
    owner = route.owner
    return route.load.is_behind or (isinstance(owner, Remote) and owner.is_behind)

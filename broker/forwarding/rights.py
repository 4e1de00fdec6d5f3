"""Rights of a client with another role than before: at which routes its open requests may go on (D-98).

Decides by what a route is now: its connection may have changed its tags, or have another route, since the request
began. A route that has left, and still ends what it has begun, is what it was. Does not know streams.
"""

from typing import Final

from broker.forwarding.peer import Peer
from broker.routing.reach import Reach
from broker.routing.table import Route, Table


class Rights:
    """What one client may reach from now on."""

    def __init__(self, table: Table, reach: Reach) -> None:
        self._table: Final = table
        self._reach: Final = reach
        self.text: Final = f"the role {reach.role.name} does not allow this request any more"  # for who has asked

    def allow(self, route: Route, server: Peer) -> bool:
        """Requests at this route may go on. `server`: the connection, or the link, that they were sent to."""
        if route.slot < 0:
            there = self._table.find(route.id) if server.link is not None else server.route
            if isinstance(there, Route) and there.slot >= 0:
                route = there
        if route.slot >= 0:
            return self._reach.slots().has(route.slot)
        return self._reach.role.may_address(route.tags, self._reach.name)

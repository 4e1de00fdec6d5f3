"""Who is told of the routes of this broker's own connections: the cluster, which tells the other brokers."""

from broker.routing.table import Route


class Herald:
    """A base, and no more: mypyc's classes have one. This one tells nobody."""

    def route_joined(self, route: Route, now: float) -> None:
        """A route of one of our connections is in the table, for the first time or with other tags."""

    def route_left(self, route: Route, now: float) -> None:
        """One is in the table no more."""

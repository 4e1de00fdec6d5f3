"""What each identity with a quota has of this broker: its connections, their routes, requests and open streams.

Counts only where a role has a quota, and as long as the identity has a connection. Streams are not counted one by one:
each connection knows its own, and they are added up no more often than the bound could be reached (`Usage`).
"""

from typing import Final

from broker.access.identities import ANONYMOUS
from broker.access.quotas import Quota
from broker.access.roles import Role
from broker.forwarding.peer import Peer
from broker.routing.table import Route

BURST_S: Final = 1.0  # of requests_per_s: so many seconds' worth may come at once


class Usage:
    """What one identity has."""

    def __init__(self, role_name: str, quota: Quota) -> None:
        self.role_name = role_name
        self.quota = quota
        self.peers: Final[dict[int, Peer]] = {}  # by id; bounded by the connections
        self._full_at = 0.0  # as `full_at` of a TokenBucket, seconds, monotonic
        self._in_flight_n = 0  # at most so many are: what was added up the last time, and all that have come since

    def forget_sum(self) -> None:
        """A connection has come: open streams are added up at the next request."""
        self._in_flight_n = self.quota.max_in_flight

    def refusal_of_request(self, now: float) -> str:
        """Counts one more request. Why it is one too many, and then it is not counted; empty: it is not."""
        per_s = self.quota.requests_per_s
        full_at = self._full_at
        if per_s:
            full_at = max(full_at, now) + 1.0 / per_s
            if full_at > now + BURST_S + 0.1 / per_s:  # a tenth is more than adding up can get wrong
                return f"more than {per_s} requests a second came, {self._option('requests_per_s')} is {per_s}"
        limit = self.quota.max_in_flight
        if limit:
            if self._in_flight_n >= limit:
                self._in_flight_n = sum([peer.begun for peer in self.peers.values()])
            if self._in_flight_n >= limit:
                text = f"{self._in_flight_n} requests of this identity are in flight"
                return f"{text}, {self._option('max_in_flight')} is {limit}"
            self._in_flight_n += 1
        self._full_at = full_at
        return ""

    def refusal_of_multicast(self, routes_n: int) -> str:
        """Why a multicast may not reach so many routes; empty: it may."""
        limit = self.quota.max_multicast_routes
        if not limit or routes_n <= limit:
            return ""
        return f"{routes_n} routes match, {self._option('max_multicast_routes')} is {limit}"

    def refusal_of_route(self, peer: Peer, replaced: object | None) -> str:
        """Why this connection may not have a route; empty: it may. `replaced`: a route that ends for it."""
        limit = self.quota.max_routes
        if not limit:
            return ""
        routes_n = 0
        for each in self.peers.values():
            route = each.route
            if each is not peer and route is not replaced and isinstance(route, Route) and route.slot >= 0:
                routes_n += 1
        if routes_n < limit:
            return ""
        return f"{routes_n} routes of this identity are there, {self._option('max_routes')} is {limit}"

    def _option(self, name: str) -> str:
        return f"role.{self.role_name}.{name}"


class Quotas:
    """Of all identities with connections to one broker."""

    def __init__(self) -> None:
        self.usages: Final[dict[str, Usage]] = {}  # by `Login.usage_key`; bounded by the connections

    def enter(self, peer: Peer, role: Role | None) -> None:
        """The connection has this role from now on. Who is anonymous shares with nobody."""
        key = ""
        if role is not None and role.quota.is_on:
            key = peer.principal or f"{ANONYMOUS} {peer.id}"
        if peer.login.usage_key != key:
            self.leave(peer)
        if role is None or not key:
            return
        usage = self.usages.get(key)
        if usage is None:
            usage = self.usages[key] = Usage(role.name, role.quota)
        usage.role_name = role.name
        usage.quota = role.quota
        usage.peers[peer.id] = peer
        usage.forget_sum()
        peer.login.usage_key = key

    def leave(self, peer: Peer) -> None:
        """The connection is no more, or has no quota any more."""
        usage = self.find(peer)
        if usage is None:
            return
        del usage.peers[peer.id]
        if not usage.peers:
            del self.usages[peer.login.usage_key]
        peer.login.usage_key = ""

    def find(self, peer: Peer) -> Usage | None:
        """What the identity of this connection has; None: it has no quota."""
        key = peer.login.usage_key
        return self.usages.get(key) if key else None

"""Drains: what somebody has taken out of service, and how its connections are sent away (D-42).

A route, a tag or the whole broker gets no new requests from the moment when it is drained, also when it comes back or
joins later; what runs may end. The connections that it concerns are told CONNECTION_CLOSE one after another, evenly
over `spread_s`, so that they do not all come back at once: each when its turn has come and nothing runs on it any more,
or `grace_s` after its turn at the latest.

        now            turn of one of them          at the latest
         |------ spread_s * i / n ------|------ grace_s ------|
         no new requests                idle: closed          closed, whatever runs

Decides whose turn it is. Masks, refusals and the closing itself are the core's.
"""

from typing import Final

from broker.forwarding.peers import Peer
from broker.routing.table import Route
from broker.wire.tags import Tag

MAX_DRAINS: Final = 1000  # routes and tags; more must be ended first, a thousand rules are nobody's plan

ROUTE: Final = "route"
TAG: Final = "tag"
BROKER: Final = "broker"


class Drain:
    """One thing that is drained."""

    __slots__ = ("at_ms", "closes", "grace_s", "kind", "left_n", "name", "spread_s", "tokens")

    def __init__(
        self,
        kind: str,
        name: str,
        tokens: list[bytes],
        grace_s: float,
        spread_s: float,
        closes: bool,
        at_ms: int,
    ) -> None:
        self.kind: Final = kind  # ROUTE, TAG or BROKER
        self.name: Final = name  # Route Id, `key=value`, or empty
        self.tokens: Final = tokens  # of the tag, or the Route Id; none of the broker
        self.grace_s: Final = grace_s
        self.spread_s: Final = spread_s
        self.closes: Final = closes  # its connections are closed; else they only get nothing new
        self.at_ms: Final = at_ms  # when it began
        self.left_n = 0  # connections that are still to be closed


class Leaving:
    """A connection that is to be closed."""

    __slots__ = ("drain", "last_at", "peer", "turn_at")

    def __init__(self, peer: Peer, drain: Drain, turn_at: float, last_at: float) -> None:
        self.peer: Final = peer
        self.drain: Final = drain
        self.turn_at: Final = turn_at  # seconds, monotonic: from here on it is closed when it is idle
        self.last_at: Final = last_at  # and here at the latest


class Drains:
    """All drains of one broker."""

    __slots__ = ("_by_name", "_leaving", "_tokens")

    def __init__(self) -> None:
        self._by_name: dict[str, Drain] = {}  # by kind and name; bounded by MAX_DRAINS
        self._tokens: dict[bytes, str] = {}  # of the tags and Route Ids that are drained: the key in `_by_name`
        self._leaving: dict[int, Leaving] = {}  # by peer id; bounded by the connections

    @property
    def is_full(self) -> bool:
        """No other drain can be begun."""
        return len(self._by_name) >= MAX_DRAINS

    def find(self, kind: str, name: str) -> Drain | None:
        """The drain of exactly this."""
        return self._by_name.get(f"{kind} {name}")

    def covers(self, route: Route) -> bool:
        """The route gets no new requests because of itself or one of its tags."""
        for token in route.tokens:
            if token in self._tokens:
                return True
        return route.id in self._tokens

    def begin(self, drain: Drain, peers: list[Peer], now: float) -> None:
        """`peers`: the connections that it concerns now.

        What is drained already is drained anew, with the new times.
        """
        key = f"{drain.kind} {drain.name}"
        self._forget(key)
        self._by_name[key] = drain
        for token in drain.tokens:
            self._tokens[token] = key
        if not drain.closes:
            return
        for number, peer in enumerate(peers):
            turn_at = now + drain.spread_s * number / len(peers)
            known = self._leaving.get(peer.id)
            if known is None or turn_at < known.turn_at:
                if known is not None:
                    known.drain.left_n -= 1
                self._leaving[peer.id] = Leaving(peer, drain, turn_at, turn_at + drain.grace_s)
                drain.left_n += 1

    def end(self, kind: str, name: str) -> Drain | None:
        """It is in service again; None when it was not drained. Connections whose turn has not come stay."""
        return self._forget(f"{kind} {name}")

    def take_leaving(self, now: float) -> list[Leaving]:
        """The connections that are to be closed now."""
        found: list[Leaving] = []
        for leaving in list(self._leaving.values()):
            peer = leaving.peer
            if peer.is_ending or peer.is_lost:
                self._drop(leaving)
            elif leaving.turn_at <= now and (not peer.streams or leaving.last_at <= now):
                self._drop(leaving)
                found.append(leaving)
        return found

    def all(self) -> list[Drain]:
        """What is drained, in the order in which it was."""
        return list(self._by_name.values())

    def is_idle(self) -> bool:
        """No connection is to be closed."""
        return not self._leaving

    def _drop(self, leaving: Leaving) -> None:
        del self._leaving[leaving.peer.id]
        leaving.drain.left_n -= 1

    def _forget(self, key: str) -> Drain | None:
        drain = self._by_name.pop(key, None)
        if drain is not None:
            self._tokens = {token: other for token, other in self._tokens.items() if other != key}
            for leaving in list(self._leaving.values()):
                if leaving.drain is drain:
                    self._drop(leaving)
        return drain


def tag_name(tag: Tag) -> str:
    """`region=eu`; a tag without a value is its key's name."""
    name = tag.key.short_name
    return name if tag.value is None else f"{name}={tag.value}"

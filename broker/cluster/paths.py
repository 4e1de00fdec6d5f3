"""Ways through the cluster: from who says to be whose neighbour to the link that a request for a broker takes (D-48).

    A says: B 10, C 10         A ──10── B          each broker computes from its own copy of the same words, and knows
    B says: A 10, C 10, D 10    \\      / \\         of each other one the next hop only:
    C says: A 10, B 10           10   10  10
    D says: B 10                  \\  /     \\       at A: D by B, 2 links, cost 20
                                   C       D

A link counts when both ends name each other, with the larger of both costs: what only one of them believes in is about
to come or already gone. Of several ways the cheapest is taken, then that of fewer links, then that whose next hop has
the smallest id. Each hop brings a request nearer, by the cost of the link, however ties are broken on the way: so it
never circles while all know the same.

Knows ids and costs, no connections. How many brokers there are is bounded by those who call `set_neighbours`.
"""

from heapq import heappop, heappush
from typing import Final

MIN_COST: Final = 1  # of a link: what costs nothing would not bring a request nearer
MAX_COST: Final = 65_535  # 16 bits in a BROKER_INFO


class Way:
    """How to reach one broker."""

    def __init__(self, next_hop: bytes, hops_n: int, cost: int) -> None:
        self.next_hop: Final = next_hop  # id of a neighbour of ours; of the broker itself when it is one
        self.hops_n: Final = hops_n  # links up to there, 1 or more
        self.cost: Final = cost  # of all of them together


class Paths:
    """What all brokers say of their neighbours, and what follows from it for one of them."""

    def __init__(self, own_id: bytes) -> None:
        self._own_id: Final = own_id
        self._said: dict[bytes, dict[bytes, int]] = {}  # broker -> its neighbours -> cost
        self._ways: dict[bytes, Way] | None = None  # None: something was said since they were computed

    def set_neighbours(self, broker_id: bytes, neighbours: dict[bytes, int]) -> None:
        """Sets all that a broker says now, itself included; costs beyond 1..65535 count as the nearest of these."""
        said = {id: min(max(cost, MIN_COST), MAX_COST) for id, cost in neighbours.items()}
        if self._said.get(broker_id) != said:
            self._said[broker_id] = said
            self._ways = None

    def forget(self, broker_id: bytes) -> None:
        """Forgets what that broker has said."""
        if self._said.pop(broker_id, None) is not None:
            self._ways = None

    def ways(self) -> dict[bytes, Way]:
        """The way to each other broker that can be reached; the same dict until something else is said."""
        ways = self._ways
        if ways is None:
            ways = self._ways = self._computed()
        return ways

    def _computed(self) -> dict[bytes, Way]:
        """Dijkstra's algorithm. Cost first, links next, next hop last: each is the same for the rest of the way."""
        own_id = self._own_id
        ways: dict[bytes, Way] = {}
        found: list[tuple[int, int, bytes, bytes]] = [(0, 0, b"", own_id)]  # cost, links, next hop, broker
        while found:
            cost, hops_n, next_hop, at = heappop(found)
            if at in ways or (hops_n and at == own_id):
                continue
            if hops_n:
                ways[at] = Way(next_hop, hops_n, cost)
            said = self._said.get(at)
            if said is None:
                continue
            for id, there in said.items():
                back = self._said.get(id)
                if id in ways or back is None or at not in back:
                    continue
                step = max(there, back[at])
                heappush(found, (cost + step, hops_n + 1, next_hop if hops_n else id, id))
        return ways

"""The head of a request's metadata: ADDRESS and route name, built once and kept as bytes.

    | entry: ADDRESS, deadline_ms among its hints | entry: route name |  … entries of this one call follow

A call that looks like an earlier one costs one look into a dict. Source: D-41 of our decisions. Knows no connections.
"""

import math
from typing import Final

from client_sdk.addresses import Address, check_address
from client_sdk.metadata import entry_bytes, route_bytes
from client_sdk.mistakes.kinds import kind_of, seconds_in
from rsocket_wire.wire.keys import MAX_DEADLINE_MS

MAX_HEADS: Final = 1024  # kept; beyond, all are forgotten and built again


class MetadataCache:
    """Builds and keeps the heads of one client's requests."""

    def __init__(self, mime_type: str, origin: bytes, says_deadlines: bool) -> None:
        """`origin`: the client's Route Id, 16 bytes. `says_deadlines`: brokers are told how long the caller waits."""
        self._mime_type: Final = mime_type
        self._origin: Final = origin
        self._says_deadlines: Final = says_deadlines
        self._kept: Final[dict[tuple[Address, str | None, float | None], bytes]] = {}  # bounded by MAX_HEADS

    def of(self, address: Address, route: str | None, timeout_s: float | None) -> bytes:
        """The head of a request that has so many seconds (None: it waits for ever).

        TypeError for an address that is none, ValueError for a route name that cannot be sent, or a time that is none.
        """
        try:
            head = self._kept.get((address, route, timeout_s))
        except TypeError:  # what has no hash is no address, no route and no time
            head = None
        return self._build(address, route, timeout_s) if head is None else head

    def of_rest(self, address: Address, route: str | None, left_s: float) -> bytes:
        """The head of a further try, for what is left of its time: rounded up, so that few different ones are built.

        Brokers, too, keep what they have understood of an ADDRESS by its bytes. At most an eighth more is said.
        """
        fraction, exponent = math.frexp(max(left_s, 0.001))
        return self.of(address, route, math.ldexp(math.ceil(fraction * 16), exponent - 4))

    def _build(self, address: Address, route: str | None, timeout_s: float | None) -> bytes:
        check_address(address)
        frame = address.frame_bytes(self._origin, self._deadline_ms(timeout_s))
        head = entry_bytes(self._mime_type, frame)
        if route is not None:
            head += route_bytes(route)
        if len(self._kept) >= MAX_HEADS:
            self._kept.clear()
        self._kept[address, route, timeout_s] = head
        return head

    def _deadline_ms(self, timeout_s: float | None) -> int | None:
        """Never less than the caller waits: who is first to give up is the caller. ValueError for what is no time."""
        check_time(timeout_s)
        if timeout_s is None or not self._says_deadlines or timeout_s * 1000 >= MAX_DEADLINE_MS:
            return None
        return max(1, math.ceil(timeout_s * 1000))


def check_time(timeout_s: float | None) -> None:
    """ValueError for what is no time, TypeError for what is no number."""
    if timeout_s is not None and not isinstance(timeout_s, int | float):
        wanted = f"a number of seconds, or None{seconds_in(timeout_s)}"
        raise TypeError(f"timeout_s is {kind_of(timeout_s)}, it must be {wanted}")
    if timeout_s is not None and not timeout_s > 0:
        raise ValueError(f"timeout_s is {timeout_s}, it must be a number of seconds above 0; math.inf: no deadline")

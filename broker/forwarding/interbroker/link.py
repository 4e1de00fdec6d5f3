"""A link: what forwarding knows of a connection to another broker that has proved who it is."""

from typing import Final


class Link:
    """Made when the proof is done; a connection without one is a client's."""

    def __init__(self, id: bytes, name: str, version: int) -> None:
        self.id: Final = id  # of the broker at the other end, 16 bytes
        self.name: Final = name  # as it stands in traces, see `wire.annotations`
        self.version: Final = version  # of the router annotations: the lower one of both ends; 0: it carries none
        # Ids of the brokers to which it has said that its way is behind, see `cluster.links.congestion`; bounded there.
        self.behind: set[bytes] = set()
        self.lag_us = -1  # of the latest hello, there and back; -1: none has come back yet

"""Another broker of the cluster, as far as requests go there."""

from typing import Final

from broker.forwarding.peers import Peer


class Remote:
    """The owner of the routes that another broker has."""

    __slots__ = ("id", "name", "via")

    def __init__(self, id: bytes, name: str, via: Peer | None) -> None:
        self.id: Final = id  # 16 bytes
        self.name: Final = name
        self.via = via  # the link to the next hop on the way; None: there is no way now

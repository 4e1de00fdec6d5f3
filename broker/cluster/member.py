"""The brokers of a cluster: who they are, and how far."""

from typing import Final

from broker.cluster.links.broker_info import DRAINING, Info
from broker.forwarding.interbroker.remote import Remote
from rsocket_wire.wire.ids import id_text


class Member:
    """One broker that was heard of, this one included."""

    def __init__(self, info: Info, raw: bytes, is_self: bool, is_mate: bool, now: float) -> None:
        self.id: Final = info.id
        self.id_text: Final = id_text(info.id)
        self.is_self: Final = is_self
        self.is_mate: Final = is_mate  # a worker whose routes count as this one's: D-64
        self.info = info  # the latest
        self.raw = raw  # and as it came
        self.remote = Remote(info.id, info.name, None)  # owner of its routes
        self.hops_n = 0 if is_self else -1  # links on the way; -1: there is none
        self.cost = 0 if is_self else -1
        self.next_hop = ""  # name; empty: itself, or none
        self.unreachable_at = now  # seconds, monotonic: since when there is no way

    @property
    def name(self) -> str:
        """In traces."""
        return self.info.name

    @property
    def timestamp_ms(self) -> int:
        """When it said so."""
        return self.info.timestamp_ms

    @property
    def is_reachable(self) -> bool:
        """There is a way."""
        return self.hops_n >= 0

    @property
    def is_draining(self) -> bool:
        """It is about to leave."""
        return self.info.state == DRAINING

"""What the parts of one broker's view of its cluster share: who it is, whom it knows, which connections are to end."""

from typing import Final

from broker.cluster.member import Member
from broker.cluster.settings import ClusterSettings
from broker.connections.ending import Ending
from broker.event_log.log import EventLog


class ClusterState:
    """Each part changes what it decides about, and looks at the rest."""

    def __init__(
        self, settings: ClusterSettings, broker_id: bytes, name: str, epoch_ms: int, event_log: EventLog
    ) -> None:
        self.settings: Final = settings
        self.id: Final = broker_id
        self.name: Final = name  # of this broker, in traces
        self.epoch_ms: Final = epoch_ms  # when this run of the broker began, milliseconds since the epoch
        self.event_log: Final = event_log
        self.members: Final[dict[bytes, Member]] = {}  # by id, this broker included; bounded by max_brokers
        # Connections that are to end, in this order; the core takes them before it does anything else.
        self.endings: Final[list[Ending]] = []

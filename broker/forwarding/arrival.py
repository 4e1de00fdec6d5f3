"""How a connection came, beyond what counts it, and how it logs in: what its SETUP says, and how long that holds."""

from typing import Final

from broker.routing.reach import Reach
from rsocket_wire.rsocket.metadata import ABSENT

# Who may come in at a listener.
FOR_ALL: Final = 0
FOR_CLIENTS: Final = 1
FOR_BROKERS: Final = 2


class Arrival:
    """Of one connection."""

    def __init__(self, certificate_names: list[str], entrance: int = FOR_ALL) -> None:
        """`certificate_names`: those in its verified certificate. `entrance`: who may come where it was accepted."""
        self.certificate_names: Final = certificate_names
        self.entrance: Final = entrance


class Login:
    """Of one connection."""

    def __init__(self) -> None:
        self.frame_at = ABSENT  # of the broker frame in the metadata of its SETUP, see `find_address`
        self.frame_to = 0  # where that ends
        self.is_asked = False  # its credentials are being judged: nothing that it has sent is looked at until then
        self.reach: Reach | None = None  # what it may address; None: everything
        self.judged_at = 0  # generation of the table by which `Peer.latest_metadata` was found to be all right; 0: none
        self.origin = b""  # of its latest ADDRESS with one that is all right
        self.origin_at = 0  # generation of the table by which that was found; 0: none, or each request is counted
        self.caller_entry = b""  # what services are told of it, see `callers`; empty until one wants to know
        self.usage_key = ""  # under which `Quotas` counts it; empty: it has no quota
        self.issued_at_ms = 0  # its credentials, since the epoch; such as do not say it: when it came
        self.is_renewing = False  # other credentials of it are being verified; it goes on meanwhile
        self.renewals_n = 0  # that it has sent since then
        self.renewals_from = 0.0  # seconds, monotonic; see `renewals.WINDOW_S`
        self.expires_at = 0.0  # when they do not hold any more, seconds, monotonic; 0.0: never


NOTHING_SPECIAL: Final = Arrival([])

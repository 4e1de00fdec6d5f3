"""How a connection came, beyond what counts it: the names in its certificate, and whom its listener is for."""

from typing import Final

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


NOTHING_SPECIAL: Final = Arrival([])

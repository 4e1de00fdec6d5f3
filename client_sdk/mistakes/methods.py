"""Methods of choosing that brokers of this version do not know; another broker may.

`Round-Robin` and `round_robin` are one, as for the broker.
"""

import logging
from typing import Final

from client_sdk.mistakes.likeness import near
from rsocket_wire.methods import CHOOSERS, CHOOSERS_ALIASES, SHARD_ALIASES, SHARD_METHODS, WRAPPERS, plain_name

MAX_LOOKED_AT: Final = 1_000  # names; at one more all are forgotten
# The names as they are written, and the plain names of others that are understood.
LB_NAMES: Final = ((*CHOOSERS, *WRAPPERS), CHOOSERS_ALIASES)
SHARD_NAMES: Final = (SHARD_METHODS, SHARD_ALIASES)
_log: Final = logging.getLogger("client_sdk")
looked_at: Final[set[tuple[str, str]]] = set()  # (argument, name) that nothing is said of any more


def look_at(argument: str, name: str) -> None:
    """Once for each name: a warning for one that is unknown."""
    known, also = LB_NAMES if argument == "lb" else SHARD_NAMES
    if len(looked_at) >= MAX_LOOKED_AT:
        looked_at.clear()
    looked_at.add((argument, name))
    plain = {*map(plain_name, known), *also}
    if not all(plain_name(part) in plain for part in name.split(":", 1)):
        text = near(name, known) or f"write {', '.join(known[:-1])} or {known[-1]}"
        _log.warning("%s=%r: a broker that knows no such method takes that of the service; %s", argument, name, text)

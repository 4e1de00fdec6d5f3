"""Methods of choosing that brokers of this version do not know; another broker may.

`Round-Robin` and `round_robin` are one, as for the broker.
"""

import logging
from typing import Final

from client_sdk.mistakes.likeness import near

MAX_LOOKED_AT: Final = 1_000  # names; at one more all are forgotten
LB_METHODS: Final = ("round_robin", "random", "weighted", "least_busy", "power_of_two", "peak_ewma")
LB_WRAPPERS: Final = ("zone_first", "sticky")  # of another one, which stands behind a colon
SHARD_METHODS: Final = ("rendezvous", "maglev", "ring", "jump", "modulo")
# As they are called elsewhere, and understood.
_ALSO: Final = frozenset(
    (
        "rr",
        "weightedrandom",
        "leastconnections",
        "leastloaded",
        "leastpending",
        "leastrequest",
        "leastrequests",
        "p2c",
        "poweroftwochoices",
        "ewma",
        "weightedstats",
        "zone",
        "zoneaware",
        "hrw",
        "highestrandomweight",
        "ketama",
        "ringhash",
        "consistenthash",
        "jumphash",
        "jumpconsistenthash",
        "mod",
    )
)
_log: Final = logging.getLogger("client_sdk")
looked_at: Final[set[tuple[str, str]]] = set()  # (argument, name) that nothing is said of any more


def look_at(argument: str, name: str) -> None:
    """Once for each name: a warning for one that is unknown."""
    known = SHARD_METHODS if argument == "method" else (*LB_METHODS, *LB_WRAPPERS)
    if len(looked_at) >= MAX_LOOKED_AT:
        looked_at.clear()
    looked_at.add((argument, name))
    plain = frozenset(map(_plain, known)) | _ALSO
    if not all(_plain(part) in plain for part in name.split(":", 1)):
        text = near(name, known) or f"write {', '.join(known[:-1])} or {known[-1]}"
        _log.warning("%s=%r: a broker that knows no such method takes that of the service; %s", argument, name, text)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")

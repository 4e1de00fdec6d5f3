"""Methods of choosing: the names that hints and policies may say, for both ends (D-35, D-36).

Upper case, `-`, `_` and blanks do not matter in a hint (`plain_name`), and who is used to Envoy, Finagle or Java may
say its names there.
"""

from typing import Final

CHOOSERS: Final = ("round_robin", "random", "weighted", "least_busy", "power_of_two", "peak_ewma")
WRAPPERS: Final = ("zone_first", "sticky")  # of another chooser, which stands behind a colon
SHARD_METHODS: Final = ("rendezvous", "maglev", "ring", "jump", "modulo")

# The plain name of another name that is plain, too.
CHOOSERS_ALIASES: Final = {
    "rr": "roundrobin",
    "weightedrandom": "weighted",
    "leastconnections": "leastbusy",
    "leastloaded": "leastbusy",
    "leastpending": "leastbusy",
    "leastrequest": "poweroftwo",  # Envoy's, which draws two
    "leastrequests": "poweroftwo",
    "p2c": "poweroftwo",
    "poweroftwochoices": "poweroftwo",
    "ewma": "peakewma",
    "weightedstats": "peakewma",  # Java's: two are drawn, and latencies compared
    "zone": "zonefirst",
    "zoneaware": "zonefirst",
}
SHARD_ALIASES: Final = {
    "hrw": "rendezvous",
    "highestrandomweight": "rendezvous",
    "ketama": "ring",
    "ringhash": "ring",
    "consistenthash": "ring",
    "jumphash": "jump",
    "jumpconsistenthash": "jump",
    "mod": "modulo",
}


def plain_name(method: str) -> str:
    """`Round-Robin`, `round_robin` and `roundrobin` are one method."""
    return method.lower().replace("-", "").replace("_", "").replace(" ", "")

"""What is said of a broker that ended without saying so: BrokerDied, an event that its writer tells in its place.

Without it a broker that was killed and gets another id at its next start would look as if it still ran. Only its own
writer tells it, at the end of its input: to another one a broker whose writer was killed looks the same.
"""

from typing import Final

import msgspec

from broker.events import BROKER_DIED, LifecycleEvent

MS_PER_S: Final = 1000

_DETAIL: Final = "the broker ended without BrokerStopped; records that the writer had not received are missing"


def died_frame(seq: int, at_s: float) -> bytes:
    """A frame of this one event. `seq`: one more than the highest number that came; `at_s`: when the input ended,
    seconds since the epoch."""
    return msgspec.msgpack.encode([LifecycleEvent(BROKER_DIED, seq, int(at_s * MS_PER_S), detail=_DETAIL).row()])

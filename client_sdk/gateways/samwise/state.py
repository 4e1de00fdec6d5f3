"""What a gateway has done since it began, and what waits: for the answer to `status`, the REST API and metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from client_sdk.gateways.samwise.backends.backend import DestinationState
from client_sdk.gateways.samwise.tables import Totals

MAX_NAMES: Final = 1_000  # destinations that are counted by name; later ones are counted together
SHOWN_N: Final = 20  # of these, in the answer to `status`
OTHERS: Final = "(others)"  # the name of these


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayState:
    """Counts are since the start of the process."""

    started_at_ms: int  # since the epoch
    accepted_n: int  # messages that were stored
    refused: Mapping[str, int]  # requests by the reason of `Refused`
    quirks: Mapping[str, int]  # accepted messages by what libsamwise does otherwise
    acknowledged: Mapping[str, int]  # deliveries by destination
    retried: Mapping[str, int]  # deliveries that were begun again, by destination
    failed: Mapping[str, int]  # deliveries that were not acknowledged, by destination
    delivered_n: int  # messages that all have acknowledged
    died_n: int  # messages that became dead letters
    events_dropped_n: int  # records for event files that are lost
    totals: Totals  # what is stored
    oldest_age_s: float | None  # of the message that waits longest; None: none waits
    under_way_n: int  # deliveries
    destinations: Sequence[DestinationState]


class Counters:
    """What is counted."""

    def __init__(self) -> None:
        self.accepted_n = 0
        self.delivered_n = 0
        self.died_n = 0
        self.refused: Final[dict[str, int]] = {}
        self.quirks: Final[dict[str, int]] = {}
        self.acknowledged: Final[dict[str, int]] = {}
        self.retried: Final[dict[str, int]] = {}
        self.failed: Final[dict[str, int]] = {}


def count(counts: dict[str, int], name: str) -> None:
    """One more of this name."""
    if name not in counts and len(counts) >= MAX_NAMES:
        name = OTHERS
    counts[name] = counts.get(name, 0) + 1


def status_text(state: GatewayState) -> str:
    """For people and `samctl status`: a line for each number and destination, and for those that acknowledged most."""
    totals = state.totals
    age = "" if state.oldest_age_s is None else f", the oldest for {state.oldest_age_s:.1f} s"
    lines = [
        f"accepted: {state.accepted_n}",
        *(f"refused ({reason}): {n}" for reason, n in sorted(state.refused.items())),
        *(f"accepted ({quirk}): {n}" for quirk, n in sorted(state.quirks.items())),
        f"delivered: {state.delivered_n}",
        f"waiting: {totals.waiting_n} messages, {totals.waiting_bytes} bytes{age}",
        f"under way: {state.under_way_n} deliveries",
        f"dead letters: {totals.dead_n} messages, {totals.dead_bytes} bytes",
    ]
    if state.events_dropped_n:
        lines.append(f"events dropped: {state.events_dropped_n}")
    for each in state.destinations:
        word = "up" if each.is_up else "down"
        lines.append(f"destination {each.name}: {word}, {each.detail}, {each.waiting_n} wait for it")
    acknowledged, retried, failed = state.acknowledged, state.retried, state.failed
    names = {*acknowledged, *retried, *failed}  # of RabbitMQ brokers; else of services and Route Ids
    most = sorted(names, key=lambda name: (-acknowledged.get(name, 0), name))[:SHOWN_N]
    for name in sorted(most):
        counts = (
            f"{acknowledged.get(name, 0)} acknowledged, {retried.get(name, 0)} retried, {failed.get(name, 0)} failed"
        )
        lines.append(f"deliveries to {name}: {counts}")
    return "\n".join(lines)

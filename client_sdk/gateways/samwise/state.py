"""What a gateway has done since it began, and what waits: for the answer to `status`, the REST API and metrics."""

from collections.abc import Sequence
from typing import Final, Protocol

from broker.log import one_line
from broker.views.samwise import DestinationView, GatewayView
from client_sdk.gateways.samwise.backends.backend import DestinationState

MAX_NAMES: Final = 1_000  # destinations that are counted by name; later ones are counted together
SHOWN_N: Final = 20  # of these, in the answer to `status`
OTHERS: Final = "(others)"  # the name of these


class Callers(Protocol):
    """Who has connected to the gateway: its endpoints."""

    @property
    def connected_n(self) -> int:
        """Open connections."""

    @property
    def refused_callers_n(self) -> int:
        """Connections that were one too many."""

    @property
    def waiting_n(self) -> int:
        """Requests that have no answer yet."""


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


def destination_views(counters: Counters, known: Sequence[DestinationState]) -> list[DestinationView]:
    """Destinations in their order, then those of which there are only counts, by name."""
    states = {each.name: each for each in known}
    counted = counters.acknowledged.keys() | counters.retried.keys() | counters.failed.keys()
    views = []
    for name in (*states, *sorted(counted - states.keys())):
        state = states.get(name)
        views.append(
            DestinationView(
                name=name,
                is_up=None if state is None else state.is_up,
                waiting=0 if state is None else state.waiting_n,
                detail="" if state is None else state.detail,
                acknowledged=counters.acknowledged.get(name, 0),
                retried=counters.retried.get(name, 0),
                failed=counters.failed.get(name, 0),
            )
        )
    return views


def status_text(state: GatewayView) -> str:
    """For people and `samctl status`: a line for each number and destination, and for those that acknowledged most."""
    age = "" if state.oldest_age_s is None else f", the oldest for {state.oldest_age_s:.1f} s"
    waiting = f"{state.requests_waiting} requests wait"
    lines = [
        f"callers: {state.callers} connected, {state.callers_refused} turned away, {waiting}",
        f"accepted: {state.accepted}",
        *(f"refused ({reason}): {n}" for reason, n in sorted(state.refused.items())),
        *(f"accepted ({quirk}): {n}" for quirk, n in sorted(state.quirks.items())),
        f"delivered: {state.delivered}",
        f"waiting: {state.waiting} messages, {state.waiting_bytes} bytes{age}",
        f"under way: {state.under_way} deliveries",
        f"dead letters: {state.dead} messages, {state.dead_bytes} bytes",
    ]
    if state.events_dropped:
        lines.append(f"events dropped: {state.events_dropped}")
    for each in state.destinations:
        if each.is_up is not None:
            word, detail = "up" if each.is_up else "down", one_line(each.detail).rstrip(".")
            lines.append(f"destination {each.name}: {word}, {detail}, {each.waiting} wait for it")
    # Of RabbitMQ brokers; else of services and Route Ids.
    counted = [each for each in state.destinations if each.acknowledged or each.retried or each.failed]
    most = sorted(counted, key=lambda each: (-each.acknowledged, each.name))[:SHOWN_N]
    for each in sorted(most, key=lambda each: each.name):
        counts = f"{each.acknowledged} acknowledged, {each.retried} retried, {each.failed} failed"
        lines.append(f"deliveries to {one_line(each.name)}: {counts}")  # callers name exchanges
    return "\n".join(lines)

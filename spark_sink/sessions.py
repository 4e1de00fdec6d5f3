"""Sessions of routes, from lifecycle events: when each came, how long it stayed, why it went.

The end of a session tells its uptime and requests itself, so a session whose beginning nobody recorded is whole too.
What has no end is still there, unless its broker stopped or came back with a later epoch: then it ended with that.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from broker.events import BROKER_STOPPED, ROUTE_JOINED, ROUTE_LEFT, ROUTE_REPLACED

LEFT: Final = "left"
REPLACED: Final = "replaced"
BROKER_ENDED: Final = "broker ended"
STILL_THERE: Final = "still there"

_ENDS: Final = {ROUTE_LEFT: LEFT, ROUTE_REPLACED: REPLACED}


class Session:
    """One stay of a route at a broker."""

    __slots__ = ("broker_id", "end", "joined_at", "reason", "requests", "route_id", "service", "uptime_ms")

    def __init__(
        self,
        broker_id: str,
        service: str,
        route_id: str,
        joined_at: datetime | None,
        uptime_ms: int,
        requests: int | None,
        end: str,
        reason: str,
    ) -> None:
        self.broker_id: Final = broker_id
        self.service: Final = service
        self.route_id: Final = route_id
        self.joined_at: Final = joined_at  # None: not recorded
        self.uptime_ms: Final = uptime_ms  # until its end, or until the last event that is known
        self.requests: Final = requests  # that it served; None: nobody told
        self.end: Final = end  # one of the constants above
        self.reason: Final = reason  # code word, or empty


def sessions_of(events: Iterable[Mapping[str, Any]]) -> list[Session]:
    """All sessions, in the order of broker, epoch and end; those without an end last of their epoch.

    `events`: rows of the lifecycle table, in any order."""
    ordered = sorted(events, key=lambda event: (event["broker_id"], event["epoch"], event["seq"], event["at"]))
    last_epochs = {event["broker_id"]: event["epoch"] for event in ordered}
    last_at = max((event["at"] for event in ordered), default=None)
    sessions = []
    for (broker_id, epoch), run in groupby(ordered, key=lambda event: (event["broker_id"], event["epoch"])):
        sessions += _sessions_of_run(list(run), None if epoch < last_epochs[broker_id] else last_at)
    return sessions


def _sessions_of_run(events: list[Mapping[str, Any]], until: datetime | None) -> list[Session]:
    """Sessions of one run of a broker; `until`: the moment of the last event if it may still run, else None."""
    open_since: dict[str, Mapping[str, Any]] = {}
    sessions = []
    for event in events:
        if event["kind"] == ROUTE_JOINED:
            open_since[event["route_id"]] = event
        elif event["kind"] in _ENDS:
            joined = open_since.pop(event["route_id"], None)
            joined_at = joined["at"] if joined is not None else None
            end = _ENDS[event["kind"]]
            sessions.append(_session(event, joined_at, event["uptime_ms"], event["requests"], end, event["reason"]))
    is_over = until is None or any(event["kind"] == BROKER_STOPPED for event in events)
    last_at = max(event["at"] for event in events) if is_over or until is None else until
    for joined in open_since.values():
        uptime_ms = int((last_at - joined["at"]).total_seconds() * 1000)
        sessions.append(_session(joined, joined["at"], uptime_ms, None, BROKER_ENDED if is_over else STILL_THERE, ""))
    return sessions


def _session(
    event: Mapping[str, Any], joined_at: datetime | None, uptime_ms: int, requests: int | None, end: str, reason: str
) -> Session:
    named = event["broker_id"], event["service"], event["route_id"]
    return Session(*named, joined_at, uptime_ms, requests, end, reason)

"""Intervals of flows: every so many seconds the counters of all flows become records of the event log.

Decides when, and how many at a time: the records of one interval are made a turn at a time, so that many flows do not
hold up the loop. An interval is longer while those of the one before are not all made, but never twice as long.
"""

from typing import Final

from broker.event_log.log import EventLog
from broker.forwarding.traffic.flows import FlowTable


class FlowIntervals:
    """The intervals of one broker."""

    def __init__(self, flows: FlowTable, event_log: EventLog, interval_s: float, now: float, at_ms: int) -> None:
        self._flows: Final = flows
        self._event_log: Final = event_log
        self._interval_s: Final = interval_s
        self._began_at = now
        self._ends_at = now + interval_s
        self._at_ms = at_ms  # of the interval that is over: its end, and how long it was
        self._length_ms = 0

    def tick(self, now: float) -> None:
        """Ends the interval when it is over, and the one before is written or late; writes more records."""
        if now >= self._ends_at and (not self._flows.over or now >= self._ends_at + self._interval_s):
            self._end(now)
        if self._flows.over:
            self.write(False)

    def write(self, all_of_them: bool) -> None:
        """Writes records of the interval that is over: all of them, or as many as a turn has time for."""
        records = self._flows.take_records(self._event_log.next_seq, self._at_ms, self._length_ms, all_of_them)
        self._event_log.add_flows(records)

    def finish(self, now: float) -> None:
        """Ends the interval and writes all its records."""
        self._end(now)
        self.write(True)

    def next_at(self) -> float:
        """When the interval ends at the earliest, seconds, monotonic."""
        return self._ends_at

    def _end(self, now: float) -> None:
        self.write(True)  # what is left of the one before
        self._at_ms = self._event_log.wall(now)
        self._length_ms = max(0, int((now - self._began_at) * 1000))  # the wall clock may have been put back
        self._flows.end_interval()
        self._began_at = now
        self._ends_at = now + self._interval_s

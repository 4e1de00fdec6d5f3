"""Intervals of flows: when their records are written, and with which times."""

from broker.core import CoreSettings
from broker.event_log.flow_intervals import FlowIntervals
from broker.events import FlowRecord
from broker.forwarding.traffic.flows import TAKEN_N
from rsocket_wire.rsocket.frames import REQUEST_FNF
from tests.fakes import START_MS, World, address


class Flows:
    """A caller that sends requests, and the intervals of its broker, which no tick of the core ends."""

    def __init__(self) -> None:
        self.world = World(CoreSettings(flow_interval_s=1000.0))
        self.world.service("orders", 1)
        self.caller = self.world.caller()
        self.log = self.world.core._event_log
        self.intervals = FlowIntervals(self.world.core.engine.flows, self.log, 2.0, 100.0, START_MS)
        self.sent_n = 0
        self.log.take()

    def send(self, service: str = "orders") -> None:
        self.caller.request(REQUEST_FNF, 2 * self.sent_n + 1, address(service=service))
        self.sent_n += 1

    def records(self) -> list[tuple[int, int, int]]:
        """End and length of the interval in ms since the start, and the requests, of each record."""
        records = [event for event in self.log.take() if isinstance(event, FlowRecord)]
        return [(each.at_ms - START_MS, each.interval_ms, each.requests) for each in records]


def test_an_interval_is_over_after_its_time_and_not_before() -> None:
    flows = Flows()
    flows.send()
    flows.intervals.tick(101.9)
    assert (flows.records(), flows.intervals.next_at()) == ([], 102.0)
    flows.intervals.tick(102.5)
    assert (flows.records(), flows.intervals.next_at()) == ([(2500, 2500, 1)], 104.5)


def test_an_interval_lasts_until_all_records_of_the_one_before_are_written() -> None:
    """65,536 flows at once would hold up all others for half a second."""
    flows = Flows()
    for number in range(TAKEN_N + 1):
        flows.send(f"nobody{number}")
    flows.intervals.tick(102.0)
    flows.intervals.tick(104.0)
    assert (flows.records(), flows.intervals.next_at()) == ([(2000, 2000, 1)] * (TAKEN_N + 1), 104.0)
    flows.send()
    flows.intervals.tick(104.2)
    assert (flows.records(), flows.intervals.next_at()) == ([(4200, 2200, 1)], 106.2)


def test_an_interval_never_lasts_twice_its_time() -> None:
    """Requests at flows whose records are still to be made are told as if they had ended before."""
    flows = Flows()
    for number in range(3 * TAKEN_N):
        flows.send(f"nobody{number}")
    flows.intervals.tick(102.0)
    flows.intervals.tick(106.0)
    assert (flows.records(), flows.intervals.next_at()) == ([(2000, 2000, 1)] * (3 * TAKEN_N), 108.0)


def test_the_end_of_the_broker_ends_the_interval() -> None:
    flows = Flows()
    flows.send()
    flows.send()
    flows.intervals.finish(100.5)
    assert flows.records() == [(500, 500, 2)]

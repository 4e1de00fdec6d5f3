"""The load of the process is told once a minute; its CPU and the lag of its loop are what the test says."""

from broker.events import BROKER_LOAD, LifecycleEvent
from broker.load_meter import LOAD_S, LoadMeter
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE
from tests.fakes import START_MS, World, address


class Measured:
    """A broker, and a meter that looks at it every half minute."""

    def __init__(self) -> None:
        self.world = World()
        self.cpu_s = 7.0  # of the process before the broker was made
        self.meter = LoadMeter(self.world.core, self.world.now, lambda: self.cpu_s)
        self.world.events()

    def live(self, seconds: float, cpu_s: float, lag_s: float) -> list[LifecycleEvent]:
        """Time passes, of which so much is CPU; the loads that are told behind it."""
        self.world.advance(seconds)
        self.cpu_s += cpu_s
        self.meter.look(lag_s, self.world.now)
        return [event for event in self.world.events() if event.kind == BROKER_LOAD]


def load_of(event: LifecycleEvent) -> dict[str, int]:
    return {name: int(text) for name, text in event.tags}


def test_after_a_minute_one_event_has_the_load_of_that_minute_and_what_is_there_now() -> None:
    measured = Measured()
    measured.world.service("orders", 1)
    caller = measured.world.caller()
    for stream_id in (1, 3, 5):
        caller.request(REQUEST_RESPONSE, stream_id, address(service="orders"))
    assert measured.live(LOAD_S / 2, 3.0, 0.25) == []
    (event,) = measured.live(LOAD_S / 2, 12.0, 0.0625)
    assert load_of(event) == {"cpu_permille": 250, "loop_lag_max_us": 250_000, "connections": 2, "in_flight": 3}
    assert (event.name, event.at_ms, event.seq) == ("BrokerLoad", START_MS + 60_000, 5)


def test_each_minute_is_measured_anew_also_where_more_than_one_core_was_busy() -> None:
    measured = Measured()
    (first,) = measured.live(LOAD_S, 60.0, 0.5)
    (second,) = measured.live(LOAD_S * 2, 300.0, 0.0)  # nobody looked for two minutes
    assert measured.live(LOAD_S / 2, 1.0, 0.125) == []
    (third,) = measured.live(LOAD_S / 2, 0.0, 0.0)
    loads = [list(load_of(event).values()) for event in (first, second, third)]
    assert loads == [[1000, 500_000, 0, 0], [2500, 0, 0, 0], [17, 125_000, 0, 0]]

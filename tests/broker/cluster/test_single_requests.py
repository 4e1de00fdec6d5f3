"""Single requests of a cluster: each is a row of the broker where its caller is, wherever it was answered."""

import random
from collections import Counter

import pytest

from broker.core import CoreSettings
from broker.events import OUTCOME_NAMES
from broker.routing.policies import Policy
from rsocket_wire.rsocket.frames import COMPLETE, NEXT
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import SHARD_KEY
from tests.broker.forwarding.pairs import MODELS
from tests.broker.forwarding.traffic.test_request_log import Taken, sums_of_flows, sums_of_requests
from tests.fakes import Wire, address, route_id
from tests.topology import LINKED_S, Net

STEPS = 1000
NEAR, FAR = range(1, 5), range(11, 15)  # routes of the first and of the second broker


def settings(name: str) -> CoreSettings:
    policy = Policy(max_in_flight_per_route=4)
    return CoreSettings(broker_name=name, single_requests=1, flow_interval_s=0.7, policy=policy)


class History:
    """Two brokers with routes of the same services; callers at some of them, who have asked for anything."""

    def __init__(self, seed: int, callers_at: tuple[int, ...]) -> None:
        self.rng = random.Random(seed)
        self.net = Net(["b1", "b2"], [("b1", "b2")], make=settings)
        self.net.advance(LINKED_S)
        self.worlds = [self.net.worlds[name] for name in self.net.names]
        self.taken = [Taken(world) for world in self.worlds]
        self.services = [
            world.service(("orders", "stock")[number % 2], number, region="eu")
            for world, numbers in zip(self.worlds, (NEAR, FAR), strict=True)
            for number in numbers
        ]
        self.callers = [self.worlds[place].caller() for place in callers_at]
        self.asked: Counter[int] = Counter()  # by the place of the caller in `callers`
        self.net.advance(1.0)
        for _ in range(STEPS):
            self.step()
        self.end()

    def step(self) -> None:
        rng = self.rng
        what = rng.random()
        if what < 0.4:
            self.ask(rng.randrange(len(self.callers)))
        elif what < 0.9:
            self.answer(rng.choice([*self.services, *self.callers, *self.callers]))
        elif what < 0.98:
            self.net.advance(rng.choice([0.05, 0.3]))
        else:
            for taken in self.taken:
                taken.take()
        self.net.pump()

    def ask(self, place: int) -> None:
        rng = self.rng
        tags: dict[str, str | None] = {"service": rng.choice(["orders", "stock", "stock", "mars"])}
        routing = rng.choice([UNICAST, UNICAST, SHARD, MULTICAST])
        hints = None
        if routing == SHARD:
            tags["user"] = str(rng.randrange(20))
            hints = [(SHARD_KEY, "user")]
        raw = address(routing, hints, b"", **tags)
        stream_id = 1 + 2 * self.asked[place]
        self.asked[place] += 1
        self.callers[place].request(rng.choice(MODELS), stream_id, raw, data=bytes(rng.randrange(40)), n=8)

    def answer(self, wire: Wire) -> None:
        ids = list(wire.peer.streams)
        if not ids or wire.is_lost:
            return
        stream_id, how = self.rng.choice(ids), self.rng.random()
        if wire in self.callers:
            if how < 0.5:
                wire.cancel(stream_id)
        elif how < 0.7:
            wire.answer(stream_id, b"answer" * self.rng.randrange(3), self.rng.choice([NEXT, NEXT | COMPLETE]))
        elif how < 0.85:
            wire.fail(stream_id, 0x201, "no")
        else:
            wire.cancel(stream_id)

    def end(self) -> None:
        """All that still runs ends with its callers."""
        for caller in self.callers:
            caller.lose()
        self.net.advance(2.0)
        for taken in self.taken:
            taken.take()


@pytest.mark.parametrize("seed", range(4))
def test_relayed_requests_have_their_rows_where_their_callers_are_and_equal_the_flow_records(seed: int) -> None:
    history = History(seed, callers_at=(0,))
    here, there = history.taken
    assert sums_of_requests(here.requests) == sums_of_flows(here.flows)
    assert len(here.requests) == history.asked.total()
    assert (there.requests, there.flows) == ([], [])  # that broker relayed them
    far = {id_text(route_id(number)) for number in FAR}
    relayed = [row for row in here.requests if row["route_id"] in far]
    assert {OUTCOME_NAMES[row["outcome"]] for row in relayed} >= {"completed", "error", "cancelled"}
    assert {row["routing"] for row in relayed} >= {"unicast", "shard"}
    assert all(row["choice"] > 0 for row in relayed)
    multicast = [row["branches"] for row in here.requests if row["routing"] == "multicast" and row["choice"]]
    assert max(multicast) == 4  # two routes of the service at each broker


@pytest.mark.parametrize("seed", range(4))
def test_brokers_that_relay_for_each_other_tell_every_request_once(seed: int) -> None:
    history = History(seed, callers_at=(0, 1, 1))
    for place, taken in enumerate(history.taken):
        assert sums_of_requests(taken.requests) == sums_of_flows(taken.flows)
        here = [caller for caller, at in enumerate((0, 1, 1)) if at == place]
        assert len(taken.requests) == sum(history.asked[caller] for caller in here)
        numbers = [row["seq"] for row in taken.requests]
        numbers += [event.seq for event in taken.events] + [record.seq for record in taken.flows]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))

"""Workers of one machine are one broker to those who ask: whose a route is makes no difference between them (D-64)."""

from itertools import combinations

import pytest

from broker.core import CoreSettings
from broker.routing.policies import Policy
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE
from tests.fakes import Wire, address
from tests.invariants import check_masks
from tests.topology import LINKED_S, Net, linked

HERE, THERE = ("a.1", "a.2", "a.3"), ("b.1", "b.2")


def machines(locality: str = "local", lb_method: str = "round_robin") -> Net:
    """Two machines with workers, each linked to each."""
    names = [*HERE, *THERE]

    def make(name: str) -> CoreSettings:
        return CoreSettings(broker_name=name, locality=locality, policy=Policy(lb_method))

    return linked(Net(names, list(combinations(names, 2)), make=make, machines=[HERE, THERE]))


def offered(net: Net, *names: str) -> list[Wire]:
    """A service at each of these workers, one after the other."""
    wires = [net.worlds[name].service("orders", number) for number, name in enumerate(names, 1)]
    net.pump()
    for world in net.worlds.values():
        check_masks(world.core)
    return wires


def shares(net: Net, name: str, wires: list[Wire], requests_n: int) -> list[int]:
    """How many requests of a caller at that worker come to each; all are answered."""
    caller = net.worlds[name].caller()
    found = [0] * len(wires)
    for number in range(requests_n):
        caller.request(REQUEST_RESPONSE, 2 * number + 1, address(service="orders"))
        net.pump()
        for at, wire in enumerate(wires):
            for frame in wire.received():
                found[at] += 1
                wire.answer(frame.stream_id, b"")
        net.pump()
    assert len(caller.received()) == requests_n
    return found


@pytest.mark.parametrize(("lb_method", "least_n"), [("round_robin", 30), ("least_busy", 15), ("weighted", 15)])
def test_a_newcomer_gets_its_share_whichever_worker_it_came_to(lb_method: str, least_n: int) -> None:
    net = machines(lb_method=lb_method)
    wires = offered(net, "a.1", "a.1", "a.2")
    for name in HERE:
        assert min(shares(net, name, wires, 90)) >= least_n


def test_routes_of_another_machine_answer_when_none_of_this_one_may() -> None:
    net = machines()
    wires = offered(net, "a.1", "a.2", "b.1", "b.2")
    assert shares(net, "a.1", wires, 20) == [10, 10, 0, 0]
    assert shares(net, "b.2", wires, 20) == [0, 0, 10, 10]
    wires[0].lose()
    net.pump()
    assert shares(net, "a.1", wires[1:], 20) == [20, 0, 0]
    wires[1].lose()
    net.pump()
    assert shares(net, "a.1", wires[2:], 20) == [10, 10]


def test_between_machines_it_is_as_configured() -> None:
    net = machines(locality="even")
    wires = offered(net, "a.1", "a.2", "b.1", "b.2")
    assert shares(net, "a.1", wires, 40) == [10, 10, 10, 10]


def test_a_worker_that_begins_anew_is_one_of_them() -> None:
    net = machines()
    wires = offered(net, "a.1")
    net.kill("a.2")
    net.start("a.2")
    net.advance(2 * LINKED_S)
    wires.append(net.worlds["a.2"].service("orders", 2))
    net.pump()
    assert shares(net, "a.1", wires, 20) == [10, 10]

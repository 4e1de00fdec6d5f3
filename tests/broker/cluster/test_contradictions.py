"""Brokers that seem to be somebody else: one id twice, or a clock that was put back."""

from typing import cast

from broker.cluster.contradictions import CONTRADICTION_S, Contradictions
from broker.events import BROKER_JOINED, LifecycleEvent
from tests.topology import LINKED_S, Net, line, linked, route_text


def said(net: Net, name: str) -> list[tuple[str, str]]:
    """Reason and detail of what a broker says of brokers that it met by the way."""
    events = cast("list[LifecycleEvent]", net.worlds[name].core.take_events())
    return [(event.reason, event.detail) for event in events if event.kind == BROKER_JOINED and event.reason]


def carried(net: Net) -> int:
    return sum(len(end.seen) for end in net.ends)


def test_a_broker_that_begins_anew_with_its_clock_put_back_is_complete_within_two_seconds() -> None:
    """What it says is older than what the others remember of it; D-47."""
    net = linked(line(3))
    net.worlds["b3"].service("orders", 1)
    net.kill("b1")
    net.advance(1.0)
    net.start("b1", skew_s=-5.0).service("late", 2)
    net.advance(2.0)
    assert net.tables() == {name: {route_text(1): "b3", route_text(2): "b1"} for name in net.names}


def test_two_brokers_with_one_id_do_not_outdo_each_other_for_ever() -> None:
    """A configuration was copied. Each is told, and says so; everybody else goes on."""
    net = Net(
        ["b1", "b2", "b3", "b4"],
        [("b1", "b2"), ("b3", "b2"), ("b4", "b3")],
        numbers={"b1": 1, "b2": 2, "b3": 3, "b4": 1},
    )
    net.kill("b4")
    net.advance(LINKED_S)
    net.worlds["b1"].service("orders", 1)
    net.worlds["b2"].service("others", 2)
    net.start("b4").service("more", 3)
    net.advance(LINKED_S)
    before = carried(net)
    net.advance(2 * CONTRADICTION_S)
    assert carried(net) - before < 500  # hello and digests alone are 300
    id = net.worlds["b1"].core.id_text
    text = "it started later and has this broker's id; ids must be unique, or the clock was set back"
    assert set(said(net, "b1")) == {("bad-broker", f"b4 ({id}): {text}")}
    assert said(net, "b2") == []
    tables = net.tables()
    assert tables["b2"][route_text(2)] == tables["b3"][route_text(2)] == "b2"


def test_a_word_in_our_name_is_answered_once_in_a_while() -> None:
    answers = Contradictions()
    assert [answers.may(key, 100.0) for key in (b"a", b"b", b"a")] == [True, True, False]
    assert not answers.may(b"a", 100.0 + CONTRADICTION_S - 0.01)
    assert answers.may(b"a", 100.0 + CONTRADICTION_S)

"""Roles across brokers: a broker that decides once more is told the role of the caller, and decides for that (D-98)."""

from __future__ import annotations

import pytest

from broker.access.roles import Offer, Role
from broker.core import CoreSettings
from broker.forwarding.interbroker.annotations import RouterAnnotations
from rsocket_wire.errors import CANCELED, REJECTED, InvalidFrame
from rsocket_wire.rsocket.frames import (
    METADATA_PUSH,
    NEXT,
    PAYLOAD,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
)
from rsocket_wire.wire.annotations import Annotations
from rsocket_wire.wire.frames import MULTICAST
from tests.fakes import Wire, address, addressed, announcement, cancelled, error, route_id, setup
from tests.topology import Net, in_a_line, linked, route_text

ANY = Offer([("service", ["*"])])
TENANT = "a b/c%,é"
SERVICES = Role("services", ["certificate:service"], [ANY])
PROD = Role("all prod", ["certificate:prod"], [], [Offer([("service", ["stock"]), ("environment", ["prod"])])])
TENANTS = Role("tenants", ["certificate:*"], [], [Offer([("service", ["stock"]), ("tenant", ["${name}"])])])
STOCK = address(MULTICAST, service="stock")


def net_of(**others: tuple[Role, ...]) -> Net:
    """b1 ─ b2 ─ b3, all with the same roles but for those of `others`; routes 2 and 20 at b2, 3 and 30 at b3."""

    def make(name: str) -> CoreSettings:
        roles = others.get(name, (SERVICES, PROD, TENANTS))
        return CoreSettings(broker_name=name, auth_mode="required", auth_accept=("certificate",), roles=roles)

    return linked(Net(*in_a_line(3), make=make))


def services(net: Net) -> dict[int, Wire]:
    found: dict[int, Wire] = {}
    for number, name, place in ((2, "b2", "prod"), (20, "b2", "test"), (3, "b3", "test"), (30, "b3", "prod")):
        tags = {"environment": place, "tenant": TENANT if number == 3 else "other"}
        found[number] = net.worlds[name].connect(origin=("", "certificate:service"))
        found[number].send(setup(announcement(number, "stock", **tags)))
    net.advance(0.5)
    return found


def caller(net: Net, name: str) -> Wire:
    return net.worlds["b1"].caller(origin=("", f"certificate:{name}"))


def reached(found: dict[int, Wire]) -> list[int]:
    return [number for number, wire in found.items() if wire.received()]


@pytest.mark.parametrize("kind", [REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM, METADATA_PUSH])
@pytest.mark.parametrize(("name", "expected"), [("prod", [2, 30]), (TENANT, [3]), ("nobody", [])])
def test_copies_reach_what_the_role_allows_at_each_broker(kind: int, name: str, expected: list[int]) -> None:
    net = net_of()
    found = services(net)
    asker = caller(net, name)
    for turn in range(2):
        if kind == METADATA_PUSH:
            asker.push(addressed(STOCK))
        else:
            asker.request(kind, 2 * turn + 1, STOCK)
        net.pump()
        assert reached(found) == expected
    says_no = kind in (REQUEST_RESPONSE, REQUEST_STREAM) and not expected
    assert [frame.text.partition(":")[0] for frame in asker.received()] == ["denied"] * 2 * says_no


@pytest.mark.parametrize("kind", [REQUEST_FNF, METADATA_PUSH])
def test_what_is_decided_once_more_is_decided_for_the_role(kind: int) -> None:
    """The route has left when the request arrives: it goes to another one that the caller may reach, or to none."""
    net = net_of()
    found = services(net)
    asker = caller(net, "prod")
    raw = address(service="stock")
    for left, expected in ((2, [30]), (30, [])):
        net.holds = lambda a, b, frame: b == "b1" or (a, b) == ("b3", "b2")  # nobody else hears of it
        found[left].lose()
        found.pop(left)
        for turn in range(4):
            if kind == METADATA_PUSH:
                asker.push(addressed(raw))
            else:
                asker.request(kind, 2 * turn + 1 + 100 * left, raw)
            net.pump()
        assert reached(found) == expected
        net.release()
        net.advance(0.5)


def prod(*more: tuple[str, list[str]]) -> Role:
    return Role(
        "all prod", ["certificate:prod"], [], [Offer([("service", ["stock"]), ("environment", ["prod"]), *more])]
    )


@pytest.mark.parametrize("kind", [REQUEST_RESPONSE, REQUEST_STREAM, REQUEST_CHANNEL])
@pytest.mark.parametrize(
    ("role", "stays", "says"),
    [
        (prod(("tenant", ["other"])), [1, 2, 30], []),
        (prod(("route_id", [route_text(1), route_text(2)])), [1], []),  # those behind one link end together
        (prod(("tenant", ["nobody"])), [], ["denied: the role all prod does not allow this request any more"]),
    ],
)
def test_copies_at_other_brokers_end_when_the_role_does_not_allow_them_any_more(
    kind: int, role: Role, stays: list[int], says: list[str]
) -> None:
    net = net_of()
    found = services(net)
    found[1] = net.worlds["b1"].connect(origin=("", "certificate:service"))
    found[1].send(setup(announcement(1, "stock", environment="prod", tenant="other")))
    net.advance(0.5)
    asker = caller(net, "prod")
    asker.request(kind, 1, STOCK)
    net.pump()
    got = {number: wire.received()[0].stream_id for number, wire in found.items() if wire.frames}
    assert sorted(got) == [1, 2, 30]
    for world in net.worlds.values():
        world.core.set_roles([SERVICES, role, TENANTS], net.now)
    net.pump()
    assert asker.received() == [error(1, CANCELED, text) for text in says]
    for number, stream_id in got.items():
        assert found[number].received() == [cancelled(stream_id)] * (number not in stays)
    if stays:
        found[stays[-1]].answer(got[stays[-1]], b"yes", NEXT)
        net.pump()
        assert [frame.data for frame in asker.received() if frame.kind == PAYLOAD] == [b"yes"]


def test_a_role_that_another_broker_has_not_is_denied_there() -> None:
    net = net_of(b2=(SERVICES,))
    found = services(net)
    asker = caller(net, "prod")
    asker.request(REQUEST_STREAM, 1, STOCK)
    net.pump()
    assert reached(found) == []
    assert asker.one() == error(1, REJECTED, "denied: the broker b2 has no role all prod, which the caller has")
    asker.request(REQUEST_RESPONSE, 3, address(service="stock", environment="prod"))  # b1 has decided, and was right
    net.pump()
    assert len(reached(found)) == 1


def test_each_broker_decides_by_what_a_role_is_there() -> None:
    other = Role("all prod", ["certificate:prod"], [], [Offer([("service", ["stock"]), ("environment", ["test"])])])
    net = net_of(b3=(SERVICES, other, TENANTS))
    found = services(net)
    asker = caller(net, "prod")
    asker.request(REQUEST_STREAM, 1, STOCK)
    net.pump()
    assert reached(found) == [2, 3]


def test_operators_are_told_when_neighbours_have_other_roles_and_not_where_they_are_the_same() -> None:
    net = net_of(b2=(SERVICES, TENANTS, PROD))  # in another order
    net.advance(20.0)
    told = {
        name: [event.detail for event in world.events() if event.name == "DigestMismatch" and event.reason == "roles"]
        for name, world in net.worlds.items()
    }
    text = "the roles of both brokers differ"
    assert told == {"b1": [f"b2: {text}"], "b2": [f"b1: {text}", f"b3: {text}"], "b3": [f"b2: {text}"]}
    for world in net.worlds.values():
        world.core.set_roles([SERVICES, PROD, TENANTS], net.now)
    net.advance(20.0)
    neighbours = [each for world in net.worlds.values() for each in world.core.cluster.handshakes.neighbours.values()]
    assert [each.has_other_roles for each in neighbours] == [False] * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("role:orders", ("role:orders", "orders", "", "", [])),
        ("role:all%20prod/a%2Fb broker:b2,b3", ("role:all%20prod/a%2Fb", "all prod", "a/b", "", ["b2", "b3"])),
        ("role:%C3%A9 service:a b broker:b2", ("role:%C3%A9", "é", "", "a b", ["b2"])),
        ("role:a service:b", ("role:a", "a", "", "b", [])),
        ("role:%", None),
        ("role:%4", None),
        ("role:%zz", None),
        ("role:%FF", None),
        ("role:a b", None),
        ("service:b role:a", ("", "", "", "b role:a", [])),
    ],
)
def test_what_to_override_says_of_a_role(text: str, expected: tuple[str, str, str, str, list[str]] | None) -> None:
    annotations = RouterAnnotations("b9", 0)
    raw = Annotations(0, text, "b1", ["b1"]).encode()
    if expected is None:
        with pytest.raises(InvalidFrame, match="to-override"):
            annotations.read(raw)
        return
    section = annotations.read(raw)
    assert (section.role_part, section.role, section.identity, section.service, section.brokers) == expected


def test_the_route_of_a_route_id_is_found_behind_a_role() -> None:
    text = f"role:orders route:{'0' * 8}-0000-0000-0000-{'0' * 11}7"
    assert RouterAnnotations("b9", 0).read(Annotations(0, text, "b1", ["b1"]).encode()).route_id == route_id(7)

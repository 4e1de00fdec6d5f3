"""D-102 between brokers: the broker of the caller says who it is, and nobody but a broker is believed."""

import pytest

from broker.access.roles import Role
from broker.core import CoreSettings
from broker.routing.policies import Policy
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, METADATA_PUSH, NEXT, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST
from tests.broker.forwarding.brokers import (
    DATA_MIME,
    Broker,
    Middle,
    annotated,
    caller_mimes,
    ingress,
    last,
    section,
    to_route,
)
from tests.broker.forwarding.interbroker.test_roles import ANY, SERVICES
from tests.broker.forwarding.pairs import MODELS
from tests.broker.forwarding.test_callers import (
    ADA,
    FORGED,
    HONEST,
    MIME,
    MORE,
    ORDERS,
    TOLD_ADA,
    ask,
    claiming,
    metadata_of,
    told,
)
from tests.fakes import Wire, address, addressed, announcement, composite, setup
from tests.topology import Net, in_a_line, linked

TELLS = {"orders": Policy(identity=True)}
TO = to_route(7)


def net_of(*silent: str, **settings: object) -> Net:
    """b1 ─ b2 ─ b3; `silent`: brokers whose configuration does not say that `orders` is told."""

    def make(name: str) -> CoreSettings:
        return CoreSettings(broker_name=name, policies={} if name in silent else TELLS, **settings)  # type: ignore[arg-type] # as a test says

    return linked(Net(*in_a_line(3), make=make))


def far(net: Net) -> Wire:
    """A service at b3, told to all."""
    service = net.worlds["b3"].service("orders", 7)
    net.advance(0.5)
    service.received()
    return service


@pytest.mark.parametrize("kind", [*MODELS, METADATA_PUSH])
@pytest.mark.parametrize("flags", [0, MULTICAST])
def test_who_calls_is_told_over_two_hops(kind: int, flags: int) -> None:
    net = net_of()
    service = far(net)
    raw = address(flags, service="orders") if flags else ORDERS
    ada, nobody = net.worlds["b1"].caller(origin=("", ADA)), net.worlds["b1"].caller()
    for stream_id in (1, 3):
        ask(ada, kind, stream_id, claiming(raw))
        ask(nobody, kind, stream_id, claiming(raw))
        net.pump()
    honest = addressed(raw, MORE)
    assert metadata_of(service) == [TOLD_ADA + honest, told() + honest] * 2


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("mime", "data_mime"), [(COMPOSITE_MIME, "a/b"), (MIME_TYPE, "text/plain")])
def test_callers_of_other_mime_types_are_told_too(kind: int, mime: str, data_mime: str) -> None:
    net = net_of()
    service = far(net)
    ada = net.worlds["b1"].caller(True, mime, data_mime, origin=("", ADA))
    ask(ada, kind, 1, ORDERS if mime == MIME_TYPE else HONEST)
    net.pump()
    (got,) = metadata_of(service)
    assert got is not None
    assert got.startswith(TOLD_ADA + (addressed(ORDERS) if mime == MIME_TYPE else HONEST))
    assert got.count(MIME.encode()) == 1


def test_where_the_broker_of_the_caller_says_nothing_it_is_unknown() -> None:
    """Its configuration does not say that the service wants it: no entry would look like a service that is not told."""
    net = net_of("b1")
    service = far(net)
    for kind, stream_id in ((REQUEST_RESPONSE, 1), (REQUEST_FNF, 3), (METADATA_PUSH, 0)):
        ask(net.worlds["b1"].caller(origin=("", ADA)), kind, stream_id, claiming())
        net.pump()
    assert metadata_of(service) == [told("unknown") + HONEST] * 3


def test_where_the_broker_of_the_service_does_not_tell_it_gets_what_the_client_sent() -> None:
    net = net_of("b3")
    service = far(net)
    for stream_id in (1, 3):
        ask(net.worlds["b1"].caller(origin=("", ADA)), REQUEST_STREAM, stream_id, claiming())
        net.pump()
    assert metadata_of(service) == [HONEST] * 2


@pytest.mark.parametrize("kind", [REQUEST_RESPONSE, REQUEST_STREAM])
def test_a_request_in_fragments_is_told_once(kind: int) -> None:
    net = net_of()
    service = far(net)
    ada = net.worlds["b1"].caller(origin=("", ADA))
    ada.send(frames.encode_request(kind, 1, b"", claiming()[:70], 8, FOLLOWS))
    ada.send(frames.encode_payload(1, NEXT | FOLLOWS, b"da", claiming()[70:]), frames.encode_payload(1, NEXT, b"ta"))
    net.pump()
    got = service.received()
    assert b"".join(frame.metadata or b"" for frame in got) == TOLD_ADA + HONEST
    assert b"".join(frame.data for frame in got) == b"data"


def test_alternating_callers_are_told_apart_on_one_link() -> None:
    """What is remembered of the latest request of a link is not taken for the next one's."""
    broker, service, link = last(CoreSettings(policies=TELLS))
    for stream_id, entry in ((1, TOLD_ADA), (3, told()), (5, TOLD_ADA), (7, b""), (9, TOLD_ADA)):
        metadata = annotated(section(TO, "b1"), caller_mimes(COMPOSITE_MIME, "text/plain")) + entry + HONEST
        link.send(frames.encode_request(REQUEST_RESPONSE, stream_id, b"", metadata))
        assert metadata_of(service) == [(entry or told("unknown")) + HONEST], stream_id
    assert broker.refusals() == {}


def test_a_route_that_is_not_told_gets_no_entry_over_a_link_however_often_it_is_asked() -> None:
    _, service, link = last()
    for stream_id in (1, 3, 5):
        metadata = annotated(section(TO, "b1"), caller_mimes(COMPOSITE_MIME, "text/plain")) + TOLD_ADA + HONEST
        link.send(frames.encode_request(REQUEST_RESPONSE, stream_id, b"", metadata))
        assert metadata_of(service) == [HONEST]


def test_a_broker_in_between_passes_it_on_as_it_came() -> None:
    middle = Middle(CoreSettings(policies=TELLS))
    middle.ask(section(TO, "b1"), rest=TOLD_ADA + HONEST)
    (got,) = metadata_of(middle.behind)
    assert got is not None
    assert got.endswith(TOLD_ADA + HONEST)
    assert got.count(MIME.encode()) == 1


@pytest.mark.parametrize("sent", [40, 55])
def test_an_entry_cut_on_a_link_is_waited_for(sent: int) -> None:
    broker, service, link = last(CoreSettings(policies=TELLS))
    head = annotated(section(TO, "b1"), caller_mimes(COMPOSITE_MIME, "text/plain"))
    whole = head + TOLD_ADA + HONEST
    link.send(frames.encode_request(REQUEST_RESPONSE, 1, b"", whole[: len(head) + sent], 0, FOLLOWS))
    link.send(frames.encode_payload(1, NEXT, b"data", whole[len(head) + sent :]))
    assert metadata_of(service) == [TOLD_ADA + HONEST]
    assert broker.refusals() == {}


@pytest.mark.parametrize("policies", [TELLS, {}], ids=["told", "not told"])
def test_a_client_that_may_write_annotations_is_told_of_as_any_other(policies: dict[str, Policy]) -> None:
    """`annotations.from_clients = "accept"`: it may say where its request goes, and not who it is."""
    settings = CoreSettings(policies=policies, annotations_from_clients="accept")
    broker, service, _ = last(settings)
    ada = broker.caller(origin=("", ADA))
    behind = [composite((MIME, FORGED)), composite(caller_mimes(COMPOSITE_MIME, "text/plain"), (MIME, FORGED)), b""]
    expected = (TOLD_ADA if policies else b"") + HONEST
    for stream_id, said in zip((1, 3, 5), behind, strict=True):
        ask(ada, REQUEST_RESPONSE, stream_id, annotated(section(TO, "b9")) + said + HONEST)
        assert [metadata and metadata[: len(expected)] for metadata in metadata_of(service)] == [expected], stream_id
    broker, link = ingress(settings)
    ask(broker.caller(origin=("", ADA)), REQUEST_RESPONSE, 1, annotated(section(TO, "b9")) + claiming())
    (got,) = metadata_of(link)
    assert got is not None
    assert got.endswith(expected)
    assert got.count(MIME.encode()) == (1 if policies else 0)


@pytest.mark.parametrize("policies", [TELLS, {}], ids=["told", "not told"])
def test_a_link_without_annotations_is_not_believed(policies: dict[str, Policy]) -> None:
    """A broker that writes none does not take out what its clients say."""
    broker = Broker("b2", CoreSettings(policies=policies, require_annotations=False))
    service, link = broker.service("orders", 7), broker.link("b1", version=0)
    ask(link, REQUEST_RESPONSE, 1, claiming())
    ask(link, METADATA_PUSH, 0, claiming())
    request, push = metadata_of(service)
    expected = (told("unknown") if policies else b"") + HONEST
    assert request is not None
    assert request.startswith(expected)  # and the mime type of the data behind it
    assert request.count(MIME.encode()) == (1 if policies else 0)
    assert push == expected


def test_nothing_is_told_over_a_link_without_annotations() -> None:
    broker, link = ingress(CoreSettings(policies=TELLS, require_annotations=False), version=0)
    ask(broker.caller(True, COMPOSITE_MIME, DATA_MIME, origin=("", ADA)), REQUEST_RESPONSE, 1, claiming())
    assert metadata_of(link) == [HONEST]


def test_a_request_decided_once_more_is_told_again() -> None:
    """D-50: the broker that has the route refuses it, and another route gets it."""
    broker, link = ingress(CoreSettings(policies=TELLS))
    broker.far(broker.remote("b3", broker.link("b3")), "orders", 8)
    ask(broker.caller(origin=("", ADA)), REQUEST_RESPONSE, 1, claiming())
    third = next(wire for wire in broker.wires.values() if wire.peer.link is not None and wire is not link)
    asked, other = (link, third) if (first := link.received()) else (third, link)
    request = (first or third.received())[0]
    asked.send(frames.encode_error(request.stream_id, 0x202, "stale-route: it has left"))
    (again,) = metadata_of(other)
    assert again is not None
    assert again.endswith(TOLD_ADA + HONEST)


def test_a_role_goes_with_who_it_is() -> None:
    callers = Role("callers", [ADA], [], [ANY])
    net = net_of(auth_mode="required", auth_accept=("certificate",), roles=(SERVICES, callers))
    service = net.worlds["b3"].connect(origin=("", "certificate:service"))
    service.send(setup(announcement(7, "orders")))
    net.advance(0.5)
    ask(net.worlds["b1"].caller(origin=("", ADA)), REQUEST_RESPONSE, 1, claiming())
    net.pump()
    assert metadata_of(service) == [told("certificate", "spiffe://acme/ada", "callers") + HONEST]

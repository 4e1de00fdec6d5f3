"""What strangers may send, one function for each kind of input: any bytes, and whatever breaks a promise raises.

    bytes ──► TARGETS[name] ──► nothing

The first byte of the input chooses where the others arrive. Hypothesis calls these functions in each run of the tests,
with what is kept in `corpus/` (`test_targets.py`), and atheris for as long as one likes (`long_run.py`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Final

from broker.access.roles import Offer, Role
from broker.connections.admission import MAX_SECRET_BYTES, NOT_ACCEPTED
from broker.core import CoreSettings
from broker.routing.table import Route
from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.rsocket.frames import METADATA, METADATA_PUSH, REQUEST_RESPONSE, encode_request
from rsocket_wire.rsocket.metadata import encode_entry, encode_well_known_entry
from rsocket_wire.wire.annotations import ANNOTATIONS_MIME, Annotations, decode_annotations
from rsocket_wire.wire.authentication import (
    AUTHENTICATION_ID,
    AUTHENTICATION_MIME,
    Credentials,
    decode_authentication,
)
from rsocket_wire.wire.frames import MIME_TYPE, BrokerFrame, BrokerInfo, RouteSetup, decode_frame
from rsocket_wire.wire.tags import Tag
from tests.broker.resuming import ORDERS
from tests.conformance.links import Broker, cluster
from tests.conformance.links import kept as table_of
from tests.fakes import Wire, World, addressed, announcement, raw_frame, setup
from tests.fuzz.handshakes import upgrade, upgrade_answer
from tests.fuzz.play import play

FREE_BYTES: Final = 64 << 10  # that may be answered before anybody has proved who it is
MOST_TIMES: Final = 100  # as many bytes as came may be answered, beyond that
CALLER: Final = ("10.0.0.4", "certificate:CN=orders")
NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+")
# All that a stranger is told, without its numbers: nothing of what it has sent.
REFUSALS: Final = {
    f"unauthenticated: {NOT_ACCEPTED}",
    "unauthenticated: the SETUP has no credentials, and the transport proves none; this broker accepts jwt or user",
    *(
        f"unauthenticated: the credentials cannot be read: {text}"
        for text in (
            "the SETUP has them more than once",
            "authentication type: needs # bytes at offset #, # are left",
            "authentication type: id # is unknown, # and # are known",
            "authentication type: a name of # bytes is unknown, simple and bearer are known",
            "token: is empty",
            "token: byte # of # is not UTF-#",
            "user name: needs # bytes at offset #, # are left",
            "user name: has # bytes, # to # are read",
            "user name: byte # of # is not UTF-#",
            "password: byte # of # is not UTF-#",
        )
    ),
}
REGION: Final = Tag.of("region", "eu").key
ROLE: Final = Role("orders", ["*"], [Offer([("service", ["orders*"]), ("region", ["eu", "us"])])])

Target = Callable[[bytes], None]


def authentication(data: bytes) -> None:
    """Credentials in the SETUP of a stranger who also announces a route."""
    variant, said = data[:1], data[1:]
    world = World(CoreSettings(auth_mode="required", auth_accept=("jwt", "user")))
    wire = world.connect(is_private=True)
    route = announcement(1, "orders")
    if variant == b"\x01":
        wire.send(setup(route + encode_entry(AUTHENTICATION_MIME, said)))
    elif variant == b"\x02":
        wire.send(setup(said + route))
    else:
        wire.send(setup(encode_well_known_entry(AUTHENTICATION_ID, said) + route))
    asks = world.core.take_asks()
    assert (wire.peer.route, wire.peer.principal, wire.is_closed) == (None, "", not asks)
    if variant != b"\x02":
        expected = _credentials_in(said)
        assert [_said(ask.credentials) for ask in asks] == ([] if expected is None else [_said(expected)])
    for ask in asks:
        assert wire.received() == []
        with contextlib.suppress(BrokerError):  # a name or a token that a client of ours does not send
            assert _said(decode_authentication(ask.credentials.encode())) == _said(ask.credentials)
        world.core.refuse(ask.peer, "unauthenticated", NOT_ACCEPTED, "jwt: no", world.now)
        world.pump()
    (refused,) = wire.received()
    assert NUMBERS.sub("#", refused.text) in REFUSALS, refused
    _leave(world, wire)


def route_setup(data: bytes) -> None:
    """A route that somebody announces whose role allows `orders…` in two regions."""
    variant, said = data[:1], data[1:]
    world = World(CoreSettings(auth_mode="required", auth_accept=("certificate",), roles=(ROLE,)))
    wire = world.connect(origin=CALLER)
    if variant == b"\x01":
        wire.send(setup())
        wire.send(raw_frame(METADATA_PUSH, METADATA, encode_entry(MIME_TYPE.encode(), said)))
    elif variant == b"\x02":
        wire.send(setup(said, MIME_TYPE))
    elif variant == b"\x03":
        wire.send(setup())
        wire.send(encode_request(REQUEST_RESPONSE, 1, b"x", encode_entry(MIME_TYPE.encode(), said)))
    else:
        wire.send(setup(encode_entry(MIME_TYPE.encode(), said)))
    frame = _frame_in(said)
    if frame is not None:
        assert decode_frame(frame.encode()).fields() == frame.fields()
    route = wire.peer.route
    if route is not None:
        assert isinstance(route, Route)
        assert isinstance(frame, RouteSetup)
        assert (route.id, route.service) == (frame.route_id, frame.service_name)
        assert _is_allowed(frame), frame
    assert world.core.table.size() == (route is not None)
    assert wire.is_closed <= (route is None)
    _leave(world, wire)
    assert world.core.table.size() == 0


def broker_info(data: bytes) -> None:
    """What somebody says who would be a broker, or what a broker of the cluster says later."""
    variant, said = data[:1], data[1:]
    world = World() if variant == b"\x03" else cluster()
    service = world.service("orders", 1)
    before = table_of(world)
    entry = encode_entry(MIME_TYPE.encode(), said)
    if variant in (b"\x01", b"\x02"):
        wire = Broker(world).link().wire
        wire.send(raw_frame(METADATA_PUSH, METADATA, entry if variant == b"\x01" else said))
    else:
        wire = world.connect()
        wire.send(setup(entry, data_mime="application/octet-stream"))
        assert wire.peer.link is None
        assert table_of(world) == before
    frame = _frame_in(said)
    if isinstance(frame, BrokerInfo):
        assert decode_frame(frame.encode()).fields() == frame.fields()
    assert sum(len(each.raw) for each in wire.frames) <= FREE_BYTES + MOST_TIMES * len(said)
    assert (service.is_closed, service.peer.route is None) == (False, False) or variant in (b"\x01", b"\x02")
    _leave(world, wire)


def router_annotations(data: bytes) -> None:
    """Router annotations in a request of a broker, or of a client that makes some up."""
    variant, said = data[:1], data[1:]
    with contextlib.suppress(InvalidFrame):
        _check_annotations(decode_annotations(said))
    from_clients = {b"\x01": "accept", b"\x02": "strip"}.get(variant, "reject")
    settings = CoreSettings(broker_name="b1", annotations_from_clients=from_clients)
    metadata = encode_entry(ANNOTATIONS_MIME, said) + addressed(ORDERS)
    world = cluster(settings)
    service = world.service("orders", 1)
    wire = Broker(world).link().wire if variant not in (b"\x00", b"\x01", b"\x02") else world.caller()
    had_n = len(wire.frames)
    wire.send(encode_request(REQUEST_RESPONSE, 1, b"x", metadata))
    arrived = service.received()
    for frame in arrived:
        assert ANNOTATIONS_MIME not in (frame.metadata or b""), frame
    answers = [frame for frame in wire.frames[had_n:] if frame.stream_id == 1]
    assert len(arrived) + len(answers) == 1 or wire.is_closed, (arrived, answers)
    assert not service.is_closed
    _leave(world, wire)
    _leave(world, service)


TARGETS: Final[Mapping[str, Target]] = {
    "authentication": authentication,
    "route_setup": route_setup,
    "broker_info": broker_info,
    "router_annotations": router_annotations,
    "upgrade": upgrade,
    "upgrade_answer": upgrade_answer,
    "receive": play,
}


def _said(credentials: Credentials) -> tuple[str, str, str]:
    return credentials.type, credentials.name, credentials.secret


def _credentials_in(said: bytes) -> Credentials | None:
    """What is to be verified; None: nothing."""
    try:
        found = decode_authentication(said)
    except InvalidFrame:
        return None
    return found if len(found.secret) <= MAX_SECRET_BYTES else None


def _frame_in(said: bytes) -> BrokerFrame | None:
    try:
        return decode_frame(said)
    except BrokerError:
        return None


def _is_allowed(frame: RouteSetup) -> bool:
    """By a look at all that the route would be found by."""
    services, regions = [frame.service_name], []
    for tag in frame.tags:
        if tag.key == Tag.of("service", "").key:
            services.append(tag.value or "")
        elif tag.key == REGION:
            regions.append(tag.value)
    return all(each.startswith("orders") for each in services) and bool(regions) and set(regions) <= {"eu", "us"}


def _check_annotations(read: Annotations) -> None:
    assert read.trace
    assert decode_annotations(read.encode()) == read
    with contextlib.suppress(BrokerError):  # the trace, or the section, may be full
        assert decode_annotations(read.passed_on("b1").encode()).trace == [*read.trace, "b1"]


def _leave(world: World, wire: Wire) -> None:
    """It goes, and leaves nothing."""
    wire.lose()
    assert world.left_over() == []

"""A client that read nothing is told why its connection ended when it comes again (D-73)."""

import pytest

from broker.connections.close_reasons import KEPT_S, MAX_CLOSE_REASONS, CloseReasons
from broker.core import CoreSettings
from rsocket_wire.rsocket.frames import METADATA_PUSH, REQUEST_RESPONSE, Resume
from rsocket_wire.rsocket.notices import (
    CLIENT_ID_BYTES,
    MAY_BE_TOLD,
    MAY_BE_TOLD_ENTRY,
    Notice,
    client_entry,
    client_id_of,
    find_notice,
    said_by_client,
)
from tests.fakes import Wire, World, address

ME = b"m" * CLIENT_ID_BYTES
OTHER = b"o" * CLIENT_ID_BYTES
TEXT = "the peer has 9000000 unread bytes and read none for 10 s (limits.stuck_s)"


def told(wire: Wire) -> list[str]:
    notices = [find_notice(frame.raw[6:]) for frame in wire.received() if frame.kind == METADATA_PUSH]
    return [notice.last_end for notice in notices if notice is not None]


def get_stuck(world: World, entry: bytes) -> None:
    wire = world.caller(metadata=entry)
    world.core.congested(wire.peer)
    world.core.lifecycle.stuck(wire.peer, TEXT, world.now)
    wire.lose()


def test_the_reason_is_told_at_the_next_setup_and_once() -> None:
    world = World()
    get_stuck(world, client_entry(ME))
    assert told(world.caller(metadata=client_entry(OTHER))) == []
    assert told(world.caller(metadata=client_entry(ME))) == [f"slow-peer: {TEXT}"]
    assert told(world.caller(metadata=client_entry(ME))) == []


def test_who_got_stuck_with_a_session_is_told_what_became_of_it() -> None:
    """It is suspended first, and what waits for it then is too much for a session."""
    world = World(CoreSettings(resume_buffer_bytes=10_000))
    service, wire = world.service("orders", 1), world.caller(metadata=client_entry(ME), token=b"t")
    wire.request(REQUEST_RESPONSE, 1, address(service="orders"))
    wire.block()
    service.answer(2, bytes(20_000))
    world.core.lifecycle.stuck(wire.peer, TEXT, world.now)
    wire.lose()
    world.advance(1.0)
    [text] = told(world.caller(metadata=client_entry(ME)))
    assert text.startswith("resume-overrun: ")


def test_whose_session_ended_while_its_socket_was_broken_is_told_at_the_next_setup() -> None:
    world = World()
    world.caller(metadata=client_entry(ME), token=b"t").lose()
    world.advance(world.core.lifecycle.sessions.ttl_s)
    world.connect().send(Resume(b"t", 0, 0).encode())  # is refused: there is no such session
    assert told(world.caller(metadata=client_entry(ME))) == ["resume-timeout: nobody resumed it within 60 s"]


def test_who_is_told_that_its_session_cannot_be_resumed_is_told_once() -> None:
    world = World()
    world.caller(metadata=client_entry(ME), token=b"t").lose()
    newcomer = world.connect()
    newcomer.send(Resume(b"t", 1000, 0).encode())
    assert [frame.text.split(":")[0] for frame in newcomer.received()] == ["cannot-resume"]
    assert told(world.caller(metadata=client_entry(ME))) == []


def test_who_could_be_told_is_told_once() -> None:
    world = World()
    wire = world.caller(metadata=client_entry(ME))
    world.core.end(wire.peer, "closed-by-operator", "enough", world.now)
    world.pump()
    assert [frame.text for frame in wire.received()] == ["closed-by-operator: enough"]
    assert told(world.caller(metadata=client_entry(ME))) == []


def test_a_client_that_has_not_said_who_it_is_is_told_nothing() -> None:
    world = World()
    get_stuck(world, MAY_BE_TOLD_ENTRY)
    assert told(world.caller(metadata=MAY_BE_TOLD_ENTRY)) == []


def test_after_a_while_it_is_forgotten() -> None:
    ends = CloseReasons()
    ends.remember(ME, "why", 100.0)
    ends.remember(OTHER, "why", 100.0)
    assert ends.take(ME, 100.0 + KEPT_S - 0.1) == "why"
    assert ends.take(OTHER, 100.0 + KEPT_S) == ""


def test_the_oldest_is_forgotten_for_one_too_many() -> None:
    ends = CloseReasons()
    ids = [number.to_bytes(CLIENT_ID_BYTES, "big") for number in range(MAX_CLOSE_REASONS + 1)]
    for each in ids:
        ends.remember(each, "why", 100.0)
    assert [bool(ends.take(each, 100.0)) for each in (ids[0], ids[1], ids[-1])] == [False, True, True]


@pytest.mark.parametrize("text", ["", "slow-peer: " + "é" * 100])
def test_a_notice_says_as_much_as_fits_a_tag(text: str) -> None:
    notice = find_notice(Notice([], False, 0, text).encode(b"b" * 16, 1)[6:])
    assert notice is not None
    assert notice.last_end == text[: len(notice.last_end)]
    assert len(notice.last_end.encode()) in (0, 126, 127)


def test_a_client_with_an_id_may_be_told_of_other_brokers_too() -> None:
    assert said_by_client(client_entry(ME)) == MAY_BE_TOLD
    assert client_id_of(client_entry(ME)) == ME
    others = (b"", MAY_BE_TOLD_ENTRY, client_entry(ME[:-1]), client_entry(ME) + b"\x01")
    assert [client_id_of(entry) for entry in others] == [b""] * 4

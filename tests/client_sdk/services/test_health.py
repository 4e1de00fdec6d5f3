"""Health (D-34, D-56): a service that cannot do its work is out, others are asked, and it comes back by itself."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from client_sdk import Payload, Service, address, connect
from client_sdk.metadata import route_bytes
from client_sdk.services.health import MAX_REASON_CHARACTERS, Health
from client_sdk.services.responder import ServiceResponder
from client_sdk.testing import local_broker
from rsocket_wire.errors import REJECTED
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker, Peer, broker_frame
from tests.client_sdk.frames import Frame
from tests.client_sdk.samples import cancel, echo_service, gives
from tests.client_sdk.services.asking import MULTICAST, ask, channel, refused, stream, taken


def tags_in(push: Frame) -> dict[str, str | None]:
    """What the ROUTE_SETUP in this METADATA_PUSH says."""
    return {tag.key.short_name: tag.value for tag in broker_frame(push.body).tags}


def tags_of(peer: Peer) -> dict[str, str | None]:
    """What the SETUP of a connection said."""
    assert peer.route is not None
    return {tag.key.short_name: tag.value for tag in peer.route.tags}


REGION: dict[str, str | None] = {"region": "eu"}
OUT: dict[str, str | None] = {**REGION, "health": "out"}


async def test_a_service_that_is_out_says_so_on_its_connection_and_when_it_is_back(broker: FakeBroker) -> None:
    service = echo_service("s", region="eu")
    async with connect(broker.url, service=service) as client:
        peer = await broker.peer(0)
        assert tags_of(peer) == REGION
        await service.set_health(False, "the disk is full")
        await service.set_health(False, "the disk is still full")  # nothing new for the broker
        await service.set_health(True)
        said = [tags_in(frame) for frame in await peer.expect(frames.PUSH, 2)]
        assert said == [OUT, REGION]
        assert (client.is_connected, len(broker.peers), service.is_healthy) == (True, 1, True)


async def test_a_service_that_is_out_refuses_so_that_others_may_be_asked() -> None:
    service = echo_service("s", region="eu")
    await service.set_health(False, "the disk is full")
    wanted = ("unhealthy", REJECTED, "unhealthy: service 's' is out of service: the disk is full")
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: ask(service, b"1"),
        lambda: stream(service, b"1"),
        lambda: channel(service, b"1"),
    ]
    for each in asked:
        assert await refused(each()) == wanted
    await service.set_health(True)
    assert await ask(service, b"1") == Payload(b"1")


async def test_a_long_reason_is_cut_before_callers_read_it() -> None:
    service = echo_service("s", region="eu")
    await service.set_health(False, "x" * (MAX_REASON_CHARACTERS + 1))
    assert service.health.reason == "x" * MAX_REASON_CHARACTERS


async def test_what_nobody_would_learn_of_is_taken_while_out() -> None:
    service = echo_service("s", region="eu")
    seen: list[bytes] = []
    service.fire_and_forget()(gives(seen.append))

    await service.set_health(False)
    await ServiceResponder(service).fire_and_forget(None, b"note")
    assert seen == [b"note"]


async def test_a_multicast_is_answered_while_out_because_an_error_would_end_it_for_all() -> None:
    service = echo_service("s", region="eu")
    await service.set_health(False)
    assert await ask(service, b"1", more=MULTICAST) == Payload(b"1")
    assert await stream(service, b"1", MULTICAST + route_bytes("items")) == [b"1"]


async def test_what_runs_goes_on_while_out() -> None:
    service = echo_service("s", region="eu")
    items = ServiceResponder(service).request_stream(route_bytes("items"), b"1")
    await service.set_health(False)
    assert await taken(items) == [b"1"]


async def test_a_check_that_says_no_raises_or_hangs_takes_the_service_out(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    async def tell() -> None:
        told.append(health.reason)

    async def no() -> bool:
        return False

    async def fails() -> bool:
        raise ValueError("secret")

    async def hangs() -> bool:
        await asyncio.Event().wait()
        return True

    async def gives_up() -> bool:
        raise TimeoutError  # its own, and not ours

    async def yes() -> bool:
        return True

    service = Service("s")
    for look in (no, fails, hangs, gives_up, yes):
        service.health_check(every_s=60, timeout_s=0.01)(look)
    health = Health("s", tell)
    health.checks.extend(service.health.checks)
    with caplog.at_level(logging.CRITICAL, "client_sdk"):
        await health.begin()
        await health.end()
    assert (health.is_out, told) == (True, [health.reason])
    assert sorted(health.reason.split("; ")) == [
        "check fails failed: ValueError",
        "check gives_up failed: TimeoutError",
        "check hangs took over 0.01 s",
        "check no returned False",
    ]


async def test_a_check_that_returns_nothing_is_said_to() -> None:
    service = Service("s")

    @service.health_check()
    async def look() -> None:
        """Raises where something is wrong."""

    await service.health.begin()
    await service.health.end()
    assert service.health.reason == "check look returned nothing: it must return True or False"


async def test_checks_look_before_the_first_connection_and_again_until_it_is_closed(broker: FakeBroker) -> None:
    service = echo_service("s", region="eu")
    answers = [False, True]
    looked: asyncio.Queue[bool] = asyncio.Queue()

    @service.health_check(every_s=0.01)
    async def is_ready() -> bool:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        looked.put_nowait(answer)
        return answer

    client = await connect(broker.url, service=service)
    peer = await broker.peer(0)
    assert tags_of(peer) == OUT  # it was not ready when it came
    assert [tags_in(frame) for frame in await peer.expect(frames.PUSH)] == [REGION]
    answers[0] = False
    assert [tags_in(frame) for frame in await peer.expect(frames.PUSH, 2)] == [REGION, OUT]
    await client.close()
    while not looked.empty():
        looked.get_nowait()
    await asyncio.sleep(0.03)
    assert looked.empty()


async def test_the_program_and_each_check_have_their_say() -> None:
    service = echo_service("s", region="eu")
    is_well = True

    @service.health_check()
    async def look() -> bool:
        return is_well

    await service.health.begin()
    await service.set_health(False, "by hand")
    assert service.health.reason == "by hand"
    await service.health.end()
    is_well = False
    await service.health.begin()
    assert service.health.reason == "by hand; check look returned False"
    await service.health.end()
    await service.set_health(True)
    assert (service.is_healthy, service.health.reason) == (False, "check look returned False")


async def test_a_client_that_gives_up_during_the_first_look_leaves_it_to_the_next(broker: FakeBroker) -> None:
    service = echo_service("s", region="eu")
    looking = asyncio.Event()
    is_stuck = True

    @service.health_check(every_s=60)
    async def look() -> bool:
        looking.set()
        if is_stuck:
            await asyncio.Event().wait()
        return False

    task = asyncio.ensure_future(connect(broker.url, service=service))
    await looking.wait()
    await cancel(task)
    assert service._advertisements == []
    is_stuck = False
    async with connect(broker.url, service=service):
        assert tags_of(await broker.peer(0)) == OUT


def test_checks_that_make_no_sense_are_refused_when_they_are_written() -> None:
    service = Service("s")
    with pytest.raises(TypeError, match="async function"):
        service.health_check()(lambda: True)  # type: ignore[type-var]

    async def asks(request: object) -> bool:
        return True

    with pytest.raises(
        TypeError, match=r"is given nothing, and this one wants \(request: object\) -> bool: write \(\)"
    ):
        service.health_check()(asks)  # type: ignore[type-var]
    for times in ({"every_s": 0.0}, {"timeout_s": -1.0}):

        async def look() -> bool:
            return True

        with pytest.raises(ValueError, match="more than 0"):
            service.health_check(**times)(look)


async def test_broker_asks_others_while_one_is_out_and_the_lone_one_refuses() -> None:
    first, second = echo_service("s", region="eu"), Service("s", tags={"region": "eu"})
    second.request_response()(gives(lambda _: b"second"))

    async with local_broker() as url, connect(url, service=first), connect(url) as client:
        server = await connect(url, service=second)
        await first.set_health(False, "the disk is full")
        to = address("s", lb="round_robin")
        # The first request behind the change, from another connection, may still go to the first service.
        while (await client.request_response(to, b"first", timeout_s=5)).data != b"second":
            pass
        answers = {(await client.request_response(to, b"first", timeout_s=5)).data for _ in range(20)}
        assert answers == {b"second"}
        await server.close()
        with pytest.raises(Exception, match="unhealthy: service 's' is out of service: the disk is full"):
            await client.request_response(to, b"first", timeout_s=5)
        await first.set_health(True)
        assert (await client.request_response(to, b"first", timeout_s=5)).data == b"first"


async def test_two_checks_whose_functions_have_one_name_have_their_say_each() -> None:
    service = Service("s")
    oks = [False, True]

    def checking(place: int) -> None:
        @service.health_check()
        async def reachable() -> bool:
            return oks[place]

    checking(0)
    checking(1)
    await service.health.begin()
    assert (service.is_healthy, service.health.reason) == (False, "check reachable returned False")
    await service.health.end()


async def test_a_check_that_waits_for_something_cancelled_says_no_and_is_asked_again() -> None:
    service = Service("s")
    asked: asyncio.Queue[int] = asyncio.Queue()
    looks_n = 0

    @service.health_check(every_s=0.001)
    async def upstream() -> bool:
        nonlocal looks_n
        looks_n += 1
        asked.put_nowait(looks_n)
        if looks_n == 1:
            gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone
        return True

    async with asyncio.timeout(5):
        await service.health.begin()
        assert service.health.reason == "check upstream failed: CancelledError"
        while await asked.get() < 3:
            pass
    assert service.is_healthy
    await service.health.end()


async def test_a_check_that_is_added_while_the_service_is_offered_is_asked_at_once(broker: FakeBroker) -> None:
    service = echo_service("s", region="eu")
    async with connect(broker.url, service=service):
        asked = asyncio.Event()

        @service.health_check(every_s=60)
        async def late() -> bool:
            asked.set()
            return False

        peer = await broker.peer(0)
        async with asyncio.timeout(5):
            await asked.wait()
        async with asyncio.timeout(5):
            assert [tags_in(frame) for frame in await peer.expect(frames.PUSH)] == [OUT]
    assert service.health.reason == "check late returned False"

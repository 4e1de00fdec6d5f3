"""client_sdk.gateways.samwise.endpoint.server: with raw ZeroMQ sockets as callers."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio

from client_sdk.gateways.samwise.endpoint import answering, plain
from client_sdk.gateways.samwise.endpoint.server import Server, ServerSettings
from client_sdk.gateways.samwise.requests import RequestReader, Rules
from client_sdk.gateways.samwise.values import Reply, Request
from rsocket_wire.errors import BrokerError
from tests.client_sdk.gateways.samwise.callers import PING, PONG, FakeGateway, calling, publish, serving
from tests.system.support.waits import soon, until


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    """A free place for a socket."""
    return f"ipc://{tmp_path}/samwise"


@pytest.mark.parametrize("place", ["ipc", "tcp"])
async def test_a_request_of_a_req_socket_is_answered(tmp_path: Path, place: str) -> None:
    gateway = FakeGateway()
    listen = f"ipc://{tmp_path}/s" if place == "ipc" else "tcp://127.0.0.1:0"
    async with serving(gateway, listen) as server, calling(server.endpoints[0]) as call:
        assert await call().ask(PING) == PONG
        assert await call().ask(publish(b"book")) == [b"0"]
    assert gateway.payloads == [b"book"]


async def test_garbage_is_answered_and_the_next_request_too(endpoint: str) -> None:
    gateway = FakeGateway()
    async with serving(gateway, endpoint), calling(endpoint) as call:
        caller = call()
        for frames in ([b""], [b"\0\xff"], [b"120"], [b"120", b""], [b"x" * 5000] * 30, [b""] * 40):
            state, text = await caller.ask(frames)
            assert state == b"-1"
            assert text
        assert await caller.ask(PING) == PONG
    assert len(gateway.refused) == 6
    assert gateway.pings_n == 1


async def test_a_caller_that_sends_no_delimiter_gets_none(endpoint: str) -> None:
    async with serving(FakeGateway(), endpoint), calling(endpoint) as call:
        dealer = call(zmq.DEALER)
        assert await dealer.ask(PING) == PONG
        assert await dealer.ask([b"", *PING]) == [b"", *PONG]
        assert await dealer.ask([b"hop", b"", *PING]) == [b"hop", b"", *PONG]
        assert (await dealer.ask([b"junk"]))[0] == b"-1"
        assert (await dealer.ask([b"100", b"publish", b"round robin", b"", b"", b"p"]))[0] == b"-1"  # no exchange


async def test_requests_by_a_proxy_are_answered(tmp_path: Path, endpoint: str) -> None:
    front = f"ipc://{tmp_path}/front"
    with zmq.asyncio.Context() as context:
        router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        router.bind(front)
        dealer.connect(endpoint)

        async def forward(source: zmq.asyncio.Socket, target: zmq.asyncio.Socket) -> None:
            while True:
                await target.send_multipart(await source.recv_multipart())

        async with serving(FakeGateway(), endpoint), calling(front) as call:
            tasks = [asyncio.create_task(forward(*pair)) for pair in ((router, dealer), (dealer, router))]
            callers = [call() for _ in range(5)]
            assert [await caller.ask(PING) for caller in callers] == [PONG] * 5
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        router.close(0)
        dealer.close(0)


async def test_twenty_requests_at_once_are_answered_in_their_order(endpoint: str) -> None:
    """The gateway has the answers in another order, and some requests are refused at once."""
    gateway = FakeGateway(holds=True)
    async with serving(gateway, endpoint), calling(endpoint) as call:
        dealer = call(zmq.DEALER)
        for number in range(20):
            await dealer.send([b"", *(publish(b"%d" % number) if number % 5 else [b"junk", b"%d" % number])])
        await until(lambda: len(gateway.held) == 16)
        assert gateway.payloads == [b"%d" % number for number in range(20) if number % 5]
        assert (await dealer.answer())[1] == b"-1"  # the first one; the next has to wait
        for number, answer in reversed(list(enumerate(gateway.held))):
            answer(Reply(False, f"answer {number}"))
        answers = [(await dealer.answer())[2] for _ in range(19)]
        assert [text for text in answers if text.startswith(b"answer")] == [
            b"answer %d" % number for number in range(16)
        ]
        assert [number for number, text in enumerate(answers, 1) if not text.startswith(b"answer")] == [5, 10, 15]


async def test_one_caller_does_not_wait_for_another(endpoint: str) -> None:
    gateway = FakeGateway(holds=True)
    async with serving(gateway, endpoint), calling(endpoint) as call:
        slow, quick = call(), call()
        await slow.send(publish(b"held"))
        await until(lambda: gateway.held)
        assert await quick.ask(PING) == PONG
        gateway.held[0](Reply(True))
        assert await slow.answer() == [b"0"]


async def test_callers_that_leave_before_the_answer_hurt_nobody(endpoint: str) -> None:
    gateway = FakeGateway(holds=True)
    async with serving(gateway, endpoint) as server, calling(endpoint) as call:
        leavers = [call() for _ in range(10)]
        for leaver in leavers:
            await leaver.send(publish(b"x"))
        await until(lambda: len(gateway.held) == 10)
        for leaver in leavers:
            leaver.leave()
        await until(lambda: server.connected_n == 0)
        for answer in gateway.held:
            answer(Reply(True))
        assert await call().ask(PING) == PONG


async def test_a_caller_that_comes_again_under_its_name_is_answered(endpoint: str) -> None:
    async with serving(FakeGateway(), endpoint), calling(endpoint) as call:
        assert await call(zmq.REQ, {zmq.IDENTITY: b"shop"}).ask(PING) == PONG  # and does not leave
        assert await call(zmq.REQ, {zmq.IDENTITY: b"shop"}).ask(PING) == PONG


async def test_a_message_of_very_many_frames_is_refused_and_holds_nobody_up(endpoint: str) -> None:
    gateway = FakeGateway()
    async with serving(gateway, endpoint), calling(endpoint) as call:
        other = call()
        assert await other.ask(PING) == PONG
        caller = call()

        def send() -> None:
            raw: zmq.Socket[bytes] = zmq.Socket.shadow(
                caller.socket.underlying
            )  # not by asyncio, with a future for each
            for _ in range(199_999):
                raw.send(b"", zmq.SNDMORE)
            raw.send(b"")

        await asyncio.to_thread(send)
        answer = asyncio.create_task(caller.answer())
        turns_n = 0
        while not answer.done():
            await asyncio.sleep(0)
            turns_n += 1
        assert answer.result() == [b"-1", b"malformed request: 200000 frames, 1024 are allowed"]
        assert turns_n > 20  # of the loop, in which others have their turn
        assert [refused.reason for refused in gateway.refused] == ["limit"]
        assert await other.ask(PING) == PONG


async def test_a_request_over_the_limit_of_bytes_is_refused_whatever_its_frames(endpoint: str) -> None:
    rules = Rules(max_message_bytes=10_000)
    async with serving(FakeGateway(), endpoint, rules), calling(endpoint) as call:
        caller = call()
        state, text = await caller.ask([b"x" * 9_000] * 5)
        assert (state, text) == (b"-1", b"malformed request: 45000 bytes, 10000 are allowed")
        state, text = await caller.ask([b"100", b"publish", b"round robin", b"e", b"k", b"x" * 9_978])
        assert (state, text) == (b"-1", b"malformed request: 10001 bytes, 10000 are allowed")
        assert await caller.ask(PING) == PONG


async def test_what_is_longer_than_a_hop_counts_as_a_part_of_the_request(endpoint: str) -> None:
    async with (
        serving(FakeGateway(), endpoint, rules=Rules(max_message_bytes=10_000)),
        calling(endpoint) as call,
    ):
        answer = await call(zmq.DEALER).ask([b"x" * 9000, b"x" * 9000, b"", *PING])
    assert answer[-2:] == [b"-1", b"malformed request: 17497 bytes, 10000 are allowed"]


class RawCaller:
    """A connection that sends what bytes a test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @staticmethod
    async def at(server: Server) -> "RawCaller":
        """Connected to the first endpoint, which is of tcp."""
        host, _, port = server.endpoints[0].removeprefix("tcp://").rpartition(":")
        return RawCaller(*await asyncio.open_connection(host, int(port)))

    async def introduce(self) -> None:
        """The handshake of 3.0."""
        self.writer.write(GREETING)
        await soon(self.reader.readexactly(len(GREETING)))
        self.writer.write(READY)
        await soon(self.reader.readuntil(b"READY"))

    async def is_cut_off(self) -> bool:
        """The connection has ended; what came before is of no matter."""
        with contextlib.suppress(ConnectionError):
            while await soon(self.reader.read(65_536)):
                pass
        self.writer.close()
        return True


# ZMTP 3.0 (https://rfc.zeromq.org/spec/23/): signature, version, mechanism, filler; then the command READY.
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
RAW_PING = b"\x01\x00" + b"\x01\x03120" + b"\x00\x04ping"
RAW_PONG = b"\x01\x00" + b"\x01\x010" + b"\x00\x00"
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ"
PORT = "tcp://127.0.0.1:0"


async def test_a_frame_of_a_gibibyte_is_refused_at_once_and_holds_nobody_up() -> None:
    """The answer comes before the frame has, of which no more than a beginning is sent."""
    gateway = FakeGateway()
    async with serving(gateway, PORT) as server, calling(server.endpoints[0]) as call:
        caller = await RawCaller.at(server)
        await caller.introduce()
        caller.writer.write(b"\x01\x00\x02" + (1 << 30).to_bytes(8, "big") + b"x" * 100_000)
        text = b"malformed request: 1073741824 bytes, 16777216 are allowed"
        await soon(caller.reader.readuntil(b"\x01\x00\x01\x02-1\x00" + bytes((len(text),)) + text))
        assert server._plain.held_bytes == 0
        assert await call().ask(PING) == PONG
        assert [refused.reason for refused in gateway.refused] == ["limit"]
        caller.writer.close()


async def test_a_caller_of_a_frame_beyond_the_limit_is_answered_and_goes_on(endpoint: str) -> None:
    async with serving(FakeGateway(), endpoint, Rules(max_message_bytes=10_000)), calling(endpoint) as call:
        caller = call()
        state, text = await caller.ask([b"100", b"publish", b"round robin", b"e", b"k", bytes(20_000_000)])
        assert (state, text) == (b"-1", b"malformed request: 20000023 bytes, 10000 are allowed")
        assert await caller.ask(PING) == PONG


async def test_a_long_frame_behind_a_request_that_waits_takes_no_place_from_others() -> None:
    gateway = FakeGateway(holds=True)
    async with serving(gateway, PORT) as server, calling(server.endpoints[0]) as call:
        caller = await RawCaller.at(server)
        await caller.introduce()
        held = b"".join(bytes((1, len(each))) + each for each in [b"", *publish(b"")[:-1]]) + b"\0\0"
        caller.writer.write(held + b"\x01\x00\x02" + (1 << 62).to_bytes(8, "big") + b"x" * 1_000)
        await until(lambda: gateway.refused)
        assert await call().ask(PING) == PONG
        gateway.held[0](Reply(True))
        caller.writer.close()


async def test_a_handshake_and_a_request_in_one_piece_are_answered() -> None:
    async with serving(FakeGateway(), PORT) as server:
        caller = await RawCaller.at(server)
        caller.writer.write(GREETING + READY + RAW_PING)
        answer = await soon(caller.reader.readuntil(RAW_PONG))
        assert answer.index(b"READY") < answer.index(RAW_PONG)
        caller.writer.close()


async def test_who_speaks_something_else_is_told_and_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(FakeGateway(), PORT) as server, calling(server.endpoints[0]) as call:
        caller = await RawCaller.at(server)
        caller.writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert await caller.is_cut_off()
        subscriber = await RawCaller.at(server)
        subscriber.writer.write(GREETING + READY.replace(b"REQ", b"SUB"))
        text = b"it is a socket 'SUB', here is ROUTER, for REQ and DEALER"
        await soon(subscriber.reader.readuntil(b"ERROR" + bytes((len(text),)) + text))
        assert await subscriber.is_cut_off()
        assert await call().ask(PING) == PONG
    assert "connections closed: 1, the last one because it does not speak ZMTP 2.0 or later" in caplog.text


async def test_who_does_not_say_who_it_is_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "HANDSHAKE_S", 0.05)
    async with serving(FakeGateway(), PORT) as server:
        caller = await RawCaller.at(server)
        caller.writer.write(GREETING)
        assert await caller.is_cut_off()
        assert server.connected_n == 0


async def test_what_callers_have_sent_and_not_ended_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MAX_HELD_BYTES", 100_000)
    async with serving(FakeGateway(), PORT) as server, calling(server.endpoints[0]) as call:
        first, second = await RawCaller.at(server), await RawCaller.at(server)
        for caller in (first, second):
            await caller.introduce()
        first.writer.write(b"\x03" + (90_000).to_bytes(8, "big") + bytes(60_000))
        await until(lambda: server._plain.held_bytes >= 60_000)
        second.writer.write(b"\x03" + (90_000).to_bytes(8, "big") + bytes(60_000))
        assert await second.is_cut_off()
        first.writer.write(bytes(30_000) + b"\x00\x01x")  # and its end
        await soon(first.reader.readuntil(b"-1"))
        assert server._plain.held_bytes == 0
        first.writer.close()
        assert await call().ask(PING) == PONG


async def test_a_caller_that_does_not_read_its_answers_is_read_no_more_and_the_others_are() -> None:
    class Verbose(FakeGateway):
        def handle(self, request: Request, answer: Callable[[Reply], None]) -> None:
            self.came.append(request)
            answer(Reply(False, "x" * 50_000))

    gateway = Verbose()
    async with serving(gateway, PORT) as server, calling(server.endpoints[0]) as call:
        host, _, port = server.endpoints[0].removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port))) as caller:
            caller.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(caller, GREETING + READY + RAW_PING * 400)
            await until(lambda: any(each._is_choked for each in server._plain._callers))
            came_n = gateway.pings_n
            assert (await call().ask(PING))[0] == b"-1"
            assert gateway.pings_n == came_n + 1 < 400
            answers = b""
            while answers.count(b"x") < 400 * 50_000:
                answers += await soon(loop.sock_recv(caller, 1 << 20))
            assert gateway.pings_n == 401


async def test_requests_beyond_a_rate_are_refused_and_counted(endpoint: str) -> None:
    gateway = FakeGateway()
    limits: dict[str, Any] = {"max_requests_per_caller_per_s": 3}
    async with serving(gateway, endpoint, **limits), calling(endpoint) as call:
        dealer = call(zmq.DEALER)
        for _ in range(50):
            await dealer.send(PING)
        answers = [await dealer.answer() for _ in range(50)]
        assert answers[:3] == [PONG] * 3
        too_many = [b"-1", b"too many requests: 3 requests a second are allowed for one caller"]
        assert answers.count(too_many) >= 40  # unless the machine needed many seconds for them
        assert await call().ask(PING) == PONG
    assert {refused.reason for refused in gateway.refused} == {"limit"}


async def test_a_caller_that_names_a_hop_anew_each_time_has_one_rate(endpoint: str) -> None:
    limits: dict[str, Any] = {"max_requests_per_caller_per_s": 3}
    async with serving(FakeGateway(), endpoint, **limits), calling(endpoint) as call:
        dealer = call(zmq.DEALER)
        for number in range(50):
            await dealer.send([b"hop %d" % number, b"", *PING])
        answers = [(await dealer.answer())[2:] for _ in range(50)]
        assert answers.count(PONG) <= 10  # unless the machine needed many seconds for them


async def test_one_connection_more_than_the_limit_is_let_in_when_another_leaves(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "HANDSHAKE_S", 0.3)  # after which ZeroMQ closes it and it comes again
    async with serving(FakeGateway(), endpoint, max_callers=2) as server, calling(endpoint) as call:
        first, second = call(), call()
        assert [await first.ask(PING), await second.ask(PING)] == [PONG] * 2
        third = call(zmq.REQ, {zmq.RECONNECT_IVL: 20})
        await third.send(PING)
        assert await third.is_silent()
        assert await second.ask(PING) == PONG
        first.leave()
        assert await third.answer() == PONG
        assert server.refused_callers_n > 0


async def test_with_a_gateway_that_hangs_a_status_is_answered_and_publishing_refused(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "MAX_WAITING", 10)
    gateway = FakeGateway(holds=True)
    async with serving(gateway, endpoint), calling(endpoint) as call:
        dealer, other = call(zmq.DEALER), call()
        for number in range(10):
            await dealer.send(publish(b"%d" % number))
        await until(lambda: len(gateway.held) == 10)
        began_at = time.monotonic()
        assert await other.ask(PING) == PONG
        assert time.monotonic() - began_at < 1.0 or os.getloadavg()[0] > 4
        state, text = await other.ask(publish(b"one more"))
        assert (state, text) == (b"-1", b"busy: 10 requests wait and none is answered")
        for answer in gateway.held:
            answer(Reply(True))
        assert [await dealer.answer() for _ in range(10)] == [[b"0"]] * 10
        gateway.held.clear()
        await other.send(publish(b"again"))
        await until(lambda: gateway.held)
        gateway.held[0](Reply(True))


async def test_nothing_more_is_read_while_all_places_are_taken(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "MAX_WAITING", 10)
    monkeypatch.setattr(answering, "STUCK_S", 1e6)
    gateway = FakeGateway(holds=True)
    async with serving(gateway, endpoint), calling(endpoint) as call:
        dealer = call(zmq.DEALER)
        for number in range(30):
            await dealer.send(publish(b"%d" % number))
        for answered_n in range(0, 30, 10):
            await until(lambda n=answered_n: len(gateway.held) == n + 10)  # type: ignore[misc]
            assert await dealer.is_silent(0.05)
            for answer in gateway.held[answered_n:]:
                answer(Reply(True))
            assert [await dealer.answer() for _ in range(10)] == [[b"0"]] * 10


async def test_a_bug_in_the_gateway_is_an_answer(endpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakeGateway):
        def handle(self, request: Request, answer: Callable[[Reply], None]) -> None:
            raise ZeroDivisionError("secret")

    async with serving(Broken(), endpoint), calling(endpoint) as call:
        caller = call()
        for _ in range(2):
            assert await caller.ask(publish(b"x")) == [b"-1", b"internal error"]
    assert "bug in the gateway" in caplog.text


async def test_a_bug_in_the_reading_is_an_answer_and_the_next_request_is_read(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(reader: RequestReader, frames: list[bytes]) -> Request:
        raise ZeroDivisionError

    async with serving(FakeGateway(), endpoint), calling(endpoint) as call:
        caller = call()
        with monkeypatch.context() as context:
            context.setattr(RequestReader, "read", fail)
            assert await caller.ask(PING) == [b"-1", b"internal error"]
        assert await caller.ask(PING) == PONG
    assert "bug in the gateway" in caplog.text


async def test_a_server_that_stops_answers_what_is_on_its_way(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "STOP_S", 0.05)
    gateway = FakeGateway(holds=True)
    async with serving(gateway, endpoint) as server, calling(endpoint) as call:
        caller, other = call(), call()
        await caller.send(publish(b"x"))
        await other.send(publish(b"y"))
        await until(lambda: len(gateway.held) == 2)
        closing = asyncio.create_task(server.close())
        await asyncio.sleep(0)
        gateway.held[gateway.payloads.index(b"x")](Reply(True))
        await closing
        assert await caller.answer() == [b"0"]
        assert await other.answer() == [b"-1", b"stopping: the gateway stops"]
    assert not Path(endpoint.removeprefix("ipc://")).exists()


async def test_callers_that_go_on_while_it_stops_are_told_and_none_waits_for_ever(endpoint: str) -> None:
    """Each sends its next request as soon as it has an answer, until that is a refusal."""
    gateway = FakeGateway()
    async with serving(gateway, endpoint) as server, calling(endpoint) as call:
        answers_n = 0

        async def publish_on() -> list[bytes]:
            nonlocal answers_n
            caller = call()
            while (answer := await caller.ask(publish(b"x"))) == [b"0"]:
                answers_n += 1
            return answer

        callers = [asyncio.create_task(publish_on()) for _ in range(20)]
        await until(lambda: answers_n > 100)
        await server.close()
        assert await soon(asyncio.gather(*callers)) == [[b"-1", b"stopping: the gateway stops"]] * 20
        assert len(gateway.payloads) == answers_n
        assert [refused.reason for refused in gateway.refused] == ["stopping"] * 20


async def test_a_caller_that_never_ends_does_not_keep_it_from_stopping(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "REFUSING_S", 0.2)
    async with serving(FakeGateway(), endpoint) as server, calling(endpoint) as call:
        caller = call(zmq.DEALER)

        async def ask_on() -> None:
            while True:
                await caller.ask(PING)

        asking = asyncio.create_task(ask_on())
        await soon(server.close())
        asking.cancel()
        await asyncio.wait([asking])


@pytest.mark.parametrize("place", ["ipc", "tcp"])
async def test_an_endpoint_that_is_taken_is_left_to_who_has_it(tmp_path: Path, place: str) -> None:
    listen = f"ipc://{tmp_path}/s" if place == "ipc" else "tcp://127.0.0.1:0"
    async with serving(FakeGateway(), listen) as server, calling(server.endpoints[0]) as call:
        free = f"ipc://{tmp_path}/free"
        other = Server(FakeGateway(), settings(free, server.endpoints[0]))
        with pytest.raises(BrokerError, match=f"^cannot-listen: {server.endpoints[0]}: address already in use$"):
            other.bind()
        assert await call().ask(PING) == PONG
        assert not Path(free.removeprefix("ipc://")).exists()  # the one that failed listens nowhere


async def test_the_socket_of_a_process_that_is_gone_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(FakeGateway(), f"ipc://{path}") as server, calling(server.endpoints[0]) as call:
        assert await call().ask(PING) == PONG


async def test_a_file_that_is_no_socket_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    path.write_text("dear")
    with pytest.raises(BrokerError, match="letter: file exists, and is no socket"):
        Server(FakeGateway(), settings(f"ipc://{path}")).bind()
    assert path.read_text() == "dear"


@pytest.mark.parametrize(
    "listen, reason", [("ipc:///no/such/folder/s", "no such file or directory"), ("tcp://192.0.2.1:1", "cannot assign")]
)
async def test_where_nobody_can_listen_is_told(listen: str, reason: str) -> None:
    with pytest.raises(BrokerError, match=f"^cannot-listen: {listen}: {reason}"):
        Server(FakeGateway(), settings(listen)).bind()


def settings(*endpoints: str) -> ServerSettings:
    return ServerSettings(endpoints=endpoints, rules=Rules(), max_callers=10)


async def test_thousands_of_requests_at_once_are_all_answered(endpoint: str) -> None:
    """A caller that pipelines is read as fast as it is answered."""
    gateway = FakeGateway()
    async with serving(gateway, endpoint) as server, calling(endpoint) as call:
        dealer = call(zmq.DEALER)
        for _ in range(2_000):
            await dealer.send(PING)
        assert [await dealer.answer() for _ in range(2_000)] == [PONG] * 2_000
        assert server.waiting_n == 0

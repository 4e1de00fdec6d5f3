"""Rows 13 and 31: metadata that is malformed, unknown, or as long as it may be."""

from collections.abc import AsyncIterator

import pytest

from client_sdk import Payload, Request, Service
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, payload, request
from tests.client_sdk.raw_broker import KINDS, MODELS, RawBroker, ask, serving
from tests.client_sdk.samples import echo_service, gives

ROUTING, AUTHENTICATION, UNKNOWN_ID = 0xFE, 0xFC, 0xD5  # with the bit that says "an id"
SIMPLE, BEARER, UNKNOWN_TYPE = 0x80, 0x81, 0xFF


def entry(mime: int | bytes, content: bytes) -> bytes:
    name = bytes([mime]) if isinstance(mime, int) else bytes([len(mime) - 1]) + mime
    return name + len(content).to_bytes(3) + content


ROUTE = entry(ROUTING, b"\x04name")
GOOD = [
    b"",  # what is not there is not wrong
    ROUTE,
    entry(UNKNOWN_ID, b"of the future") + ROUTE,
    ROUTE + entry(UNKNOWN_ID, b""),
    entry(AUTHENTICATION, bytes([UNKNOWN_TYPE]) + b"whatever") + ROUTE,
    entry(AUTHENTICATION, b"") + ROUTE,
    entry(AUTHENTICATION, b"\x05ab") + ROUTE,  # a name of a type that is cut off
    entry(AUTHENTICATION, bytes([SIMPLE]) + b"\xff\xffuser") + ROUTE,
    entry(AUTHENTICATION, bytes([BEARER]) + b"token") + ROUTE,
    entry(b"x", b"1") + ROUTE,
    entry(b"m" * 127, b"1") + ROUTE,
    entry(b"m" * 128, b"1") + ROUTE,
    entry(b"\xff\xfe\x00", b"no ASCII") + ROUTE,
    entry(ROUTING, b"\x04name\x05other") + ROUTE,
    ROUTE + entry(b"big", bytes(70_000)),
]
BROKEN = [
    b"\xfe",
    b"\xfe\x00",
    b"\xfe\x00\x00\x05\x04nam",  # a byte is missing
    ROUTE + b"\xff",
    ROUTE + b"\x7f" + b"m" * 127,  # of a name with 128
    ROUTE + b"\x00",
    ROUTE + b"\x00x\xff\xff\xff",
    b"\xff" * 40,
]


class Named:
    """A service whose handlers are called `name`, in all models; it keeps what their requests say."""

    def __init__(self) -> None:
        self.service = Service("named")
        self.seen: list[tuple[str, str]] = []

        self.service.request_response("name")(self.answer)
        for decorator in (self.service.fire_and_forget, self.service.metadata_push):
            decorator("name")(self.note)
        self.service.request_stream("name")(self.items)
        self.service.request_channel("name")(self.channel)

    async def answer(self, asked: Request) -> bytes:
        await self.note(asked)
        return asked.data

    async def note(self, asked: Request) -> None:
        self.seen.append((asked.model, asked.route))

    async def items(self, asked: Request) -> AsyncIterator[bytes]:
        self.seen.append((asked.model, asked.route))
        yield b"item"

    async def channel(self, asked: Request, payloads: object) -> AsyncIterator[bytes]:
        async for item in self.items(asked):
            yield item


@pytest.mark.parametrize("metadata", GOOD[1:])
async def test_entries_that_nobody_knows_are_passed_over(raw: RawBroker, metadata: bytes) -> None:
    """Row 31: the handler that the routing entry names is found behind anything that is well-formed."""
    named = Named()
    async with serving(raw, named.service) as (_, peer):
        assert await peer.call(2, b"data", metadata=metadata) == payload(2, b"data", flags=frames.LAST)
        peer.send(request(4, frames.FNF, metadata=metadata), Frame(0, frames.PUSH, frames.METADATA, metadata))
        peer.send(request(6, frames.STREAM, metadata=metadata, n=5), request(8, frames.CHANNEL, metadata=metadata, n=5))
        await peer.expect(frames.PAYLOAD, 5)
        assert sorted(named.seen) == sorted((model, "name") for model in (*KINDS, "fire_and_forget", "metadata_push"))


@pytest.mark.parametrize("metadata", BROKEN)
async def test_broken_metadata_is_the_end_of_its_request_alone(raw: RawBroker, metadata: bytes) -> None:
    """Row 31: told where there is an answer, in one line of the log where there is none."""
    named = Named()
    async with serving(raw, named.service) as (_, peer):
        for number, kind in enumerate((frames.RESPONSE, frames.STREAM, frames.CHANNEL)):
            peer.send(request(2 + 2 * number, kind, metadata=metadata))
        told = await peer.expect(frames.ERROR, 3)
        assert [(each.stream_id, each.code) for each in sorted(told)] == [(2, 0x204), (4, 0x204), (6, 0x204)]
        assert all(each.body[4:].startswith(b"bad-metadata: ") for each in told)
        peer.send(request(8, frames.FNF, metadata=metadata), Frame(0, frames.PUSH, frames.METADATA, metadata))
        assert (await peer.call(10, metadata=ROUTE)).data == b"alive"
        assert named.seen == [("request_response", "name")]
        assert peer.on(8) == []


@pytest.mark.parametrize("metadata", BROKEN)
async def test_a_handler_that_asks_for_no_metadata_gets_requests_with_any(raw: RawBroker, metadata: bytes) -> None:
    """Row 31: what nobody looks at is not judged."""
    async with serving(raw, echo_service()) as (_, peer):
        assert await peer.call(2, metadata=metadata) == payload(2, b"alive", flags=frames.LAST)


@pytest.mark.parametrize("metadata", [*GOOD, *BROKEN])
@pytest.mark.parametrize("model", MODELS)
async def test_the_metadata_of_an_answer_is_the_callers_to_judge(raw: RawBroker, model: str, metadata: bytes) -> None:
    """Row 31, as the one who asked: it comes as it was sent."""
    async with serving(raw) as (client, peer):
        call, asked = await ask(client, peer, model)
        peer.send(payload(asked.stream_id, b"x", metadata=metadata, flags=frames.LAST))
        got = await call
        assert (got.data, got.metadata) == (b"x", metadata)


@pytest.mark.parametrize("length", [1, 127, 128])
async def test_a_mime_type_of_any_length_that_an_entry_can_say_is_sent(raw: RawBroker, length: int) -> None:
    """Row 13."""
    async with serving(raw) as (client, peer):
        mime = "m" * length
        call, asked = await ask(client, peer, metadata={mime: b"content"})
        assert (asked.metadata or b"").endswith(entry(mime.encode(), b"content"))
        peer.send(payload(asked.stream_id, b"", flags=frames.LAST))
        await call


async def test_metadata_of_a_handlers_answer_is_sent_as_it_is(raw: RawBroker) -> None:
    """Row 31, as the one who answers: whatever it is, it is the handler's business."""
    service, answers = Service("s"), [*GOOD, *BROKEN]
    service.request_response()(gives(lambda data: Payload(data, answers[int(data)])))

    async with serving(raw, service) as (_, peer):
        for number, metadata in enumerate(answers):
            got = await peer.call(2 + 2 * number, b"%d" % number)
            assert (got.data, got.metadata) == (b"%d" % number, metadata)

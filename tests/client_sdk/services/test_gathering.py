"""Gathers: the answers of a service are marked with who it is, and a failure is an answer, too."""

import asyncio
import logging

import pytest

from client_sdk import ApplicationError, Payload, Request, Service
from client_sdk.errors import NoHandler, Rejected
from client_sdk.metadata import entry_bytes, route_bytes
from client_sdk.services.gather_answers import (
    GATHER_ENTRY,
    GATHER_MIME,
    TAGGED_ENTRY,
    TAGS_MIME,
    WHO,
    Answer,
    answered_by,
    read_answer,
)
from client_sdk.services.responder import ServiceResponder
from tests.client_sdk.samples import cancel, gives, raises, yields
from tests.client_sdk.services.asking import taken

ROUTE_ID = bytes(range(16))
TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"


async def gathered(service: Service, route: str, data: bytes = b"") -> list[Answer]:
    """The answers of one service."""
    items = ServiceResponder(service, ROUTE_ID).request_stream(GATHER_ENTRY + route_bytes(route), data)
    return [read_answer(item) for item in await taken(items)]


def parts(answer: Answer) -> tuple[str, str, bytes, bytes | None]:
    return answer.route_id, answer.service, answer.data, answer.metadata


async def test_a_request_response_handler_answers_with_one_marked_item() -> None:
    service = Service("stock")
    service.request_response("count")(gives(lambda _: Payload(b"3", b"meta")))
    service.request_stream("count")(yields(b"stream"))

    assert [parts(answer) for answer in await gathered(service, "count")] == [(TEXT, "stock", b"3", b"meta")]


async def test_without_one_each_item_of_the_stream_is_marked() -> None:
    service = Service("stock")
    service.request_stream("all")(yields(b"1", b"2"))

    answers = await gathered(service, "all")
    assert [parts(answer) for answer in answers] == [(TEXT, "stock", b"1", None), (TEXT, "stock", b"2", None)]


async def test_every_failure_is_an_item_and_never_an_error(caplog: pytest.LogCaptureFixture) -> None:
    service = Service("stock")
    service.request_response("own")(raises(ApplicationError("none is left", word="sold-out", code=0x301)))
    service.request_response("mistake")(raises(ValueError("secret")))
    service.request_response("cancels")(raises(asyncio.CancelledError()))
    service.request_stream("breaks")(yields(b"1", then=ApplicationError("no more", word="sold-out")))

    with caplog.at_level(logging.CRITICAL, "client_sdk"):
        answers = {
            route: (await gathered(service, route))[-1] for route in ("own", "mistake", "cancels", "breaks", "missing")
        }
    assert all(answer.service == "stock" for answer in answers.values())
    errors = {route: answer.error for route, answer in answers.items()}
    said = {route: (error.word, error.code) for route, error in errors.items() if error is not None}
    assert said == {
        "own": ("sold-out", 0x301),
        "mistake": ("handler-failed", 0x201),
        "cancels": ("handler-failed", 0x201),
        "breaks": ("sold-out", 0x201),
        "missing": ("no-handler", 0x204),
    }
    assert isinstance(errors["missing"], NoHandler)
    assert "secret" not in str(errors["mistake"])


async def test_answers_and_failures_say_the_tags_where_these_are_asked_for() -> None:
    service = Service("stock", tags={"region": "eu", "hot": None, "name": "ä"})
    service.request_response("count")(gives(lambda _: b"3"))
    responder = ServiceResponder(service, ROUTE_ID)
    for route in ("count", "missing"):
        (item,) = await taken(responder.request_stream(TAGGED_ENTRY + route_bytes(route), b""))
        assert read_answer(item).tags == {"region": "eu", "hot": "", "name": "ä"}
    assert [answer.tags for answer in await gathered(service, "count")] == [None]


async def test_tags_that_cannot_be_read_are_no_tags() -> None:
    broken = entry_bytes(TAGS_MIME, b"\x01\x05a")
    assert read_answer(Payload(b"3", answered_by(ROUTE_ID, "stock") + broken)).tags is None


async def test_a_service_that_drains_still_answers_a_unicast_gather_with_its_refusal() -> None:
    service = Service("stock")
    service.request_response()(gives(lambda _: b"3"))

    responder = ServiceResponder(service, ROUTE_ID)
    responder.is_draining = True
    (item,) = await taken(responder.request_stream(GATHER_ENTRY, b""))
    error = read_answer(item).error
    assert isinstance(error, Rejected)
    assert error.word == "draining"


async def test_a_cancelled_gather_ends_its_handler() -> None:
    service = Service("stock")
    began, ended = asyncio.Event(), asyncio.Event()

    @service.request_response()
    async def stuck(request: Request) -> bytes:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return b""

    responder = ServiceResponder(service, ROUTE_ID)
    task = asyncio.create_task(taken(responder.request_stream(GATHER_ENTRY, b"")))
    await began.wait()
    await cancel(task)
    assert (task.cancelled(), ended.is_set(), responder.working_n) == (True, True, 0)


async def test_who_is_there_is_answered_without_a_handler() -> None:
    called: list[bytes] = []
    service = Service("stock")
    service.request_response()(gives(called.append))
    service.request_stream()(yields(b"stream"))

    items = ServiceResponder(service, ROUTE_ID).request_stream(entry_bytes(GATHER_MIME, WHO), b"")
    answers = [read_answer(item) for item in await taken(items)]
    assert [(*parts(answer), answer.is_ok) for answer in answers] == [(TEXT, "stock", b"", None, True)]
    assert called == []


@pytest.mark.parametrize("word", ["draining", "unhealthy"])
async def test_who_takes_no_requests_says_so(word: str) -> None:
    service = Service("stock")
    responder = ServiceResponder(service, ROUTE_ID)
    if word == "draining":
        responder.is_draining = True
    else:
        await service.set_health(False, "no disk")
    (item,) = await taken(responder.request_stream(entry_bytes(GATHER_MIME, WHO), b""))
    answer = read_answer(item)
    assert isinstance(answer.error, Rejected)
    assert (answer.route_id, answer.error.word) == (TEXT, word)

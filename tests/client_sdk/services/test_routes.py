"""Routes: which handler a request gets, and what is remembered of it."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from client_sdk import Payload, Request, Service
from client_sdk.errors import Refused
from client_sdk.metadata import entry_bytes, route_bytes
from client_sdk.services.request import route_names
from client_sdk.services.responder import ServiceResponder
from client_sdk.services.routes import MAX_KNOWN, MAX_KNOWN_BYTES, MAX_SHOWN
from rsocket_wire.errors import INVALID
from rsocket_wire.models import REQUEST_RESPONSE
from tests.client_sdk.samples import yields
from tests.client_sdk.services.asking import ask, channel, refusal, routes_bytes, stream


def service_of(*routes: str | None) -> Service:
    """Each handler answers with its own name."""
    service = Service("s")
    for route in routes:
        service.request_response(route)(named(route))
    return service


def named(route: str | None) -> Callable[[Request], Awaitable[bytes]]:
    async def handler(request: Request) -> bytes:
        return (route or "unknown").encode()

    return handler


async def test_of_several_names_the_first_that_has_a_handler_is_meant() -> None:
    service = service_of("b", "c", None)
    assert [
        await ask(service, b"", more=routes_bytes("a", "b", "c")),
        await ask(service, b"", more=routes_bytes("c", "b")),
        await ask(service, b"", more=routes_bytes("x", "y")),
        await ask(service, b"", more=routes_bytes()),
    ] == [Payload(b"b"), Payload(b"c"), Payload(b"unknown"), Payload(b"unknown")]


def test_names_of_a_routing_entry_are_read_as_far_as_they_go() -> None:
    assert route_names(b"") == []
    assert route_names(b"\x01a\x02bc") == ["a", "bc"]
    assert route_names(b"\x05abc") == ["abc"]
    assert route_names(b"\x01\xff") == ["\ufffd"]
    request = Request("request_response", b"", routes_bytes("a", "b"))
    assert (request.route, request.routes) == ("a", ["a", "b"])


async def test_without_an_unnamed_handler_unknown_routes_are_refused() -> None:
    service = service_of("a")
    for more in (b"", routes_bytes("b")):
        with pytest.raises(Refused) as caught:
            await ask(service, b"", more=more)
        wanted = "route 'b'" if more else "a request without a route"
        text = f"no-handler: service 's' has no request_response handler for {wanted}; it has 'a'"
        assert refusal(caught) == ("no-handler", INVALID, text)
    with pytest.raises(Refused, match=r"no-handler: .* no request_stream handler"):
        await stream(Service("empty"))
    with pytest.raises(Refused, match=r"no-handler: .* no request_channel handler"):
        await channel(service, b"")


async def test_who_asks_for_what_is_not_there_is_told_what_is() -> None:
    service = service_of(*(f"r{number}" for number in range(MAX_SHOWN + 2)))

    @service.request_channel("talk")
    async def talk(items: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for item in items:
            yield item

    for more, text in (
        (routes_bytes("x"), "; it has 'r0', 'r1', .* 'r11', 2 more$"),
        (routes_bytes("talk"), "; that route is request_channel$"),
    ):
        with pytest.raises(Refused, match=text):
            await ask(service, b"", more=more)
    with pytest.raises(
        Refused, match=r"no fire_and_forget handler .*; it has request_response 'r0'.*; request_channel 'talk'$"
    ):
        service.routes["fire_and_forget"].find(b"")
    with pytest.raises(Refused, match=r"it has no handlers$"):
        await ask(Service("empty"), b"")
    assert repr(Service("s")) == "<Service 's': no handlers>"
    assert repr(service_of("a", None)) == "<Service 's': request_response 'a', one for any route>"


async def test_what_metadata_led_to_is_remembered_up_to_a_bound() -> None:
    service = service_of("a", None)
    routes = service.routes[REQUEST_RESPONSE]
    responder = ServiceResponder(service)
    for number in range(MAX_KNOWN + 1):
        metadata = route_bytes("a") + entry_bytes("x/y", b"%d" % number)
        assert await responder.request_response(metadata, b"") == b"a"
    assert len(routes._known) == 1  # all were forgotten when there were too many
    long = route_bytes("a") + entry_bytes("x/y", bytes(MAX_KNOWN_BYTES))
    assert await responder.request_response(long, b"") == b"a"
    assert long not in routes._known


async def test_a_handler_that_is_added_later_is_found_in_spite_of_what_is_remembered() -> None:
    service = service_of(None, "b")
    assert await ask(service, b"", "a") == Payload(b"unknown")
    service.request_response("a")(named("a"))
    assert await ask(service, b"", "a") == Payload(b"a")


async def test_stream_of_a_route_that_only_answers_is_its_answer_as_the_only_item() -> None:
    service = service_of("a", None)
    service.request_stream("b")(yields(b"1", b"2"))

    assert await stream(service, metadata=route_bytes("a")) == [b"a"]
    assert await stream(service, metadata=route_bytes("b")) == [b"1", b"2"]
    assert await stream(service, metadata=route_bytes("x")) == [b"unknown"]
    assert await stream(service_of(None), metadata=None) == [b"unknown"]
    assert await stream(service, metadata=routes_bytes("b", "a")) == [b"1", b"2"]
    assert await stream(service, metadata=routes_bytes("a", "b")) == [b"a"]


async def test_unnamed_stream_handler_comes_behind_an_answer_of_the_route() -> None:
    service = service_of("a")
    service.request_stream()(yields(b"stream"))

    assert await stream(service, metadata=route_bytes("a")) == [b"a"]
    assert await stream(service, metadata=route_bytes("b")) == [b"stream"]

"""Streams and channels of a client; one that is tried again before its first item, or has a span, is around others.

    anext ──► no item yet: tried(open, first item) ──► items of the flow that began ──► end ──► the span ends

Decides when a stream has begun. Does not know frames.
"""

from collections.abc import AsyncIterable, Callable
from typing import Final, cast

from client_sdk.calls.call import Call, Calls, passed_on
from client_sdk.io.connection import Connection
from client_sdk.payload import Payload
from client_sdk.spans import Calling
from client_sdk.streams import Flow, Inflow, warn_unread

# A flow that has not begun: of what gives its connection then, the metadata, seconds for it (None: no deadline).
MakeFlow = Callable[[Callable[[], Connection], bytes, float | None], Flow[Payload]]


def flow_of(calls: Calls, call: Call, initial_n: int, items: AsyncIterable[object] | None = None) -> Flow[Payload]:
    """A request/stream, or a request/channel that sends `items`: what the call's model says.

    The engine's flow itself where nothing happens around it: each item costs one step less.
    """

    def make(connected: Callable[[], Connection], head: bytes, left_s: float | None) -> Flow[Payload]:
        async def begin(inflow: Inflow) -> None:
            if call.model == "request_stream":
                await connected().request_stream(call.data, head, initial_n, inflow)
            else:
                await connected().request_channel(aiter(cast("AsyncIterable[object]", items)), head, initial_n, inflow)

        return Flow(begin, initial_n, left_s, call.model, calls.manager)

    head = calls.cache.of(call.address, call.route, call.timeout_s)  # raises now what is wrong with it
    if calls.makes_spans or call.retry.attempts > 1 or call.wait_s > 0:
        return RetryingStream(calls, call, make)
    return make(calls.manager.connected, head + passed_on() + call.more, call.timeout_s)


class RetryingStream(Flow[Payload]):
    """What `Flow` is to its reader."""

    def __init__(self, calls: Calls, call: Call, make: MakeFlow) -> None:
        # Not Flow's: the streams below are.
        self._calls: Final = calls
        self._call: Final = call
        self._make: Final = make
        self._flow: Flow[Payload] | None = None  # None until the first item was asked for
        self._calling: Calling | None = None  # the span, while there is one
        self._is_over = False

    def _has_ended(self) -> bool:
        return self._is_over

    async def __anext__(self) -> Payload:
        if self._is_over:
            raise StopAsyncIteration
        try:
            item = await (self._first() if self._flow is None else anext(self._flow, None))
        except BaseException as error:
            self._end(error)
            raise
        if item is None:
            self._end(None)
            raise StopAsyncIteration
        return item

    def take_waiting(self) -> list[Payload]:
        """As Flow's."""
        return [] if self._flow is None or self._is_over else self._flow.take_waiting()

    async def aclose(self) -> None:
        """Ends the stream; the other side gets a CANCEL unless it is over."""
        flow = self._flow
        self._end(None)
        if flow is not None:
            await flow.aclose()

    def __del__(self) -> None:
        if self._flow is None and not self._is_over and self._calling is None:
            warn_unread(self._asked_by or self._call.model, self._calls.manager, self._read_how)
        self._end(None)  # the flow below looks after itself

    async def _first(self) -> Payload | None:
        async def once(connection: Connection, head: bytes, left_s: float | None) -> Payload | None:
            flow = self._flow = self._make(lambda: connection, head, left_s)
            return await anext(flow, None)

        self._calling = self._calls.begin_span(self._call)
        entries = passed_on() if self._calling is None else self._calling.entries
        return await self._calls.tried(self._call, entries, once)

    def _end(self, error: BaseException | None) -> None:
        self._is_over = True
        calling, self._calling = self._calling, None
        if calling is not None:
            calling.end(error)

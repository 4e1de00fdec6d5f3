"""Values of calls: what a client's codec makes of them before they leave, and of what comes back.

    value ──► body: bytes, and which codec made them ──► the call ──► Payload ──► `returns` ──► value

Bytes stay what they are, and a call of bytes that says no `returns` never comes here. Knows no connections.
"""

import asyncio
import inspect
import queue
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any, Final, TypeVar, cast

from client_sdk.addresses import Address
from client_sdk.codecs import BYTES, Codec, JsonCodec
from client_sdk.errors import BadAnswer
from client_sdk.mistakes.handlers import answer_advice
from client_sdk.mistakes.kinds import is_function, kind_of, no_value
from client_sdk.mistakes.options import NOT_CALLED_BACK
from client_sdk.payload import Payload, as_bytes
from client_sdk.services.contract import NOTHING
from client_sdk.services.request import DATA_MIME
from client_sdk.streams import Flow
from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.mimes import encode_mime

T = TypeVar("T")


class Values:
    """The codec of one client."""

    def __init__(self, codec: Codec) -> None:
        """ValueError for a codec whose mime type cannot be sent."""
        self._codec: Final = codec
        try:
            self._says: Final = {} if codec is BYTES else {DATA_MIME: encode_mime(codec.mime_type)}
        except BrokerError as error:
            raise ValueError(error.text) from None

    def check(self, returns: object) -> None:
        """TypeError for a type that the codec has not: now, and not when the answer is here."""
        codec = self._codec
        if isinstance(returns, str):
            raise TypeError(f"returns= is the text {returns!r}, it must be the type itself, without quotes")
        if isinstance(returns, _VALUES) or (is_dataclass(returns) and not isinstance(returns, type)):
            raise TypeError(f"returns= is {returns!r}, it must be a type, such as list[int]")
        if returns in _OF_ALL:
            return
        if codec is BYTES:
            text = f"bytes cannot be decoded as {_name_of(returns)}: give the client the codec of the service, {_HOW}"
            raise TypeError(f"{text}; a service without one answers bytes (returns=bytes)")
        if isinstance(codec, JsonCodec):
            codec.check(returns)

    def body(self, value: object) -> bytes:
        """The data of a request; TypeError for what the codec cannot say."""
        if self._codec is not BYTES and not isinstance(value, (bytes, bytearray, memoryview)):
            try:
                encoded = self._codec.encode(value)
            except TypeError:
                _check_value(value)
                raise
            if not isinstance(encoded, (bytes, bytearray, memoryview)):
                what = f"{type(self._codec).__name__}.encode() gives {kind_of(encoded)}"
                raise TypeError(f"{what}, it must give bytes; text becomes bytes with text.encode()")
            return encoded if type(encoded) is bytes else bytes(encoded)
        if value is None or isinstance(value, (bytes, bytearray, memoryview, str)):
            return as_bytes(value, "data")
        if isinstance(value, Payload):
            raise TypeError("data is Payload, it must be bytes: write payload.data, and metadata= for entries")
        _check_value(value)
        raise TypeError(f"data is {type(value).__name__}, it must be bytes; values need a codec: {_HOW}")

    def entries(self, value: object, returns: object, metadata: Mapping[str, bytes] | None) -> Mapping[str, bytes]:
        """Entries of the request; it says of what the codec makes, or is to read, which one that is."""
        is_raw = isinstance(value, (bytes, bytearray, memoryview)) and returns in _OF_ALL
        return (metadata or {}) if is_raw else {**self._says, **(metadata or {})}

    def items(self, items: AsyncIterable[object]) -> AsyncIterable[object]:
        """What a channel sends."""
        if not hasattr(items, "__aiter__"):
            text = "they must be an async iterable, such as what an async function with yield gives"
            raise TypeError(f"the items of a channel are {kind_of(items)}, {text}{_items_how(items)}")
        return items if self._codec is BYTES else _Encoded(aiter(items), self._codec)

    def value(self, answer: Payload, returns: Any, address: Address, route: str | None) -> Any:
        """What the answer is; BadAnswer when it does not fit."""
        if returns is Payload:
            return answer
        if returns is NOTHING:
            return None
        data = answer.data or b""
        if returns is bytes:
            return data
        try:
            return self._codec.decode(data, returns)
        except ValueError as error:
            who = " ".join(filter(None, (address.service, route))) or "a service"
            text = f"{error}{answer_advice(self._codec.mime_type, str(error))}"
            raise BadAnswer(f"{who} answered what is no {_name_of(returns)}: {text}") from None

    def flow(self, flow: Flow[Payload], returns: Any, address: Address, route: str | None) -> Flow[Any]:
        """The items of a stream as values."""
        return ValueFlow(flow, lambda item: self.value(item, returns, address, route))


class ValueFlow(Flow[T]):
    """What `Flow` is to its reader, with values."""

    def __init__(self, flow: Flow[Payload], read: Callable[[Payload], T]) -> None:
        # Not Flow's: the stream below is.
        self._flow: Final = flow
        self._read: Final = read

    def _has_ended(self) -> bool:
        return self._flow._has_ended()

    def _say_if_unread(self, *said: str) -> None:
        self._flow._say_if_unread(*said)

    async def __anext__(self) -> T:
        return await self._value(await anext(self._flow))

    def take_waiting(self) -> list[T]:
        """As Flow's; BadAnswer for the first that does not fit."""
        return [self._read(item) for item in self._flow.take_waiting()]

    async def aclose(self) -> None:
        """Ends the stream; the other side gets a CANCEL unless it is over."""
        await self._flow.aclose()

    def __del__(self) -> None:
        pass  # the flow below looks after itself

    async def _value(self, item: Payload) -> T:
        try:
            return self._read(item)
        except BadAnswer:
            await self._flow.aclose()
            raise


class _Encoded(AsyncIterator[object]):
    """Values of a channel as bytes, one by one as they are asked for."""

    def __init__(self, items: AsyncIterator[object], codec: Codec) -> None:
        self._items: Final = items
        self._codec: Final = codec

    async def __anext__(self) -> object:
        item = await anext(self._items)
        return item if isinstance(item, (bytes, Payload)) else self._codec.encode(item)

    async def aclose(self) -> None:
        """Closes the items of the program, if they can be closed."""
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()


def _items_how(given: Any) -> str:
    """What gives the items that are meant."""
    if inspect.isasyncgenfunction(given):
        return f": write {given.__name__}(), with parentheses"
    if inspect.isgeneratorfunction(given):
        return f": write `async def {given.__name__}():`, and give the call {given.__name__}()"
    if inspect.iscoroutine(given) or inspect.iscoroutinefunction(given):
        return "; it has no yield"
    if isinstance(given, (bytes, str, int, float, Mapping, Payload)):
        return ": for one item and a stream as its answer call request_stream"
    if isinstance(given, Address):
        return ": a call takes one address, then its items"
    body = "for item in ...: yield item" if isinstance(given, Iterable) else ""
    end = ""
    if isinstance(given, (asyncio.Queue, *_QUEUES)):
        get = "queue.get()" if isinstance(given, asyncio.Queue) else "asyncio.to_thread(queue.get)"
        body, end = f"while (item := await {get}) is not None: yield item", "; a None in the queue ends them"
    return f": write `async def items():`, in it `{body}`, and give the call items(){end}" if body else ""


def _check_value(data: object) -> None:
    """TypeError for what no codec makes data of, such as a callback."""
    how = no_value(data)
    if isinstance(data, Address):
        how = "a call takes one address, then its data"
    elif isinstance(data, type):
        how += " (the type of an answer is returns=)"
    elif inspect.isasyncgenfunction(data) or (isinstance(data, AsyncIterable) and not callable(data)):
        how = "write client.request_channel(to, items, route='...'), which sends items one by one"
    elif is_function(data):
        raise TypeError(f"data is {kind_of(data)}, and {NOT_CALLED_BACK}; {how}")
    if how:
        raise TypeError(f"data is {kind_of(data)}: {how}")


def _name_of(type: object) -> str:
    return cast("str", getattr(type, "__name__", None) or repr(type))


_VALUES: Final = (list, tuple, dict, set, int, float, bytes)  # which nobody takes for types
_QUEUES: Final = (queue.Queue, queue.SimpleQueue)
_OF_ALL: Final = (None, bytes, Payload, NOTHING)  # what needs no codec
_HOW: Final = "connect(url, codec=JSON)"

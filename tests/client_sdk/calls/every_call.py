"""Every call, as each of the three APIs of a client makes it: the client, the blocking one, and `as_rsocket`.

API          calls with an answer                                                 without one
client       request_response request_stream request_channel multicast gather    fire_and_forget metadata_push
sync         the same                                                             the same
as_rsocket   request_response request_stream request_channel                      fire_and_forget metadata_push
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rsocket.exceptions import RSocketProtocolError
from rsocket.payload import Payload as RSocketPayload

from client_sdk import Address, Client, Payload, connect, multicast, sync
from client_sdk.rsocket_py import ClientRSocket
from tests.client_sdk import frames
from tests.client_sdk.raw_broker import ITEMS, KINDS, TO, RawBroker, RawPeer, first_answer, made
from tests.client_sdk.rsocket_py.strangers import Counted, Heard

ALL = multicast("everything")
WITH_ANSWER = {**KINDS, "multicast": frames.RESPONSE, "gather": frames.STREAM}
WITHOUT_ANSWER = {"fire_and_forget": frames.FNF, "metadata_push": frames.PUSH}
CALLS = {**WITH_ANSWER, **WITHOUT_ANSWER}  # and the kind of frame that each is
APIS = ("client", "sync", "as_rsocket")
NATIVE = ("client", "sync")  # those whose calls have options
MOST_AT_A_TIME = 32  # calls of one caller


def has(api: str, call: str) -> bool:
    return api in NATIVE or call not in ("multicast", "gather")


ANSWERED = [(api, call) for api in APIS for call in WITH_ANSWER if has(api, call)]
ASKED = [(api, call) for api in APIS for call in CALLS if has(api, call)]


class Caller:
    """A client, and how a program of its API makes calls."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def begin(self, call: str, data: Any = b"1", to: Any = None, **options: Any) -> "asyncio.Future[Any]":
        """The data of the answer or of its first item, None without any; or the SDK's error."""
        to = to or (ALL if call in ("multicast", "gather") else TO)
        return asyncio.ensure_future(self._made(call, data, to, options))

    async def close(self) -> None:
        await self.client.close()

    async def _made(self, call: str, data: Any, to: Address, options: dict[str, Any]) -> Any:
        answer = await first_answer(self.client, call, data, to, **options)
        return None if answer is None else answer.data


class SyncCaller(Caller):
    def __init__(self, client: sync.Client, threads: ThreadPoolExecutor) -> None:
        self.blocking = client
        self._threads = threads

    async def close(self) -> None:
        await asyncio.to_thread(self.blocking.close)

    async def _made(self, call: str, data: Any, to: Address, options: dict[str, Any]) -> Any:
        wait = functools.partial(self._wait_for, call, data, to, options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, wait)

    def _wait_for(self, call: str, data: Any, to: Address, options: dict[str, Any]) -> Any:
        answer = made(self.blocking, call, to, [data] if call == "request_channel" else data, **options)
        if call in ITEMS:
            answer = next(answer, None)
        return None if answer is None else answer.data


class RSocketCaller(Caller):
    """Its errors are rsocket-py's; each has the SDK's as its cause, which this raises."""

    async def _made(self, call: str, data: Any, to: Address, options: dict[str, Any]) -> Any:
        try:
            return await self._asked(self.client.as_rsocket(to), call, RSocketPayload(data, None))
        except (RuntimeError, RSocketProtocolError) as error:
            raise error.__cause__ or error from None

    async def _asked(self, rsocket: ClientRSocket, call: str, payload: Payload) -> Any:
        if call == "request_response":
            return (await rsocket.request_response(payload)).data
        if call == "fire_and_forget":
            return await rsocket.fire_and_forget(payload)
        if call == "metadata_push":
            return await rsocket.metadata_push(b"")
        heard = Heard()
        if call == "request_stream":
            rsocket.request_stream(payload).subscribe(heard)
        else:
            rsocket.request_channel(payload, Counted(0)).subscribe(heard)
        try:
            await heard.first()
        except asyncio.CancelledError:
            heard.subscription.cancel()
            raise
        if heard.error is not None:
            raise heard.error
        return heard.data[0]


@contextlib.asynccontextmanager
async def calling(raw: RawBroker, api: str, **options: Any) -> AsyncIterator[tuple[Caller, RawPeer]]:
    """A caller of this API that is connected, and its peer; closed at the end."""
    number = len(raw.peers)
    caller: Caller
    with ThreadPoolExecutor(MOST_AT_A_TIME) as threads:  # starts none before a call is made in one
        if api == "sync":
            caller = SyncCaller(await asyncio.to_thread(sync.connect, raw.url, **options), threads)
        else:
            caller = (RSocketCaller if api == "as_rsocket" else Caller)(await connect(raw.url, **options))
        try:
            yield caller, await raw.peer(number)
        finally:
            await caller.close()

"""What one client offers: a name and tags for others to ask for, in a ROUTE_SETUP that is said again when they change.

    connect ──► SETUP with the ROUTE_SETUP      set_tags, health, drain ──► METADATA_PUSH with a new one, same Route Id

Decides what the broker is told, and when; the way there is the client's. Section "Handling ROUTE_SETUP Frames" (HS-01):
the same connection may send ROUTE_SETUP again; D-34: the tag `health` = `out`; D-45; D-56.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Final, Protocol

from client_sdk.addresses import check_new_tags, check_own_tags, route_tags
from client_sdk.errors import BadAddress, ClientError, ConnectionLost
from client_sdk.metadata import entry_bytes
from client_sdk.services.responder import ServiceResponder
from client_sdk.services.service import Service
from client_sdk.services.watching import watch_of
from rsocket_wire.errors import BrokerError
from rsocket_wire.quantities import counted
from rsocket_wire.rsocket.frames import Setup
from rsocket_wire.wire.frames import RouteSetup

HEALTH_TAG: Final = "health"
OUT: Final = "out"  # D-34: not chosen while there are others
SAY_EVERY_S: Final = 0.2  # between two ROUTE_SETUPs of one connection; a broker ends one that sends more than 10 in 1 s
SETTLE_S: Final = 0.25  # for requests that others sent before they knew that the route is out
GOODBYE_S: Final = 1.0  # for the broker to end the connection on which nothing runs any more
_log: Final = logging.getLogger("client_sdk")

Work = Coroutine[object, object, None]


class Advertiser(Protocol):
    """What an advertisement needs of a connection."""

    @property
    def reason(self) -> ClientError | None: ...

    @property
    def ended(self) -> asyncio.Event: ...

    async def metadata_push(self, metadata: bytes) -> None: ...

    def leave(self) -> None: ...


class Advertisement:
    """The route of one client, over all of its connections."""

    def __init__(
        self,
        service: str | Service,
        tags: Mapping[str, str | None] | None,
        route_id: bytes,
        mime_type: str,
        responder: ServiceResponder | None,
    ) -> None:
        """BadAddress for a name or tags that cannot be sent. `route_id` 16 bytes, `mime_type` of broker frames."""
        self.name: Final = service if isinstance(service, str) else service.name
        self._service: Final = None if isinstance(service, str) else service
        self._tags: dict[str, str | None] = dict(tags or {})
        self._route_id: Final = route_id
        self._mime_type: Final = mime_type
        self._responder: Final = responder  # None: its requests cannot be counted
        if responder is not None:
            responder.find_tags = lambda: self.tags
        self._is_draining = False
        self._connection: Advertiser | None = None  # the newest connection; None before the first
        self._said = b""  # on this connection
        self._said_in_setup = b""  # likewise; empty when it was not what is offered now
        self._say_at = 0.0  # event loop's time; not earlier
        self._saying: Final = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # the client's; None before `begin`
        self._is_watched = False  # between `begin` and `end`
        self._mending: asyncio.Task[None] | None = None  # set while a connection is told what its SETUP could not say
        self.drain_client: Callable[[float], Work] = _nobody  # set by `begin`
        check_own_tags(self._tags)
        self.entry()

    @property
    def tags(self) -> dict[str, str | None]:
        """As the broker is told: the service's, those of `connect` and, while it is out, `health`."""
        service = self._service
        tags = {**({} if service is None else service.tags), **self._tags}
        if self._is_draining or (service is not None and service.health.is_out):
            tags[HEALTH_TAG] = OUT
        return tags

    @property
    def working_n(self) -> int:
        """Requests that handlers work on now; 0 where nobody counts them."""
        return 0 if self._responder is None else self._responder.working_n

    def entry(self) -> bytes:
        """The metadata entry that says it all; BadAddress when it cannot be said."""
        return self._entry_of(self.tags)

    def setup_of(self, setup: Setup) -> Setup:
        """The SETUP of a connection that is about to be opened: this one, and what is offered now."""
        return replace(setup, metadata=self.entry() + (setup.metadata or b""))

    def opened(self, connection: Advertiser, setup: Setup) -> None:
        """A connection was opened with this SETUP; what has changed since then is said at once."""
        self._connection = connection
        entry = self.entry()
        metadata = setup.metadata or b""
        self._said = self._said_in_setup = entry if metadata.startswith(entry) else b""
        if not self._said:
            self._mend()

    def resumed(self) -> None:
        """The same connection over another socket; D-39: a METADATA_PUSH that was lost with the first is lost."""
        if self._said != self._said_in_setup:
            self._said = b""
            self._mend()

    def _mend(self) -> None:
        if self._mending is None or self._mending.done():
            self._mending = asyncio.create_task(self.tell())

    def check_tags(self, tags: Mapping[str, str | None]) -> None:
        """BadAddress when these tags of its Service could not be said together with those of `connect`."""
        self._entry_of({**tags, **self._tags, HEALTH_TAG: OUT})

    def set_tags(self, tags: Mapping[str, str | None]) -> None:
        """In place of those that `connect` was given; BadAddress when they cannot be said, and nothing has changed."""
        check_new_tags(tags)
        own = {} if self._service is None else self._service.tags
        self._entry_of({**own, **tags, HEALTH_TAG: OUT})
        self._tags = dict(tags)

    async def begin(self, drain_client: Callable[[float], Work]) -> None:
        """The client is about to connect; health checks have looked once when this returns."""
        self._loop = asyncio.get_running_loop()
        self.drain_client = lambda timeout_s: self._at_home(lambda: drain_client(timeout_s))
        if self._service is not None:
            await self._service.began(self)
            watch_of(self._loop).enter(self._service)
            self._is_watched = True

    async def end(self) -> None:
        """The client is closed."""
        mending, self._mending = self._mending, None
        if mending is not None:
            mending.cancel()
            await asyncio.wait([mending])
        if self._service is not None:
            if self._is_watched and self._loop is not None:
                self._is_watched = False
                watch_of(self._loop).leave(self._service)
            await self._service.ended(self)

    async def tell(self) -> None:
        """Tells the broker what has changed since this connection was told, if anything has.

        Without a connection the next one says it. Changes that come faster than a broker hears them are told together.
        In any event loop: a service of a blocking client is often told from that of another thread.
        """
        await self._at_home(self._tell)

    async def _at_home(self, work: Callable[[], Work]) -> None:
        """In the event loop of the client: connections belong to it."""
        loop = self._loop
        if loop is None or loop is asyncio.get_running_loop():
            await work()
        elif not loop.is_closed():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))

    async def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._saying:
            if self._connection is None or self.entry() == self._said:
                return
            wait_s = self._say_at - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            entry = self.entry()
            if entry != self._said:
                self._said = entry  # before the wait: a new connection may take the place of this one
                self._say_at = loop.time() + SAY_EVERY_S
                with contextlib.suppress(ConnectionLost):
                    await self._connection.metadata_push(entry)

    async def drain(self, timeout_s: float) -> bool:
        """Takes the route out and waits for what is being worked on; False if `timeout_s` was not enough."""
        end_at = asyncio.get_running_loop().time() + timeout_s
        self._is_draining = True
        if self._responder is not None:
            self._responder.draining.set()
        await self.tell()
        await asyncio.sleep(min(SETTLE_S, timeout_s))
        responder = self._responder
        if responder is not None:
            # Who asks a route that is out, because there is no other, is refused from now on.
            responder.is_draining = True
            left_n = await responder.wait_idle(end_at - asyncio.get_running_loop().time())
            if left_n:
                text = "service %s: %s did not end within %g s, cancelled; %s"
                mend = "one that yields without end needs `while not request.draining.is_set():`, and one that awaits "
                mend += "drain() waits for itself: asyncio.create_task(service.drain())"
                _log.warning(text, self.name, counted(left_n, "handler"), timeout_s, mend)
                return False
        return True

    async def say_goodbye(self) -> None:
        """D-31: the broker takes the route away at once, so that nothing is on its way here when we close."""
        connection = self._connection
        if connection is not None and connection.reason is None:
            connection.leave()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    await connection.ended.wait()

    def _entry_of(self, tags: Mapping[str, str | None]) -> bytes:
        try:
            return entry_bytes(self._mime_type, RouteSetup(self._route_id, self.name, route_tags(tags)).encode())
        except BrokerError as error:
            raise BadAddress(error.text, word=error.word) from None


async def _nobody(timeout_s: float) -> None:
    """There is no client yet."""

"""A client's credentials, asked for again before those of its connection expire, so that it goes on (D-100).

    notice: so long they hold ──► a part of it ──► `credentials=` is asked ──► METADATA_PUSH ──► notice: renewed ──┐
             ▲                          ▲               │ raises                  │ refused, or no answer          │
             │                          └───────────────┴── a while longer ───────┘                                │
             └─────────────────────────────────────────────────────────────────────────────────────────────────────┘

Decides when. A broker that does not say how long they hold is sent nothing. At the end of credentials that could not be
renewed the broker ends the connection, and the client connects again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from client_sdk.clock import Clock
from client_sdk.credentials import CredentialsSource, encoded_credentials
from client_sdk.io.connection import Connection
from rsocket_wire.rsocket.notices import RENEWED, Notice, renewal_entry

LEAD_SHARE: Final = 0.2  # of the time for which credentials hold: by then new ones are there
SPREAD_SHARE: Final = 0.1  # and by chance so much sooner, for clients that have logged in together
MIN_LEAD_S: Final = 5.0
MIN_DELAY_S: Final = 5.0  # between renewals; what holds no longer than that expires
MAX_DELAY_S: Final = 60.0  # after one that failed; the first time MIN_DELAY_S, then twice as long each time
GIVEN_S: Final = 30.0  # for the function to give credentials
ANSWER_S: Final = 10.0  # for the broker to verify them: it takes `limits.setup_timeout_s`
_log: Final = logging.getLogger("client_sdk")


class Renewal:
    """Of one client's connections: the latest that has said how long its credentials hold."""

    def __init__(self, credentials: CredentialsSource, clock: Clock, chance: Callable[[], float]) -> None:
        """`chance` gives numbers in [0, 1)."""
        self._credentials: Final = credentials
        self._clock: Final = clock
        self._chance: Final = chance
        self._connection: Connection | None = None  # None: none has said so yet
        self._answer: asyncio.Future[Notice] | None = None  # while the broker is asked
        self._task: asyncio.Task[None] | None = None  # of that connection

    def hear(self, connection: Connection, notice: Notice) -> None:
        """The broker has said something on this connection."""
        if notice.login:
            answer = self._answer
            if connection is self._connection and answer is not None and not answer.done():
                answer.set_result(notice)
        elif notice.expires_in_ms and not connection.is_retired:
            self.stop()
            self._connection = connection
            keeping = self._keep(connection, notice.expires_in_ms / 1000)
            self._task = asyncio.get_running_loop().create_task(keeping, name="rsocket renewal")

    def stop(self) -> None:
        """Renews nothing more, until a connection says something again."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """The same; returns when nothing runs any more."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _keep(self, connection: Connection, life_s: float) -> None:
        """Until the connection ends, or its credentials hold for ever."""
        while life_s > MIN_DELAY_S:
            expires_at = self._clock.now() + life_s
            await self._clock.sleep(delay_s(life_s, self._chance()))
            renewed = await self._renew(connection, expires_at)
            if renewed is None:
                return
            life_s = renewed.expires_in_ms / 1000
            _log.info("the credentials are renewed%s", f", they hold for {life_s:.0f} s" if life_s else "")

    async def _renew(self, connection: Connection, expires_at: float) -> Notice | None:
        """What the broker says when it has accepted some; None: it is too late, or nobody needs them any more."""
        longest_s = MIN_DELAY_S
        while connection.reason is None and not connection.is_retired:
            left_s = expires_at - self._clock.now()
            if left_s <= 0:
                return None
            try:
                notice = await self._ask(connection)
            except Exception as error:  # of the function that gives them, too
                text = f"{type(error).__name__}: {error}"
            else:
                if notice.login == RENEWED:
                    return notice
                text = notice.login
            _log.warning("the credentials cannot be renewed, they hold for %.0f s more: %s", left_s, text)
            await self._clock.sleep(longest_s * (0.5 + self._chance() / 2))
            longest_s = min(longest_s * 2, MAX_DELAY_S)
        return None

    async def _ask(self, connection: Connection) -> Notice:
        """What the broker says of new ones; raises what the function does, OSError, TimeoutError, ClientError."""
        async with asyncio.timeout(GIVEN_S):
            raw = await encoded_credentials(self._credentials)
        if connection.is_suspended:
            raise ConnectionError("the connection is broken, its session waits to be resumed")
        answer: asyncio.Future[Notice] = asyncio.get_running_loop().create_future()
        self._answer = answer
        try:
            async with asyncio.timeout(ANSWER_S):
                await connection.metadata_push(renewal_entry(raw))
                return await answer
        finally:
            self._answer = None


def delay_s(life_s: float, chance: float) -> float:
    """Seconds until credentials are to be renewed that hold for so long. `chance` in [0, 1)."""
    lead_s = max(life_s * LEAD_SHARE, MIN_LEAD_S)
    return max(MIN_DELAY_S, life_s - lead_s - life_s * SPREAD_SHARE * chance)

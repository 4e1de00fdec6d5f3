"""What a client is doing, and who wants to know.

    connecting ──► connected ──► reconnecting ──► connected
                     │    ▲  └──────────┴───► closed (for ever)
                     ▼    │
                    moving: connected to a broker that is about to leave, on the way to another one

Decides what a listener is told that does not keep up: the newest. Knows no connections.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from client_sdk.errors import ClientError
from client_sdk.mistakes.operators import refused

MAX_KEPT_CHANGES: Final = 64  # per listener; beyond, the oldest is forgotten and counted


class State(StrEnum):
    """What a client is doing. A `State` is its own word, so `client.state == "connected"` is true, too.

    >>> State.CONNECTED == "connected"
    True
    """

    CONNECTING = "connecting"  # for the first time
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"  # calls fail, or wait, see `wait_for_reconnect`
    MOVING = "moving"  # connected, and on the way to another broker: calls can be made
    CLOSED = "closed"  # for ever


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Change:
    """A client has begun to do something else.

    >>> Change(State.CONNECTED, "tcp://10.0.0.4:7878", None)
    <connected tcp://10.0.0.4:7878>
    """

    state: State
    broker: str  # URL of the broker that it is connected to, or was last; empty before the first
    reason: ClientError | None  # why; None when it is what was wanted

    def __repr__(self) -> str:
        why = "" if self.reason is None else f": {self.reason.word}"
        return f"<{self.state}{f' {self.broker}' if self.broker else ''}{why}>"


class Changes(AsyncIterator[Change]):
    """What a client does from now on, the present state first; ends when the client is closed. One reader.

    Who reads too slowly misses the oldest changes, never the newest: `missed_n` counts them.

    >>> async for change in client.changes():
    ...     print(change.state, change.broker, change.reason)
    ...     break
    connected tcp://127.0.0.1:7878 None
    """

    def __init__(self, present: Change) -> None:
        self._waiting: Final = deque([present], MAX_KEPT_CHANGES)
        self._wake: Final = asyncio.Event()
        self._wake.set()
        self._is_over = False
        self.missed_n = 0  # so far

    def tell(self, change: Change) -> None:
        """What the client does now.

        >>> changes = Changes(Change(State.CONNECTING, "", None))
        >>> changes.tell(Change(State.CLOSED, "", None))
        >>> [change.state.value async for change in changes]
        ['connecting', 'closed']
        """
        if len(self._waiting) == MAX_KEPT_CHANGES:
            self.missed_n += 1
        self._waiting.append(change)
        self._wake.set()

    def __aiter__(self) -> "Changes":
        return self

    if not TYPE_CHECKING:
        __await__ = __iter__ = __next__ = __aenter__ = __aexit__ = __enter__ = __exit__ = refused(
            "changes are read one by one: write `async for change in client.changes():`"
        )

    async def __anext__(self) -> Change:
        while not self._waiting:
            if self._is_over:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        change = self._waiting.popleft()
        self._is_over = change.state is State.CLOSED
        return change


class StateBroadcaster:
    """The present state, and those who are told of each one."""

    def __init__(self) -> None:
        self.current = Change(State.CONNECTING, "", None)
        self._listeners: Final[weakref.WeakSet[Changes]] = weakref.WeakSet()

    def publish(self, change: Change) -> None:
        """Tells all; the same state again is no change, and after CLOSED nothing is."""
        if change.state is self.current.state or self.current.state is State.CLOSED:
            return
        self.current = change
        for listener in list(self._listeners):
            listener.tell(change)

    def listen(self) -> Changes:
        """A listener, told as long as somebody holds it."""
        listener = Changes(self.current)
        self._listeners.add(listener)
        return listener

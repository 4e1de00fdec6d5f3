"""What a program can know of its connection, of the client in an event loop and of the one that blocks alike.

The facts are only read, so that any thread may; who waits for others does that in the event loop.
"""

from typing import TYPE_CHECKING, Final

from client_sdk.errors import ClientError
from client_sdk.mistakes.attributes import Made
from client_sdk.mistakes.kinds import NUMBER, check_kind
from client_sdk.mistakes.operators import CLOSE_HOW, refused, warn_unclosed
from client_sdk.mistakes.options import warn_set
from client_sdk.reconnect.manager import ConnectionManager
from client_sdk.reconnect.state import Change, Changes, State


class ConnectionFacts(metaclass=Made):
    """What both clients say of themselves.

    >>> print(client.is_connected, client.state, client.broker)
    True connected tcp://127.0.0.1:7878
    """

    def __init__(self, manager: ConnectionManager) -> None:
        self._manager: Final = manager

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if not name.startswith("_"):
                warn_set(name)

    @property
    def broker(self) -> str:
        """URL of the broker that this client is connected to, or was last.

        >>> print(client.broker)
        tcp://127.0.0.1:7878
        """
        return self._manager.brokers.url

    @property
    def brokers(self) -> list[str]:
        """URLs of the brokers that it may connect to, as they are tried: those it was given, then those it was told of.

        >>> print(client.brokers)
        ['tcp://127.0.0.1:7878']
        """
        return self._manager.brokers.urls

    @property
    def last_end(self) -> str:
        """Why the broker ended the connection before this one, if it could not say so then; else empty.

        It cannot where the client has read nothing for too long.

        >>> print(repr(client.last_end))
        ''
        """
        return self._manager.brokers.last_end

    @property
    def is_connected(self) -> bool:
        """Calls can be made now.

        >>> print(client.is_connected)
        True
        """
        return self._manager.is_connected

    @property
    def state(self) -> State:
        """What it is doing: connecting, connected, reconnecting, moving or closed.

        >>> print(client.state)
        connected
        """
        return self._manager.states.current.state

    @property
    def reason(self) -> ClientError | None:
        """Why there is no connection, or why the last attempt to make one failed; None while there is one.

        >>> print(client.reason)
        None
        """
        return self._manager.reason


class ConnectionWaits(ConnectionFacts):
    """What a client in an event loop can wait for.

    >>> await client.wait_connected()
    """

    _made_by = "async with connect(url) as client:"

    def __del__(self) -> None:
        # The connection stays: a stream may still be read whose client nobody holds.
        manager = getattr(self, "_manager", None)  # None: it was not made by `connect`, and could not be
        if manager is not None and manager.is_open:
            warn_unclosed(self)

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = __enter__ = __exit__ = refused(f"this client is connected already: {CLOSE_HOW}")
        __aiter__ = refused("a client is not read: a stream is, or `async for change in client.changes():`")

    def changes(self) -> Changes:
        """Its states from now on, the present one first, until it is closed.

        >>> async for change in client.changes():
        ...     print(change.state)
        ...     break
        connected
        """
        return self._manager.states.listen()

    async def wait_for(self, *states: State | str, timeout_s: float | None = None) -> Change:
        """Returns when it is, or has been meanwhile, in one of the states; at once if it is now.

        DeadlineExceeded after `timeout_s`; NotConnected when it is closed for ever and that is not among them.

        >>> change = await client.wait_for("connected", timeout_s=5)
        """
        known = [str(state) for state in State]
        for state in states:
            if state not in known:
                raise ValueError(f"{state!r} is no state; there are {', '.join(sorted(known))}")
        wanted = {State(state) for state in states}
        if not wanted:
            raise ValueError("wait_for() needs at least one state, for example wait_for('connected')")
        return await self._manager.wait_for(wanted, timeout_s)

    async def wait_connected(self, timeout_s: float | None = None) -> None:
        """Returns when calls can be made. DeadlineExceeded after `timeout_s`; NotConnected when closed for ever.

        >>> await client.wait_connected(timeout_s=5)
        """
        if timeout_s is not None:
            check_kind("timeout_s", timeout_s, NUMBER)
        await self._manager.wait_connected(timeout_s)

    async def closed(self) -> None:
        """Returns when the client is closed for ever: by `close()`, or because another one took its Route Id.

        >>> await client.close()
        >>> await client.closed()
        """
        await self._manager.closed()

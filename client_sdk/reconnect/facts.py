"""What a program can know of its connection, of the client in an event loop and of the one that blocks alike.

All is only read, so that any thread may.
"""

from typing import Final

from client_sdk.errors import ClientError
from client_sdk.reconnect.manager import ConnectionManager
from client_sdk.reconnect.state import State


class ConnectionFacts:
    """What both clients say of themselves.

    >>> print(client.is_connected, client.state, client.broker)
    True connected tcp://127.0.0.1:7878
    """

    def __init__(self, manager: ConnectionManager) -> None:
        self._manager: Final = manager

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

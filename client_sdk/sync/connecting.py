"""`sync.connect`: a connected client, and the thread that it needs."""

import contextlib
from collections.abc import Sequence
from typing import Unpack

from client_sdk import connect as connect_async
from client_sdk.calls.options import ConnectOptions
from client_sdk.sync.background import BACKGROUND
from client_sdk.sync.client import Client
from client_sdk.sync.lifecycle import ClientLifecycle


def connect(urls: str | Sequence[str], **options: Unpack[ConnectOptions]) -> Client:
    """A connected client; everything means what it means for `client_sdk.connect`.

    Handlers of a `service` that are `async def` run in the event loop of the background thread and must not block it;
    those that are `def` get threads of their own.

    >>> from client_sdk import sync
    >>> with sync.connect("tcp://127.0.0.1:7000", service="kiosk", tags={"region": "eu"}) as client:
    ...     print(client.is_connected)
    True
    """
    thread = BACKGROUND.enter()
    lifecycle: ClientLifecycle | None = None  # None while the arguments have not been looked at
    try:
        connecting = connect_async(urls, **options)
        lifecycle = ClientLifecycle(thread, connecting)
        return Client(lifecycle, thread.run(lifecycle.open), options.get("timeout_s"))
    except BaseException:
        try:
            if lifecycle is not None:  # it may have succeeded just when this thread was interrupted
                with contextlib.suppress(ConnectionError):
                    thread.run(lifecycle.close)
        finally:
            BACKGROUND.leave(thread)
        raise

"""`sync.connect`: a connected client, and the thread that it needs."""

import contextlib
import ssl as tls
from collections.abc import Mapping, Sequence

from client_sdk import Service
from client_sdk import connect as connect_async
from client_sdk.calls.hedge import Hedging
from client_sdk.calls.retry import NO_RETRY, RetryPolicy
from client_sdk.rsocket_py.typing import HandlerSource
from client_sdk.sync.background import BACKGROUND
from client_sdk.sync.client import Client
from client_sdk.sync.lifecycle import ClientLifecycle
from rsocket_wire.wire.frames import MIME_TYPE


def connect(
    urls: str | Sequence[str],
    *,
    service: str | Service | None = None,
    tags: Mapping[str, str | None] | None = None,
    route_id: str | None = None,
    handler: HandlerSource | None = None,
    keepalive_s: float = 5.0,
    lifetime_s: float = 20.0,
    mime_type: str = MIME_TYPE,
    connect_timeout_s: float = 5.0,
    ssl: tls.SSLContext | None = None,
    timeout_s: float | None = None,
    says_deadlines: bool | None = None,
    wait_for_reconnect: bool | float = False,
    retry: RetryPolicy = NO_RETRY,
    hedging: Hedging | None = None,
    tracing: bool = True,
    fragment_bytes: int = 0,
    resume: bool = False,
    lease: tuple[int, float] | None = None,
) -> Client:
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
        connecting = connect_async(
            urls,
            service=service,
            tags=tags,
            route_id=route_id,
            handler=handler,
            keepalive_s=keepalive_s,
            lifetime_s=lifetime_s,
            mime_type=mime_type,
            connect_timeout_s=connect_timeout_s,
            ssl=ssl,
            timeout_s=timeout_s,
            says_deadlines=says_deadlines,
            wait_for_reconnect=wait_for_reconnect,
            retry=retry,
            hedging=hedging,
            tracing=tracing,
            fragment_bytes=fragment_bytes,
            resume=resume,
            lease=lease,
        )
        lifecycle = ClientLifecycle(thread, connecting)
        return Client(lifecycle, thread.run(lifecycle.open), timeout_s)
    except BaseException:
        try:
            if lifecycle is not None:  # it may have succeeded just when this thread was interrupted
                with contextlib.suppress(ConnectionError):
                    thread.run(lifecycle.close)
        finally:
            BACKGROUND.leave(thread)
        raise

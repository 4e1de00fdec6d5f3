"""The same client for programs without an event loop: scripts, notebooks, threads, ordinary tests.

    from client_sdk import address, sync

    with sync.connect("tcp://127.0.0.1:7878") as client:
        answer = client.request_response(address("orders"), b"a book", route="create", timeout_s=1.0)
        for tick in client.request_stream(address("clock"), b"10", route="ticks"):
            print(tick.data)

Every method blocks the thread that calls it and no other: many threads may use a client at a time. All clients of the
process share one thread with an event loop (`background`), which works where a loop runs already, as in a notebook.
Ctrl-C ends the call, and the other side gets a CANCEL. Errors are those of `client_sdk`.

Decides nothing that `client_sdk.client` does not: the two have the same methods with the same parameters.
"""

from typing import TYPE_CHECKING

from client_sdk.lazy import lazy_getattr
from client_sdk.sync.client import Client, connect
from client_sdk.sync.items import Flow, Gathering, Items

__all__ = ["Client", "Flow", "Gathering", "Items", "connect"]

if not TYPE_CHECKING:  # says what is wrong with any other name
    __getattr__ = lazy_getattr(__name__, dict.fromkeys(__all__, ""))

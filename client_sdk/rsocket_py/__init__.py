"""Programs written for rsocket-py, on our engine.

client.as_rsocket(address("orders"))              our client is an `rsocket.RSocket`                 adapter.py
connect(url, service="orders", handler=...)       their handlers and RequestRouter are a service     handlers.py
from client_sdk.rsocket_py import RSocketClient   their client's constructor, our engine beneath     drop_in.py

Each name imports rsocket-py when it is first used; this package itself imports nothing.
"""

from typing import TYPE_CHECKING

from client_sdk.lazy import lazy_getattr

if TYPE_CHECKING:
    from client_sdk.rsocket_py.adapter import ClientRSocket
    from client_sdk.rsocket_py.drop_in import RSocketClient, substituted
    from client_sdk.rsocket_py.handlers import RSocketPyResponder
    from client_sdk.rsocket_py.typing import HandlerSource, RSocketPyHandler, RSocketPyRouter

__all__ = [
    "ClientRSocket",
    "HandlerSource",
    "RSocketClient",
    "RSocketPyHandler",
    "RSocketPyResponder",
    "RSocketPyRouter",
    "substituted",
]

_MODULE_OF = {
    "ClientRSocket": "adapter",
    "HandlerSource": "typing",
    "RSocketClient": "drop_in",
    "RSocketPyHandler": "typing",
    "RSocketPyResponder": "handlers",
    "RSocketPyRouter": "typing",
    "substituted": "drop_in",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_getattr(__name__, _MODULE_OF)

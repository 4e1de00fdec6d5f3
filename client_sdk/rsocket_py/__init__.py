"""Programs written for rsocket-py, on our engine.

client.as_rsocket(address("orders"))              our client is an `rsocket.RSocket`                 view.py
connect(url, service="orders", handler=...)       their handlers and RequestRouter are a service     handlers.py
from client_sdk.rsocket_py import RSocketClient   their client's constructor, our engine beneath     drop_in.py
"""

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

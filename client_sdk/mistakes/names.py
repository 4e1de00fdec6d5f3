"""Names that `from client_sdk import ...` does not find: where they are, or which one is meant.

Of `client_sdk.sync`, `client_sdk.testing` and `client_sdk.errors`, too.
"""

import sys
from collections.abc import Iterable
from opcode import opmap
from types import FrameType
from typing import Final

from client_sdk.mistakes.likeness import near

LIKE: Final = 0.7  # how alike two names are, of 1, before one is proposed for the other
_HOW: Final = "the client is connect(url), a service Service(name)"
# By the name in lower case.
_ADVICE: Final = {
    **dict.fromkeys(("broker", "brokerclient", "connection", "rsocket", "server"), _HOW),
    **dict.fromkeys(
        ("connect_sync", "sync_connect", "syncclient", "client_sync"),
        "write `from client_sdk import sync`, and sync.connect(url)",
    ),
    **dict.fromkeys(
        ("timeout", "timeouterror", "requesttimeout", "readtimeout", "deadline"),
        "a deadline that is over is DeadlineExceeded",
    ),
    **dict.fromkeys(
        ("unavailable", "serviceunavailable", "notfound", "servicenotfound", "noresponderserror"),
        "a service that is not there is NoRoute, one that is out of order Unhealthy",
    ),
    **dict.fromkeys(
        ("rsocketerror", "brokererror", "rpcerror", "clientexception", "requesterror"), "all errors are ClientError"
    ),
    **dict.fromkeys(
        ("httpexception", "httpstatuserror", "handlererror", "serviceerror", "remoteerror", "handlerfailed"),
        "what a handler raises for its caller is ApplicationError",
    ),
    **dict.fromkeys(
        ("connectionerror", "connecterror", "connectionclosed", "connectionclosederror", "disconnected"),
        "a connection that is lost is ConnectionLost, one that was never there NotConnected",
    ),
    **dict.fromkeys(
        ("ratelimited", "toomanyrequests", "resourceexhausted", "limitexceeded"),
        "more than a limit allows is OverLimit",
    ),
    **dict.fromkeys(
        ("autherror", "authenticationerror", "unauthorized", "authenticationfailed"),
        "credentials that are refused are Unauthenticated",
    ),
    **dict.fromkeys(("validationerror", "invalidargument"), "what can never succeed as it is is BadRequest"),
    "brokerurl": "a URL is text, connect('tcp://127.0.0.1:7878')",
    **{
        name.lower(): f"write `from client_sdk.{module} import {name}`"
        for module, names in {
            "testing": ("local_broker", "sync_local_broker", "LocalBroker", "SyncLocalBroker"),
            "rsocket_py": ("RSocketClient",),
        }.items()
        for name in names
    },
}
_OF_TESTS: Final = {
    **dict.fromkeys(("broker", "server", "testbroker", "fakebroker"), "write `async with local_broker() as url:`"),
    **dict.fromkeys(("rsocket_broker", "rsocket_client"), "a fixture of pytest is named as a parameter of the test"),
}
_OF_SYNC: Final = {
    **_ADVICE,
    **dict.fromkeys(("local_broker", "sync_local_broker"), "write `from client_sdk.testing import sync_local_broker`"),
    "subscribe": "a client has it: client.subscribe(address('clock'), route='ticks')",
    "gather": "a client has it: client.gather(multicast('stock'), route='count')",
    "serve": "write `run(url, service)`, with `from client_sdk import run`",
    "offer": "write `with sync.connect(url, service=service):`",
}
_OF_PACKAGE: Final = {"client_sdk.errors": _ADVICE, "client_sdk.sync": _OF_SYNC, "client_sdk.testing": _OF_TESTS}


def missing(package: str, name: str, known: Iterable[str], asker: FrameType) -> AttributeError | ImportError:
    """For `name`, which `package` has not; it has the `known` ones. `asker` runs what wants to have it.

    Where that is `from package import name` it is an ImportError: Python would drop what an AttributeError says.
    """
    mend = _mend_of(package, name, known)
    if asker.f_code.co_code[asker.f_lasti] == opmap["IMPORT_FROM"]:
        return ImportError(f"{package} has no {name}{mend}", name=package)
    # Without the module, or Python adds a proposal of its own.
    return AttributeError(f"module {package!r} has no attribute {name!r}{mend}", name=name, obj=None)


def _mend_of(package: str, name: str, known: Iterable[str]) -> str:
    """With a colon or semicolon before it."""
    advice = _OF_PACKAGE.get(package, _ADVICE).get(name.lower())
    if advice is not None:
        return f": {advice}"
    if package in _OF_PACKAGE and name in sys.modules["client_sdk"].__all__:
        return f": write `from client_sdk import {name}`"
    return f"; {near(name, known, LIKE) or f'dir({package}) has all its names'}"

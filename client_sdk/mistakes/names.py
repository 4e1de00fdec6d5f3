"""Names that `from client_sdk import ...` does not find: where they are, or which one is meant."""

import importlib
from collections.abc import Iterable
from opcode import opmap
from types import FrameType
from typing import Final

from client_sdk.mistakes.likeness import near

LIKE: Final = 0.7  # how alike two names are, of 1, before one is proposed for the other
_SDK: Final = "client_sdk"
_HOW: Final = "the client is connect(url), a service Service(name)"
# By the name in lower case.
_ADVICE: Final = {
    **dict.fromkeys(("broker", "brokerclient", "connection", "rsocket", "server"), _HOW),
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
    advice = _ADVICE.get(name.lower())
    if advice is not None:
        return f": {advice}"
    if package != _SDK and hasattr(importlib.import_module(_SDK), name):
        return f": write `from {_SDK} import {name}`"
    return f"; {near(name, known, LIKE) or f'dir({package}) has all its names'}"

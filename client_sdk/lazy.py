"""Packages whose public names are imported when they are first used (PEP 562)."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_getattr(package: str, module_of: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of `package`; `module_of` names the module, below the package, that defines each public name.

    The function raises AttributeError for any other name, and ImportError where `from package import name` asks: Python
    says nothing of the AttributeError then. A public name must not be that of a module of the package:
    whoever imports that module would find it in place of the name.
    """

    def find(name: str) -> object:
        module = module_of.get(name)
        if module is None:
            asker = sys._getframe(1)
            # `_handle_fromlist` is Python's own, which looks for a module of this name next.
            if name.startswith("_") or asker.f_code.co_name == "_handle_fromlist":
                text = f"module {package!r} has no attribute {name!r}"
                raise AttributeError(text, name=name, obj=sys.modules.get(package))
            names: Any = importlib.import_module("client_sdk.mistakes.names")  # who makes no mistake imports nothing
            raise names.missing(package, name, module_of, asker)
        thing: object = getattr(importlib.import_module(f"{package}.{module}"), name)
        setattr(sys.modules[package], name, thing)  # the next use does not come here
        return thing

    return find

"""What `import client_sdk` and its names import, and that no module of the package hides a name."""

import ast
import doctest
import inspect
import pickle
import pkgutil
from pathlib import Path
from typing import Any, cast

import pytest

import client_sdk
from client_sdk import rsocket_py
from tests.system.support.processes import run_python

HEAVY = ("aiohttp", "broker", "opentelemetry", "reactivestreams", "rsocket.rsocket", "websockets")


def imported_by(program: str) -> set[str]:
    """The modules that a program imports, each with all packages around it."""
    text = f"import sys; old = set(sys.modules)\n{program}\nprint(*(set(sys.modules) - old))"
    done = run_python("-c", text)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_package_alone_imports_nothing_but_itself() -> None:
    found = imported_by("import typing, importlib\nold = set(sys.modules)\nimport client_sdk")
    assert found == {"client_sdk", "client_sdk.lazy"}


@pytest.mark.parametrize("program", ["from client_sdk import *", "import client_sdk.sync"])
def test_a_caller_imports_nothing_that_only_others_need(program: str) -> None:
    assert not imported_by(program) & set(HEAVY)


def test_the_aiohttp_of_rsocket_py_is_imported_by_who_has_its_transport() -> None:
    found = imported_by("from client_sdk.rsocket_py import RSocketClient")
    assert found & {"rsocket.rsocket", "aiohttp"} == {"rsocket.rsocket"}


@pytest.mark.parametrize("package", [client_sdk, rsocket_py])
def test_no_public_name_is_that_of_a_module(package: object) -> None:
    assert isinstance(package, type(pkgutil))
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert modules & set(package.__all__) == set()


@pytest.mark.parametrize("package", [client_sdk, rsocket_py])
def test_type_checkers_are_told_the_modules_that_the_names_come_from(package: object) -> None:
    assert isinstance(package, type(pkgutil))
    assert package.__file__ is not None
    told = {
        alias.name: node.module
        for node in ast.walk(ast.parse(Path(package.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(package.__name__)
        for alias in node.names
        if alias.name != "lazy_getattr"
    }
    assert told == {name: f"{package.__name__}.{module}" for name, module in package._MODULE_OF.items()}
    assert set(told) == set(package.__all__) <= set(dir(client_sdk)) | set(rsocket_py.__all__)


def test_every_name_is_there_when_all_modules_were_imported_first() -> None:
    program = """
import importlib, pkgutil, types, client_sdk
for module in pkgutil.walk_packages(client_sdk.__path__, "client_sdk."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name in client_sdk.__all__:
    assert not isinstance(getattr(client_sdk, name), types.ModuleType), name
from client_sdk import *
assert address("orders").service == "orders" and callable(connect) and set(client_sdk.__all__) <= set(dir(client_sdk))
"""
    assert "client_sdk.connecting" in imported_by(program)


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'client_sdk' has no attribute 'conect'"):
        getattr(client_sdk, "conect")  # noqa: B009 - type checkers know that there is none


def test_from_import_of_a_name_that_is_none_says_what_to_write() -> None:
    with pytest.raises(ImportError, match=r"^client_sdk has no Json; did you mean JSON\?$"):
        from client_sdk import Json  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ImportError, match=r"^client_sdk has no local_broker: write `from client_sdk.testing import"):
        from client_sdk import local_broker  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ImportError, match=r"^client_sdk has no spam; dir\(client_sdk\) has all its names$"):
        from client_sdk import spam  # type: ignore[attr-defined]  # noqa: F401


def test_an_error_that_is_none_is_told_which_is_meant() -> None:
    for name, text in (
        ("ServiceUnavailable", ": a service that is not there is NoRoute, one that is out of order Unhealthy"),
        ("address", ": write `from client_sdk import address`"),
        ("NoRoutes", "; did you mean NoRoute?"),
        ("Spam", "; dir(client_sdk.errors) has all its names"),
    ):
        with pytest.raises(ImportError) as caught:
            exec(f"from client_sdk.errors import {name}")
        assert str(caught.value) == f"client_sdk.errors has no {name}{text}"


def test_what_asks_the_package_for_a_name_finds_none() -> None:
    nowhere = type("Nowhere", (), {"__module__": "client_sdk"})
    assert not hasattr(client_sdk, "Json")
    assert getattr(client_sdk, "Json", None) is None
    assert inspect.unwrap(cast(Any, client_sdk)) is client_sdk
    assert doctest.DocTestFinder(recurse=False).find(client_sdk)
    with pytest.raises(pickle.PicklingError, match="attribute lookup Nowhere on client_sdk failed"):
        pickle.dumps(nowhere)
    with pytest.raises(AttributeError, match=r"module 'client_sdk' has no attribute 'Json'; did you mean JSON\?"):
        getattr(client_sdk, "Json")  # noqa: B009 - type checkers know that there is none

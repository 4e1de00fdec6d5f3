"""What `import client_sdk` and its names import, and that no module of the package hides a name."""

import ast
import pkgutil
from pathlib import Path

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

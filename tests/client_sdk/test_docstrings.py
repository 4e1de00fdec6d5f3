"""Every public name has an example, and those that need no broker are run."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import client_sdk

MODULES = [module.name for module in pkgutil.iter_modules(client_sdk.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    module = importlib.import_module(f"client_sdk.{name}")
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


@pytest.mark.parametrize("name", sorted(set(client_sdk.__all__) - {"Payload"}))  # that one is rsocket-py's
def test_public_name_has_an_example(name: str) -> None:
    assert ">>>" in (inspect.getdoc(getattr(client_sdk, name)) or "")

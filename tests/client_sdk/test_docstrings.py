"""Every public name has an example, and every example is run: with a broker, and services that others wrote."""

import asyncio
import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import client_sdk
from client_sdk import Client
from client_sdk.connect import connect
from tests.client_sdk.docstring_runner import run_blocking_examples, run_examples
from tests.system.processes import BrokerProcess, Python

MODULES = [module.name for module in pkgutil.walk_packages(client_sdk.__path__, "client_sdk.")]
BLOCKING = ("client_sdk.sync",)  # what needs no event loop
EXAMPLES_S = 12.0  # they take milliseconds


def all_examples() -> list[doctest.DocTest]:
    """Of every docstring in the package."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for name in MODULES for test in finder.find(importlib.import_module(name), name) if test.examples]


@pytest.fixture(scope="module")
def url(shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a broker to which services for all examples are connected."""
    log: Path = tmp_path_factory.mktemp("services") / "log"
    services = Python(log, "tests.client_sdk.docstring_services", [shared_broker.urls[0]], {})
    services.launch()
    try:
        services.read_lines(1)
        assert services.lines == ["ready"], services.output
        yield shared_broker.urls[0]
    finally:
        services.end()


@pytest.mark.parametrize("examples", all_examples(), ids=lambda test: test.name.removeprefix("client_sdk."))
async def test_examples_of_a_docstring_are_true(examples: doctest.DocTest, url: str) -> None:
    client: Client | None = None  # the one that examples call `client`
    names = {**{name: getattr(client_sdk, name) for name in client_sdk.__all__}, "asyncio": asyncio, **examples.globs}
    source = "".join(example.source for example in examples.examples)
    if "client." in source and " as client" not in source and "client =" not in source:
        client = names["client"] = await connect(url)
    try:
        async with asyncio.timeout(EXAMPLES_S):
            if "asyncio.run(" in source or examples.name.startswith(BLOCKING):
                assert await asyncio.to_thread(run_blocking_examples, examples, names, url) == []
            else:
                assert await run_examples(examples, names, url) == []
    finally:
        if client is not None:
            await client.close()


@pytest.mark.parametrize("name", sorted(set(client_sdk.__all__) - {"Payload"}))  # that one is rsocket-py's
def test_public_name_has_an_example(name: str) -> None:
    assert ">>>" in (inspect.getdoc(getattr(client_sdk, name)) or "")

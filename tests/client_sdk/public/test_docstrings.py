"""Every public name has an example, and every example is run: with a broker, and services that others wrote."""

import asyncio
import contextlib
import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import client_sdk
from client_sdk import address, connect, sync
from client_sdk.testing import LocalBroker, SyncLocalBroker, local_broker, sync_local_broker
from tests.client_sdk.public import docstring_services
from tests.client_sdk.public.docstring_runner import run_blocking_examples, run_examples
from tests.system.support.processes import BrokerProcess, Python

MODULES = [module.name for module in pkgutil.walk_packages(client_sdk.__path__, "client_sdk.")]
BLOCKING = ("client_sdk.sync", "client_sdk.testing.Sync", "client_sdk.testing.sync")  # what needs no event loop
NEVER_ENDING = {"client_sdk.serving.run.run"}  # the programs of the README and of the guide run it
PUBLIC_MODULES = ("client_sdk", "client_sdk.sync", "client_sdk.testing")  # rsocket_py's faces are rsocket-py's own
FOR_THE_SDK = {"client_sdk.Service.began", "client_sdk.Service.ended"}  # what its other parts call, and no program does
EXAMPLES_S = 12.0  # they take milliseconds


def all_examples() -> list[doctest.DocTest]:
    """Of every docstring in the package."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for name in MODULES for test in finder.find(importlib.import_module(name), name) if test.examples]


@pytest.fixture(scope="module")
def url(shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a broker to which services for all examples are connected."""
    log: Path = tmp_path_factory.mktemp("services") / "log"
    services = Python(log, "tests.client_sdk.public.docstring_services", [shared_broker.urls[0]], {})
    services.launch()
    try:
        services.read_lines(1)
        assert services.lines == ["ready"], services.output
        yield shared_broker.urls[0]
    finally:
        services.end()


@pytest.mark.parametrize("examples", all_examples(), ids=lambda test: test.name.removeprefix("client_sdk."))
async def test_examples_of_a_docstring_are_true(examples: doctest.DocTest, url: str) -> None:
    names = {**{name: getattr(client_sdk, name) for name in client_sdk.__all__}, "asyncio": asyncio, **examples.globs}
    source = "".join(example.source for example in examples.examples)
    async with asyncio.timeout(EXAMPLES_S), contextlib.AsyncExitStack() as stack:
        if "asyncio.run(" in source or examples.name.startswith(BLOCKING):
            with contextlib.ExitStack() as sync_stack:
                names["sync"] = sync
                if needs("client", source):
                    names["client"] = await asyncio.to_thread(lambda: sync_stack.enter_context(sync.connect(url)))
                if needs("broker", source):
                    names["broker"] = await asyncio.to_thread(busy_sync_broker, sync_stack)
                assert await asyncio.to_thread(run_blocking_examples, examples, names, url) == []
                await asyncio.to_thread(sync_stack.close)
        else:
            if needs("client", source):
                names["client"] = await stack.enter_async_context(connect(url))
            if needs("broker", source):
                names["broker"] = await busy_broker(stack)
            before = asyncio.all_tasks()
            assert await run_examples(examples, names, url) == []
            await asyncio.sleep(0)
            if closing := asyncio.all_tasks() - before:  # what a loop was left by `break` for
                await asyncio.wait(closing)


def needs(name: str, source: str) -> bool:
    """Whether examples use a name that they do not make."""
    return f"{name}." in source and f" as {name}" not in source and f"{name} =" not in source


async def busy_broker(stack: contextlib.AsyncExitStack) -> LocalBroker:
    """A broker to which the service `orders` in region eu and one caller are connected; 3 requests were answered."""
    broker = await stack.enter_async_context(local_broker())
    await stack.enter_async_context(connect(broker, service=docstring_services.orders))
    client = await stack.enter_async_context(connect(broker))
    for _ in range(3):
        await client.request_response(address("orders"), timeout_s=5)
    return broker


def busy_sync_broker(stack: contextlib.ExitStack) -> SyncLocalBroker:
    """The same for programs without an event loop."""
    broker = stack.enter_context(sync_local_broker())
    stack.enter_context(sync.connect(broker, service=docstring_services.orders))
    client = stack.enter_context(sync.connect(broker))
    for _ in range(3):
        client.request_response(address("orders"), timeout_s=5)
    return broker


def test_examples_are_run_but_for_those_that_never_end() -> None:
    skipped = {
        test.name for test in all_examples() for example in test.examples if example.options.get(doctest.SKIP, False)
    }
    assert skipped == NEVER_ENDING


def public_things() -> dict[str, object]:
    """All that users import, by its name, with the methods and properties of its classes."""
    found: dict[str, object] = {}
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) and thing.__module__.startswith("client_sdk"):
                found |= {f"{module_name}.{name}.{member}": each for member, each in members_of(thing)}
            if thing.__module__.startswith("client_sdk"):  # and not rsocket-py's Payload
                found[f"{module_name}.{name}"] = thing
    return {name: thing for name, thing in found.items() if name not in FOR_THE_SDK}


def members_of(cls: type) -> Iterator[tuple[str, object]]:
    """Public methods and properties, those of our own base classes among them."""
    for base in cls.__mro__:
        if base.__module__.startswith("client_sdk"):
            for name, member in vars(base).items():
                thing = getattr(member, "__func__", member)
                if not name.startswith("_") and (isinstance(thing, property) or inspect.isroutine(thing)):
                    yield name, thing


@pytest.mark.parametrize("name", sorted(public_things()))
def test_public_name_has_an_example(name: str) -> None:
    assert ">>>" in (inspect.getdoc(public_things()[name]) or "")

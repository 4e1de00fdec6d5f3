"""What the log of a service says of a handler that has failed."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import client_sdk
from client_sdk import Service, address, connect
from client_sdk.mistakes.handlers import NO_CALLER, NO_ENTRY, REFUSING, TELLING, told_files
from client_sdk.testing import local_broker


@pytest.mark.parametrize(
    ("fails", "advice"),
    [
        ("request.caller.name", NO_CALLER),
        ("request.metadata['text/plain']", NO_ENTRY),
        ("request.metadata.get('text/plain')", NO_ENTRY),
        ("request.data.get('text/plain')", ""),
        ("request.headers['text/plain']", "; write request.entry('text/plain')"),
        ("request.body", "; write request.data"),
        ("request.anything", ""),
        ("client_sdk.Caller('jwt', 'ada').roles", "; write caller.role"),
        ("client_sdk.errors.split_word(None)", ""),
        ("None.name", ""),
    ],
)
async def test_the_log_of_a_service_says_what_its_handler_may_have_meant(
    fails: str, advice: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "handler.py"
    program.write_text(f"def handle(request):\n    return {fails}\n")
    names: dict[str, Any] = {"client_sdk": client_sdk}
    exec(compile(program.read_text(), program, "exec"), names)
    assert await logged_of(names["handle"], caplog) == advice


async def test_the_log_of_a_service_says_so_without_the_source(caplog: pytest.LogCaptureFixture) -> None:
    names: dict[str, Any] = {}
    exec("def handle(request):\n    return request.caller.name\n", names)
    assert await logged_of(names["handle"], caplog) == NO_CALLER


async def test_the_log_says_what_a_handler_raises_in_place_of_an_error_of_callers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(request: client_sdk.Request) -> bytes:
        raise client_sdk.Rejected("busy")

    assert await logged_of(refuse, caplog) == REFUSING


async def test_the_log_says_once_for_each_file_that_callers_are_told_by_an_application_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(request: client_sdk.Request) -> bytes:
        raise LookupError("no order 42")

    def slip(request: client_sdk.Request) -> bytes:
        return int(request.data).to_bytes()

    told_files.discard(__file__)  # others may have said it
    for function, advice in ((slip, ""), (fail, TELLING), (fail, "")):
        caplog.clear()
        assert await logged_of(function, caplog) == advice


async def logged_of(function: Callable[[client_sdk.Request], object], caplog: pytest.LogCaptureFixture) -> str:
    """What is logged behind the number of the incident, of a handler that calls this function."""
    service = Service("echo")

    @service.request_response()
    async def handle(request: client_sdk.Request) -> bytes:
        function(request)
        return b""

    async with local_broker() as url, connect(url, service=service) as client:
        with pytest.raises(client_sdk.ApplicationError, match="handler-failed"):
            await client.request_response(address("echo"), metadata={"text/plain": b"1"})
    return re.sub(r".*incident \w+", "", caplog.messages[0])

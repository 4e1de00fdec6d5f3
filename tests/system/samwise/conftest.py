"""A gateway as a process of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.samwise.gateway_program import GatewayProgram

StartGateway = Callable[..., GatewayProgram]


@pytest.fixture
def start_gateway(socket_folder: Path) -> Iterator[StartGateway]:
    """One that listens when this returns, and ends with the test; what it said is shown when the test fails."""
    started: list[GatewayProgram] = []

    def start(*lines: str, **options: Any) -> GatewayProgram:
        started.append(GatewayProgram(socket_folder, *lines, **options))
        started[-1].start()
        return started[-1]

    yield start
    for each in started:
        each.end()
        print(each.process.output)

"""A whole gateway in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from broker.config.options import Config
from broker.config.sections.samwise import RetryOptions, SamwiseOptions
from client_sdk.gateways.samwise.assignment import Assignment, assignment_of
from client_sdk.gateways.samwise.program import serve
from tests.system.support.waits import soon, until


def assigned(folder: Path, *brokers: str) -> Assignment:
    options = SamwiseOptions(
        endpoints=(f"ipc://{folder}/s",),
        dir=str(folder / "stored"),
        controls=("status", "stop", "restart"),
        retry=RetryOptions(interval=0.05),
    )
    config = Config(samwise=options)
    assignment = assignment_of(config, ["tcp://127.0.0.1:1"])
    return replace(assignment, brokers=brokers or assignment.brokers)


class Serving:
    """A gateway that runs."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.endpoints: list[str] = []
        self.wish: asyncio.Task[str]


@asynccontextmanager
async def gateway(assignment: Assignment) -> AsyncIterator[Serving]:
    serving = Serving()
    serving.wish = asyncio.create_task(serve(assignment, serving.stop, serving.endpoints.extend))
    try:
        await until(lambda: serving.endpoints or serving.wish.done())
        yield serving
    finally:
        serving.stop.set()
        await soon(serving.wish)

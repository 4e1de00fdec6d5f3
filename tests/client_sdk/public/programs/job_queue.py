"""Jobs of one user are done by one worker, and workers are replaced while they work."""

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from client_sdk import JSON, Client, Service, idempotent, shard


@dataclass
class Job:
    number: int
    user: str


@dataclass
class Done:
    number: int
    worker: str
    version: str


class Worker(Protocol):
    @idempotent
    async def do(self, job: Job) -> Done: ...


class Machine:
    """Does what Worker says."""

    def __init__(self, name: str, version: str) -> None:
        self._name = name
        self._version = version

    async def do(self, job: Job) -> Done:
        return Done(job.number, self._name, self._version)


def offer_work(name: str, version: str) -> Service:
    service = Service("jobs", tags={"version": version}, codec=JSON)
    service.implement(Worker, max_concurrency=8)(Machine(name, version))
    return service


class User:
    """Gives jobs one after the other, and counts who did them."""

    def __init__(self, client: Client, name: str) -> None:
        self._worker = client.of(Worker, shard("jobs", key="user", user=name), timeout_s=10)
        self._name = name
        self.done: Counter[tuple[str, str]] = Counter()  # by worker and version

    async def give(self) -> None:
        job = Job(self.done.total(), self._name)
        done = await self._worker.do(job)
        assert done.number == job.number
        self.done[done.worker, done.version] += 1

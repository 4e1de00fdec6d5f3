"""What the admin API needs of the process that it runs in: a broker (`broker.server.Server`), or the supervisor of
several workers (`broker.commands.workers.supervisor`); and of the process of a gateway that it keeps running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from broker.config.options import Config
from broker.core import Core
from broker.views.queries import EventState
from broker.views.schemas import DialView, EdgeView, Moment, WorkerView

T = TypeVar("T")


class BrokerProcess(Protocol):
    """One broker process. All of it is read and changed on the loop's thread, and nothing of it may wait."""

    @property
    def core(self) -> Core:
        """The broker itself."""

    @property
    def config(self) -> Config:
        """The configuration that it was started with."""

    @property
    def listeners(self) -> Sequence[str]:
        """URLs that are listened on, with the ports that the system gave."""

    @property
    def is_ready(self) -> bool:
        """Listens on everything that is configured, and takes requests."""

    @property
    def is_stopping(self) -> bool:
        """Was told to stop: takes no new requests, ends those that run."""

    def moment(self) -> Moment:
        """Now, on the core's clock and on the wall."""

    def event_state(self) -> EventState | None:
        """How the event files are; None when none are written."""

    def edge(self) -> EdgeView:
        """What strangers make the process do."""

    def lookups(self) -> Sequence[DialView]:
        """Names of other brokers for which nothing was found."""

    def change(self, change: Callable[[Core, float], T]) -> T:
        """Changes the core now, monotonic, and lets what follows from it happen. Raises what `change` raises."""


class Supervisor(Protocol):
    """The supervisor of several workers."""

    on_return: Callable[[int], None] | None  # is called with the number of a worker that was started again and is ready

    @property
    def config(self) -> Config:
        """The configuration that it was started with."""

    @property
    def listeners(self) -> Sequence[str]:
        """URLs that the workers listen on."""

    @property
    def broker_id(self) -> str:
        """That the ids of the workers come from."""

    @property
    def started_at_ms(self) -> int:
        """When it was started, epoch."""

    @property
    def is_stopping(self) -> bool:
        """Was told to stop."""

    def states(self) -> Sequence[WorkerView]:
        """All workers, by number."""

    def admin_path(self, number: int, /) -> str:
        """The Unix socket at which a worker answers."""

    def now_ms(self) -> int:
        """Epoch."""


class GatewayProcess(Protocol):
    """The process of a gateway (`broker.commands.gateway_process`): of Samwise, or of the feed."""

    @property
    def pid(self) -> int:
        """0: it does not run."""

    @property
    def restarts(self) -> int:
        """How often it was started again."""


def state_of(process: BrokerProcess) -> str:
    """`starting`, `ready`, `draining` (an operator drains the whole broker) or `stopping`."""
    if process.is_stopping:
        return "stopping"
    if process.core.lifecycle.drains.is_leaving:
        return "draining"
    return "ready" if process.is_ready else "starting"

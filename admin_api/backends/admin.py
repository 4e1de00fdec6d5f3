"""What the admin API needs of the supervisor of several workers, as `admin` says what it needs of one broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from broker.config.options import Config


class WorkerState(msgspec.Struct, frozen=True):
    """One worker, as the supervisor sees it."""

    number: int  # from 1
    name: str  # of its broker, in traces; empty before it was ready for the first time
    pid: int  # 0: it does not run
    state: str  # starting, ready, waiting (to be started again), stopping or ended
    restarts: int
    ready_at_ms: int  # since when it is ready, epoch; 0: it is not


class Workers(Protocol):
    """What the admin API needs of the supervisor."""

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

    def states(self) -> Sequence[WorkerState]:
        """All workers, by number."""

    def admin_path(self, number: int, /) -> str:
        """The Unix socket at which a worker answers."""

    def now_ms(self) -> int:
        """Epoch."""

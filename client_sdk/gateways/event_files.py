"""Event files of a gateway, which writes records as a broker does: under an id of its own, by a process of its own.

    append ──> pipe ──> writer ──> <events.dir>/messages or files, lifecycle

The pipe is the broker's (`broker.edge.event_pipe`): it waits for nobody, holds what the writer does not take up to a
bound, and tells what it has to drop by an EventsDropped event. Imported only where `events.dir` is configured.
"""

import contextlib
import time
import uuid
from pathlib import Path
from typing import Final

from broker.config.sections.events import EventOptions
from broker.config.sections.process import LogOptions
from broker.edge.event_pipe import EventPipe
from broker.events import BROKER_STARTED, BROKER_STOPPED, FileRecord, LifecycleEvent, MessageRecord
from rsocket_wire.errors import BrokerError
from rsocket_wire.files import system_reason

ID_NAME: Final = "events.id"  # in the folder of the gateway
STOP_S: Final = 3.0  # for the writer to seal what it has; it goes on by itself then


class EventFiles:
    """Of one run of a gateway. What comes before `start` waits."""

    def __init__(self, name: str, kind: str, pipe: EventPipe | None = None) -> None:
        """`name`: of the gateway. `kind`: what its id begins with, of `broker.events.GATEWAYS`."""
        self._name: Final = name
        self._kind: Final = kind
        self._pipe: Final = EventPipe() if pipe is None else pipe
        self._seq = 0
        self._began_at_ms: Final = time.time_ns() // 1_000_000
        self._tell(BROKER_STARTED, self._began_at_ms)

    async def start(self, folder: Path, events: EventOptions, log: LogOptions) -> None:
        """`folder`: of the gateway, which nobody else uses. BrokerError "bad-config": the folder of event files, or its
        own, cannot be written."""
        header = {"broker_id": self._kind + _id_in(folder), "broker_name": self._name, "epoch": self._began_at_ms}
        await self._pipe.start_as(events, log, header)

    def append(self, record: MessageRecord | FileRecord) -> None:
        """Give it its number and send it; waits for nothing and raises nothing."""
        self._seq += 1
        self._pipe.append((record._replace(seq=self._seq),))

    @property
    def dropped_n(self) -> int:
        """Records that were lost, on this end of the pipe or the other."""
        return self._pipe.state().dropped

    async def stop(self, timeout_s: float = STOP_S) -> None:
        """The run is over. A writer that takes longer is told in the log, and seals the rest by itself."""
        self._tell(BROKER_STOPPED, time.time_ns() // 1_000_000)
        await self._pipe.stop(timeout_s)

    def _tell(self, kind: int, at_ms: int) -> None:
        self._seq += 1
        uptime_ms = max(0, at_ms - self._began_at_ms)
        self._pipe.append((LifecycleEvent(kind, self._seq, at_ms, uptime_ms=uptime_ms),))


def _id_in(folder: Path) -> str:
    """The same after each start, wherever the folder is moved: the writer finds by it what an earlier one left."""
    path = folder / ID_NAME
    try:
        with contextlib.suppress(FileNotFoundError, ValueError):  # ValueError: whoever wrote it was killed
            return str(uuid.UUID(path.read_text()))
        made = str(uuid.uuid4())
        path.write_text(made)
    except OSError as error:
        raise BrokerError("bad-config", f"{path}: {system_reason(error)}") from None
    return made

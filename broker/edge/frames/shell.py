"""A shell whose links are looked at: the one of a broker that logs frames. Compiled, as the shell itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.connections.admission import Ask
from broker.core import Core
from broker.edge.frames.log import FrameLog, LoggedLink
from broker.edge.link import Link, Loop
from broker.edge.origins import NOWHERE, Origin
from broker.edge.shell import Shell
from broker.events import FlowRecord, LifecycleEvent
from broker.forwarding.peer import Peer
from broker.forwarding.traffic.request_log import RequestRows
from broker.load_meter import LoadMeter


class FrameLoggingShell(Shell):
    """Shows the log what each link brings and takes."""

    def __init__(
        self,
        log: FrameLog,
        core: Core,
        stuck_s: float,
        on_events: Callable[[list[LifecycleEvent | FlowRecord]], None],
        loop: Loop | None = None,
        on_requests: Callable[[RequestRows], None] | None = None,
        load_meter: LoadMeter | None = None,
        on_asks: Callable[[list[Ask]], None] | None = None,
    ) -> None:
        super().__init__(core, stuck_s, on_events, loop, on_requests, load_meter, on_asks=on_asks)
        self._frame_log: Final = log

    def connected(self, name: str, framed: bool, link: Link, origin: Origin = NOWHERE) -> Peer:
        return super().connected(name, framed, LoggedLink(link, name, origin, self._frame_log), origin)

    def dialled(self, name: str, framed: bool, link: Link, url: str, origin: Origin = NOWHERE) -> Peer:
        return super().dialled(name, framed, LoggedLink(link, name, origin, self._frame_log), url, origin)

    def received(self, peer: Peer, data: bytes) -> None:
        link = self._links.get(peer.id)
        if isinstance(link, LoggedLink):
            link.received(data)
        super().received(peer, data)

    def stop(self) -> None:
        super().stop()
        self._frame_log.flush()

"""Frames in the log, for debugging: those of chosen connections and of requests to chosen services (`log.frames`).

    … debug peer tcp 10.0.0.4:5123: < REQUEST_RESPONSE stream 5, metadata 61 B, data 5 B, ADDRESS service=orders
    … debug peer tcp 10.0.0.4:5123: > PAYLOAD stream 5 NEXT COMPLETE, data 12 B

Stands between transports and shell, where all transports have the framing of TCP. A broker that logs no frames has a
plain `Shell`, in which none of this is: it costs nothing. What a frame looks like is decided in `text`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Final

from broker.edge.frames.text import RECEIVED, REQUESTS, SENT, SeenFrame
from broker.edge.link import Link
from broker.edge.origins import Origin
from broker.forwarding.outbound import Piece
from broker.forwarding.peer import Peer
from broker.limited_log import LimitedLog
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import Address, RouteSetup
from rsocket_wire.wire.keys import SERVICE_NAME

ALL: Final = "*"
KIND: Final = "Frames"
LINES_PER_S: Final = 100  # about one connection; beyond it, and beyond those of all (`limited_log`), only their number
MAX_STREAMS: Final = 10_000  # of one connection that are watched; of a request beyond them nothing is shown

_log: Final = logging.getLogger(__name__)


class FrameLog:
    """Which frames are logged, and how many lines."""

    def __init__(self, chosen: Collection[str], clock: Callable[[], float] = time.monotonic) -> None:
        """`chosen`: names of services and of connections, or `*` for all. `clock`: seconds, monotonic."""
        self._chosen: Final = frozenset(chosen)
        self._lines: Final = LimitedLog(_log, clock, LINES_PER_S)
        _log.setLevel(logging.DEBUG)  # whatever `log.level` is: who names frames wants to see them

    def is_chosen(self, name: str, origin: Origin) -> bool:
        """All frames of this connection are logged: by `tcp 10.0.0.4:5123`, by a part of it, or by its principal."""
        place = name.partition(" ")[2]
        host = place.rpartition(":")[0]
        names = {ALL, name, place, host, host.strip("[]"), origin.address, origin.proof.principal} - {""}
        return not self._chosen.isdisjoint(names)

    def is_service(self, name: str | None) -> bool:
        """Frames of the service's connections, and of requests to it, are logged."""
        return name in self._chosen

    def say(self, name: str, frame: SeenFrame) -> None:
        """A line about the frame, or one more that is only counted."""
        if self._lines.admits(KIND, name, logging.DEBUG):
            _log.debug("peer %s: %s", name, frame)

    def flush(self) -> None:
        """Says how many lines were left out until now."""
        self._lines.flush()


class LoggedLink:
    """A transport whose frames are looked at on their way in and out."""

    def __init__(self, link: Link, name: str, origin: Origin, log: FrameLog) -> None:
        self._link: Final = link
        self._name: Final = name
        self._log: Final = log
        self._is_chosen = log.is_chosen(name, origin)  # all its frames are logged
        self._metadata_mime = COMPOSITE_MIME  # until a SETUP says otherwise
        # Requests to a chosen service: how many of the two directions have not ended, by stream id.
        self._streams: Final[dict[int, int]] = {}
        self._received: Final = FrameCursor(True)
        self._sent: Final = FrameCursor(True)

    def received(self, data: bytes) -> None:
        """Looks at bytes that have come."""
        self._look(RECEIVED, self._received, data)

    def write(self, pieces: list[Piece]) -> int:
        for piece in pieces:
            self._look(SENT, self._sent, bytes(piece))
        return self._link.write(pieces)

    def _look(self, direction: str, cursor: FrameCursor, data: bytes) -> None:
        cursor.feed(data, 0.0)
        while cursor.advance():
            frame = SeenFrame(direction, cursor, self._metadata_mime)
            if frame.setup is not None:
                self._metadata_mime = frame.setup.metadata_mime
            if self._is_chosen or self._is_of_service(frame):
                self._log.say(self._name, frame)

    def _is_of_service(self, frame: SeenFrame) -> bool:
        """The frame offers a chosen service, which chooses the connection, or is of a request to one."""
        for each in frame.broker_frames:
            if isinstance(each, RouteSetup) and self._log.is_service(each.service_name):
                self._is_chosen = True
                return True
            if isinstance(each, Address) and frame.kind in REQUESTS:
                services = [tag.value for tag in each.tags if tag.key.wire == SERVICE_NAME.wire]
                if any(map(self._log.is_service, services)) and len(self._streams) < MAX_STREAMS:
                    self._streams[frame.stream_id] = 2 if frame.kind == frames.REQUEST_CHANNEL else 1
        if frame.stream_id not in self._streams:
            return False
        self._streams[frame.stream_id] -= _ends(frame)
        if self._streams[frame.stream_id] <= 0:
            del self._streams[frame.stream_id]
        return True

    def serve(self, peer: Peer | None) -> None:
        self._link.serve(peer)

    def pending_bytes(self) -> int:
        return self._link.pending_bytes()

    def unconfirmed_bytes(self) -> int:
        return self._link.unconfirmed_bytes()

    def pause(self) -> None:
        self._link.pause()

    def resume(self) -> None:
        self._link.resume()

    def end(self) -> None:
        self._link.end()

    def close(self) -> None:
        self._link.close()

    def abort(self) -> None:
        self._link.abort()


def _ends(frame: SeenFrame) -> int:
    """How many directions of its stream the frame ends."""
    if frame.kind == frames.ERROR:
        return 2
    if frame.kind == frames.CANCEL:
        return 1
    if frame.flags & frames.FOLLOWS:
        return 0
    if frame.kind == frames.REQUEST_FNF:
        return 1
    has_ended = frame.kind in (frames.PAYLOAD, frames.REQUEST_CHANNEL) and frame.flags & frames.COMPLETE
    return 1 if has_ended else 0

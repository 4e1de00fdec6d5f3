"""What the shell needs of a transport and of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from broker.forwarding.outbound import Piece
from broker.forwarding.peer import Peer

LEFT: Final = "the peer closed the connection"  # why it ended


class Link(Protocol):
    """One transport, as the shell writes to it."""

    def serve(self, peer: Peer | None) -> None:
        """Speaks for that peer from now on; for none: what still comes is forgotten."""

    def pending_bytes(self) -> int:
        """Bytes handed over and not accepted by this system yet."""

    def unconfirmed_bytes(self) -> int:
        """Bytes accepted by this system and not confirmed by that of the peer; 0 where the system does not tell.

        A system call: asked only of a peer that seems to take nothing.
        """

    def write(self, pieces: list[Piece]) -> int:
        """Writes without waiting; the pieces of a stream, or one message each. Returns `pending_bytes`.

        Where more waits then than its high mark, it has said so (`Shell.congested`) when this returns.
        """

    def pause(self) -> None:
        """Stops reading."""

    def resume(self) -> None:
        """Reads again."""

    def end(self) -> None:
        """Forgets what has been read of a message that is not whole, and what still comes: its peer is ended."""

    def close(self) -> None:
        """Closes when all is written."""

    def abort(self) -> None:
        """Closes at once."""


class Loop(Protocol):
    """What the shell needs of an event loop."""

    def time(self) -> float:
        """Seconds, monotonic."""

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Calls it in the next turn."""

    def call_at(self, when: float, callback: Callable[[], None], /) -> asyncio.TimerHandle:
        """Calls it at that time."""

"""How posts come in and go out, whatever the protocol: what a Source and a Sink promise.

Each is a connection of its own that comes back by itself. Several of either may be used at once.
"""

from dataclasses import dataclass
from typing import Protocol

from spark_sink.feed.posts import Post

UP = "up"  # `state()` of what is connected


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A message that is acknowledged when its file is there, or when its retry is on disk."""

    body: bytes
    topic: str  # with dots, whatever the protocol: v03.post.a.b
    source: str  # `Source.name`
    token: object  # of the Source: what it acknowledges by


class Source(Protocol):
    """Where posts come from."""

    @property
    def name(self) -> str:
        """Of the configuration; no other Source has it."""

    async def receive(self) -> Arrival:
        """The next one. At most `prefetch` are out and not acknowledged. It waits over lost connections."""

    def acknowledge(self, arrival: Arrival) -> None:
        """It will not come again. Whose connection was lost comes again, as one that was received before."""

    async def close(self) -> None:
        """Ends the connection. What was not acknowledged comes again, to the next one."""

    def state(self) -> str:
        """UP, or one line that says why it is not."""


class Sink(Protocol):
    """Where posts go."""

    @property
    def name(self) -> str:
        """Of the configuration; no other Sink has it."""

    async def send(self, post: Post, prefix: str) -> None:
        """Returns when it is confirmed. `prefix`: of the topic, v03.post. NotSent: try again later, with what
        comes behind it; NotTaken: what comes behind it need not wait."""

    async def close(self) -> None:
        """Ends the connection."""

    def state(self) -> str:
        """UP, or one line that says why it is not."""

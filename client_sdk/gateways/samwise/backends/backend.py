"""What the gateway asks of what it delivers to. A destination is whatever acknowledges: a RabbitMQ broker, a route."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from client_sdk.gateways.samwise.values import Message, Publish, Rpc

ANY: Final = ""  # the name of whatever destination the backend chooses


class NotDelivered(Exception):
    """A destination did not acknowledge a message: it is tried again, there or elsewhere.

    `is_hopeless`: no destination will ever take it as it is, so it becomes a dead letter at once.
    `is_away`: nothing was published, because the destination is not there (any more): no try is used up.
    """

    def __init__(self, reason: str, *, is_hopeless: bool = False, is_away: bool = False) -> None:
        super().__init__(reason)
        self.reason: Final = reason
        self.is_hopeless: Final = is_hopeless
        self.is_away: Final = is_away


@dataclass(frozen=True, slots=True)
class DestinationState:
    """One destination, as operators see it."""

    name: str
    is_up: bool
    waiting_n: int  # deliveries that wait for an acknowledgement
    detail: str  # since when it is up, or why it is not


class Backend(Protocol):
    """Services of an RSocket broker, or 1..n RabbitMQ brokers."""

    @property
    def has_fixed_destinations(self) -> bool:
        """True: each message can go to each destination (RabbitMQ). False: which there are depends on its exchange
        (services), so what finds none must not hold up the messages for other exchanges."""

    async def start(self, on_change: Callable[[], None]) -> None:
        """Begins to connect, and does not wait for it. `on_change`: called whenever destinations come or go."""

    async def close(self) -> None:
        """Ends what is under way; deliveries that wait raise NotDelivered."""

    def check(self, publish: Publish) -> None:
        """Refused: no destination could ever take this, or it would hurt others; so it is not stored."""

    async def check_mandatory(self, publish: Publish) -> None:
        """For a message with `mandatory`, after `check`: Refused when no destination is there for it now."""

    async def rpc(self, rpc: Rpc) -> None:
        """Carries out the command. Refused: with the destination's own reason."""

    async def destinations(self, message: Message) -> Sequence[str]:
        """Names of those that could take it now, in a fixed order; none: nothing is up. `ANY` alone: the backend
        chooses, for a message that wants one acknowledgement. All messages of one exchange find the same ones. Within
        a second or so, whatever happens: no other message has its turn meanwhile."""

    def deliver(self, message: Message, to: str) -> Awaitable[str]:
        """Hands it to one destination and waits for its acknowledgement; the name of the one that gave it. Never two at
        the same destination for one message at a time. NotDelivered, when it is awaited: it was not acknowledged."""

    def state(self) -> Sequence[DestinationState]:
        """What is known of each destination."""

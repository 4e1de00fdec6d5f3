"""Messages that wait for one broker: which may be written together, and which goes alone. Knows no connections.

    add() ──► waiting ──► exchange is trusted ──► take():     as many as there are
                     └──► others              ──► take_one(): alone, after all before it were confirmed

A message that RabbitMQ does not accept (an exchange that is missing or forbidden: 404, 403) closes the channel, and
what is in flight with it is lost. So the first message to an exchange goes alone, and nothing behind it is written
before it is confirmed. What RabbitMQ says then is about that message only, and the order stays.

An exchange can vanish later. Then the channel closes with several in flight; nobody knows which of them RabbitMQ has.
They are sent again in their order, the suspects alone, and no try of theirs is used up. A receiver may get one twice,
with the same `x-samwise-id`.
"""

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from client_sdk.gateways.samwise.backends.rabbitmq_publication import Publication

REFUSED_S: Final = 1.0  # so long an exchange that RabbitMQ refused is not tried again
MAX_EXCHANGES: Final = 10_000  # names that are remembered as trusted or as refused; at one more all are forgotten
WRITE_BYTES: Final = 262_144  # of messages in one write, one more message at most
DEFAULT: Final = ""  # the exchange that is always there
# RabbitMQ 3.10 refuses all messages to an exchange with these words; some, of a topic, with others.
_OF_EXCHANGE: Final = re.compile(r"(?:no exchange|access to exchange|internal exchange) '(.*)' in vhost '")


class PublishQueue:
    """Moments are seconds of the event loop."""

    def __init__(self, max_exchanges: int = MAX_EXCHANGES) -> None:
        # Bounded by how many deliveries the gateway has under way.
        self._waiting: Final[deque[Publication]] = deque()
        self._trusted: Final = {DEFAULT}  # exchanges
        self._refused: Final[dict[str, tuple[float, str]]] = {}  # by exchange: until when, why
        self._max_exchanges: Final = max_exchanges

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, publication: Publication) -> None:
        """Behind all others."""
        self._waiting.append(publication)

    def discard(self, publication: Publication) -> None:
        """It waits no more, if it did."""
        if publication in self._waiting:
            self._waiting.remove(publication)

    def take(self, now: float) -> list[Publication]:
        """Those at the head that go together; empty: the head goes alone. What RabbitMQ just refused fails."""
        batch: list[Publication] = []
        size = 0
        while self._waiting and size < WRITE_BYTES:
            head = self._waiting[0]
            refusal = self._find_refusal(head.exchange, now) if self._refused else None
            if refusal is not None:
                head.failed(refusal)
            elif head.is_suspect or head.exchange not in self._trusted:
                break
            else:
                batch.append(head)
                size += head.size
            self._waiting.popleft()
        return batch

    def take_one(self) -> Publication | None:
        """The head; None when it was discarded meanwhile."""
        return self._waiting.popleft() if self._waiting else None

    def trust(self, exchange: str) -> None:
        """RabbitMQ has taken a message to it, or would have closed the channel."""
        if len(self._trusted) >= self._max_exchanges:
            self._trusted.intersection_update({DEFAULT})
        self._trusted.add(exchange)

    def forget(self, exchange: str) -> None:
        """Somebody declares or deletes it."""
        self._refused.pop(exchange, None)
        if exchange != DEFAULT:
            self._trusted.discard(exchange)

    def channel_closed(self, in_flight: Sequence[Publication], reason: str, now: float) -> None:
        """RabbitMQ did not like one of those in flight: if there was only one, it is known which, and fails."""
        exchange = _OF_EXCHANGE.search(reason)
        named = [each for each in in_flight if exchange is not None and each.exchange == exchange[1]]
        for each in named or in_flight:
            each.is_suspect = True
        for each in named:
            self.forget(each.exchange)
        if len(in_flight) > 1:
            self._waiting.extendleft(each for each in reversed(in_flight) if not each.outcome.done())
            return
        for each in in_flight:
            each.failed(reason)
        for each in named:
            if len(self._refused) >= self._max_exchanges:
                self._refused.clear()
            self._refused[each.exchange] = (now + REFUSED_S, reason)

    def broker_lost(self, reason: str) -> None:
        """All fail. Whoever comes back may have lost exchanges that were not durable."""
        for publication in self._waiting:
            publication.failed(reason, is_away=not publication.is_suspect)
        self._waiting.clear()
        self._trusted.intersection_update({DEFAULT})
        self._refused.clear()

    def _find_refusal(self, exchange: str, now: float) -> str | None:
        until, reason = self._refused.get(exchange, (0.0, ""))
        if now < until:
            return reason
        self._refused.pop(exchange, None)
        return None

"""Messages as the gateway has stored them."""

import itertools
from collections.abc import Mapping
from typing import Any, Final

from client_sdk.gateways.samwise.values import ROUND_ROBIN, Message, Publish

_NUMBERS: Final = itertools.count(1)


def publish(
    exchange: str = "",
    routing_key: str = "",
    payload: bytes = b"",
    *,
    options: Mapping[str, str] | None = None,
    headers: tuple[tuple[str, bytes], ...] = (),
    **others: Any,
) -> Publish:
    """What a caller hands over, of protocol 1.1."""
    fields = {"version": 110, "distribution": ROUND_ROBIN, "acks_n": 1, **others}
    return Publish(
        exchange=exchange, routing_key=routing_key, payload=payload, options=options or {}, headers=headers, **fields
    )


def stored(what: Publish) -> Message:
    """It as a message, newer than all others that this has made."""
    number = next(_NUMBERS)
    return Message(
        id=number, uid=f"{number:032x}", stored_at_ms=0, tries_n=0, acknowledged_by=frozenset(), publish=what
    )

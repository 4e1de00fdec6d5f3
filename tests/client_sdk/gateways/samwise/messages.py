"""Messages to hand over, and as they are stored."""

import itertools
from collections.abc import Mapping
from typing import Any, Final

from client_sdk.gateways.samwise.values import REDUNDANT, ROUND_ROBIN, Message, Publish

_NUMBERS: Final = itertools.count(1)


def publish_to(
    exchange: str = "",
    routing_key: str = "",
    payload: bytes = b"",
    *,
    acks_n: int = 1,
    options: Mapping[str, str] | None = None,
    headers: tuple[tuple[str, bytes], ...] = (),
    **others: Any,
) -> Publish:
    """What a caller hands over, of protocol 1.1; redundant when it wants more than one acknowledgement."""
    fields = {"version": 110, "distribution": ROUND_ROBIN if acks_n == 1 else REDUNDANT, **others}
    return Publish(
        exchange=exchange,
        routing_key=routing_key,
        payload=payload,
        acks_n=acks_n,
        options=options or {},
        headers=headers,
        **fields,
    )


def publish(payload: bytes = b"hello", *, exchange: str = "orders", **others: Any) -> Publish:
    """The same, where it is of no matter where it goes."""
    return publish_to(exchange, "key", payload, **others)


def message(
    id: int, *, acks_n: int = 1, exchange: str = "orders", tries_n: int = 0, acknowledged_by: tuple[str, ...] = ()
) -> Message:
    """As it is stored, with what has become of it."""
    return Message(
        id=id,
        uid=f"{id:032x}",
        stored_at_ms=id,
        tries_n=tries_n,
        acknowledged_by=frozenset(acknowledged_by),
        publish=publish(acks_n=acks_n, exchange=exchange),
    )


def stored(what: Publish) -> Message:
    """It as a message, newer than all others that this has made."""
    number = next(_NUMBERS)
    return Message(
        id=number, uid=f"{number:032x}", stored_at_ms=0, tries_n=0, acknowledged_by=frozenset(), publish=what
    )

"""Messages to hand over and to deliver."""

from collections.abc import Mapping

from client_sdk.gateways.samwise.values import REDUNDANT, ROUND_ROBIN, Message, Publish


def publish(
    payload: bytes = b"hello",
    *,
    acks_n: int = 1,
    exchange: str = "orders",
    options: Mapping[str, str] | None = None,
    headers: tuple[tuple[str, bytes], ...] = (),
) -> Publish:
    return Publish(
        version=110,
        distribution=ROUND_ROBIN if acks_n == 1 else REDUNDANT,
        acks_n=acks_n,
        exchange=exchange,
        routing_key="key",
        options=options or {},
        headers=headers,
        payload=payload,
    )


def message(
    id: int, *, acks_n: int = 1, exchange: str = "orders", tries_n: int = 0, acknowledged_by: tuple[str, ...] = ()
) -> Message:
    return Message(
        id=id,
        uid=f"{id:032x}",
        stored_at_ms=id,
        tries_n=tries_n,
        acknowledged_by=frozenset(acknowledged_by),
        publish=publish(acks_n=acks_n, exchange=exchange),
    )

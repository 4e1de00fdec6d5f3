"""tests/vectors/samwise.json as values: what libsamwise, samcli and samctl sent, and what samd answered.

Captured in 2026 from dreadworks/samwise e4922d8 (MIT), protocol 1.2, with czmq 3.0.0 and RabbitMQ 3.10.8.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parents[3] / "vectors" / "samwise.json"
READ: dict[str, Any] = json.loads(FILE.read_text("utf-8"))


class Exchange(NamedTuple):
    """A request, and what samd said to it."""

    name: str
    request: list[bytes]
    reply: list[bytes] | None  # None: samd died of it; and for what clients sent to somebody else


def exchanges(key: str) -> list[Exchange]:
    return [
        Exchange(item["name"], unhex(item["request"]), unhex(item["reply"]) if item.get("reply") else None)
        for item in READ[key]
    ]


def unhex(frames: list[str]) -> list[bytes]:
    return [bytes.fromhex(frame) for frame in frames]


SENT_BY_CLIENTS = {each.name: each.request for each in exchanges("client_requests")}
ANSWERED_BY_SAMD = exchanges("server_exchanges")

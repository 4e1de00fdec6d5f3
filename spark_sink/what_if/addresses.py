"""The ADDRESSes of recorded requests, and what a question puts in the place of their hints.

An LBMethod or ShardMethod hint is the caller's word against the policy's; who asks what another chooser would have done
wants it for all requests, so the hint says the asked method instead. Nothing else of an ADDRESS changes.
"""

import base64
import binascii
from typing import Final

from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.frames import Address, decode_frame
from rsocket_wire.wire.keys import LB_METHOD, SHARD_METHOD
from rsocket_wire.wire.tags import Tag
from spark_sink.what_if.question import Question

MAX_KEPT: Final = 16_384  # addresses whose bytes are remembered, at most 2 KiB each; at the bound all are forgotten


class Addresses:
    """Reads the `address_frame` of records."""

    def __init__(self, question: Question, strict_hints: bool) -> None:
        self._asked: Final = {
            key.wire: Tag.of(key, name)
            for key, name in ((LB_METHOD, question.chooser), (SHARD_METHOD, question.shard))
            if name is not None
        }
        self._strict_hints: Final = strict_hints
        self._known: Final[dict[str, bytes]] = {}

    def find(self, text: str) -> bytes:
        """The bytes of an ADDRESS; none when there is none that can be read."""
        raw = self._known.get(text)
        if raw is None:
            try:
                raw = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raw = b""
            if self._asked and raw:
                raw = self._overridden(raw)
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            self._known[text] = raw
        return raw

    def _overridden(self, raw: bytes) -> bytes:
        try:
            address = decode_frame(raw)
        except BrokerError:
            return raw  # it was refused, and is again
        if not isinstance(address, Address):
            return raw
        tags, said = address.tags, address.metadata
        if address.has_metadata:
            said = self._replaced(said)
        elif not self._strict_hints:  # else they select routes, too
            tags = self._replaced(tags)
        if tags == address.tags and said == address.metadata:
            return raw
        metadata = said if address.has_metadata else None
        return Address(address.origin_route_id, tags, metadata, address.wrapped, address.flags, address.minor).encode()

    def _replaced(self, tags: list[Tag]) -> list[Tag]:
        return [self._asked.get(tag.key.wire, tag) for tag in tags]

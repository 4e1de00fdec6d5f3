"""One message as RabbitMQ gets it: its frames, and what is refused because it would close the channel for everybody.

AMQP 0-9-1, basic.publish and the properties of class basic. What RabbitMQ 3.10 does with each fault is told beside it.
Knows no connections.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from broker.config.sections.samwise import MAX_EXPIRATION_MS
from client_sdk.gateways.samwise.backends.backend import NotDelivered
from client_sdk.gateways.samwise.backends.rabbitmq_frames import FRAME_BYTES, body_frames, header_frame, method_frame
from client_sdk.gateways.samwise.frames import MAX_TEXT_BYTES
from client_sdk.gateways.samwise.layouts import MALFORMED_PUBLISH
from client_sdk.gateways.samwise.values import ID_HEADER, Message, Publish, Refused

MAX_HEADER_NAME_BYTES: Final = 128  # AMQP 0-9-1, 4.2.5.5
# Of the frame with options and headers, which cannot be cut: a longer one closes the connection (501). RabbitMQ's
# `frame_max` unless it is configured otherwise.
MAX_HEADER_BYTES: Final = 131_072

# RabbitMQ takes lists there, which no request of Samwise can say, and closes the channel for text (406).
_LISTS: Final = frozenset({"CC", "BCC"})
_DIRECT_REPLY_TO: Final = "amq.rabbitmq.reply-to"


class Publication:
    """A message on its way to one broker."""

    __slots__ = ("_broker", "_header", "_method", "body", "exchange", "is_suspect", "outcome", "uid")

    def __init__(self, message: Message, outcome: "asyncio.Future[str]", broker: str) -> None:
        """NotDelivered, hopeless, for a message that cannot be written, which `check` would have refused."""
        publish = message.publish
        headers = ((ID_HEADER, message.uid.encode()), *publish.headers)
        try:
            self._method = method_frame(publish.exchange, publish.routing_key, mandatory=publish.mandatory)
            self._header = header_frame(len(publish.payload), publish.options, headers)
        except ValueError as error:
            raise NotDelivered(f"{broker}: cannot be written: {error}", is_hopeless=True) from None
        self._broker: Final = broker
        self.body = publish.payload
        self.exchange: Final = publish.exchange
        self.uid: Final = message.uid
        self.outcome: Final = outcome  # the broker, which has it; NotDelivered; cancelled by whoever waited
        self.is_suspect = False  # it was in flight when RabbitMQ closed the channel, so it goes alone

    @property
    def size(self) -> int:
        """Bytes of it, but for what is around the frames of its body."""
        return len(self._method) + len(self._header) + len(self.body)

    @property
    def longest_bytes(self) -> int:
        """Of a frame that cannot be cut."""
        return len(self._header)

    def frames(self, frame_max_bytes: int) -> list[bytes]:
        """All frames of it; the body in as many as the connection's longest frame makes of it (0: no limit)."""
        return [self._method, self._header, *body_frames(self.body, frame_max_bytes)]

    def drop(self) -> None:
        """Nobody waits for it any more; what RabbitMQ says of it is ignored."""
        self._method = self._header = self.body = b""

    def acknowledged(self) -> None:
        """RabbitMQ has it."""
        if not self.outcome.done():
            self.outcome.set_result(self._broker)

    def failed(self, reason: str, *, is_away: bool = False) -> None:
        """It has not, or nobody knows; `is_away`: it was not written."""
        if not self.outcome.done():
            self.outcome.set_exception(NotDelivered(f"{self._broker}: {reason}", is_away=is_away))


def check(publish: Publish, users: Mapping[str, str]) -> None:
    """Refused when RabbitMQ would close a channel or a connection for it; `users`: the gateway's at each broker."""
    if publish.immediate:
        # 540 NOT_IMPLEMENTED closes the connection.
        raise _refused("immediate is set, which RabbitMQ does not implement", "backend")
    if fault := find_fault_of_name(publish.exchange):
        raise _refused(fault, "text")
    _check_short("exchange", publish.exchange)
    _check_short("routing key", publish.routing_key)
    if publish.options:
        for name, value in publish.options.items():
            _check_short(name, value)
        _check_options(publish, users)
    if publish.headers:
        _check_headers(publish)
    size = _header_bytes(publish)
    if size > MAX_HEADER_BYTES:
        raise _refused(f"options and headers have {size} bytes, at most {MAX_HEADER_BYTES} can be sent", "limit")


def find_fault_of_name(exchange: str) -> str:
    """Why RabbitMQ has no exchange of this name, whatever happens; empty: it may have one. It has others than the names
    of AMQP 0-9-1, which are letters, digits and a few signs."""
    if "\n" in exchange or "\r" in exchange:
        return f"exchange {exchange[:40]!r} has a line feed or a carriage return, which RabbitMQ leaves out of names"
    return ""


def _check_headers(publish: Publish) -> None:
    names = set[str]()
    for name, _ in publish.headers:
        size = len(name.encode())
        if size > MAX_HEADER_NAME_BYTES:
            raise _refused(f"the name of header {name[:40]!r} has {size} bytes of {MAX_HEADER_NAME_BYTES}", "text")
        if name in names:
            raise _refused(f"header {name!r} is given twice", "backend")
        if name in _LISTS:
            raise _refused(f"header {name!r} has to be a list for RabbitMQ, which a request cannot say", "backend")
        if name == ID_HEADER:
            raise _refused(f"header {name!r} is the gateway's own", "backend")
        names.add(name)


def _check_options(publish: Publish, users: Mapping[str, str]) -> None:
    options = publish.options
    if "cluster_id" in options:
        raise _refused("cluster_id is reserved by AMQP 0-9-1, it must be empty", "backend")
    mode = options.get("delivery_mode", "1")
    if mode not in ("1", "2"):
        raise _refused(f"delivery_mode is {mode[:40]!r}, it must be 1 (transient) or 2 (persistent)", "number")
    priority = options.get("priority", "0")
    if not _is_decimal(priority, 3) or int(priority) > 255:
        raise _refused(f"priority is {priority[:40]!r}, it must be 0..255", "number")
    expiration = options.get("expiration", "0")
    if not _is_decimal(expiration, len(str(MAX_EXPIRATION_MS))) or int(expiration) > MAX_EXPIRATION_MS:
        # 406 PRECONDITION_FAILED closes the channel, as for the two that follow.
        text = f"expiration is {expiration[:40]!r}, it must be 0..{MAX_EXPIRATION_MS} milliseconds"
        raise _refused(text, "number")
    said = options.get("user_id")
    for broker, user in users.items():
        if said not in (None, user):
            raise _refused(f"user_id is {said!r}, the gateway's user at {broker} is {user!r}", "backend")
    if options.get("reply_to") == _DIRECT_REPLY_TO:
        raise _refused(f"reply_to is {_DIRECT_REPLY_TO}, and the gateway takes no replies", "backend")


def _header_bytes(publish: Publish) -> int:
    """Of the frame with options and headers: |frame (8)|class, body size, flags (14)|length (4)|own id (50)|others|."""
    options = sum(1 + len(value.encode()) for value in publish.options.values())
    return FRAME_BYTES + 68 + options + sum(6 + len(name.encode()) + len(value) for name, value in publish.headers)


def _check_short(name: str, value: str) -> None:
    size = len(value.encode())
    if size > MAX_TEXT_BYTES:
        raise _refused(f"{name} has {size} bytes, at most {MAX_TEXT_BYTES} can be sent", "text")


def _refused(text: str, reason: str) -> Refused:
    return Refused(f"{MALFORMED_PUBLISH}: {text}", reason)


def _is_decimal(text: str, most_digits: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= most_digits

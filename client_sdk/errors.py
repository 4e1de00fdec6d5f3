"""What a call can end with, as one tree; `except ClientError` catches everything.

    ClientError
     ├─ Rejected               nothing was processed, a retry is safe (REJECTED 0x202)
     │   ├─ NoRoute            no service has the tags of the address
     │   ├─ OverLimit          a limit of the broker is reached
     │   └─ Draining           the broker stops
     ├─ Canceled               it may have been processed (CANCELED 0x203)
     │   └─ RouteLost          the service's connection was lost in the middle
     ├─ BadRequest             it can never succeed as it is (INVALID 0x204)
     │   └─ BadAddress         the address cannot be read, or contradicts itself
     ├─ ApplicationError       the handler of the service failed (0x201, or its own code from 0x301 on)
     ├─ DeadlineExceeded       `timeout_s` is over; also a TimeoutError
     ├─ ConnectionLost         the connection to the broker was lost in the middle; also a ConnectionError
     │   └─ NotConnected       there was none, nothing was sent
     └─ SetupRejected          the broker refused the connection

Each has a stable `word` for programs ("no-route"), the `text` that came with it, the RSocket `code` (0: no frame said
it) and an `advice`; `str()` is all of them in one sentence. Knows nothing of connections.
"""

import re
from typing import ClassVar, Final

from broker.errors import APPLICATION_ERROR, CANCELED, INVALID, REJECTED

FIRST_APPLICATION_CODE: Final = 0x301  # "0x00301-0xFFFFFFFE: reserved for application layer errors"
LAST_APPLICATION_CODE: Final = 0xFFFFFFFE
_WORD: Final = re.compile(r"([a-z][a-z0-9]*(?:-[a-z0-9]+)*): (.*)", re.DOTALL)


class ClientError(Exception):
    """Anything that this SDK says went wrong.

    >>> error = NoRoute("no route has region=mars", word="no-route", code=0x202)
    >>> error.word, error.code
    ('no-route', 514)
    """

    default_word: ClassVar[str] = "error"
    advice: ClassVar[str] = ""

    def __init__(self, text: str, *, word: str = "", code: int = 0) -> None:
        """`word` empty means the usual word of the class; `code` 0 means that no ERROR frame said it."""
        self.word: Final = word or self.default_word
        self.text: Final = text
        self.code: Final = code
        super().__init__(text)

    def __str__(self) -> str:
        message = f"{self.word}: {self.text}"
        return f"{message} ({self.advice})" if self.advice else message


class Rejected(ClientError):
    """The request was refused before anybody looked at it.

    >>> isinstance(NoRoute("no route has region=mars"), Rejected)
    True
    """

    default_word = "rejected"
    advice = "nothing was processed, a retry is safe"


class NoRoute(Rejected):
    """No connected service has all tags of the address.

    >>> try:  # doctest: +SKIP
    ...     await client.request_response(address("orders", region="mars"))
    ... except NoRoute as error:
    ...     print(error.text)
    no route has region=mars
    """

    default_word = "no-route"
    advice = "start the service or mend the tags; nothing was processed, a retry is safe"


class OverLimit(Rejected):
    """A limit of the broker, or of the service, is reached.

    >>> print(OverLimit("10000 requests are being worked on").word)
    over-limit
    """

    default_word = "over-limit"
    advice = "send less at a time; nothing was processed, a retry later is safe"


class Draining(Rejected):
    """The broker, or the service, is about to stop and takes no new requests.

    >>> print(Draining("the broker stops").advice)
    nothing was processed, a retry elsewhere or later is safe
    """

    default_word = "draining"
    advice = "nothing was processed, a retry elsewhere or later is safe"


class Canceled(ClientError):
    """The request was given up by the other side.

    >>> print(Canceled("the service gave up").advice)
    it may have been processed, retry only what may happen twice
    """

    default_word = "canceled"
    advice = "it may have been processed, retry only what may happen twice"


class RouteLost(Canceled):
    """The connection of the service that worked on the request was lost.

    >>> issubclass(RouteLost, Canceled)
    True
    """

    default_word = "route-lost"


class BadRequest(ClientError):
    """The request can never succeed as it is.

    >>> try:  # doctest: +SKIP
    ...     await client.request_response(address("orders"), bytes(1 << 24))
    ... except BadRequest as error:
    ...     print(error.word)
    too-large
    """

    default_word = "bad-request"
    advice = "change the request, a retry fails too"


class BadAddress(BadRequest):
    """The address cannot be read, or contradicts itself.

    >>> from client_sdk import address
    >>> try:
    ...     address()
    ... except BadAddress as error:
    ...     print(error.text)
    an address needs at least one tag, for example address('orders')
    """

    default_word = "bad-address"
    advice = "change the address, a retry fails too"


class ApplicationError(ClientError):
    """The service's handler failed. Raised in a handler it is what the caller gets, word, text and code.

    >>> raise ApplicationError("only 3 are left", word="out-of-stock", code=0x301)
    Traceback (most recent call last):
    client_sdk.errors.ApplicationError: out-of-stock: only 3 are left
    """

    default_word = "application-error"

    def __init__(self, text: str, *, word: str = "", code: int = APPLICATION_ERROR) -> None:
        """ValueError unless `code` is 0x201 or an application's own, 0x301..0xFFFFFFFE."""
        if code != APPLICATION_ERROR and not FIRST_APPLICATION_CODE <= code <= LAST_APPLICATION_CODE:
            raise ValueError(f"{code:#x} is no code of an application: 0x201 and 0x301..0xfffffffe are")
        super().__init__(text, word=word, code=code)


class DeadlineExceeded(ClientError, TimeoutError):
    """The time that the caller gave is over; the other side was told with a CANCEL.

    >>> try:  # doctest: +SKIP
    ...     await client.request_response(address("orders"), timeout_s=0.5)
    ... except TimeoutError:
    ...     print("too slow")
    too slow
    """

    default_word = "deadline"
    advice = "it may have been processed; give it more time or ask for less"


class ConnectionLost(ClientError, ConnectionError):
    """The connection to the broker was lost; the client reconnects by itself unless it was closed.

    >>> try:  # doctest: +SKIP
    ...     await client.request_response(address("orders"))
    ... except ConnectionLost:
    ...     await client.wait_connected(timeout_s=10)
    """

    default_word = "connection-lost"
    advice = "what was sent may have been processed; wait_connected() waits for the next connection"


class NotConnected(ConnectionLost):
    """There is no connection to the broker, and so nothing was sent.

    >>> issubclass(NotConnected, ConnectionError)
    True
    """

    default_word = "not-connected"
    advice = "nothing was sent, a retry is safe when wait_connected() has returned"


class SetupRejected(ClientError):
    """The broker refused the connection: the ROUTE_SETUP, the protocol version or the mime types do not suit it.

    >>> try:  # doctest: +SKIP
    ...     await connect("tcp://127.0.0.1:7000", service="orders")
    ... except SetupRejected as error:
    ...     print(error.word)
    bad-route
    """

    default_word = "setup-rejected"
    advice = "the same connect() fails again; change what it says, or the broker"


class Refused(Exception):
    """What this side answers a caller with, when it is not the handler's ApplicationError. Never leaves the SDK."""

    def __init__(self, word: str, text: str, code: int) -> None:
        super().__init__(f"{word}: {text}")
        self.code: Final = code
        self.message: Final = f"{word}: {text}"


_REJECTED: Final[dict[str, type[ClientError]]] = {"no-route": NoRoute, "over-limit": OverLimit, "draining": Draining}
_CANCELED: Final[dict[str, type[ClientError]]] = {"route-lost": RouteLost}
_INVALID: Final[dict[str, type[ClientError]]] = {"bad-address": BadAddress, "bad-shard-key": BadAddress}


def split_word(message: str) -> tuple[str, str]:
    """(word, text) of "word: text"; the word is empty when the message begins with none."""
    match = _WORD.fullmatch(message)
    return (match[1], match[2]) if match else ("", message)


def error_of(code: int, message: str) -> ClientError:
    """The error that an ERROR frame on a request's stream says; every code has one, none is ignored."""
    word, text = split_word(message)
    if code == REJECTED:
        return _REJECTED.get(word, Rejected)(text, word=word, code=code)
    if code == CANCELED:
        return _CANCELED.get(word, Canceled)(text, word=word, code=code)
    if code == INVALID:
        return _INVALID.get(word, BadRequest)(text, word=word, code=code)
    if code == APPLICATION_ERROR or FIRST_APPLICATION_CODE <= code <= LAST_APPLICATION_CODE:
        return ApplicationError(text, word=word, code=code)
    return ClientError(f"{text} (error code {code:#x}, which has no meaning on a stream)", word=word, code=code)

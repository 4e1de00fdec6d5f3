"""What a call can end with, as one tree; `except ClientError` catches everything.

    ClientError
     ├─ Rejected               nothing was processed, a retry is safe (REJECTED 0x202)
     │   ├─ NoRoute            no service has the tags of the address
     │   ├─ OverLimit          a limit of the broker, or of the service, is reached
     │   │   └─ NoLease        the services grant their requests one by one, and none is left
     │   ├─ Draining           the broker, or the service, is about to stop
     │   ├─ Unhealthy          all services that match are out of order
     │   ├─ Misrouted          the brokers did not agree on the way to the service
     │   ├─ NotAllowed         the role of this client reaches none of the services that match
     │   └─ TooLate            the deadline was over before a service had it; also a DeadlineExceeded
     ├─ Canceled               it may have been processed (CANCELED 0x203)
     │   └─ RouteLost          the service's connection was lost in the middle
     ├─ BadRequest             it can never succeed as it is (INVALID 0x204)
     │   ├─ BadAddress         the address cannot be read, or contradicts itself
     │   ├─ NoHandler          the service has none for this model and route
     │   └─ TooLarge           no frame can hold it
     ├─ ApplicationError       the handler of the service failed (0x201, or its own code from 0x301 on)
     ├─ BadAnswer              the answer does not fit the type that the call wants
     ├─ DeadlineExceeded       `timeout_s` is over; also a TimeoutError
     ├─ ConnectionLost         the connection to the broker was lost in the middle; also a ConnectionError
     │   └─ NotConnected       there was none, nothing was sent
     └─ SetupRejected          the broker refused the connection
         ├─ Unauthenticated    its credentials, or that there are none
         ├─ Denied             its role does not allow to announce this service
         └─ AuthUnavailable    it could not verify them now

Each has a stable `word` for programs ("no-route"), the `text` that came with it, the RSocket `code` (0: no frame said
it) and an `advice`; `str()` is all of them in one sentence. Every word of the broker (`CODE_WORDS`) has a class here
or, where it ends a connection, an advice of its own. Knows nothing of connections.
"""

import re
from typing import TYPE_CHECKING, ClassVar, Final

from client_sdk.lazy import lazy_getattr
from client_sdk.mistakes.arguments import advised
from client_sdk.mistakes.attributes import ERROR_HAS_NOT, missing_told
from client_sdk.mistakes.likeness import hyphened
from rsocket_wire.errors import APPLICATION_ERROR, CANCELED, INVALID, REJECTED

PAGE: Final = "docs/errors.md"
OWN_WORDS: Final = (
    "handler-failed",
    "application-error",
    "caller-failed",
)  # other words are of programs
FIRST_APPLICATION_CODE: Final = 0x301  # "0x00301-0xFFFFFFFE: reserved for application layer errors"
LAST_APPLICATION_CODE: Final = 0xFFFFFFFE
_IS_WORD: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_HTTP_WORDS: Final = {400: "invalid", 403: "forbidden", 404: "not-found", 409: "conflict", 422: "invalid"}
_WORD: Final = re.compile(rf"({_IS_WORD.pattern}): (.*)", re.DOTALL)


@missing_told("it has word, text, advice, code and is_retry_safe; str(error) says all", ERROR_HAS_NOT)
class ClientError(Exception):
    """Anything that this SDK says went wrong.

    >>> error = NoRoute("no route has region=mars", word="no-route", code=0x202)
    >>> error.word, error.code
    ('no-route', 514)
    """

    default_word: ClassVar[str] = "error"
    usual_advice: ClassVar[str] = ""
    is_retry_safe: ClassVar[bool] = False  # nothing was processed: the same call may be made again
    is_of_connection: ClassVar[bool] = False  # its word is one of CONNECTION_ADVICE, or none
    advice_before_own: ClassVar[str] = ""  # what is said before the word's own advice

    def __init__(self, text: str, *, word: str = "", code: int = 0) -> None:
        """`word` empty means the usual word of the class; `code` 0 means that no ERROR frame said it."""
        self.word: Final = word or self.default_word
        self.text: Final = text
        self.code: Final = code
        super().__init__(text)

    @property
    def advice(self) -> str:
        """What to do, for a person; empty when nobody can know.

        >>> NoLease("2 routes match").advice
        'the services limit requests by leases; nothing was processed, a retry later is safe'
        >>> ConnectionLost("another one came", word="replaced").advice
        'another client has this Route Id: give each its own instance= or route_id=, or none'
        """
        own = CONNECTION_ADVICE.get(self.word) if self.is_of_connection else None
        return self.usual_advice if own is None else self.advice_before_own + own

    @property
    def page(self) -> str:
        """Where the documents explain its word; of a word that an application made up, what such words are.

        >>> NoRoute("no route has region=mars").page
        'docs/errors.md#no-route'
        """
        return f"{PAGE}#{self.word}"

    def __str__(self) -> str:
        message = f"{self.word}: {self.text}"
        return f"{message} ({self.advice})" if self.advice else message


class Rejected(ClientError):
    """The request was refused before anybody looked at it.

    >>> isinstance(NoRoute("no route has region=mars"), Rejected)
    True
    """

    default_word = "rejected"
    usual_advice = "nothing was processed, a retry is safe"
    is_retry_safe = True


class NoRoute(Rejected):
    """No connected service has all tags of the address.

    >>> try:
    ...     await client.request_response(address("orders", region="mars"))
    ... except NoRoute as error:
    ...     print(error.text)
    no route has region=mars
    """

    default_word = "no-route"
    usual_advice = "start the service or correct the tags; nothing was processed, a retry is safe"


class OverLimit(Rejected):
    """A limit of the broker, or of the service, is reached.

    >>> print(OverLimit("10000 requests are running already").word)
    over-limit
    """

    default_word = "over-limit"
    usual_advice = "send less at a time; nothing was processed, a retry later is safe"


class NoLease(OverLimit):
    """Every service that matches grants its requests by LEASE, and none is left.

    >>> issubclass(NoLease, OverLimit)
    True
    """

    default_word = "no-lease"
    usual_advice = "the services limit requests by leases; nothing was processed, a retry later is safe"


class Draining(Rejected):
    """The broker, or the service, is about to stop and takes no new requests.

    >>> print(Draining("the broker stops").advice)
    nothing was processed, a retry elsewhere or later is safe
    """

    default_word = "draining"
    usual_advice = "nothing was processed, a retry elsewhere or later is safe"


class Unhealthy(Rejected):
    """Every service that matches has failed too often, or says that it is out of order.

    >>> print(Unhealthy("2 routes match, 2 are ejected").word)
    unhealthy
    """

    default_word = "unhealthy"
    usual_advice = "check the logs of the services; nothing was processed, a retry later is safe"


class NotAllowed(Rejected):
    """Services match, and the role of this client does not allow to call any of them.

    >>> print(error_of(0x202, "denied: the role orders does not allow to address any of the 2 routes").word)
    denied
    """

    default_word = "denied"
    usual_advice = "use other credentials, or ask whoever configures the broker; a retry fails too"
    is_retry_safe = False  # nothing was processed, and nothing will be


class Misrouted(Rejected):
    """The brokers did not agree on the way to the service: while one comes or goes that may be so for a moment.

    >>> error_of(0x202, "loop: b1 b2 b1").__class__
    <class 'client_sdk.errors.Misrouted'>
    """

    default_word = "stale-route"
    usual_advice = "nothing was processed, a retry is safe; if it persists, check the links between the brokers"


class Canceled(ClientError):
    """The request was given up by the other side.

    >>> print(Canceled("the service gave up").advice)
    it may have been processed; retry only idempotent requests
    """

    default_word = "canceled"
    usual_advice = "it may have been processed; retry only idempotent requests"


class RouteLost(Canceled):
    """The connection of the service that worked on the request was lost.

    >>> issubclass(RouteLost, Canceled)
    True
    """

    default_word = "route-lost"


class BadRequest(ClientError):
    """The request can never succeed as it is.

    >>> print(BadRequest("the request frame breaks a rule").advice)
    change the request, a retry fails too
    """

    default_word = "bad-request"
    usual_advice = "change the request, a retry fails too"


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
    usual_advice = "correct the names and tags, a retry fails too"


class NoHandler(BadRequest):
    """The service has no handler for this interaction model and route.

    >>> try:
    ...     await client.request_response(address("stock"), route="cuont")
    ... except NoHandler as error:
    ...     print(error.text)
    service 'stock' has no request_response handler for route 'cuont'; it has 'count'
    """

    default_word = "no-handler"
    usual_advice = "correct route= or the model, or add the handler to the service"


class TooLarge(BadRequest):
    """The data and metadata are more than a frame, or the other side, can hold.

    >>> print(TooLarge("16777228 bytes").word)
    too-large
    """

    default_word = "too-large"
    usual_advice = "send less, or a stream of pieces"


class ApplicationError(ClientError):
    """The service's handler failed. Raised in a handler it is what the caller gets, word, text and code.

    >>> raise ApplicationError("only 3 are left", word="out-of-stock", code=0x301)
    Traceback (most recent call last):
    client_sdk.errors.ApplicationError: out-of-stock: only 3 are left
    """

    default_word = "application-error"

    @advised("ApplicationError('none is left', word='sold-out')")
    def __init__(self, text: str, *, word: str = "", code: int = APPLICATION_ERROR) -> None:
        """ValueError unless `code` is 0x201 or an application's own, 0x301..0xFFFFFFFE, and for what can be no word."""
        if not isinstance(text, str):
            how = "str(error)" if isinstance(text, Exception) else "ApplicationError('none is left', word='sold-out')"
            raise TypeError(f"the text is {type(text).__name__}, it must be str: write {how}")
        is_number = isinstance(code, int)
        if code != APPLICATION_ERROR and not (is_number and FIRST_APPLICATION_CODE <= code <= LAST_APPLICATION_CODE):
            how = f"leave it out, and name the failure by a word, such as word={word or _word_in(code)!r}"
            how = f"it must be 0x201 or 0x301..0xfffffffe: {how}"
            raise (ValueError if is_number else TypeError)(f"code= is {code!r}, {how}")
        super().__init__(text, word=word, code=code)
        if self.word != ApplicationError.default_word and not _is_word(self.word):
            how = f"lower case letters, digits and hyphens, such as word={_word_in(self.word)!r}"
            raise ValueError(f"{self.word!r} is no code word, it must be {how}")

    @property
    def page(self) -> str:
        return super().page if self.word in OWN_WORDS else f"{PAGE}#{self.default_word}"


class BadAnswer(ClientError):
    """The service answered, and the data does not fit the `returns` of the call.

    >>> print(BadAnswer("stock count answered what is no int: Expected `int`, got `str`").word)
    bad-answer
    """

    default_word = "bad-answer"
    usual_advice = "it was processed; returns= is the type of what the handler returns: correct the one or the other"


class DeadlineExceeded(ClientError, TimeoutError):
    """The time that the caller gave is over; the other side was told with a CANCEL.

    >>> try:
    ...     await client.request_response(address("orders"), route="slow", timeout_s=0.05)
    ... except TimeoutError:
    ...     print("too slow")
    too slow
    """

    default_word = "deadline"
    usual_advice = "it may have been processed; give it more time or ask for less"


class TooLate(Rejected, DeadlineExceeded):
    """The deadline was over before any service saw the request; also a TimeoutError.

    >>> isinstance(TooLate("it waited for a route"), DeadlineExceeded)
    True
    """

    default_word = "deadline"
    usual_advice = "nothing was processed; give it more time"
    is_retry_safe = False  # it would be, but there is no time left


class ConnectionLost(ClientError, ConnectionError):
    """The connection to the broker was lost; the client reconnects by itself unless it was closed.

    >>> await client.close()
    >>> try:
    ...     await client.request_response(address("orders"))
    ... except ConnectionLost as error:
    ...     print(error.text)
    this client was closed
    """

    default_word = "connection-lost"
    usual_advice = "what was sent may have been processed; wait_connected() waits for the next connection"
    is_of_connection = True


class NotConnected(ConnectionLost):
    """There is no connection to the broker, and so nothing was sent.

    >>> issubclass(NotConnected, ConnectionError)
    True
    """

    default_word = "not-connected"
    usual_advice = (
        "nothing was sent, a retry is safe; wait_for_reconnect= says how long a call waits for the next connection"
    )
    is_retry_safe = True
    advice_before_own = "nothing was sent; "

    was_connected = False  # there is a client, which comes back by itself

    def __init__(self, text: str, *, word: str = "", code: int = 0, says_how: bool = False) -> None:
        """`says_how`: the text says what to do, so the usual advice would be beside the point."""
        super().__init__(text, word=word, code=code)
        self.says_how: Final = says_how

    @property
    def advice(self) -> str:
        """What to do, for a person, where the text does not say it.

        >>> NotConnected("the other side speaks HTTP: use ws://", says_how=True).advice
        'nothing was sent'
        """
        if self.says_how:
            return "nothing was sent"
        # What CONNECTION_ADVICE has for connect-failed is for who connects.
        return self.usual_advice if self.was_connected and self.word == "connect-failed" else super().advice


class SetupRejected(ClientError):
    """The broker refused the connection: the ROUTE_SETUP, the protocol version or the mime types do not suit it.

    >>> try:
    ...     await connect("tcp://127.0.0.1:7878", service=Service("orders"), tags={f"tag-{n}": "x" for n in range(100)})
    ... except SetupRejected as error:
    ...     print(error.word)
    bad-route
    """

    default_word = "setup-rejected"
    usual_advice = "connect() with the same arguments fails again; change them, or the broker"
    is_of_connection = True

    @property
    def is_transient(self) -> bool:
        """The same may succeed later, or at another broker.

        >>> SetupRejected("the broker stops", word="draining").is_transient
        True
        """
        return self.word in TRANSIENT_WORDS


class Unauthenticated(SetupRejected):
    """The broker wants to know who connects, and the credentials are missing or not accepted.

    >>> Unauthenticated("the credentials are not accepted").is_transient
    False
    """

    default_word = "unauthenticated"

    @property
    def advice(self) -> str:
        """What the broker accepts, where it says so, in the words of `connect`.

        >>> Unauthenticated("the credentials are not accepted; this broker accepts user or certificate").advice
        'connect with credentials=Password(name, password) or with a client certificate in ssl=, not with a Token'
        """
        kinds = [kind for kind in self.text.partition("this broker accepts ")[2].split(" or ") if kind in CONNECT_HOW]
        if not kinds:
            return super().advice
        # Where the credentials are of a kind that it accepts it says no kinds.
        is_other = "the credentials are not accepted" in self.text
        tried = [what for kind, what in (("jwt", "a Token"), ("user", "a Password")) if is_other and kind not in kinds]
        how = " or ".join(CONNECT_HOW[kind] for kind in kinds)
        return f"connect {how}, not with {' or '.join(tried)}" if tried else f"connect {how}"


class Denied(SetupRejected):
    """The broker knows who connects, and that may not announce this service, or has no role.

    >>> Denied("the role orders does not allow to announce this route: service=billing").is_transient
    False
    """

    default_word = "denied"


class Revoked(SetupRejected):
    """The broker knew who connects, and these credentials hold no longer: an operator has taken them back.

    >>> Revoked("the credentials of this connection hold no longer").is_transient
    False
    """

    default_word = "revoked"


class AuthUnavailable(SetupRejected):
    """The broker could not verify the credentials now.

    >>> AuthUnavailable("the credentials cannot be verified now").is_transient
    True
    """

    default_word = "auth-unavailable"


class Refused(Exception):
    """What this side answers a caller with, when it is not the handler's ApplicationError. Never leaves the SDK."""

    def __init__(self, word: str, text: str, code: int) -> None:
        super().__init__(f"{word}: {text}")
        self.word: Final = word
        self.code: Final = code
        self.message: Final = f"{word}: {text}"


# Words of ERRORs on a request's stream, by RSocket code: the class that each becomes.
REJECTED_WORDS: Final[dict[str, type[ClientError]]] = {
    "no-route": NoRoute,
    "over-limit": OverLimit,
    "no-lease": NoLease,
    "draining": Draining,
    "unhealthy": Unhealthy,
    "stale-route": Misrouted,
    "loop": Misrouted,
    "too-many-hops": Misrouted,
    "bad-annotations": Misrouted,
    "denied": NotAllowed,
    "deadline": TooLate,
}
SETUP_WORDS: Final[dict[str, type[SetupRejected]]] = {
    kind.default_word: kind for kind in (Unauthenticated, Denied, Revoked, AuthUnavailable)
}
CANCELED_WORDS: Final[dict[str, type[ClientError]]] = {"route-lost": RouteLost, "deadline": DeadlineExceeded}
INVALID_WORDS: Final[dict[str, type[ClientError]]] = {
    "bad-request": BadRequest,
    "bad-address": BadAddress,
    "bad-shard-key": BadAddress,
    "no-handler": NoHandler,
    "too-large": TooLarge,
}

# Words that end a connection or refuse one: what a person can do about them, where it is not what is usual.
CONNECTION_ADVICE: Final[dict[str, str]] = {
    "connect-failed": "start the broker or correct the URL; `async for client in connect(...)` waits for a broker",
    "connect-timeout": "check the URL, a firewall between, and the load of the broker; or raise connect_timeout_s=",
    "replaced": "another client has this Route Id: give each its own instance= or route_id=, or none",
    "closed": "call connect() again, and use what it gives before its block ends or close() is called",
    "keepalive-timeout": "the network or one of the two sides stalled; the client reconnects by itself",
    "slow-peer": "one of the two sides reads too slowly; consume items as fast as you request them",
    "bad-frame": "the other side does not speak RSocket, or something between the two changes bytes; check the URL",
    "bad-setup": "the URL is not that of a broker, or the broker has another version",
    "bad-version": "the broker speaks another version of RSocket; check the URL",
    "unauthenticated": "give connect() the right credentials=, a Token or a Password, or a client certificate in ssl=",
    "denied": "the role of these credentials does not allow this; use others, or ask whoever configures the broker",
    "route-taken": "a client with other credentials has this route_id: give each one of its own, or none",
    "auth-unavailable": "the broker cannot verify credentials now; the client tries again",
    "expired": "the client reconnects; credentials= may be an async function that gives a new token each time",
    "revoked": "an operator has taken these credentials back; use others",
    "setup-timeout": "the broker did not receive the SETUP in time; the client tries again",
    "bad-route": "correct service= and tags= of connect(): a name or tag is invalid, or there are too many",
    "no-cluster": "the URL is that of a listener for brokers, or the broker does not support mime_type=",
    "bad-broker": "the URL is that of a listener for brokers; use one for clients",
    "wrong-secret": "the URL is that of a listener for brokers; use one for clients",
    "duplicate-link": "the URL is that of a listener for brokers; use one for clients",
    "over-limit": "the broker is at its connection limit, or this connection sent too much; try again later",
    "draining": "the broker is about to stop, or an operator drains it; connect() to another one, or again later",
    "broker-stopped": "the broker stopped; the client reconnects by itself, to another broker if it knows one",
    "closed-by-operator": "an operator closed the connection; the client reconnects by itself",
    "resume-unsupported": "the broker does not support resumption; use connect(resume=False)",
    "unknown-session": "the broker no longer has the session; the client reconnects without resuming",
    "cannot-resume": "too much was sent meanwhile; the client reconnects without resuming",
    "token-in-use": "the client tries again with another token",
    "resume-timeout": "the client resumed too late; it reconnects without resuming",
    "resume-overrun": "too much was sent meanwhile; the client reconnects without resuming",
    "too-large": "the other side does not complete a fragmented payload",
}
# By the kinds of the broker's auth.accept: what makes a connection of that kind.
CONNECT_HOW: Final[dict[str, str]] = {
    "user": "with credentials=Password(name, password)",
    "jwt": "with credentials=Token(token)",
    "certificate": "with a client certificate in ssl=",
    "uid": "to a unix:// URL",
    "anonymous": "without credentials=",
}
# Of a refused SETUP: the same connect() may succeed later.
TRANSIENT_WORDS: Final = frozenset(
    {"over-limit", "draining", "setup-timeout", "token-in-use", "broker-stopped", "auth-unavailable"}
)


def _is_word(word: object) -> bool:
    return isinstance(word, str) and _IS_WORD.fullmatch(word) is not None


def _word_in(given: object) -> str:
    """The code word that is meant, or any."""
    if str(given).isdecimal():
        return _HTTP_WORDS.get(int(str(given)), "out-of-stock")
    meant = hyphened(given) if isinstance(given, str) else ""
    return meant if _is_word(meant) else "out-of-stock"


def split_word(message: str) -> tuple[str, str]:
    """(word, text) of "word: text"; the word is empty when the message begins with none."""
    match = _WORD.fullmatch(message)
    return (match[1], match[2]) if match else ("", message)


def error_of(code: int, message: str) -> ClientError:
    """The error that an ERROR frame on a request's stream says; every code has one, none is ignored."""
    word, text = split_word(message)
    if code == REJECTED:
        return REJECTED_WORDS.get(word, Rejected)(text, word=word, code=code)
    if code == CANCELED:
        return CANCELED_WORDS.get(word, Canceled)(text, word=word, code=code)
    if code == INVALID:
        return INVALID_WORDS.get(word, BadRequest)(text, word=word, code=code)
    if code == APPLICATION_ERROR or FIRST_APPLICATION_CODE <= code <= LAST_APPLICATION_CODE:
        return ApplicationError(text, word=word, code=code)
    return ClientError(f"{text} (error code {code:#x}, which has no meaning on a stream)", word=word, code=code)


if not TYPE_CHECKING:  # says what is wrong with any other name
    _KINDS = [name for name, each in globals().items() if isinstance(each, type) and issubclass(each, ClientError)]
    __getattr__ = lazy_getattr(__name__, dict.fromkeys(_KINDS, ""))

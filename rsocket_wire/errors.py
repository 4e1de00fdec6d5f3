"""What can go wrong, as values and exceptions with stable words.

    BrokerError                  a word, a sentence; ends what its user says it ends
     └─ InvalidFrame             bytes that are no frame: ends the request or the connection that carried them
         └─ UnsupportedVersion   a frame of another major version (D-04)

    ConfigErrors                 of broker.config.load, interpreted and so no subclass: ends the process before it began
    Refusal                      not an exception: the ERROR frame that a peer is about to get

Every text that reaches a peer begins with a code word from `CODE_WORDS`, so that programs can act on it;
`docs/errors.md` is that table for people. Error codes are RSocket's ("Error Codes" in the RSocket protocol).
"""

from typing import Final

# RSocket error codes; the first six only on stream 0, the others only on a request's stream.
INVALID_SETUP: Final = 0x001
UNSUPPORTED_SETUP: Final = 0x002
REJECTED_SETUP: Final = 0x003
REJECTED_RESUME: Final = 0x004
CONNECTION_ERROR: Final = 0x101
CONNECTION_CLOSE: Final = 0x102
APPLICATION_ERROR: Final = 0x201
REJECTED: Final = 0x202
CANCELED: Final = 0x203
INVALID: Final = 0x204

# word -> (RSocket code, what it means and what to do about it)
CODE_WORDS: Final[dict[str, tuple[int, str]]] = {
    "no-route": (REJECTED, "no connection matches the tags of the ADDRESS; nothing was processed, a retry is safe"),
    "bad-address": (INVALID, "the request's metadata holds no valid ADDRESS, or a contradictory one"),
    "bad-shard-key": (INVALID, "a shard request without a ShardKey, or whose ShardKey names no tag of the ADDRESS"),
    "deadline": (
        CANCELED,
        "the deadline that the caller set has passed without an end; with REJECTED no route has seen the request",
    ),
    "bad-request": (INVALID, "the request frame breaks a rule of the RSocket protocol"),
    "route-lost": (CANCELED, "the connection that served the request was lost; it may have been processed"),
    "over-limit": (
        REJECTED,
        "a limit of the broker is reached. A refused request was not processed: retry it later. The running "
        "request with the most data waiting for a slow reader ends with CANCELED 0x203",
    ),
    "draining": (
        REJECTED,
        "the broker, or every route that matches, takes no new requests; retry later or through another broker",
    ),
    "no-lease": (REJECTED, "every route that matches grants its requests by LEASE, and none is left; retry later"),
    "unhealthy": (
        REJECTED,
        "every route that matches is ejected or unhealthy, and `routing.panic_percent` forbids trying them",
    ),
    "too-large": (INVALID, "a frame would be longer than the 16,777,215 bytes that RSocket allows"),
    "bad-frame": (CONNECTION_ERROR, "bytes that are no RSocket frame; the connection is closed"),
    "bad-setup": (INVALID_SETUP, "the first frame is not a SETUP that can be read; the connection is closed"),
    "setup-timeout": (INVALID_SETUP, "no SETUP arrived in time; the connection is closed"),
    "bad-version": (UNSUPPORTED_SETUP, "a protocol version that the broker does not support; the connection is closed"),
    "resume-unsupported": (REJECTED_SETUP, "the SETUP asks for resumption; connect again without it"),
    "unknown-session": (REJECTED_RESUME, "there is no session to resume; connect again with a SETUP"),
    "cannot-resume": (REJECTED_RESUME, "frames that the session would need are gone; connect again with a SETUP"),
    "token-in-use": (REJECTED_SETUP, "another connection has this resume token; connect again with one of your own"),
    "resume-timeout": (CONNECTION_ERROR, "a broken connection was not resumed in time; its session is gone"),
    "resume-overrun": (CONNECTION_ERROR, "too many bytes waited for a broken connection; its session is gone"),
    "bad-route": (REJECTED_SETUP, "the ROUTE_SETUP cannot be read or breaks a limit; the connection is closed"),
    "no-cluster": (
        REJECTED_SETUP,
        "a frame between brokers on a connection that is no link, or a link that this listener or its encryption does "
        "not allow; the connection is closed",
    ),
    "bad-annotations": (
        REJECTED,
        "the router annotations of a request from another broker cannot be read; nothing was processed",
    ),
    "stale-route": (
        REJECTED,
        "a broker forwarded the request to one where its route is gone or no longer matches; nothing was processed, a "
        "retry is safe",
    ),
    "loop": (
        REJECTED,
        "the request would pass a broker twice; the text lists the brokers that it passed; nothing was processed",
    ),
    "too-many-hops": (
        REJECTED,
        "the request has passed more brokers than there are, or than `annotations.max_hops`; nothing was processed",
    ),
    "bad-broker": (
        REJECTED_SETUP,
        "a broker wants to link, and its BROKER_INFO is invalid or it does not prove its identity in time; the "
        "connection is closed",
    ),
    "wrong-secret": (
        REJECTED_SETUP,
        "a broker wants to link and does not know the secret of the cluster, or the principal of its certificate is "
        "not among `cluster.principals`, or the certificate is not for a broker of its name; the connection is closed",
    ),
    "duplicate-link": (
        CONNECTION_CLOSE,
        "two brokers have two connections, or one of them has restarted; one of the connections is closed",
    ),
    "replaced": (CONNECTION_CLOSE, "another connection came with the same Route Id; this one is closed"),
    "unauthenticated": (
        REJECTED_SETUP,
        "the broker wants credentials (`auth.mode`), and those of the connection are missing or not accepted; connect "
        "with others",
    ),
    "auth-unavailable": (REJECTED_SETUP, "the credentials cannot be verified now; connect again later"),
    "denied": (
        REJECTED_SETUP,
        "the identity of the connection has no role, or its role does not allow to announce this route; of a request, "
        "as REJECTED: its role does not allow to address any of the routes that match, or the origin in the ADDRESS is "
        "a route of another identity; of a running request (CANCELED 0x203): the connection that served it has lost "
        "the right to",
    ),
    "route-taken": (
        REJECTED_SETUP,
        "the Route Id of the ROUTE_SETUP is that of a route of another identity; use one of your own, or none",
    ),
    "expired": (CONNECTION_ERROR, "the token of the connection has expired; connect again with a new one"),
    "revoked": (
        CONNECTION_ERROR,
        "the credentials of the connection hold no longer: an operator has taken them back, or an authority its "
        "certificate; connect with others; in answer to a SETUP, as REJECTED_SETUP: the same",
    ),
    "keepalive-timeout": (CONNECTION_ERROR, "nothing arrived within the lifetime that the SETUP promised"),
    "slow-peer": (CONNECTION_ERROR, "bytes wait for the peer, and it has read none of them for `limits.stuck_s`"),
    "broker-stopped": (CONNECTION_CLOSE, "the broker stops; connect to another one, or again later"),
    "closed-by-operator": (
        CONNECTION_CLOSE,
        "an operator closed the connection through the admin API, or a program that embeds the broker (`Core.end`)",
    ),
}


class BrokerError(Exception):
    """An error with a stable code word (`word`) and a sentence for a person (`text`)."""

    def __init__(self, word: str, text: str) -> None:
        super().__init__(f"{word}: {text}")
        self.word: Final = word
        self.text: Final = text


class InvalidFrame(BrokerError):
    """Bytes that are no frame; the text names the field, the need and what was there."""

    def __init__(self, text: str, word: str = "bad-frame") -> None:
        super().__init__(word, text)


class UnsupportedVersion(InvalidFrame):
    """A frame of another major version than ours (D-04); the text holds both numbers."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "bad-version")


class Refusal:
    """An ERROR that a peer is about to get: the RSocket code and a text that begins with the code word."""

    __slots__ = ("code", "text", "word")

    def __init__(self, word: str, text: str, code: int = 0) -> None:
        """`code` 0 means the usual RSocket code of the word."""
        self.word: Final = word
        self.text: Final = text
        self.code: Final = code if code else CODE_WORDS[word][0]

    @property
    def message(self) -> str:
        """What goes into the ERROR frame."""
        return f"{self.word}: {self.text}"

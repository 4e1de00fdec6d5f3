"""Traces over several services: the W3C headers `traceparent` and `tracestate` as entries of a request's metadata.

    caller's span ──► entry "traceparent": 00-<trace id>-<caller's span>-01 ──► service: `current`, or a SERVER span
                                                                                   └─► its own calls carry it on

Each header is one entry: its mime type is the header's name, its content the header's value. So rsocket-java's
micrometer module and Spring write and read them. With OpenTelemetry installed and set up, `spans` makes spans of calls
and handlers; without it what came in with a request goes out with the calls that its handler makes, unchanged, as the
specification asks of those who record nothing. W3C "Trace Context"; D-58. Knows no connections.
"""

import contextlib
import re
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, Protocol

from client_sdk.metadata import entry_bytes

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
MAX_TRACEPARENT_BYTES: Final = 256  # version 00 has 55, later ones may have more; a longer one is ignored
MAX_TRACESTATE_BYTES: Final = 512  # what the specification wants passed on; a longer one is ignored

# "version-traceid-parentid-flags"; what follows belongs to versions that are not known yet.
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NAME: Final = TRACEPARENT.encode()


class Trace:
    """The place of a request in a trace, as its headers say it; immutable.

    >>> trace = extract([("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")])
    >>> trace.trace_id, trace.is_sampled
    ('0af7651916cd43dd8448eb211c80319c', True)
    """

    __slots__ = ("entries", "is_sampled", "span_id", "trace_id", "traceparent", "tracestate")

    def __init__(self, traceparent: str, tracestate: str = "") -> None:
        """ValueError for a `traceparent` that the specification tells to ignore."""
        match = _FORM.fullmatch(traceparent) if len(traceparent) <= MAX_TRACEPARENT_BYTES else None
        if match is None or match[1] == "ff" or (match[1] == "00" and match[5]):
            raise ValueError(f"traceparent {traceparent[:80]!r}: is not valid in W3C Trace Context")
        if match[2] == "0" * 32 or match[3] == "0" * 16:
            raise ValueError(f"traceparent {traceparent!r}: an id is all zeros")
        self.traceparent: Final = traceparent
        self.tracestate: Final = tracestate  # empty when there is none
        self.trace_id: Final[str] = match[2]  # 32 hexadecimal digits
        self.span_id: Final[str] = match[3]  # of whoever sent it, 16 hexadecimal digits
        self.is_sampled: Final = int(match[4], 16) & 1 == 1  # the caller records it
        self.entries: Final = entry_bytes(TRACEPARENT, traceparent.encode()) + (
            entry_bytes(TRACESTATE, tracestate.encode("ascii", "replace")) if tracestate else b""
        )

    def __repr__(self) -> str:
        return f"<trace {self.traceparent}>"


class SpanMaker(Protocol):
    """What `spans` adds when OpenTelemetry is there.

    >>> from client_sdk.spans import find_spans
    >>> maker: SpanMaker | None = find_spans()
    """

    def handling(
        self, entries: Sequence[tuple[str, bytes]], model: str, service: str, route: str
    ) -> contextlib.AbstractContextManager[object]:
        """A span around a handler.

        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from client_sdk.spans import Spans
        >>> with Spans(TracerProvider()).handling([], "request_response", "orders", "create"):
        ...     pass
        """


# The trace of the request that this task works on; None when it has none.
current: Final[ContextVar[Trace | None]] = ContextVar("client_sdk_trace", default=None)


def is_wanted(metadata: bytes | None) -> bool:
    """Whether a handler of a request with this metadata is to run inside `server_span`; quick, may be yes in vain.

    >>> is_wanted(b"message/x.rsocket.forwarding")
    False
    """
    return _maker is not None or (metadata is not None and _NAME in metadata)


def extract(entries: Sequence[tuple[str, bytes]]) -> Trace | None:
    """The trace that a request's metadata entries, (mime type, content), carry; None when they carry none that counts.

    >>> extract([("traceparent", b"rubbish")]) is None
    True
    """
    traceparent: str | None = None
    states: list[str] = []
    for mime_type, content in entries:
        if mime_type == TRACEPARENT:
            if traceparent is not None:
                return None  # "If more than one traceparent header is received, the whole is invalid"
            traceparent = content.decode("ascii", "replace")
        elif mime_type == TRACESTATE:
            states.append(content.decode("ascii", "replace"))
    if traceparent is None:
        return None
    tracestate = ",".join(states)  # "Multiple tracestate header fields MUST be handled" as one list
    try:
        return Trace(traceparent, tracestate if len(tracestate) <= MAX_TRACESTATE_BYTES else "")
    except ValueError:
        return None


def server_span(
    entries: Sequence[tuple[str, bytes]], model: str, service: str, route: str
) -> contextlib.AbstractContextManager[object]:
    """`with` it around a handler: what the handler calls belongs to the trace of the request that it works on.

    `entries` are those of the request's metadata. With OpenTelemetry set up the handler is a SERVER span, and an
    exception that leaves the block is recorded there.

    >>> with server_span([(TRACEPARENT, b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")], "x", "s", ""):
    ...     print(current.get())
    <trace 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01>
    """
    maker = _maker
    if maker is not None:
        return maker.handling(entries, model, service, route)
    return PassedOn(extract(entries))


def use_spans(maker: SpanMaker | None) -> None:
    """From now on `server_span` asks `maker`; None: it passes on what it gets. `connect` says it.

    >>> use_spans(None)
    """
    global _maker
    _maker = maker


class PassedOn:
    """`with`: the trace of what runs inside.

    >>> with PassedOn(None):
    ...     print(current.get())
    None
    """

    __slots__ = ("_before", "_trace")

    def __init__(self, trace: Trace | None) -> None:
        self._trace: Final = trace
        self._before: Trace | None = None

    def __enter__(self) -> None:
        self._before = current.get()
        current.set(self._trace)

    def __exit__(self, *_: object) -> None:
        # Not `reset`, which raises where a generator is closed by another task than began it.
        current.set(self._before)


_maker: SpanMaker | None = None  # None: no OpenTelemetry

"""Spans of calls and handlers for OpenTelemetry, when the program has it installed and set up.

    calls.py ──► Spans.calling() ──► CLIENT span ──► entries "traceparent", "tracestate", … ──► the request
    tracing.server_span ──► Spans.handling() ──► SERVER span, child of what the request says

The only module that imports `opentelemetry` (extra `otel`), and only when asked to. The program's own propagator writes
and reads the headers, so that `baggage` and others go along. Names of attributes: OpenTelemetry's semantic conventions
for RPC. Knows no connections.
"""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from client_sdk import tracing
from client_sdk.errors import ClientError
from client_sdk.metadata import more_bytes

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

MAX_HEADER_BYTES: Final = 8192  # of one header that the propagator writes or reads: what W3C "Baggage" allows
_SCOPE: Final = "client_sdk"


class Spans:
    """Makes spans with one tracer.

    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> spans = Spans(TracerProvider())
    >>> with spans.handling([], "request_response", "orders", "create"):
    ...     pass
    """

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry import propagate, trace

        self._trace: Final = trace
        self._propagate: Final = propagate
        self._tracer: Final = provider.get_tracer(_SCOPE)

    def calling(self, model: str, service: str, route: str) -> "Calling":
        """A CLIENT span that has begun, child of the program's current one.

        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> Spans(TracerProvider()).calling("request_response", "orders", "create").end(None)
        """
        span = self._begin(self._trace.SpanKind.CLIENT, model, service, route)
        headers: dict[str, str] = {}
        self._propagate.inject(headers, context=self._trace.set_span_in_context(span))
        contents = {name: value.encode() for name, value in headers.items()}
        short = {name: content for name, content in contents.items() if len(content) <= MAX_HEADER_BYTES}
        return Calling(span, more_bytes(short))

    def handling(
        self, entries: Sequence[tuple[str, bytes]], model: str, service: str, route: str
    ) -> contextlib.AbstractContextManager[object]:
        """A SERVER span around a handler, child of what the request's entries say.

        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> entries = [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
        >>> with Spans(TracerProvider()).handling(entries, "request_response", "orders", "create") as span:
        ...     pass
        """
        headers = {
            mime_type: content.decode("utf-8", "replace")
            for mime_type, content in entries
            if "/" not in mime_type and len(content) <= MAX_HEADER_BYTES
        }
        context = self._propagate.extract(headers)
        span = self._begin(self._trace.SpanKind.SERVER, model, service, route, context)
        stack = contextlib.ExitStack()
        stack.enter_context(tracing.PassedOn(tracing.extract(entries)))  # for clients that make no spans
        stack.enter_context(self._trace.use_span(span, end_on_exit=True))
        return stack

    def _begin(self, kind: Any, model: str, service: str, route: str, context: Any = None) -> "Span":
        name = service
        attributes = {"rpc.system": "rsocket", "rpc.service": service, "rsocket.model": model}
        if route:
            name = f"{service}/{route}"
            attributes["rpc.method"] = route
        return self._tracer.start_span(name, context, kind, attributes)


class Calling:
    """One call's span, until `end`.

    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> calling = Spans(TracerProvider()).calling("request_response", "orders", "create")
    >>> calling.end(None)
    """

    __slots__ = ("_span", "entries")

    def __init__(self, span: "Span", entries: bytes) -> None:
        self._span: Final = span
        self.entries: Final = entries  # of the request's metadata: where this span is in its trace

    def end(self, error: BaseException | None) -> None:
        """The call has ended, with `error` if there is one.

        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> calling = Spans(TracerProvider()).calling("request_response", "orders", "create")
        >>> calling.end(NoRoute("no route has region=mars"))
        """
        if error is not None:
            word = error.word if isinstance(error, ClientError) else type(error).__name__
            self._span.set_attribute("error.type", word)
            if isinstance(error, Exception):
                from opentelemetry.trace import Status, StatusCode

                self._span.set_status(Status(StatusCode.ERROR, str(error)))
        self._span.end()


def find_spans() -> Spans | None:
    """Spans with the program's tracer provider; None when OpenTelemetry is not installed, or nobody has set it up.

    >>> find_spans() is None
    True
    """
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else Spans(provider)

"""Which handler a request gets: the one of its route, else the one without a name.

    routing entry: "a", "b" ──► handler "a" ──► handler "b" ──► handler without a name ──► no-handler

A REQUEST_STREAM may also be answered by a request_response handler, as a stream of one item: handlers of a name come
before those without one. What the metadata of a request has led to is remembered, so that it need not be read again:
callers send the same again and again. Knows nothing of what handlers do.
"""

from collections.abc import Mapping
from types import CodeType
from typing import Final

from client_sdk.errors import Refused
from client_sdk.services.handlers import Handler
from client_sdk.services.request import Request
from rsocket_wire.errors import INVALID

MAX_KNOWN: Final = 1024  # metadata that is remembered; beyond, all is forgotten and read again
MAX_SHOWN: Final = 12  # names of handlers that a caller is told; then how many more there are
MAX_KNOWN_BYTES: Final = 1024  # of metadata that is remembered; longer ones are read each time


class Routes:
    """The handlers of one interaction model."""

    def __init__(
        self,
        service: str,
        model: str,
        fallback: "Routes | None" = None,
        models: Mapping[str, "Routes"] | None = None,
    ) -> None:
        """`fallback`: the handlers that answer when these do not. `models`: those of all models, for what is said."""
        self._service: Final = service
        self._model: Final = model
        self._fallback: Final = fallback
        self._models: Final = {model: self} if models is None else models
        self._named: Final[dict[str, Handler]] = {}
        self._unnamed: Handler | None = None
        self._known: Final[dict[bytes, Handler]] = {}  # by metadata; bounded by MAX_KNOWN and MAX_KNOWN_BYTES
        self.only: Handler | None = None  # all requests are for this one; None when they have to be looked at

    def add(self, route: str, handler: Handler) -> None:
        """ValueError when the route has one; `route` is empty for the handler of all others."""
        if (self._unnamed is not None) if not route else (route in self._named):
            text = f"service {self._service!r} has a {self._model} handler for route {route!r} already"
            raise ValueError(f"{text}: give one of the two another route")
        if route:
            self._named[route] = handler
        else:
            self._unnamed = handler
        self.settle()

    def settle(self) -> None:
        """The handlers here, or those behind, have changed."""
        self._known.clear()
        fallback = self._fallback
        unnamed = self._unnamed or (None if fallback is None else fallback._unnamed)
        self.only = None if self._named or (fallback is not None and fallback._named) else unnamed

    def find(self, metadata: bytes | None) -> Handler:
        """INVALID `no-handler:` when there is none, `bad-metadata:` when nobody can tell."""
        only = self.only
        if only is not None:
            return only
        handler = self._known.get(metadata or b"")
        return self._look_up(metadata or b"") if handler is None else handler

    def _look_up(self, metadata: bytes) -> Handler:
        names = Request(self._model, b"", metadata).routes
        handler = self._choose(names)
        if handler is None:
            wanted = f"for route {names[0]!r}" if names else "for a request without a route"
            text = f"service {self._service!r} has no {self._model} handler {wanted}"
            raise Refused("no-handler", f"{text}; {self._those_there_are(names)}", INVALID)
        if len(metadata) <= MAX_KNOWN_BYTES:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[metadata] = handler
        return handler

    def codes(self) -> dict[CodeType, str]:
        """What is run in the event loop by each handler, and the handler's name for people."""
        found: dict[CodeType, str] = {}
        for route, handler in [*self._named.items(), ("", self._unnamed)]:
            if handler is None or handler.threads is not None:
                continue
            code = getattr(handler.function, "__code__", None)
            if code is not None:
                found[code] = f"handler {route or self._model!r} of service {self._service!r}"
        return found

    @property
    def names(self) -> str:
        """Of its handlers, for people; empty when there are none."""
        named = [repr(name) for name in self._named]
        shown = named[:MAX_SHOWN] + ([f"{len(named) - MAX_SHOWN} more"] if len(named) > MAX_SHOWN else [])
        return ", ".join(shown + ([] if self._unnamed is None else ["one for any route"]))

    def _those_there_are(self, names: list[str]) -> str:
        """What a caller could ask for instead: another model, or another route."""
        others = [model for model, routes in self._models.items() if any(name in routes._named for name in names)]
        if others:
            return f"that route is {' and '.join(others)}"
        behind = "" if self._fallback is None else self._fallback.names
        if self.names and behind and self._fallback is not None:
            return f"it has {self.names}, and {self._fallback._model} {behind}"
        if self.names or behind:
            return f"it has {self.names or behind}"
        others = [f"{model} {routes.names}" for model, routes in self._models.items() if routes.names]
        return f"it has {'; '.join(others)}" if others else "it has no handlers"

    def _choose(self, names: list[str]) -> Handler | None:
        fallback = self._fallback
        for name in names:
            handler = self._named.get(name)
            if handler is None and fallback is not None:
                handler = fallback._named.get(name)
            if handler is not None:
                return handler
        return self._unnamed or (None if fallback is None else fallback._unnamed)

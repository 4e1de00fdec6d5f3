"""What the admin API needs of the process that it lives in. `broker.server` has this face; tests have a small one."""

from collections.abc import Sequence
from typing import Protocol

from broker.config.options import Config
from broker.core import Core
from broker.views.schemas import DialView, EdgeView, EventFilesView, Moment
from rsocket_wire.wire.tags import Tag


class Admin(Protocol):
    """One broker process. All of it is read and changed on the loop's thread, and nothing of it may wait."""

    @property
    def core(self) -> Core:
        """The broker itself."""

    @property
    def config(self) -> Config:
        """The configuration that it was started with."""

    @property
    def listeners(self) -> Sequence[str]:
        """URLs that are listened on, with the ports that the system gave."""

    @property
    def is_ready(self) -> bool:
        """Listens on everything that is configured, and takes requests."""

    @property
    def is_stopping(self) -> bool:
        """Was told to stop: takes no new requests, ends those that run."""

    def moment(self) -> Moment:
        """Now, on the core's clock and on the wall."""

    def event_state(self) -> EventFilesView | None:
        """How the event files are; None when none are written."""

    def edge(self) -> EdgeView:
        """What strangers make the process do."""

    def lookups(self) -> Sequence[DialView]:
        """Names of other brokers for which nothing was found."""

    # `grace_s`, `spread_s`: seconds; `closes`: connections are closed. BrokerError "over-limit" for too many drains.

    def drain_route(self, route_id: bytes, grace_s: float, spread_s: float, closes: bool) -> None:
        """The route of that id gets no new requests, now or when it comes."""

    def drain_tag(self, tag: Tag, grace_s: float, spread_s: float, closes: bool) -> None:
        """Routes with the tag get no new requests, those to come included."""

    def drain_broker(self, grace_s: float, spread_s: float, closes: bool) -> None:
        """Nobody gets new requests."""

    def undrain_route(self, route_id: bytes) -> bool:
        """In service again; False when it was not drained."""

    def undrain_tag(self, tag: Tag) -> bool:
        """In service again; False when it was not drained."""

    def undrain_broker(self) -> bool:
        """In service again; False when it was not drained."""

    def set_redirect(self, service: str, to: str) -> None:
        """Requests for a service go to another one, in the whole cluster. BrokerError "bad-redirect", "over-limit"."""

    def remove_redirect(self, service: str) -> bool:
        """They go where they ask for again; False when they did."""

    def close_connection(self, connection_id: int) -> bool:
        """Ends a connection; False when there is none with this number that is not ending already."""


def state_of(admin: Admin) -> str:
    """`starting`, `ready`, `draining` (an operator drains the whole broker) or `stopping`."""
    if admin.is_stopping:
        return "stopping"
    if admin.core.drains.is_leaving:
        return "draining"
    return "ready" if admin.is_ready else "starting"

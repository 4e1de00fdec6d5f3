"""What the admin API needs of the process that it lives in. `broker.server` has this face; tests have a small one."""

from collections.abc import Sequence
from typing import Protocol

from broker.core import Core
from broker.options import Config
from broker.views import EventFilesView, Moment


class Admin(Protocol):
    """One broker process. All of it is read on the loop's thread, and nothing of it may wait."""

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


def state_of(admin: Admin) -> str:
    """`starting`, `ready` or `stopping`."""
    if admin.is_stopping:
        return "stopping"
    return "ready" if admin.is_ready else "starting"

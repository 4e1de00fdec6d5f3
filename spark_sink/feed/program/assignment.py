"""What the process of a feed is told: its options, and where its files are served. Imports nothing heavy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.config.options import Config
from broker.config.sections.events import EventOptions
from broker.config.sections.feed import FeedOptions
from client_sdk.gateways import assignment as gateways
from client_sdk.gateways.assignment import dialled

MOUNT: Final = "/feed/"  # of the admin API: below it, the name of a posted folder and its files


@dataclass(frozen=True, kw_only=True)
class Assignment(gateways.Assignment):
    """What one feed is told."""

    options: FeedOptions
    name: str  # in event files
    events: EventOptions  # of the broker, whose event files lie where these do
    admin_url: str  # of the broker, http://HOST:PORT; empty: it has no admin API
    broker_url: str  # of the broker itself, where posts are offered that go nowhere else; empty: there is none

    @property
    def control_path(self) -> Path:
        """Where operators ask the process."""
        return self.options.control_path

    def log_path(self, name: str) -> Path:
        """Of the log of one posted folder."""
        return self.options.log_path(name)

    def base_url(self, name: str) -> str:
        """Where its files are fetched from."""
        return self.options.post[name].base_url or f"{self.admin_url}{MOUNT}{name}/"

    def root(self, name: str) -> Path:
        """The posted folder."""
        return self.options.post[name].root(self.events.dir)


def assignment_of(config: Config, listeners: Sequence[str], admin_url: str) -> Assignment:
    """`listeners`: URLs of the broker of this configuration, as it listens or as it is configured; `admin_url`: that of
    its admin API; empty: there is none. BrokerError "bad-config": one is needed whose port is not known."""
    needs_admin = any(not posted.base_url for posted in config.feed.post.values())
    feed = config.feed
    named = [*(each.to for each in feed.post.values()), *(each.brokers for each in feed.subscribe.values())]
    named += [each.brokers for each in feed.winnow.values()]
    needs_broker = not all(named)
    return Assignment(
        options=config.feed,
        name=f"{config.broker.name}-feed",
        events=config.events,
        admin_url=_reached(admin_url) if needs_admin and admin_url else "",
        broker_url=dialled(listeners[0], "feed.broker") if needs_broker and listeners else "",
        log=config.log,
    )


def _reached(admin_url: str) -> str:
    """Where a listener on this machine is reached from it."""
    return dialled(admin_url.replace("http:", "tcp:", 1), "feed.post: base_url").replace("tcp:", "http:", 1)

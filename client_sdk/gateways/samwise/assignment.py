"""What a gateway process is told: its options, and where the brokers are. Who starts one needs nothing else of it."""

from dataclasses import dataclass
from pathlib import Path

from broker.config.options import Config
from broker.config.sections.events import EventOptions
from broker.config.sections.process import TlsOptions
from broker.config.sections.samwise import SamwiseOptions
from broker.config.sections.samwise_checks import CONTROL_NAME
from client_sdk.gateways import assignment as gateways
from client_sdk.gateways.assignment import dialled


@dataclass(frozen=True, kw_only=True)
class Assignment(gateways.Assignment):
    """What one gateway process is told."""

    options: SamwiseOptions
    name: str  # in event files
    events: EventOptions
    brokers: tuple[str, ...]  # URLs of the brokers whose services get messages; empty where none do
    tls: TlsOptions  # what is shown to these brokers

    @property
    def control_path(self) -> Path:
        """Where operators ask the process."""
        return control_path(self.options)


def assignment_of(config: Config, listeners: list[str]) -> Assignment:
    """`listeners`: URLs of the broker of this configuration, as it listens or as it is configured. BrokerError
    "bad-config" when nobody can say where the brokers are."""
    brokers = [str(url) for url in config.samwise.brokers]
    if config.samwise.backend == "services" and not brokers:
        brokers = [dialled(listeners[0], "samwise.brokers")]
    return Assignment(
        options=config.samwise,
        name=f"{config.broker.name}-samwise",
        events=config.events,
        brokers=tuple(brokers),
        tls=config.tls,
        log=config.log,
    )


def control_path(options: SamwiseOptions) -> Path:
    """Where operators ask the gateway that uses this folder."""
    return Path(options.dir) / CONTROL_NAME

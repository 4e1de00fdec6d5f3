"""What a gateway process is told: its options, and where the brokers are. Who starts one needs nothing else of it."""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from broker.config.options import Config
from broker.config.sections.events import EventOptions
from broker.config.sections.process import LogOptions, TlsOptions
from broker.config.sections.samwise import SamwiseOptions
from broker.config.sections.samwise_checks import CONTROL_NAME
from broker.config.urls import Listen
from rsocket_wire.errors import BrokerError

LENGTH_BYTES: Final = 4  # in front of what a gateway is told
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What one gateway process is told; a broker that starts it, over its standard input."""

    options: SamwiseOptions
    name: str  # in event files
    events: EventOptions
    brokers: tuple[str, ...]  # URLs of the brokers whose services get messages; empty where none do
    tls: TlsOptions  # what is shown to these brokers
    log: LogOptions

    def encode(self) -> bytes:
        """For the pipe."""
        data = pickle.dumps(self)  # from the broker to its own child, the same program
        return len(data).to_bytes(LENGTH_BYTES, "big") + data

    @staticmethod
    def read(file: BinaryIO) -> "Assignment | None":
        """From the pipe; None when it ends before, because the broker has."""
        length = int.from_bytes(file.read(LENGTH_BYTES), "big")
        data = file.read(length)
        if not length or len(data) < length:
            return None
        assignment = pickle.loads(data)
        assert isinstance(assignment, Assignment)
        return assignment

    @property
    def control_path(self) -> Path:
        """Where operators ask the process."""
        return control_path(self.options)


def assignment_of(config: Config, listeners: list[str]) -> Assignment:
    """`listeners`: URLs of the broker of this configuration, as it listens or as it is configured. BrokerError
    "bad-config" when nobody can say where the brokers are."""
    brokers = [str(url) for url in config.samwise.brokers]
    if config.samwise.backend == "services" and not brokers:
        brokers = [dialled(listeners[0])]
    return Assignment(
        options=config.samwise,
        name=f"{config.broker.name}-samwise",
        events=config.events,
        brokers=tuple(brokers),
        tls=config.tls,
        log=config.log,
    )


def dialled(url: str) -> str:
    """Where a listener of this machine is reached. BrokerError "bad-config": its port is not known."""
    listen = Listen.parse(url)
    if listen.scheme != "unix" and not listen.port:
        text = (
            f"samwise.brokers: is needed, because the port of the first listener, {url}, is not known before it listens"
        )
        raise BrokerError("bad-config", text)
    return str(Listen(listen.scheme, _LOOPBACK.get(listen.host, listen.host), listen.port, listen.path))


def control_path(options: SamwiseOptions) -> Path:
    """Where operators ask the gateway that uses this folder."""
    return Path(options.dir) / CONTROL_NAME

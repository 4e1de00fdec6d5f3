"""What a gateway process is told by the broker that starts it: a value, over standard input."""

import pickle
from dataclasses import dataclass
from typing import BinaryIO, Final, Self

from broker.config.sections.process import LogOptions
from broker.config.urls import Listen
from rsocket_wire.errors import BrokerError

LENGTH_BYTES: Final = 4  # in front of what a gateway is told
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What is told to one process of any gateway."""

    log: LogOptions

    def encode(self) -> bytes:
        """For the pipe."""
        data = pickle.dumps(self)  # from the broker to its own child, the same program
        return len(data).to_bytes(LENGTH_BYTES, "big") + data

    @classmethod
    def read(cls, file: BinaryIO) -> Self | None:
        """From the pipe; None when it ends before, because the broker has."""
        length = int.from_bytes(file.read(LENGTH_BYTES), "big")
        data = file.read(length)
        if not length or len(data) < length:
            return None
        assignment = pickle.loads(data)
        assert isinstance(assignment, cls)
        return assignment


def dialled(url: str, option: str) -> str:
    """Where a listener of this machine is reached. BrokerError "bad-config": its port is not known; `option` says it,
    too."""
    listen = Listen.parse(url)
    if listen.scheme != "unix" and not listen.port:
        text = f"{option}: is needed, because the port of the first listener, {url}, is not known before it listens"
        raise BrokerError("bad-config", text)
    return str(Listen(listen.scheme, _LOOPBACK.get(listen.host, listen.host), listen.port, listen.path))

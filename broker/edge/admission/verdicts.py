"""What comes of verifying credentials: an identity, or one of two ways to have none. Texts hold no secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from rsocket_wire.wire.authentication import Credentials

MAX_NAME_BYTES: Final = 255  # of an identity: it is shown to operators, and stands in lines of the log


@dataclass(frozen=True)
class Verified:
    """The credentials hold."""

    name: str
    expires_at_s: float = 0.0  # since the epoch; 0.0: they do not expire
    issued_at_s: float = 0.0  # since the epoch; 0.0: they do not say when


class NotAccepted(Exception):
    """They do not; the text says to operators why."""

    def __init__(self, text: str, is_guess: bool = True) -> None:
        """`is_guess`: False where nobody could have made them who does not know a secret."""
        super().__init__(text)
        self.is_guess: Final = is_guess


class Unavailable(Exception):
    """Nobody can tell now; the text says to operators why."""


class Verifier(Protocol):
    """Of credentials of one kind."""

    at_once_n: int  # that it verifies at a time
    max_waiting: int  # that may wait for it

    async def verify(self, credentials: Credentials) -> Verified:
        """Whose they are; NotAccepted, Unavailable."""

    def prepare(self) -> None:
        """Reads its file again, for `commit`; BrokerError "bad-config"."""

    def commit(self) -> set[str]:
        """What was read is in force. Returns names whose credentials hold no longer."""

    async def close(self) -> None:
        """Gives back what it holds; it is asked nothing more."""


def checked_name(name: str) -> str:
    """A name that may be one of an identity; NotAccepted."""
    if not name or not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
        raise NotAccepted(f"its name is not printable text of 1 to {MAX_NAME_BYTES} bytes")
    return name

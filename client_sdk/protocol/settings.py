"""What one connection may use, and what it offers: bounds, fragments, leases, resumption."""

from dataclasses import dataclass
from typing import Final

from client_sdk.protocol.fragments import MIN_FRAGMENT_BYTES
from rsocket_wire.rsocket.frames import MAX_N
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES

MAX_QUEUED_BYTES: Final = 1024 * 1024  # waiting to be written; beyond, requests and handlers' items wait
MAX_BACKLOG_BYTES: Final = 16 * 1024 * 1024  # of payloads in pieces that wait: the same
MAX_UNSENT_BYTES: Final = 64 * 1024 * 1024  # waiting, with what cannot wait; beyond, the connection is ended
MAX_GATHERED_BYTES: Final = 64 * 1024 * 1024  # of unfinished fragments; beyond, the stream that wants more is ended
MAX_PAYLOAD_BYTES: Final = 60 * 1024 * 1024  # of one payload that is sent: what another one of us would gather
MAX_HANDLERS: Final = 10_000  # requests that handlers work on; beyond, they are refused with over-limit
RESUME_S: Final = 60.0  # without a socket; then the session is given up, as a broker does
RESUME_BYTES: Final = 16 * 1024 * 1024  # of sent frames that the other side has not acknowledged


@dataclass(frozen=True)
class Settings:
    """Of one connection; all have defaults that suit. ValueError for what cannot be.

    >>> Settings(fragment_bytes=64 * 1024).fragment_bytes
    65536
    """

    fragment_bytes: int = 0  # the longest frame of a payload that is sent, 64 at least; 0: what RSocket allows, 16 MiB
    max_gathered_bytes: int = MAX_GATHERED_BYTES
    max_queued_bytes: int = MAX_QUEUED_BYTES
    max_handlers: int = MAX_HANDLERS
    # (requests, seconds): so many are granted in each such time, and ours wait for grants, too; the SETUP says so.
    lease: tuple[int, float] | None = None
    wants_resume: bool = False  # the SETUP asks for a session that survives a broken socket
    max_unsent_bytes: int = MAX_UNSENT_BYTES
    resume_bytes: int = RESUME_BYTES
    resume_s: float = RESUME_S
    bare_name: str = ""  # of a service that is offered without handlers

    def __post_init__(self) -> None:
        fragment_bytes, lease = self.fragment_bytes, self.lease
        if fragment_bytes and not MIN_FRAGMENT_BYTES <= fragment_bytes <= MAX_FRAME_BYTES:
            text = f"fragment_bytes is {fragment_bytes}, it must be 0 or {MIN_FRAGMENT_BYTES}..{MAX_FRAME_BYTES}"
            raise ValueError(text)
        if lease is not None and not (1 <= lease[0] <= MAX_N and 0.001 <= lease[1] <= MAX_N / 1000):
            raise ValueError(
                f"lease is {lease[0]} requests for {lease[1]} s, it must be at least 1 request for 0.001 s"
            )

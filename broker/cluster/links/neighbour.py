"""A neighbour: the broker at the other end of one connection, from the first BROKER_INFO to its end.

    who dials                       who accepts                     stage (dialler | acceptor)
    SETUP: BROKER_INFO, nonce  ──►                                  ASKED   | GREETED
                               ◄──  BROKER_INFO, nonce
    BROKER_INFO, proof         ──►                                  PROVING | UP
                               ◄──  BROKER_INFO, proof, routes …    UP

Who dials proves first: a stranger learns nothing from which the secret could be guessed, and not where brokers are.
Decides what is written to the neighbour and when it is told that we live. D-46
"""

from typing import Final

from broker.cluster.links.broker_info import Info
from broker.forwarding.peer import Peer
from rsocket_wire.rsocket.frames import encode_keepalive, encode_metadata_push
from rsocket_wire.rsocket.metadata import encode_entry
from rsocket_wire.wire.frames import MIME_TYPE

ASKED: Final = 0
GREETED: Final = 1
PROVING: Final = 2
UP: Final = 3
GREET_S: Final = 3.0  # for each of these stages but the last

# Of one METADATA_PUSH: other frames get a word in between, and no more entries than composite metadata may have.
BATCH_BYTES: Final = 64 << 10
BATCH_N: Final = 200


class Neighbour:
    """One connection to another broker."""

    def __init__(self, peer: Peer, url: str, stage: int, nonce: bytes, now: float) -> None:
        self.peer: Final = peer
        self.url: Final = url  # that was dialled; empty: it has dialled us
        self.nonce: Final = nonce  # ours
        self.stage = stage
        self.since_at = now  # of the stage, seconds, monotonic
        self.answer_at = 0.0  # when it gets our first BROKER_INFO; 0.0: it has it
        self.info: Info | None = None  # what it said first; None: nothing yet
        self.name = ""
        self.hello_at = now  # when it is due to hear from us
        self.digest_at = now  # when both compare what they know
        self.table_at = 0.0  # when it was sent all hashes the last time
        self.is_agreed = False  # both knew the same at the last comparison
        self.differs_n = 0  # comparisons in a row that said otherwise
        self.has_other_roles = False  # it said so last, of its configuration
        # Brokers to which the way from here is behind, as it was told; it is told of more not before that moment.
        self.told_behind: set[bytes] = set()
        self.behind_at = 0.0
        self.mismatches = 0  # that led to an exchange

    @property
    def is_up(self) -> bool:
        """It has proved who it is, and so have we."""
        return self.stage == UP

    @property
    def due_at(self) -> float:
        """When something is to be done about its handshake, seconds, monotonic, unless it goes on before."""
        return self.answer_at if self.answer_at else self.since_at + GREET_S

    def go_on(self, stage: int, now: float) -> None:
        """Begins the next stage."""
        self.stage = stage
        self.since_at = now

    def push(self, entries: list[bytes]) -> None:
        """Tells it so many entries, each whole, in as few frames as the batches allow."""
        batch: list[bytes] = []
        size = 0
        for entry in entries:
            if batch and (size + len(entry) > BATCH_BYTES or len(batch) == BATCH_N):
                self.peer.send(encode_metadata_push(b"".join(batch)))
                batch = []
                size = 0
            batch.append(entry)
            size += len(entry)
        if batch:
            self.peer.send(encode_metadata_push(b"".join(batch)))

    def say_hello(self, now: float, hello_s: float) -> None:
        """Sends a sign of life that is to be answered; it carries the time, so that the answer tells the lag."""
        self.hello_at = now + hello_s
        self.peer.send(encode_keepalive(int(now * 1e6).to_bytes(8, "big"), True))

    def received_keepalive(self, data: bytes, now: float) -> None:
        """Reads the answer to one of our signs of life."""
        if len(data) == 8:
            lag_us = int(now * 1e6) - int.from_bytes(data, "big")
            if lag_us >= 0 and self.peer.link is not None:
                self.peer.link.lag_us = lag_us


def broker_entry(raw: bytes) -> bytes:
    """A broker frame as an entry of composite metadata."""
    return encode_entry(MIME_TYPE.encode(), raw)

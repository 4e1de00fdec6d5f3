"""A decision to end a connection: what a component of the core returns when it finds that one must end.

Whoever has asked, in the end `Lifecycle.carry_out`, carries it out.
"""

from typing import Final

from broker.forwarding.peer import Peer
from rsocket_wire.errors import CONNECTION_CLOSE, CONNECTION_ERROR, REJECTED_SETUP, Refusal
from rsocket_wire.rsocket.connection import NEW
from rsocket_wire.rsocket.foreign import HTTP, NO_HTTP
from rsocket_wire.rsocket.frames import encode_error


class Ending:
    """One connection ends with an ERROR on stream 0: `word: text`."""

    def __init__(self, peer: Peer, word: str, text: str, code: int = 0, is_slow: bool = False) -> None:
        """`code`: of the ERROR; 0: see `connection_code`. `is_slow`: for what waits for it, an event of its own."""
        self.peer: Final = peer
        self.word: Final = word
        self.text: Final = text
        self.code: Final = code
        self.is_slow: Final = is_slow


def say_ending(peer: Peer, refusal: Refusal, code: int = 0) -> None:
    """Writes the last frame to a peer; to one that has begun with HTTP, an answer of that. `code`: as of `Ending`."""
    if peer.frame.foreign == HTTP and peer.connection.state == NEW:
        peer.is_framed = False  # it is written as it is, without a length before it
        peer.send(NO_HTTP)
        return
    peer.send(encode_error(0, code if code else connection_code(peer, refusal), refusal.message))


def connection_code(peer: Peer, refusal: Refusal) -> int:
    """Returns the code of an ERROR on stream 0: codes of requests and of the SETUP fit only where they belong."""
    if CONNECTION_ERROR <= refusal.code <= CONNECTION_CLOSE:
        return refusal.code
    if peer.connection.state != NEW:
        return CONNECTION_ERROR
    return refusal.code if refusal.code < CONNECTION_ERROR else REJECTED_SETUP

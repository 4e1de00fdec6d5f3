"""The open streams of one connection, ours and the other side's, as plain records.

Decides nothing: `machine.Machine` changes them, and whoever holds one (the shell) reads what has come of it. Knows no
frames. RSocket protocol 1.0, "Stream Sequences and Lifetimes".
"""

from collections import deque
from typing import Final

from client_sdk.protocol.fragments import Gathered, Outgoing

# Why something ended.
SAID: Final = 0  # an ERROR frame says it, of the other side or for it
BROKEN: Final = 1  # the other side sent what cannot be read
LATE: Final = 2  # the deadline of the call is over
LOST: Final = 3  # the connection has ended
REFUSED: Final = 4  # the connection was never accepted


class Failure:
    """Why a stream or the connection ended."""

    __slots__ = ("code", "kind", "message")

    def __init__(self, kind: int, message: str, code: int = 0) -> None:
        self.kind: Final = kind  # one of those above
        self.message: Final = message  # "word: text", or what an ERROR frame says
        self.code: Final = code  # RSocket's; 0 when no ERROR frame said it


class Stream:
    """One request and all that belongs to it.

    The in half is open while the other side may send, the out half while we may. What is told in the news stays here
    until the shell takes it: `data` and `metadata` of an answer or of a request, `items` of everything else.
    """

    __slots__ = (
        "backlog",
        "credit_n",
        "data",
        "deadline",
        "expected_n",
        "failure",
        "flags",
        "gathered",
        "holder",
        "id",
        "in_open",
        "is_new",
        "is_ours",
        "is_over",
        "is_stopped",
        "is_told",
        "items",
        "kind",
        "metadata",
        "out_open",
    )

    def __init__(self, id: int, kind: int, is_ours: bool, holder: object) -> None:
        self.id: Final = id
        self.kind: Final = kind  # of the frame that began it
        self.is_ours: Final = is_ours  # we are the requester
        self.holder: object = holder  # of the shell; opaque here
        self.in_open = False
        self.out_open = False
        self.is_over = False  # both halves have ended, nothing will change any more
        self.is_new = False  # a request of the other side that no handler works on yet
        self.is_stopped = False  # what we send here is wanted no more
        self.is_told = False  # it stands in the news
        self.flags = 0  # of a request of the other side
        self.data = b""
        self.metadata: bytes | None = None
        self.items: list[tuple[bytes, bytes | None]] = []  # arrived; bounded by expected_n
        self.expected_n = 0  # items that were asked for and have not arrived
        self.credit_n = 0  # items that we may send; may be taken by the shell
        self.failure: Failure | None = None  # why it ended, unless as it should
        self.deadline = 0.0  # seconds, monotonic; 0: none
        self.gathered: Gathered | None = None  # of a PAYLOAD that is arriving in pieces
        self.backlog: deque[Outgoing] | None = None  # what must wait until the fragments before it have left

    def let_go(self) -> None:
        """The shell has all of it: whoever still knows the stream (its deadline) keeps no payload alive."""
        self.holder = None
        self.data = b""
        self.metadata = None

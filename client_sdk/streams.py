"""The open streams of one connection: a question with one answer, an exchange of items, a request still in pieces.

Decides when a stream has ended and who is told (the table in `Exchange`). Does not know how frames come and go.
RSocket protocol 1.0, "Stream Sequences and Lifetimes", "Request Channel".
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from broker.errors import CANCELED
from broker.rsocket import frames
from client_sdk.errors import BadRequest, ClientError, error_of
from client_sdk.flows import CreditGate, Inflow
from client_sdk.payload import Payload

PIECE_BYTES: Final = 128  # of memory for a piece without any content, so that those have a bound, too


class Sender(Protocol):
    """What a stream needs of its connection."""

    def send(self, frame: bytes) -> None:
        """Queues one frame."""

    def forget(self, stream_id: int) -> None:
        """The stream has ended."""


class Stream(Protocol):
    """One open stream, as the receiving side of the connection sees it; `lost` is called when that ends."""

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None: ...

    def receive_error(self, error: ClientError) -> None: ...

    def receive_cancel(self) -> None: ...

    def receive_request_n(self, n: int) -> None: ...

    def lost(self, reason: ClientError) -> None: ...


class Question:
    """A request/response of ours: one answer ends it."""

    __slots__ = ("_forget", "future")

    def __init__(self, future: asyncio.Future[Payload], forget: Callable[[], None]) -> None:
        self.future: Final = future
        self._forget: Final = forget

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        self._forget()
        if not self.future.done():
            self.future.set_result(Payload(data, metadata))

    def receive_error(self, error: ClientError) -> None:
        self._forget()
        self.lost(error)

    def receive_cancel(self) -> None:
        pass  # only a requester may cancel a request/response

    def receive_request_n(self, n: int) -> None:
        pass

    def lost(self, reason: ClientError) -> None:
        if not self.future.done():
            self.future.set_exception(reason)


class Exchange:
    """Any other stream: what comes in goes to an Inflow, what goes out comes from a pump task; both may be absent.

    The in half is open while the other side may send items, the out half while we may.

    what happens       | we asked (requester)                     | we answer (responder)
    -------------------+------------------------------------------+-------------------------------------------
    PAYLOAD(C) arrives | in half ends                             | in half ends
    our items end      | out half ends, PAYLOAD(C)                | out half ends, PAYLOAD(C); CANCEL if in is open
    CANCEL arrives     | out half ends ("stop your half")         | both end
    ERROR arrives      | both end, the reader gets the error      | both end
    our items fail     | both end, ERROR; the reader gets it too  | both end, ERROR
    reader cancels     | both end, CANCEL                         | in half ends, CANCEL
    connection lost    | both end, the reader gets ConnectionLost  | both end

    The stream is forgotten when both halves have ended, and the requester's reader sees the end only then.
    """

    __slots__ = ("_connection", "_id", "_in_open", "_inflow", "_is_requester", "_out_open", "gate", "task")

    def __init__(
        self, connection: Sender, stream_id: int, is_requester: bool, inflow: Inflow | None, has_out: bool
    ) -> None:
        self._connection: Final = connection
        self._id: Final = stream_id
        self._is_requester: Final = is_requester
        self._inflow: Final = inflow
        self._in_open = inflow is not None
        self._out_open = has_out
        self.gate: Final = CreditGate()
        self.task: asyncio.Task[None] | None = None  # the pump or the handler; set right after it was started
        if inflow is not None:
            inflow.attach(self._grant, self._stop)

    @property
    def is_ended(self) -> bool:
        return not self._in_open and not self._out_open

    def receive_payload(self, flags: int, metadata: bytes | None, data: bytes) -> None:
        if self._inflow is None or not self._in_open:
            return
        # A PAYLOAD with neither bit cannot be; it is taken for an item rather than lost.
        is_item = flags & frames.NEXT or not flags & frames.COMPLETE
        if is_item and not self._inflow.item(Payload(data, metadata)):
            text = f"stream {self._id}: the other side sent an item that nobody had asked for"
            self._connection.send(frames.encode_cancel(self._id))
            self.lost(BadRequest(text, word="bad-frame"))
            return
        if flags & frames.COMPLETE:
            self._in_open = False
            if not self._is_requester:
                self._inflow.ended(None)
            self._settle()

    def receive_error(self, error: ClientError) -> None:
        self.lost(error)

    def receive_cancel(self) -> None:
        if self._is_requester:
            if self._out_open:
                self._out_open = False
                self._cancel_task()
                self._settle()
            return
        self.lost(error_of(CANCELED, "canceled: the caller wants no more"))

    def receive_request_n(self, n: int) -> None:
        self.gate.add(n)

    def lost(self, reason: BaseException) -> None:
        """Both halves end now, for this reason."""
        self._in_open = self._out_open = False
        self._connection.forget(self._id)
        self._cancel_task()
        if self._inflow is not None:
            self._inflow.ended(reason)

    def out_ended(self, error: BaseException | None) -> None:
        """The pump is at its end; it has sent the last frame itself."""
        if not self._out_open:
            return
        self._out_open = False
        self.task = None  # it ends by itself
        if error is not None:
            self.lost(error)
        elif not self._is_requester and self._in_open:
            self._connection.send(frames.encode_cancel(self._id))
            self.lost(error_of(CANCELED, "canceled: the handler has ended"))
        else:
            self._settle()

    def _settle(self) -> None:
        if self.is_ended:
            self._connection.forget(self._id)
            if self._inflow is not None:
                self._inflow.ended(None)

    def _grant(self, n: int) -> None:
        if self._in_open:
            self._connection.send(frames.encode_request_n(self._id, n))

    def _stop(self) -> None:
        """The reader wants no more."""
        if self.is_ended:
            return
        self._connection.send(frames.encode_cancel(self._id))
        self._in_open = False
        if self._is_requester:
            self._out_open = False
            self._cancel_task()
        self._settle()

    def _cancel_task(self) -> None:
        task, self.task = self.task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()


class Fragments:
    """A request or PAYLOAD that is arriving in pieces."""

    __slots__ = ("data", "flags", "kind", "metadata", "n", "size_bytes")

    def __init__(self, kind: int, flags: int, n: int) -> None:
        """What the first piece says; it is not added yet."""
        self.kind: Final = kind
        self.flags: Final = flags
        self.n: Final = n
        self.metadata: list[bytes] = []
        self.data: list[bytes] = []
        self.size_bytes = 0

    def add(self, metadata: bytes | None, data: bytes) -> int:
        """One more piece; how many bytes it counts for."""
        if metadata is not None:
            self.metadata.append(metadata)
        self.data.append(data)
        piece_bytes = len(data) + len(metadata or b"") + PIECE_BYTES
        self.size_bytes += piece_bytes
        return piece_bytes

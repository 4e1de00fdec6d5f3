"""The open streams, and what ends them.

The in half of a stream is open while the other side may send items, the out half while we may:

    what happens       | we asked (requester)                     | we answer (responder)
    -------------------+------------------------------------------+-------------------------------------------
    PAYLOAD(C) arrives | in half ends                             | in half ends
    our items end      | out half ends, PAYLOAD(C)                | out half ends, PAYLOAD(C); CANCEL if in is open
    CANCEL arrives     | out half ends ("stop your half")         | both end
    ERROR arrives      | both end                                 | both end
    our items fail     | both end, ERROR                          | both end, ERROR
    reader cancels     | both end, CANCEL                         | in half ends, CANCEL
    time is over       | both end, CANCEL                         | -
    connection lost    | both end                                 | both end

A stream is forgotten when both halves have ended; what still arrives for it is ignored. What the shell must hear of
stands in `updated`, each stream once. RSocket protocol 1.0, "Stream Sequences and Lifetimes", "Request Channel", "Flow
Control".
"""

from typing import Final

from client_sdk.protocol.output import Output
from client_sdk.protocol.stream import LATE, SAID, Failure, Stream
from rsocket_wire.errors import CANCELED, INVALID
from rsocket_wire.rsocket.frames import (
    COMPLETE,
    MAX_N,
    MAX_STREAM_ID,
    NEXT,
    PAYLOAD,
    REQUEST_RESPONSE,
    encode_cancel,
    encode_error,
    encode_request_n,
)


class Streams:
    """All streams of one connection."""

    def __init__(self, output: Output) -> None:
        self._output: Final = output
        self._next_id = 1  # "Stream IDs on the client MUST start at 1 and increment by 2"
        self.streams: Final[dict[int, Stream]] = {}  # ours: as many as are asked; theirs: bounded by max_handlers
        self.updated: list[Stream] = []  # each once
        self.gathered_bytes = 0  # of unfinished payloads of these streams

    # ours

    def ask(
        self, kind: int, holder: object, data: bytes, metadata: bytes | None, n: int, has_out: bool, flags: int = 0
    ) -> Stream:
        """Sends a request that has an answer; `n`: the items that are asked for, 1 for a request/response."""
        stream = Stream(self._allocate(), kind, True, holder)
        stream.in_open = True
        stream.out_open = has_out
        stream.expected_n = n
        self.streams[stream.id] = stream
        self._output.content(stream, kind, flags, n, metadata, data)
        return stream

    def forget_about(self, kind: int, data: bytes, metadata: bytes | None) -> None:
        """Sends a request without an answer."""
        self._output.content(Stream(self._allocate(), kind, True, None), kind, 0, 0, metadata, data)

    def grant(self, stream: Stream, n: int) -> None:
        """The reader has room for `n` more items, over 0."""
        if stream.in_open:
            stream.expected_n = min(stream.expected_n + n, MAX_N)
            self._output.frame(encode_request_n(stream.id, n))

    def send_item(self, stream: Stream, data: bytes, metadata: bytes | None) -> bool:
        """Sends an item, which uses one credit; False when the out half has ended."""
        if not stream.out_open:
            return False
        stream.credit_n -= 1
        self._output.content(stream, PAYLOAD, NEXT, 0, metadata, data)
        return True

    def answer(self, stream: Stream, data: bytes, metadata: bytes | None) -> None:
        """The one answer of a request/response."""
        if stream.out_open:
            self._output.content(stream, PAYLOAD, NEXT | COMPLETE, 0, metadata, data)
            self._finish(stream)

    def complete(self, stream: Stream) -> None:
        """Our items are at their end."""
        if not stream.out_open:
            return
        self._output.content(stream, PAYLOAD, COMPLETE, 0, None, b"")
        stream.out_open = False
        if stream.in_open:
            if stream.is_ours:
                return
            self._output.frame(encode_cancel(stream.id))
            stream.failure = Failure(SAID, "canceled: the handler has ended", CANCELED)
        self._finish(stream)
        self.tell(stream)

    def fail(self, stream: Stream, code: int, message: str) -> None:
        """Our items, or the handler, failed."""
        if not stream.is_over:
            self.end(stream, Failure(SAID, message, code))
            self._output.frame(encode_error(stream.id, code, message))

    def cancel(self, stream: Stream) -> None:
        """Whoever reads wants no more."""
        if stream.is_over:
            return
        if stream.is_ours:
            if not self._output.drop(stream):
                self._output.frame(encode_cancel(stream.id))
            self._finish(stream)
        elif stream.in_open:
            self._output.frame(encode_cancel(stream.id))
            stream.in_open = False
            if not stream.out_open:
                self._finish(stream)

    def expire(self, stream: Stream) -> None:
        """The time of a call of ours is over."""
        self.cancel(stream)
        stream.failure = Failure(LATE, "deadline: the timeout of the call has passed")
        self.tell(stream)

    # theirs, and what arrives

    def receive_payload(self, stream: Stream, flags: int, metadata: bytes | None, data: bytes) -> None:
        """A whole PAYLOAD."""
        if not stream.in_open:
            return
        if stream.kind == REQUEST_RESPONSE:
            stream.data = data
            stream.metadata = metadata
            self._finish(stream)
            self.tell(stream)
            return
        # A PAYLOAD with neither bit cannot be; it is taken for an item rather than lost.
        if flags & NEXT or not flags & COMPLETE:
            if stream.expected_n <= 0:
                text = f"stream {stream.id}: the other side sent more payloads than REQUEST_N allowed"
                self.receive_broken(stream, Failure(SAID, f"bad-frame: {text}", INVALID))
                return
            stream.expected_n -= 1
            stream.items.append((data, metadata))
        if flags & COMPLETE:
            stream.in_open = False
            if not stream.out_open:
                self._finish(stream)
        self.tell(stream)

    def receive_cancel(self, stream: Stream) -> None:
        """The other side wants no more of what we send."""
        if stream.is_ours:
            # Only a requester may cancel a request; of a channel it means "stop your half".
            if stream.out_open:
                self._output.drop(stream)
                stream.out_open = False
                stream.is_stopped = True
                if not stream.in_open:
                    self._finish(stream)
                self.tell(stream)
            return
        self.end(stream, Failure(SAID, "canceled: the caller cancelled", CANCELED))

    def receive_request_n(self, stream: Stream, n: int) -> None:
        """Credit; beyond 31 bits the rest is forgotten, as "Flow Control" allows."""
        if stream.out_open:
            stream.credit_n = min(stream.credit_n + n, MAX_N)
            self.tell(stream)

    def receive_broken(self, stream: Stream, failure: Failure) -> None:
        """A frame of the stream contradicts itself: the stream ends on both sides, and nothing else."""
        unsent = self._output.drop(stream)
        if not stream.is_ours:
            self._output.frame(encode_error(stream.id, INVALID, failure.message))
        elif not unsent:
            self._output.frame(encode_cancel(stream.id))
        self.end(stream, failure)

    def end(self, stream: Stream, failure: Failure) -> None:
        """Both halves end with this, an ERROR for example; what has not left of its payloads never will."""
        self._output.drop(stream)
        stream.failure = failure
        self._finish(stream)
        self.tell(stream)

    def lose(self, failure: Failure) -> None:
        """The connection has ended, and all streams with it."""
        for stream in list(self.streams.values()):
            self.end(stream, failure)

    def tell(self, stream: Stream) -> None:
        """The shell has to look at it."""
        if not stream.is_told:
            stream.is_told = True
            self.updated.append(stream)

    def take_updated(self) -> list[Stream]:
        """The streams to look at, in the order in which something happened to them; each is told anew from now on."""
        updated = self.updated
        if updated:
            self.updated = []
            for stream in updated:
                stream.is_told = False
        return updated

    def _finish(self, stream: Stream) -> None:
        stream.in_open = stream.out_open = False
        stream.is_over = stream.is_stopped = True
        gathered = stream.gathered
        if gathered is not None:
            self.gathered_bytes -= gathered.size_bytes
            stream.gathered = None
        self.streams.pop(stream.id, None)

    def _allocate(self) -> int:
        """An odd id that is not in use; wraps as "Stream Identifiers" says."""
        while True:
            stream_id = self._next_id
            self._next_id = stream_id + 2 if stream_id < MAX_STREAM_ID else 1
            if stream_id not in self.streams:
                return stream_id

"""The state of one RSocket connection, accepted or dialled: its SETUP, its keepalive, its end. No streams, no I/O.

A connection begins without rights; the first frame must be a SETUP on stream 0 ("Connection Establishment"). Then it is
open until one side ends it. What arrives on stream 0:

    state   | SETUP          | RESUME            | KEEPALIVE | ERROR  | other
    --------+----------------+-------------------+-----------+--------+----------------------------------
    NEW     | OPEN, or refuse| REJECTED_RESUME*  | refuse    | refuse | refuse: INVALID_SETUP
    OPEN    | ignored        | refuse            | answered  | CLOSED°| ignored, or refused (see `is_fatal`)
    CLOSED  | ignored        | ignored           | ignored   | ignored| ignored

"refuse" ends the connection with an ERROR on stream 0. * Unless resumption is offered: then the core looks for the
session. ° CONNECTION_CLOSE waits for the open streams first.
"""

from typing import Final

from rsocket_wire import errors
from rsocket_wire.errors import InvalidFrame, Refusal
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.wire.ints import u16_at, u32_at

NEW: Final = 0
OPEN: Final = 1
CLOSED: Final = 2

MAX_TOKEN_BYTES: Final = 1024  # of a session: a uuid has 36, a signed token some hundreds; it is kept with the session

# What an ERROR on stream 0 does to the connection.
NOTHING: Final = 0
CLOSES: Final = 1  # no new requests; the peer closes it when the open streams have ended
ENDS: Final = 2  # at once

_SETUP_CODES: Final = (errors.INVALID_SETUP, errors.UNSUPPORTED_SETUP, errors.REJECTED_SETUP, errors.REJECTED_RESUME)


class Connection:
    """One connection in the server's role."""

    __slots__ = ("_max_lifetime_ms", "is_dialled", "setup", "state")

    def __init__(self, max_lifetime_s: float = 300.0) -> None:
        """`max_lifetime_s`: of silence, see `lifetime_s`."""
        self._max_lifetime_ms: Final = int(max_lifetime_s * 1000)
        self.is_dialled = False  # we are the client
        self.state = NEW
        self.setup: frames.Setup | None = None  # None until the SETUP was accepted, then for ever what it said

    @property
    def lifetime_s(self) -> float:
        """Silence after which the peer counts as lost, seconds; 0 before the SETUP.

        A peer that promises no more than its own keepalive interval could not be on time: it gets one interval more
        (D-27). One that wants to be waited for very long is not (D-43), but for two of its intervals it is.
        """
        setup = self.setup
        if setup is None:
            return 0.0
        ms = setup.lifetime_ms
        if ms <= setup.keepalive_ms:
            ms += setup.keepalive_ms
        longest_ms = max(self._max_lifetime_ms, 2 * setup.keepalive_ms)
        return (ms if ms < longest_ms else longest_ms) / 1000.0

    @property
    def lifetime_text(self) -> str:
        """Where `lifetime_s` comes from, for a sentence."""
        setup = self.setup
        assert setup is not None  # before it there is no such silence
        lifetime_s = self.lifetime_s
        whose = "the SETUP promised" if lifetime_s * 1000 >= setup.lifetime_ms else "the limit is"
        return f"{whose} {lifetime_s:.1f} s"

    def handle_first(self, frame: FrameCursor, may_resume: bool = False) -> Refusal | None:
        """The first frame of the connection; None when it was a SETUP that opens it.

        `may_resume`: a SETUP that asks for resumption gets it.
        """
        if frame.kind == frames.RESUME and frame.stream_id == 0:
            return Refusal("unknown-session", "there is no session to resume, connect again with a SETUP")
        if frame.kind != frames.SETUP or frame.stream_id != 0:
            name = frames.KIND_NAMES.get(frame.kind, f"type 0x{frame.kind:02x}")
            return Refusal("bad-setup", f"the first frame is {name} on stream {frame.stream_id}, it must be SETUP on 0")
        at = frame.start + frames.HEADER_BYTES
        if frame.end - at >= 4 and u16_at(frame.data, at) != 1:  # before the rest, which may look otherwise there
            version = f"{u16_at(frame.data, at)}.{u16_at(frame.data, at + 2)}"
            return Refusal("bad-version", f"RSocket {version} requested, this broker supports 1.0")
        try:
            setup = frames.decode_setup(frame.data, frame.start, frame.end, frame.flags)
        except InvalidFrame as error:
            return Refusal("bad-setup", error.text)
        if setup.keepalive_ms == 0 or setup.lifetime_ms == 0:
            text = f"keepalive time {setup.keepalive_ms} ms and lifetime {setup.lifetime_ms} ms, both must be over 0"
            return Refusal("bad-setup", text)
        # D-26
        if setup.wants_resume and not may_resume:
            return Refusal("resume-unsupported", "resumption is not offered, connect again without it")
        if setup.wants_resume and not 0 < len(setup.token) <= MAX_TOKEN_BYTES:
            text = f"a resume token of {len(setup.token)} bytes, it must have 1 to {MAX_TOKEN_BYTES}"
            return Refusal("bad-setup", text)
        self.setup = setup
        self.state = OPEN
        return None

    def begin(self, setup: frames.Setup) -> None:
        """We have dialled, and say this SETUP: the connection is open, and what it promises counts for both ends."""
        self.is_dialled = True
        self.setup = setup
        self.state = OPEN

    def handle_keepalive(self, frame: FrameCursor, position: int = 0) -> bytes | None:
        """The KEEPALIVE to answer with, or None when no answer is asked for. `position`: received, 0 if not counted."""
        if not frame.flags & frames.RESPOND:
            return None
        start = frame.start + frames.HEADER_BYTES + 8  # behind the last received position
        if start > frame.end:
            return None
        return frames.encode_keepalive(frame.data[start : frame.end], False, position)

    def handle_error(self, frame: FrameCursor) -> int:
        """An ERROR on stream 0: NOTHING, CLOSES or ENDS."""
        if frame.end - frame.start < frames.HEADER_BYTES + 4:
            return NOTHING
        code = u32_at(frame.data, frame.start + frames.HEADER_BYTES)
        # "A server MUST ignore an ERROR[INVALID_SETUP|UNSUPPORTED_SETUP|REJECTED_SETUP|REJECTED_RESUME] frame."
        if code in _SETUP_CODES and not self.is_dialled:
            return NOTHING
        # "Sender or Receiver of this frame MUST wait for outstanding streams to terminate before closing."
        if code == errors.CONNECTION_CLOSE:
            return CLOSES
        self.state = CLOSED
        return ENDS


def is_fatal(kind: int, flags: int) -> bool:
    """A frame type that we do not understand and may not ignore ("Handling Ignore Flag")."""
    return not flags & frames.IGNORE and not frames.SETUP <= kind <= frames.RESUME_OK

"""A request as one of its ends sees it: nothing before it begins, nothing behind its end, each half ends once."""

from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM


class Life:
    """One request as one of its ends sees it."""

    def __init__(self, kind: int, flags: int, n: int) -> None:
        self.kind = kind
        self.is_first_whole = not flags & frames.FOLLOWS
        self.completes = kind == REQUEST_CHANNEL and bool(flags & COMPLETE)
        self.caller_open = not self.is_first_whole or (kind == REQUEST_CHANNEL and not flags & COMPLETE)
        self.route_open = kind != REQUEST_FNF
        self.is_ended = False
        self.asked_n = n
        self.items = 0

    @property
    def is_over(self) -> bool:
        if self.is_ended:
            return True
        if self.kind == REQUEST_FNF:
            return not self.caller_open
        return not self.route_open and (self.kind != REQUEST_CHANNEL or not self.caller_open)

    def caller_may(self, kind: int, flags: int) -> bool:
        """The service may get such a frame now."""
        if self.is_over:
            return False
        if kind == frames.PAYLOAD:
            return self.caller_open
        if kind == frames.REQUEST_N:
            return self.kind >= REQUEST_STREAM
        return (
            kind == frames.CANCEL
            or (kind == frames.ERROR and self.kind == REQUEST_CHANNEL)
            or (kind == frames.EXT and flags & frames.IGNORE > 0)
        )

    def route_may(self, kind: int, flags: int) -> bool:
        """The caller may get such a frame now."""
        if self.is_over or self.kind == REQUEST_FNF:
            return False
        if kind == frames.PAYLOAD:
            return self.route_open
        if kind in (frames.REQUEST_N, frames.CANCEL):
            return self.kind == REQUEST_CHANNEL and (kind == frames.REQUEST_N or self.caller_open)
        return kind == frames.ERROR or (kind == frames.EXT and flags & frames.IGNORE > 0)

    def caller_says(self, kind: int, flags: int, n: int) -> None:
        """What such a frame of the caller changes, if it may be said at all."""
        if kind == frames.REQUEST_N and self.kind >= REQUEST_STREAM:
            self.asked_n += n
        elif kind == frames.CANCEL or (kind == frames.ERROR and self.kind == REQUEST_CHANNEL):
            self.is_ended = True
        elif (
            kind == frames.PAYLOAD
            and self.caller_open
            and not (flags & frames.FOLLOWS and not flags & COMPLETE)
            and (flags & COMPLETE or self.kind != REQUEST_CHANNEL or self.completes)
        ):
            self.caller_open = False

    def route_says(self, kind: int, flags: int) -> None:
        """What such a frame of the route changes."""
        if kind == frames.ERROR:
            self.is_ended = True
        elif kind == frames.CANCEL and self.kind == REQUEST_CHANNEL:
            self.caller_open = False
        elif kind == frames.PAYLOAD and self.route_open and not (flags & frames.FOLLOWS and not flags & COMPLETE):
            self.items += 1 if flags & frames.NEXT else 0
            if flags & COMPLETE or self.kind == REQUEST_RESPONSE:
                self.route_open = False

"""One session of resumption: where both sides stand, and the frames that may have to be sent again.

Decides what is kept, when it is too much, and whether a client can go on from where it stands ("Resuming Operation").
Knows no sockets, streams or time. A position is the number of bytes of all frames with a position so far, without the
length that TCP puts before them; those are requests, REQUEST_N, CANCEL, ERROR and PAYLOAD ("Implied Position"):

    sent      0 ──── forgotten ────┤ first_position ──── retained ────┤ sent_position
                                         ▲ the client resumes from a border between two frames in here
    received  0 ───────────────────┤ received_position: what RESUME_OK and our KEEPALIVEs tell

    state      | the client tells what arrived | no room for one more frame
    -----------+-------------------------------+---------------------------------------------------------------
    connected  | frames before it go           | the oldest go; a client that is not so far can not resume
    suspended  | -                             | overrun: all go, for ever, and whoever owns the session ends it

What is retained for a connected client is a courtesy, what waits for a suspended one is needed. So where all sessions
together have no room, the oldest frames go of a connected one that holds most, whoever needs the room. D-39
"""

from collections import deque
from typing import Final

FRAME_COST: Final = 64  # bytes of memory that a retained frame costs beside its content: a CANCEL has only six of those


class Budget:
    """What all sessions of a broker may retain together, and which of the connected ones hold most.

    They stand on levels by the bits of what they hold; "most" is exact to a factor of two, and moves are rare:

        level 8   128 ..  255 bytes │ d, a
        level 9   256 ..  511 bytes │
        level 10  512 .. 1023 bytes │ c, b      c goes first, until it stands lower
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: Final = limit_bytes
        self.used_bytes = 0
        self._levels: Final[list[dict[Session, None]]] = [{} for _ in range(limit_bytes.bit_length() + 1)]

    def move(self, session: "Session", old_level: int, new_level: int) -> None:
        """The connected session holds so much now; level 0 has nothing to give, and nobody stands there."""
        if old_level:
            del self._levels[old_level][session]
        if new_level:
            self._levels[new_level][session] = None

    def find_largest(self, asking: "Session") -> "Session | None":
        """A connected session that holds most, `asking` before others on its level; None when none holds anything."""
        for level in range(len(self._levels) - 1, 0, -1):
            sessions = self._levels[level]
            if asking in sessions:
                return asking
            for session in sessions:
                return session
        return None


class Session:
    """What one client may come back to."""

    __slots__ = (
        "_budget",
        "_frames",
        "_held",
        "_level",
        "first_position",
        "is_overrun",
        "is_suspended",
        "limit_bytes",
        "received_position",
        "retained_bytes",
        "sent_position",
        "token",
    )

    def __init__(self, token: bytes, limit_bytes: int, budget: Budget) -> None:
        """`limit_bytes` of retained frames, each with FRAME_COST; `budget` is shared by all sessions.

        One that may hold more than all together may hold as much as all together.
        """
        self.token: Final = token
        self.limit_bytes: Final = min(limit_bytes, budget.limit_bytes)
        self.received_position = 0
        self.first_position = 0
        self.sent_position = 0
        self.retained_bytes = 0  # with FRAME_COST for each frame
        self.is_suspended = False  # nobody is connected
        self.is_overrun = False  # a frame was lost for want of room while suspended: nothing can be resumed
        self._budget: Final = budget
        self._frames: deque[bytes] = deque()  # from first_position to sent_position
        self._held: list[bytes] = []  # frames without a position that came while suspended
        self._level = 0  # where it stands in the budget; 0 while suspended: nobody takes anything from it

    @property
    def frames_n(self) -> int:
        """Frames that could be sent again."""
        return len(self._frames)

    def received(self, size: int) -> None:
        """A frame with a position arrived, whatever became of it."""
        self.received_position += size

    def retain(self, raw: bytes) -> None:
        """A frame with a position is sent, or would be if somebody were connected."""
        self.sent_position += len(raw)
        if self._has_room(len(raw) + FRAME_COST):
            self._take_room(len(raw) + FRAME_COST)
            self._frames.append(raw)
        else:
            self.first_position = self.sent_position

    def hold(self, raw: bytes) -> None:
        """A frame without a position is to be sent once somebody is connected; lost with that connection it is lost."""
        if self._has_room(len(raw) + FRAME_COST):
            self._take_room(len(raw) + FRAME_COST)
            self._held.append(raw)

    def acknowledge(self, position: int) -> None:
        """The client says that all before `position` has arrived.

        Nothing happens when it says less than before (0 stands for "not supported"), or more than was sent: then it
        counts otherwise than we do, and a later attempt to resume from there is refused.
        """
        if position > self.sent_position:
            return
        frames = self._frames
        while frames and self.first_position + len(frames[0]) <= position:
            self._forget_oldest()

    def obstacle(self, received_position: int, first_position: int) -> str:
        """Why a client cannot resume that has received so much and can send again from there; empty when it can."""
        if self.is_overrun:
            return f"more waited for it than the {self.limit_bytes} bytes that are kept"
        if first_position > self.received_position:
            return f"it can send again from {first_position}, only {self.received_position} bytes had arrived"
        if received_position > self.sent_position:
            return f"it says that {received_position} bytes had arrived, only {self.sent_position} were sent"
        if received_position < self.first_position:
            return f"it says that {received_position} bytes had arrived, frames before {self.first_position} are gone"
        at = self.first_position
        for raw in self._frames:
            if at >= received_position:
                break
            at += len(raw)
        if at != received_position:
            return f"it says that {received_position} bytes had arrived, no frame ends there"
        return ""

    def suspend(self) -> None:
        """The connection is gone, the client may come back."""
        self.is_suspended = True
        self._stand()

    def resume(self, received_position: int) -> list[bytes]:
        """The client is back, and `obstacle` found none: the frames that it has not received, in order."""
        self.is_suspended = False
        self.acknowledge(received_position)
        frames = list(self._frames)
        for raw in self._held:
            self._give_room(len(raw) + FRAME_COST)
            frames.append(raw)
        self._held = []
        self._stand()
        return frames

    def close(self) -> None:
        """Nobody will resume: the memory is given back."""
        self._budget.used_bytes -= self.retained_bytes
        self.retained_bytes = 0
        self._frames.clear()
        self._held = []
        self._stand()

    def _has_room(self, cost: int) -> bool:
        """Room for one more, made where that is allowed."""
        if self.is_overrun:
            return False
        while self.retained_bytes + cost > self.limit_bytes:
            if self.is_suspended:
                self._overrun()
                return False
            if not self._frames:
                return False
            self._forget_oldest()
        budget = self._budget
        while budget.used_bytes + cost > budget.limit_bytes:
            largest = budget.find_largest(self)
            if largest is None:
                if self.is_suspended:
                    self._overrun()
                return False
            largest._forget_oldest()
        return True

    def _overrun(self) -> None:
        self.is_overrun = True
        self.close()

    def _forget_oldest(self) -> None:
        raw = self._frames.popleft()
        self.first_position += len(raw)
        self._give_room(len(raw) + FRAME_COST)

    def _take_room(self, cost: int) -> None:
        self.retained_bytes += cost
        self._budget.used_bytes += cost
        self._stand()

    def _give_room(self, cost: int) -> None:
        self.retained_bytes -= cost
        self._budget.used_bytes -= cost
        self._stand()

    def _stand(self) -> None:
        """What is held has changed, or who may take it: the budget knows."""
        level = 0 if self.is_suspended else self.retained_bytes.bit_length()
        if level != self._level:
            self._budget.move(self, self._level, level)
            self._level = level

"""Errors of the feed.

SinkError
 ├─ PostLogError (1)    a log of posts that cannot be used
 ├─ BadPost      (1)    a post that cannot be read: a report 417, and nothing else
 └─ SendError    (1)    a post that could not be handed over
     └─ NotSent  (1)    this time: the sender tries again
         └─ NotTaken (1)    by who is there: others need not wait for it
"""

from typing import Final

from spark_sink.errors import SinkError

SHOWN_CHARACTERS: Final = 60  # of a value in a text


class BadPost(SinkError):
    """A post that cannot be read; the text is one sentence that begins with the header.

    `field`: the header, as `blocks.count`; `body` when it is none.
    """

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field: Final = field


class SendError(SinkError):
    """A post that could not be handed over; the text says to whom and why."""


class NotSent(SendError):
    """It was not handed over this time, and may be another time."""


class NotTaken(NotSent):
    """Nobody who is there has taken it: whom it is for may be away, while others are not."""


class PostLogError(SinkError):
    """The log of posts cannot be used; the text names it and says why."""


def shown(value: object) -> str:
    """How a value stands in an error text: printable, on one line, and short."""
    text = repr(value[: SHOWN_CHARACTERS + 1] if isinstance(value, str | bytes | list) else value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"

"""What ends a journey in time, as one sentence: a moment that cannot be read, a broker that is not there."""

from typing import ClassVar

from spark_sink.errors import SinkError


class NotKnown(SinkError):
    """The events say nothing of this broker or this moment; the text says of which they do."""

    exit_status: ClassVar[int] = 2


class BadMoment(SinkError):
    """A text that names no moment; the text says how to write one."""

    exit_status: ClassVar[int] = 2

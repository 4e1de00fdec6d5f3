"""What ends a journey in time, as one sentence: a broker that is not there, a moment before its time."""

from typing import ClassVar

from spark_sink.errors import SinkError


class NotKnown(SinkError):
    """The events say nothing of this broker or this moment; the text says of which they do."""

    exit_status: ClassVar[int] = 2

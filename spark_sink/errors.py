"""Errors that end a command: one sentence and an exit status.

SinkError                    one clear sentence; `exit_status` of the process
 ├─ BadFrame        (1)      bytes from the broker that are no frame, header or row
 ├─ BadFolder       (2)      a folder that is missing, empty, foreign or in use
 ├─ MissingPart     (9)      pyspark or a fit Java is not installed
 ├─ BadOptions      (2)      invalid options of the data source
 ├─ BadMoment       (2)      a text that is not a time
 ├─ NotKnown        (2)      a broker or a moment of which the events say nothing
 ├─ BadFile         (1)      a file with the name of a segment or log that is none
 │   └─ NoFile      (1)      something else that has the name of a file: a FIFO, a folder, a symbolic link …
 └─ LostRows        (1)      rows that were to be read are not there any more
"""

from typing import ClassVar

from broker.exit_status import FAILED, NOT_INSTALLED, USAGE


class SinkError(Exception):
    """One sentence for a person, with the numbers and names that it needs."""

    exit_status: ClassVar[int] = FAILED


class BadFrame(SinkError):
    """Bytes from the pipe that cannot be understood; the text says where and why."""


class BadFolder(SinkError):
    """A folder of events or tables that cannot be used; the text names it and says what to do."""

    exit_status: ClassVar[int] = USAGE


class MissingPart(SinkError):
    """A program or library that is not installed; the text says how to install it."""

    exit_status: ClassVar[int] = NOT_INSTALLED


class BadOptions(SinkError):
    """Options of the data source; the text names all that are wrong."""

    exit_status: ClassVar[int] = USAGE


class BadMoment(SinkError):
    """A text that is not a time; the message says how to write one."""

    exit_status: ClassVar[int] = USAGE


class NotKnown(SinkError):
    """The events say nothing of this broker or this moment; the text says of which they do."""

    exit_status: ClassVar[int] = USAGE


class BadFile(SinkError):
    """A file that is called like a segment or a log and cannot be read as one; the text names it."""


class NoFile(BadFile):
    """What has the name of a file is something else; the text says what."""


class LostRows(SinkError):
    """Rows that were to be read are not there any more; the text says which, and how many."""


def first_line(error: Exception) -> str:
    """Of its text; libraries add stacks and hints below it."""
    lines = str(error).splitlines()
    return lines[0].strip() if lines else type(error).__name__
